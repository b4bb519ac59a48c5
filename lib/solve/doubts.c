/*
 * Hints for jobs that are valid but probably not what the user means.
 *
 * A banded strategy with independent rounds is one: two participations of an example may then fall into the same bands,
 * and the accountants must allow for it. Such a strategy may be worse than none. To tell, the identity is solved for
 * the noise that it needs for the same epsilon and delta; if its error is smaller in every measure, the strategy gains
 * nothing.
 *
 * SPDX-License-Identifier: GPL-3.0-or-later
 */
#include "lib/solve/doubts.h"

#include <math.h>

#include "lib/base/error.h"
#include "lib/sampling/scheme.h"
#include "lib/solve/solve.h"
#include "lib/strategy/families/family.h"

#define COMPARISON_TOLERANCE 1e-2
#define COMPARISON_MOST 1e9 /* operations of a comparison: tenths of a second */

static bool bands_overlap(const struct eps__setting *setting)
{
    const struct eps_mechanism *mechanism = &setting->job->mechanism;
    return eps__sampling_independent_rounds(mechanism) && setting->p < 1 &&
           !eps__strategy_is_diagonal(setting->strategy) &&
           eps_strategy_bands(setting->strategy) > eps__sampling_groups(mechanism);
}

/* The same mechanism with the identity, solved for the noise multiplier at the same epsilon and delta. */
static struct eps_job without_strategy(const struct eps_result *result, const struct eps__setting *setting)
{
    struct eps_job job;
    eps_job_init(&job);
    const struct eps_matrix identity = job.mechanism.matrix;
    job.mechanism = setting->job->mechanism;
    job.mechanism.matrix = identity;
    /* the same accountant, so that only the strategies differ; but a hint does not draw samples */
    if (!eps__accountant_find(setting->job->query.accountant.method)->solve)
        job.query.accountant.method = setting->job->query.accountant.method;
    job.query.accountant.tolerance = COMPARISON_TOLERANCE;
    job.query.epsilon = result->epsilon;
    job.query.delta = result->delta;
    return job;
}

/* A comparison that fails or runs out of time gives no hint. The answer does not depend on it. */
static enum eps_status passing(enum eps_status status)
{
    return status == EPS_CANCELED || status == EPS_NO_MEMORY ? status : EPS_OK;
}

/* *than: the identity's result, owned by the caller, if it has less error; else NULL. It is NULL also if no noise is
 * needed. */
static enum eps_status find_worse(struct eps_result **than, struct eps_error *error, const struct eps_result *result,
                                  const struct eps__setting *setting)
{
    struct eps_job job = without_strategy(result, setting);
    struct eps_context quiet = setting->context ? *setting->context : (struct eps_context){0};
    struct eps_result *found = NULL;
    double operations;
    *than = NULL;
    quiet.progress = NULL; /* its progress is not the job's */
    enum eps_status status = eps__mechanism_serves(&quiet, error, &job, &operations, NULL);
    if (status != EPS_OK || operations > COMPARISON_MOST)
        return passing(status);
    status = eps__mechanism_solve(&quiet, &found, error, &job, &(struct eps__occasion){.upper_alone = true});
    if (status != EPS_OK)
        return passing(status);
    if (found->noise_multiplier > 0 && found->error_mean_squared < result->error_mean_squared &&
        found->error_max_squared < result->error_max_squared && found->error_last_squared < result->error_last_squared)
        *than = found;
    else
        eps_result_destroy(found);
    return EPS_OK;
}

static enum eps_status doubt_strategy(struct eps__sentences *hints, struct eps_error *error,
                                      const struct eps_result *result, const struct eps__setting *setting)
{
    struct eps_result *better;
    if (setting->upper_alone || !bands_overlap(setting) || !(result->delta > 0 && result->delta < 1))
        return EPS_OK;
    enum eps_status status = find_worse(&better, error, result, setting);
    if (status != EPS_OK || !better)
        return status;
    eps__sentence(
        hints,
        "under %s sampling an example may participate several times within the bands, and the identity is better "
        "than this strategy: noise multiplier %.4g gives the same epsilon and delta with %.3g times less mean "
        "squared error; use the identity, or separate participations by the number of bands (cyclic_poisson "
        "with as many groups, b_min_sep with that separation)",
        eps__scheme_of(&setting->job->mechanism)->name, better->noise_multiplier,
        result->error_mean_squared / better->error_mean_squared);
    eps_result_destroy(better);
    return EPS_OK;
}

static void doubt_delta(struct eps__sentences *hints, const struct eps_result *result,
                        const struct eps__setting *setting)
{
    uint64_t size = setting->job->mechanism.sampling.dataset_size;
    if (size > 0 && result->delta * (double)size >= 1)
        eps__sentence(
            hints,
            "delta %.3g is at least 1/dataset_size = %.3g: publishing one random example in full satisfies it; use a "
            "delta far below 1/dataset_size",
            result->delta, 1 / (double)size);
}

enum eps_status eps__add_doubts(struct eps_result *result, struct eps_error *error, const struct eps__setting *setting)
{
    const struct eps__scheme *scheme = eps__scheme_of(&setting->job->mechanism);
    struct eps__sentences hints = {&result->hints, &result->hints_len, false};
    enum eps_status status = EPS_OK;
    if (scheme->doubt)
        scheme->doubt(&hints, &setting->job->mechanism);
    if (result->solved_for != EPS_SOLVE_CURVE) {
        doubt_delta(&hints, result, setting);
        status = doubt_strategy(&hints, error, result, setting);
    }
    return status == EPS_OK && hints.failed ? eps__error(error, EPS_NO_MEMORY, "", "out of memory") : status;
}
