/*
 * Solves a job with a single phase that is run once: see single.h.
 *
 * SPDX-License-Identifier: GPL-3.0-or-later
 */
#include "lib/training/single.h"

#include <math.h>
#include <stdlib.h>

#include "lib/base/check.h"
#include "lib/base/error.h"
#include "lib/base/limits.h"
#include "lib/numerics/bound.h"
#include "lib/solve/solve.h"
#include "lib/training/training.h"

#define ASKED_SHARE 0.5 /* progress when the job is solved and epsilon is computed */

/* x / scale, rounded up so that the result times scale is at least x. */
static double unscaled(double x, double scale)
{
    return scale == 1 ? x : eps__raise(x / scale, 8);
}

static double unscaled_lower(double x, double scale)
{
    return scale == 1 ? x : eps__lower(x / scale, 8);
}

/* The job's noise multiplier for which the phase's is at least x, and which is in range: more noise is also valid. */
static double noise_of_job(double x, double scale)
{
    double noise = unscaled(x, scale);
    return noise > 0 ? fmax(noise, EPS_NOISE_MULTIPLIER_LEAST) : noise;
}

static enum eps_status copy_answer(struct eps_result *result, struct eps_error *error, struct eps_result *own,
                                   double scale)
{
    bool sought = result->solved_for == EPS_SOLVE_NOISE_MULTIPLIER;
    double divisor = sought ? scale : 1;
    result->candidates = calloc(own->candidates_len + 1, sizeof *result->candidates);
    if (!result->candidates)
        return eps__error(error, EPS_NO_MEMORY, "", "out of memory");
    result->candidates_len = own->candidates_len;
    for (size_t i = 0; i < own->candidates_len; i++) {
        result->candidates[i] = own->candidates[i];
        if (sought)
            result->candidates[i].value = noise_of_job(own->candidates[i].value, scale);
    }
    for (enum eps_direction d = 0; d < EPS_DIRECTIONS; d++) {
        result->directions[d] = own->directions[d];
        if (sought)
            result->directions[d].value = noise_of_job(own->directions[d].value, scale);
        result->draws[d] = own->draws[d];
    }
    result->epsilon = own->epsilon;
    result->delta = own->delta;
    if (sought)
        result->noise_multiplier = noise_of_job(own->noise_multiplier, scale);
    result->bracket_upper = sought ? noise_of_job(own->bracket_upper, scale) : own->bracket_upper;
    result->bracket_lower = unscaled_lower(own->bracket_lower, divisor);
    result->bracket_exact = own->bracket_exact;
    result->least = unscaled_lower(own->least, divisor);
    result->guarantee = own->guarantee;
    result->accountant = own->accountant;
    result->cut_short = own->cut_short;
    result->adaptive = own->adaptive;
    result->curve = own->curve;
    result->curve_len = own->curve_len;
    own->curve = NULL;
    own->curve_len = 0;
    result->cache_factorization = own->cache_factorization;
    result->cache_pld = own->cache_pld;
    return EPS_OK;
}

/* Solves the single phase as its mechanism and, if that did not solve for epsilon, also for epsilon. */
enum eps_status eps__single_solve(struct eps_result *result, struct eps_error *error, const struct eps_context *context,
                                  const struct eps_job *job)
{
    const struct eps__phase phase = {.first = 0};
    struct eps_job asked = eps__phase_job(job, &job->phases[0]);
    const struct eps__occasion occasion = {.proven_alone = true};
    struct eps_result *own = NULL;
    result->phases = calloc(1, sizeof *result->phases);
    result->alone = calloc(1, sizeof *result->alone);
    if (!result->phases || !result->alone)
        return eps__error(error, EPS_NO_MEMORY, "", "out of memory");
    result->phases_len = result->alone_len = 1;
    struct eps__context_part first, second; /* two parts, if the job does not solve for epsilon */
    double share = result->solved_for == EPS_SOLVE_EPSILON ? 1 : ASKED_SHARE;
    const struct eps_context *part = eps__context_part(&first, context, 0, share);
    enum eps_status status = eps__mechanism_solve(part, &own, error, &asked, &occasion);
    if (status != EPS_OK)
        return eps__phase_error(error, &phase, status);
    status = copy_answer(result, error, own, job->phases[0].noise_scale);
    /* There is no epsilon for a delta of 1 or below the range of a job. */
    bool alone = status == EPS_OK && result->noise_multiplier > 0 && eps__in_range(EPS__DELTA, result->delta);
    if (result->solved_for != EPS_SOLVE_EPSILON) {
        asked.query.epsilon = NAN;
        asked.query.delta = result->delta;
        asked.query.noise_multiplier = result->noise_multiplier * job->phases[0].noise_scale;
        asked.query.curve = false;
        eps_result_destroy(own);
        own = NULL;
        if (alone && asked.query.noise_multiplier <= EPS_NOISE_MULTIPLIER_MOST &&
            !eps__accountant_find(asked.query.accountant.method)->solve)
            status =
                eps__mechanism_solve(eps__context_part(&second, context, share, 1), &own, error, &asked, &occasion);
    }
    if (status != EPS_OK) {
        eps_result_destroy(own);
        return status;
    }
    result->alone[0] = own;
    result->phases[0] = (struct eps_phase_result){.count = 1, .alone = own, .share = NAN};
    for (enum eps_direction d = 0; d < EPS_DIRECTIONS; d++)
        result->phases[0].composed[d] = result->directions[d].accountant;
    if (result->solved_for != EPS_SOLVE_CURVE)
        result->phases[0].share = result->epsilon > 0 ? 1 : NAN;
    return EPS_OK;
}
