/*
 * Solves jobs with phases: as a whole (whole.h), then every phase on its own (each_phase.h) to show what it costs. A
 * job with a single phase that is run once is solved as its mechanism (single.h).
 *
 * SPDX-License-Identifier: GPL-3.0-or-later
 */
#include "lib/training/solve_phases.h"

#include <math.h>
#include <string.h>

#include "lib/base/error.h"
#include "lib/base/limits.h"
#include "lib/solve/answer.h"
#include "lib/solve/solve.h"
#include "lib/training/each_phase.h"
#include "lib/training/single.h"
#include "lib/training/whole.h"

#define SEARCH_SHARE 0.5 /* progress when the search is done and single phases are solved */
/* estimated operations of a phase composed by its profile: about a thousand moment problems or compositions */
#define CURVE_OPERATIONS 2e9
#define CURVE_ROUNDS 8 /* number of such curves in a search for the noise multiplier */

/* ------------------------------------------------------------ cost */

static enum eps_status add_cost(const struct eps__phase *phase, double *operations, double *bytes,
                                struct eps_error *error)
{
    const struct eps__accountant *candidates[EPS__ACCOUNTANTS_MAX];
    size_t len = eps__training_candidates(phase, candidates, error);
    double one_operations = 0, one_bytes = 0;
    if (len == 0)
        return EPS_UNSUPPORTED;
    eps__strategy_cost(&phase->job.mechanism, &one_operations, &one_bytes);
    *operations += one_operations;
    *bytes = fmax(*bytes, one_bytes);
    bool curve = false;
    for (size_t i = 0; i < len; i++) {
        candidates[i]->cost(&phase->setting, &one_operations, &one_bytes);
        *operations += one_operations;
        *bytes = fmax(*bytes, one_bytes);
        curve = curve || !candidates[i]->steps;
    }
    if (curve)
        *operations += isnan(phase->job.query.noise_multiplier) ? CURVE_ROUNDS * CURVE_OPERATIONS : CURVE_OPERATIONS;
    return EPS_OK;
}

static enum eps_status check_cost(const struct eps__training *training, double *operations, double *bytes,
                                  struct eps_error *error)
{
    double total = 0, largest = 0;
    enum eps_status status = EPS_OK;
    for (size_t k = 0; k < training->len && status == EPS_OK; k++)
        status = add_cost(&training->phases[k], &total, &largest, error);
    if (status != EPS_OK)
        return status;
    total *= 2; /* each phase on its own, and the whole training */
    status = eps__within_limits(training->context, error, "/phases", "the phases need", total, largest);
    if (status != EPS_OK)
        return status;
    if (operations)
        *operations = total;
    if (bytes)
        *bytes = largest;
    return EPS_OK;
}

/* ------------------------------------------------------------ the questions */

static bool single(const struct eps_job *job)
{
    return job->phases_len == 1 && job->phases[0].count == 1;
}

enum eps_status eps__phases_serve(const struct eps_context *context, struct eps_error *error, const struct eps_job *job,
                                  double *operations, double *bytes)
{
    struct eps__training *training;
    if (single(job)) {
        struct eps_job own = eps__phase_job(job, &job->phases[0]);
        return eps__mechanism_serves(context, error, &own, operations, bytes);
    }
    enum eps_status status = eps__training_open(&training, error, context, job, true);
    if (status != EPS_OK)
        return status;
    status = check_cost(training, operations, bytes, error);
    eps__training_close(training);
    return status;
}

/* ------------------------------------------------------------ sentences */

/* Merges the sentences of all phases: a sentence of every phase is added once as it is, others with the number of
 * the phase. */
static bool merge_sentences(struct eps__sentences *list, const struct eps_result *result, bool hints)
{
    for (size_t i = 0; i < result->phases_len; i++) {
        const struct eps_result *alone = result->phases[i].alone;
        size_t len = !alone ? 0 : hints ? alone->hints_len : alone->assumptions_len;
        for (size_t k = 0; k < len; k++) {
            const char *text = hints ? alone->hints[k] : alone->assumptions[k];
            size_t said = 0, first = i;
            for (size_t j = 0; j < result->phases_len; j++) {
                const struct eps_result *other = result->phases[j].alone;
                size_t other_len = !other ? 0 : hints ? other->hints_len : other->assumptions_len;
                for (size_t m = 0; m < other_len; m++)
                    if (strcmp(hints ? other->hints[m] : other->assumptions[m], text) == 0) {
                        first = j < first ? j : first;
                        said++;
                        break;
                    }
            }
            if (first < i)
                continue;
            if (said == result->phases_len)
                eps__sentence(list, "%s", text);
            else if (said == 1)
                eps__sentence(list, "phase %zu: %s", i, text);
            else
                eps__sentence(list, "phase %zu and %zu more: %s", i, said - 1, text);
        }
    }
    return !list->failed;
}

