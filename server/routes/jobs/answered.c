/*
 * Reads from the text of a result what its figures do not contain: its largest number and its phases.
 *
 * SPDX-License-Identifier: GPL-3.0-or-later
 */
#include "server/routes/jobs/answered.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

bool query_is_phase(const char *value)
{
    size_t digits = strspn(value, "0123456789");
    return digits > 0 && digits < 10 && !value[digits];
}

const struct query_member phase_query[] = {{"phase", query_is_phase, PHASE_MUST, NULL}, {0}};

size_t request_phase(const struct request *request)
{
    const char *phase = request_query(request, "phase");
    return phase ? strtoul(phase, NULL, 10) : NO_PHASE;
}

static json_t *refuse_phase(size_t phase, size_t phases_len, const char *instance)
{
    struct api_errors errors = {0};
    if (phases_len == 0) {
        api_errors_add(&errors, "?phase", "is allowed only for a job with phases, and this job has none; remove it");
    } else {
        api_errors_add(&errors, "?phase", "%s; the phases of the job are 0 to %zu",
                       phase == NO_PHASE ? "is required" : "is not a phase", phases_len - 1);
    }
    json_t *problem = api_problem_encode(API_PROBLEM_INVALID_JOB, NULL, instance, &errors);
    api_errors_clear(&errors);
    return problem;
}

static json_t *parse(const char *text, const char *end)
{
    char message[256];
    struct text whole = {0};
    text_puts(&whole, text);
    text_puts(&whole, end);
    json_t *json = whole.failed ? NULL : api_json_parse(whole.data, whole.len, message, sizeof message);
    text_clear(&whole);
    return json;
}

json_t *job_members(const struct job_record *record)
{
    return parse(record->brief ? record->brief : record->job, "");
}

json_t *result_members(const struct result_record *result)
{
    return parse(result->core, "}"); /* which is all that the stored core lacks */
}

/* If the job asked for the largest number, replaces "max" by the answer. Returns false if that is 0. */
static bool settle_largest(struct eps_job *job, const json_t *members)
{
    enum eps_unknown unknown = eps_job_unknown(job);
    json_int_t largest = json_integer_value(json_object_get(members, eps_unknown_name(unknown)));
    if (unknown == EPS_SOLVE_N)
        job->mechanism.n = largest > 0 ? (size_t)largest : 0;
    for (size_t i = 0; i < job->phases_len; i++)
        if (job->phases[i].count == EPS_LARGEST)
            job->phases[i].count = (size_t)largest;
    return unknown != EPS_SOLVE_N || largest > 0;
}

/* Reads the noise and the factorisation of a phase, which are not among the figures of a result. */
static void read_phase(struct answered *answered, const struct eps_job *job, const json_t *members, size_t phase)
{
    const struct eps_phase *asked = &job->phases[phase];
    const json_t *told = json_array_get(json_object_get(members, "phases"), phase);
    const char *id = json_string_value(json_object_get(json_object_get(told, "factorization"), "id"));
    snprintf(answered->factorization, sizeof answered->factorization, "%s", id ? id : "");
    answered->noise_multiplier *= asked->noise_scale;
    answered->count = asked->count;
    answered->mechanism = asked->mechanism;
}

/* For a job whose result text is needed. */
static bool read_members(struct answered *answered, struct eps_job *job, const struct result_record *result,
                         size_t phase, const char *instance, json_t **problem)
{
    json_t *members = result_members(result);
    if (!members) {
        *problem = api_problem_encode(API_PROBLEM_INTERNAL, "out of memory", instance, NULL);
        return false;
    }
    bool settled = settle_largest(job, members);
    if (!settled) {
        *problem = api_problem_encode(API_PROBLEM_CONFLICT,
                                      "no number of steps satisfies epsilon and delta (n is 0), so there is no "
                                      "strategy",
                                      instance, NULL);
    } else if (phase != NO_PHASE) {
        read_phase(answered, job, members, phase);
    }
    json_decref(members);
    return settled;
}

bool answered_read(struct answered *answered, struct eps_job *job, const struct result_record *result, size_t phase,
                   bool required, const char *instance, json_t **problem)
{
    const struct api_figures *figures = &result->figures;
    *answered = (struct answered){.count = 1};
    memcpy(answered->factorization, figures->factorization, sizeof answered->factorization);
    /* only a curve is for the noise multiplier of the request */
    answered->noise_multiplier =
        isnan(figures->noise_multiplier) ? job->query.noise_multiplier : figures->noise_multiplier;
    if (phase == NO_PHASE ? required && job->phases_len > 0 : phase >= job->phases_len) {
        *problem = refuse_phase(phase, job->phases_len, instance);
        return false;
    }
    if ((job->phases_len > 0 || eps_job_unknown(job) == EPS_SOLVE_N) &&
        !read_members(answered, job, result, phase, instance, problem))
        return false;
    if (job->phases_len == 0)
        answered->mechanism = job->mechanism;
    return true;
}
