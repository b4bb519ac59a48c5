/*
 * By eps_solve(), without a context.
 *
 * SPDX-License-Identifier: GPL-3.0-or-later
 */
#include "tests/unit/solved.h"

#include <math.h>
#include <string.h>

#include "tests/unit/test.h"

void solved_deltas(double found[EPS_DIRECTIONS], struct eps_job *job, double sigma, double eps)
{
    struct eps_result *result = NULL;
    struct eps_error error = {0};
    job->query.epsilon = eps;
    job->query.noise_multiplier = sigma;
    job->query.delta = NAN;
    if (eps_solve(NULL, &result, &error, job) != EPS_OK)
        fail_msg("%s: %s", error.pointer, error.message);
    for (size_t i = 0; i < result->candidates_len; i++)
        found[result->candidates[i].direction] = result->candidates[i].value;
    eps_result_destroy(result);
}

void assert_declined(struct eps_job *job, const char *pointer)
{
    struct eps_result *result = NULL;
    struct eps_error error = {0};
    job->query.noise_multiplier = 1;
    job->query.epsilon = 1;
    enum eps_status status = eps_solve(NULL, &result, &error, job);
    if (status != EPS_UNSUPPORTED || strcmp(error.pointer, pointer) != 0)
        fail_msg("%s: %s, not %s", error.pointer, error.message, pointer);
}
