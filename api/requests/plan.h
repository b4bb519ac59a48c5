/*
 * A plan: what is fixed in a training, and the mechanisms to choose from. A decoded plan is the list of its candidates,
 * each with a job that is ready to post.
 *
 * SPDX-License-Identifier: GPL-3.0-or-later
 */
#ifndef API_REQUESTS_PLAN_H
#define API_REQUESTS_PLAN_H

#include <math.h>

#include "api/codec/codec.h"
#include "api/codec/figures.h"

#define API_PLAN_NUMBERS 4096 /* limit on the coefficients of the workload times the pairs of sizes */

/* Immutable after decoding, so threads may share it. */
struct api_plan {
    json_t *asked; /* the request with defaults filled in, without the label */
    /* An array of objects: family, bands, scheme, n, batch_size, pair, buffers, bounded, reference, reason, job. */
    json_t *candidates;
    enum eps_objective objective;
    double max_seconds; /* of each verification; NAN: none is asked for */
    char *label;        /* UTF-8, or NULL; not part of the request's identity */
    char *request;      /* {"asked":...,"candidates":[...]} as text, for api_plan_read() */
};

/*
 * Decodes the body of a POST and builds the candidates. context: its limits decide which candidates are too costly.
 * Returns the plan, or NULL with at least one error.
 */
struct api_plan *api_plan_decode(struct api_errors *errors, const struct eps_context *context, const json_t *json,
                                 size_t max_n);
/* Restores a plan from its `request`. Returns NULL if the text is damaged or memory runs out. */
struct api_plan *api_plan_read(const char *request);
void api_plan_destroy(struct api_plan *plan);

static inline size_t api_plan_len(const struct api_plan *plan)
{
    return json_array_size(plan->candidates);
}

/* How many candidates are verified at most, once all have been solved. */
static inline size_t api_plan_verified(const struct api_plan *plan)
{
    size_t len = api_plan_len(plan);
    return isnan(plan->max_seconds) ? 0 : len < EPS_PLAN_VERIFIED_MOST ? len : EPS_PLAN_VERIFIED_MOST;
}

/* A member of a candidate; borrowed. */
static inline const json_t *api_plan_member(const struct api_plan *plan, size_t i, const char *name)
{
    return json_object_get(json_array_get(plan->candidates, i), name);
}

/* The figure of the objective. */
double api_plan_error(enum eps_objective objective, const struct api_figures *figures);
/* The value by which a candidate with this error is ranked, smallest first: the error of its average gradients. */
double api_plan_rank(const struct api_plan *plan, size_t i, double error);

#endif
