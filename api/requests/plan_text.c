/*
 * Converts a plan, which is the request and the candidates, to the text that is stored, and back.
 *
 * SPDX-License-Identifier: GPL-3.0-or-later
 */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "api/json/build.h"
#include "api/json/text.h"
#include "api/requests/plan_text.h"

/* A candidate as an object; NULL: out of memory. */
static json_t *encode_candidate(const struct eps_plan_candidate *candidate)
{
    const struct eps_mechanism *mechanism = &candidate->job.mechanism;
    struct api_job job = {.job = candidate->job}; /* the plan owns its arrays */
    bool posts = candidate->status == EPS_OK || candidate->status == EPS_TOO_COSTLY;
    return json_pack("{s:s, s:o, s:s, s:I, s:I, s:I, s:I, s:b, s:b, s:o, s:o}", "family",
                     eps_family_name(mechanism->matrix.family), "bands",
                     candidate->bands ? json_integer((json_int_t)candidate->bands) : json_null(), "scheme",
                     eps_scheme_name(mechanism->sampling.scheme), "n", (json_int_t)mechanism->n, "batch_size",
                     (json_int_t)mechanism->sampling.batch_size, "pair", (json_int_t)candidate->pair, "buffers",
                     (json_int_t)candidate->buffers, "bounded", candidate->bounded, "reference", candidate->reference,
                     "reason", candidate->reason[0] ? json_string(candidate->reason) : json_null(), "job",
                     posts ? api_job_encode(&job, false) : json_null());
}

static json_t *encode_candidates(const struct eps_plan_candidate *candidates, size_t len)
{
    struct api_build build = {0};
    json_t *array = json_array();
    for (size_t i = 0; i < len && !build.failed; i++)
        api__append(&build, array, encode_candidate(&candidates[i]));
    return api__built(&build, array);
}

/* The request without the label and without nulls. The objective is always present, and what is verified has its
 * time. */
static json_t *encode_asked(const json_t *json, enum eps_objective objective, double max_seconds)
{
    struct api_build build = {0};
    json_t *asked = json_object();
    for (size_t i = 0; api__plan_members[i]; i++) {
        json_t *value = json_object_get(json, api__plan_members[i]);
        if (value && !json_is_null(value) && strcmp(api__plan_members[i], "label") != 0)
            api__set(&build, asked, api__plan_members[i], json_incref(value));
    }
    api__set(&build, asked, "objective", json_string(eps_objective_name(objective)));
    if (!isnan(max_seconds))
        api__set(&build, asked, "max_seconds", json_real(max_seconds));
    return api__built(&build, asked);
}

struct api_plan *api__plan_write(const json_t *json, enum eps_objective objective, double max_seconds,
                                 const struct eps_plan_candidate *candidates, size_t len)
{
    struct api_plan *plan = calloc(1, sizeof *plan);
    struct text text = {0};
    if (!plan)
        return NULL;
    plan->objective = objective;
    plan->max_seconds = max_seconds;
    plan->asked = encode_asked(json, objective, max_seconds);
    plan->candidates = encode_candidates(candidates, len);
    text_puts(&text, "{\"asked\":");
    text_value(&text, plan->asked);
    text_puts(&text, ",\"candidates\":");
    text_value(&text, plan->candidates);
    text_puts(&text, "}");
    plan->request = text_steal(&text);
    if (!plan->request) {
        api_plan_destroy(plan);
        return NULL;
    }
    return plan;
}

struct api_plan *api_plan_read(const char *request)
{
    char message[64];
    struct api_plan *plan = calloc(1, sizeof *plan);
    json_t *json = plan ? api_json_parse(request, strlen(request), message, sizeof message) : NULL;
    if (json) {
        plan->asked = json_incref(json_object_get(json, "asked"));
        plan->candidates = json_incref(json_object_get(json, "candidates"));
        const char *objective = json_string_value(json_object_get(plan->asked, "objective"));
        bool largest = objective && !strcmp(objective, eps_objective_name(EPS_OBJECTIVE_MAX_SQUARED));
        plan->objective = largest ? EPS_OBJECTIVE_MAX_SQUARED : EPS_OBJECTIVE_MEAN_SQUARED;
        const json_t *seconds = json_object_get(plan->asked, "max_seconds");
        plan->max_seconds = json_is_number(seconds) ? json_number_value(seconds) : NAN;
    }
    bool whole = plan && json_is_object(plan->asked) && json_is_array(plan->candidates);
    json_decref(json);
    if (!whole) {
        api_plan_destroy(plan);
        return NULL;
    }
    return plan;
}

void api_plan_destroy(struct api_plan *plan)
{
    if (!plan)
        return;
    json_decref(plan->asked);
    json_decref(plan->candidates);
    free(plan->label);
    free(plan->request);
    free(plan);
}

double api_plan_error(enum eps_objective objective, const struct api_figures *figures)
{
    return objective == EPS_OBJECTIVE_MAX_SQUARED ? figures->max_squared : figures->mean_squared;
}

double api_plan_rank(const struct api_plan *plan, size_t i, double error)
{
    double batch = (double)json_integer_value(api_plan_member(plan, i, "batch_size"));
    return error / (batch * batch);
}
