/*
 * Jobs through the codec, and answers by eps_solve().
 *
 * SPDX-License-Identifier: GPL-3.0-or-later
 */
#include "tests/unit/solved.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/unit/decoded.h"
#include "tests/unit/test.h"

struct kept {
    struct api_job *job;
    struct kept *next;
};

static struct kept *kept; /* all jobs of job_of() */

struct eps_job job_of(const char *format, ...)
{
    va_list arguments;
    char *text;
    va_start(arguments, format);
    assert_true(vasprintf(&text, format, arguments) >= 0);
    va_end(arguments);
    for (char *at = text; (at = strchr(at, '\''));)
        *at = '"';
    struct kept *last = malloc(sizeof *last);
    assert_non_null(last);
    *last = (struct kept){decoded(text), kept};
    kept = last;
    free(text);
    return last->job->job;
}

struct eps_result *solved(const struct eps_context *context, struct eps_job job)
{
    struct eps_result *result = NULL;
    struct eps_error error = {0};
    eps_job_defaults(&job);
    if (eps_solve(context, &result, &error, &job) != EPS_OK)
        fail_msg("%s: %s", error.pointer, error.message);
    return result;
}

struct answer answered(struct eps_job job)
{
    struct eps_result *result = solved(NULL, job);
    struct answer answer = {.value = result->bracket_upper, .lower = result->bracket_lower};
    for (int d = 0; d < EPS_DIRECTIONS; d++) {
        answer.of[d] = result->directions[d].value;
        answer.share[d] = result->directions[d].bad_event_share;
    }
    eps_result_destroy(result);
    return answer;
}

struct eps_error assert_refused(struct eps_job job, enum eps_status status, const char *pointer)
{
    struct eps_result *result = NULL;
    struct eps_error error = {0};
    eps_job_defaults(&job);
    enum eps_status found = eps_solve(NULL, &result, &error, &job);
    if (found != status || strcmp(error.pointer, pointer) != 0)
        fail_msg("%s: %s: %s, not %s: %s", eps_status_name(found), error.pointer, error.message,
                 eps_status_name(status), pointer);
    return error;
}

void solved_deltas(double found[EPS_DIRECTIONS], struct eps_job job, double sigma, double eps)
{
    job.query.epsilon = eps;
    job.query.noise_multiplier = sigma;
    job.query.delta = NAN;
    struct eps_result *result = solved(NULL, job);
    for (size_t i = 0; i < result->candidates_len; i++)
        found[result->candidates[i].direction] = result->candidates[i].value;
    eps_result_destroy(result);
}

void assert_declined(struct eps_job job, const char *pointer)
{
    job.query.noise_multiplier = 1;
    job.query.epsilon = 1;
    assert_refused(job, EPS_UNSUPPORTED, pointer);
}
