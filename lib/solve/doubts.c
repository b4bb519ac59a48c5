/*
 * Hints for jobs that are valid and are probably not what their author means.
 *
 * Bands under independent rounds: two participations of an example may then fall into the same bands, and the
 * accountants count that. To say that such a strategy is worse than none takes a comparison at equal privacy: the
 * identity is solved for the noise that it needs for the same epsilon and delta, and where its error is the smaller one
 * by every measure, the strategy gains nothing.
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
#define COMPARISON_MOST 1e9 /* operations: tenths of a second */

static bool bands_overlap(const struct eps__setting *setting)
{
    const struct eps_mechanism *mechanism = &setting->job->mechanism;
    return eps__sampling_independent_rounds(mechanism) && setting->p < 1 &&
           !eps__strategy_is_diagonal(setting->strategy) &&
           eps_strategy_bands(setting->strategy) > eps__sampling_groups(mechanism);
}

/* The same steps without a strategy, for the noise of the same promise. */
static struct eps_job without_strategy(const struct eps_result *result, const struct eps__setting *setting)
{
    struct eps_job job;
    eps_job_init(&job);
    const struct eps_matrix identity = job.mechanism.matrix;
    job.mechanism = setting->job->mechanism;
    job.mechanism.matrix = identity;
    /* by the same accountant: the strategies are compared, and not who counts; but nothing is drawn for a hint */
    if (!eps__accountant_find(setting->job->query.accountant.method)->solve)
        job.query.accountant.method = setting->job->query.accountant.method;
    job.query.accountant.tolerance = COMPARISON_TOLERANCE;
    job.query.epsilon = result->epsilon;
    job.query.delta = result->delta;
    return job;
}

/* A comparison that fails, or for which no time is left, says nothing: the answer is there without it. */
static enum eps_status passing(enum eps_status status)
{
    return status == EPS_CANCELED || status == EPS_NO_MEMORY ? status : EPS_OK;
}

/* *than: the identity's answer, which the caller destroys, where it has less error; else NULL. Where the promise needs no noise at
 * all there is nothing to compare. */
static enum eps_status find_worse(struct eps_result **than, struct eps_error *error, const struct eps_result *result,
                                  const struct eps__setting *setting)
{
    struct eps_job job = without_strategy(result, setting);
    struct eps_context quiet = setting->context ? *setting->context : (struct eps_context){0};
    struct eps_result *found = NULL;
    double operations;
    *than = NULL;
    quiet.progress = NULL; /* its fraction is not that of the job */
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
    eps__sentence(hints,
                  "under %s sampling, where an example may hit several bands, the identity costs less than this "
                  "strategy: noise multiplier %.4g keeps the same epsilon and delta with %.3g times less mean squared "
                  "error; use it, or keep an example out for as many steps as there are bands (cyclic_poisson with so "
                  "many groups, b_min_sep with that separation)",
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
            "delta %.3g is at least 1/dataset_size = %.3g: to publish one example in full, picked at random, keeps "
            "such a promise; a delta far under it is usual",
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
