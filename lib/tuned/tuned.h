/*
 * Strategies that are optimised for a whole job (matrix.optimize_for: job): the C of a family with the least error at
 * the noise multiplier that the job's epsilon and delta need under its sampling.
 *
 * Nothing here is part of a guarantee. The search sees an accountant's bounds on delta, but hands over only the numbers
 * of C; the job with this C given is then solved like every other job.
 *
 * SPDX-License-Identifier: GPL-3.0-or-later
 */
#ifndef EPS_TUNED_TUNED_H
#define EPS_TUNED_TUNED_H

#include "lib/epsilon.h"

/* A job whose C was optimised. */
struct eps__tuned {
    struct eps_job job; /* the job with C given; borrows `numbers` and whatever the original borrows */
    double *numbers;    /* that determine C in its family */
    size_t len;
    size_t iterations; /* of the search */
    enum eps_cache_state cache_state;
};

/* Whether the strategy of the job must be optimised by eps__tune() before it is solved. */
bool eps__is_tuned(const struct eps_job *job);

/*
 * Optimises the strategy of a valid job, or takes it from the context's cache. The result is the same for equal jobs,
 * with or without a cache. The job must outlive *tuned. Returns EPS_OK and *tuned, released with eps__tuned_clear();
 * EPS_UNSUPPORTED (no accountant serves the job), EPS_UNATTAINABLE, EPS_TOO_COSTLY, EPS_CANCELED, EPS_TIMEOUT,
 * EPS_NO_MEMORY.
 */
EPS_MUST_USE enum eps_status eps__tune(const struct eps_context *context, struct eps__tuned *tuned,
                                       struct eps_error *error, const struct eps_job *job);
void eps__tuned_clear(struct eps__tuned *tuned);

/* The estimated operations of the search, at most; 0 if the job is not tuned. EPS_OK, or fails like
 * eps__setting_probe(). */
EPS_MUST_USE enum eps_status eps__tuned_cost(const struct eps_context *context, double *operations,
                                             struct eps_error *error, const struct eps_job *job);

#endif
