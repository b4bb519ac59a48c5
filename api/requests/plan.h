/*
 * A plan: what is fixed of a training, and between which mechanisms there is a choice. Decoded, it is the list of its
 * candidates, each with a job ready to post.
 *
 * SPDX-License-Identifier: GPL-3.0-or-later
 */
#ifndef API_REQUESTS_PLAN_H
#define API_REQUESTS_PLAN_H

#include "api/codec/codec.h"
#include "api/codec/figures.h"

#define API_PLAN_NUMBERS 4096 /* coefficients of the workload, times the pairs of sizes */

/* Immutable after decoding; many threads may read it. */
struct api_plan {
    json_t *asked; /* what was asked, defaults filled in, without the label */
    /* An array of objects: family, bands, scheme, n, batch_size, pair, buffers, bounded, reference, reason, job. */
    json_t *candidates;
    enum eps_objective objective;
    char *label;   /* UTF-8, or NULL; not part of the request's identity */
    char *request; /* {"asked":...,"candidates":[...]} as text, which api_plan_read() reads */
};

/*
 * Decodes the body of a POST and makes the candidates. context: whose limits decide what is too costly. Returns the plan, or
 * NULL with at least one error.
 */
struct api_plan *api_plan_decode(struct api_errors *errors, const struct eps_context *context, const json_t *json,
                                 size_t max_n);
/* From its `request`; NULL: damaged, or out of memory. */
struct api_plan *api_plan_read(const char *request);
void api_plan_destroy(struct api_plan *plan);

static inline size_t api_plan_len(const struct api_plan *plan)
{
    return json_array_size(plan->candidates);
}

/* A member of a candidate; borrowed. */
static inline const json_t *api_plan_member(const struct api_plan *plan, size_t i, const char *name)
{
    return json_object_get(json_array_get(plan->candidates, i), name);
}

/* The figure that an objective makes small. */
double api_plan_error(enum eps_objective objective, const struct api_figures *figures);
/* By what a candidate with this error is ranked, the least first: the error of its average gradients. */
double api_plan_rank(const struct api_plan *plan, size_t i, double error);

#endif