static bool add_sentences(struct eps_result *result, const struct eps_job *job)
{
    struct eps__sentences assumptions = {&result->assumptions, &result->assumptions_len, false};
    struct eps__sentences hints = {&result->hints, &result->hints_len, false};
    eps__sentence(
        &assumptions,
        "an example may participate in every phase, and the randomness of each run (participation and noise) is "
        "independent of all other runs");
    merge_sentences(&assumptions, result, false);
    merge_sentences(&hints, result, true);
    eps__hint_width(&hints, result, job->query.accountant.tolerance);
    return !assumptions.failed && !hints.failed;
}

/* ------------------------------------------------------------ the result */

static enum eps_status solve_training(struct eps_result *result, struct eps_error *error,
                                      const struct eps_context *context, const struct eps_job *job)
{
    struct eps__training *training = NULL;
    struct eps__cache_use cache_use = {0};
    struct eps__context_part first, second;
    const struct eps_context *part = eps__context_part(&first, context, 0, SEARCH_SHARE);
    enum eps_status status = eps__training_open(&training, error, part, job, false);
    if (status == EPS_OK)
        status = check_cost(training, NULL, NULL, error);
    if (status == EPS_OK && result->solved_for == EPS_SOLVE_CURVE)
        status = eps__whole_curve(result, error, training);
    else if (status == EPS_OK && result->solved_for == EPS_SOLVE_RUNS)
        status = eps__whole_runs(result, error, training);
    else if (status == EPS_OK)
        status = eps__whole_solve(result, error, training, &cache_use, false);
    if (status == EPS_OK) {
        training->context = eps__context_part(&second, context, SEARCH_SHARE, 1);
        status = eps__phases_each(result, error, training);
    }
    if (status == EPS_OK) {
        result->adaptive = true;
        result->cache_pld = eps__cache_use_state(&cache_use);
        for (size_t k = 0; k < result->alone_len; k++) {
            const struct eps_result *alone = result->alone[k];
            result->adaptive = result->adaptive && (!alone || alone->adaptive);
            if (alone &&
                (result->cache_factorization == EPS_CACHE_UNUSED || alone->cache_factorization == EPS_CACHE_MISS))
                result->cache_factorization = alone->cache_factorization;
        }
    }
    eps__training_close(training);
    return status;
}

/* Checks that the noise multipliers found for the job and all phases are in range. */
static enum eps_status check_noise(double noise_multiplier, const struct eps_job *job, struct eps_error *error)
{
    double scale = 1;
    for (size_t i = 0; i < job->phases_len; i++)
        scale = fmax(scale, job->phases[i].noise_scale);
    if (noise_multiplier * scale <= EPS_NOISE_MULTIPLIER_MOST)
        return EPS_OK;
    return eps__error(error, EPS_UNATTAINABLE, "/delta",
                      "no noise multiplier that leaves every phase's in [1e-9, 1e9] reaches this epsilon and delta; "
                      "raise one of them");
}

enum eps_status eps__phases_solve(const struct eps_context *context, struct eps_result **result,
                                  struct eps_error *error, const struct eps_job *job)
{
    struct eps_result *made;
    enum eps_status status = eps__result_create(&made, error, job);
    if (status != EPS_OK)
        return status;
    status = single(job) ? eps__single_solve(made, error, context, job) : solve_training(made, error, context, job);
    if (status == EPS_OK && !add_sentences(made, job))
        status = eps__error(error, EPS_NO_MEMORY, "", "out of memory");
    if (status == EPS_OK && made->solved_for == EPS_SOLVE_NOISE_MULTIPLIER)
        status = check_noise(made->noise_multiplier, job, error);
    if (status != EPS_OK) {
        eps_result_destroy(made);
        return status;
    }
    *result = made;
    return EPS_OK;
}

enum eps_status eps__phases_epsilon(const struct eps_context *context, double *epsilon, struct eps_error *error,
                                    const struct eps_job *job)
{
    struct eps__training *training = NULL;
    struct eps_result *made = NULL;
    struct eps__cache_use cache_use = {0};
    enum eps_status status = EPS_OK;
    if (single(job)) {
        struct eps_job own = eps__phase_job(job, &job->phases[0]);
        status = eps__mechanism_solve(context, &made, error, &own, &(struct eps__occasion){.proven_alone = true});
    } else {
        status = eps__result_create(&made, error, job);
        if (status == EPS_OK)
            status = eps__training_open(&training, error, context, job, false);
        if (status == EPS_OK)
            status = eps__whole_solve(made, error, training, &cache_use, false);
        eps__training_close(training);
    }
    if (status == EPS_OK)
        *epsilon = made->epsilon;
    eps_result_destroy(made);
    return status;
}

/* ------------------------------------------------------------ the curve */

enum eps_status eps__phases_curve(const struct eps_context *context, struct eps_curve_point **points, size_t *len,
                                  struct eps_error *error, const struct eps_job *job, double noise_multiplier)
{
    struct eps__training *training = NULL;
    enum eps_status status = eps__training_open(&training, error, context, job, false);
    if (status == EPS_OK)
        status = check_cost(training, NULL, NULL, error);
    if (status == EPS_OK)
        status = eps__whole_points(points, len, error, training, noise_multiplier);
    eps__training_close(training);
    return status;
}
