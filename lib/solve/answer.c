/*
 * What the results of all questions have in common: see answer.h.
 *
 * SPDX-License-Identifier: GPL-3.0-or-later
 */
#include "lib/solve/answer.h"

#include <math.h>
#include <stdlib.h>

#include "lib/base/error.h"
#include "lib/solve/search.h"

enum eps_status eps__within_limits(const struct eps_context *context, struct eps_error *error, const char *pointer,
                                   const char *who, double operations, double bytes)
{
    double limit_operations = context && context->max_operations > 0 ? context->max_operations : INFINITY;
    double limit_bytes = context && context->max_bytes > 0 ? context->max_bytes : INFINITY;
    if (!(operations > limit_operations || bytes > limit_bytes))
        return EPS_OK;
    eps__error(error, EPS_TOO_COSTLY, pointer,
               "%s about %.2g operations and %.2g bytes, and the limits are %.2g and %.2g; lower n, raise "
               "accountant.tolerance, or name a cheaper accountant",
               who, operations, bytes, limit_operations, limit_bytes);
    if (error) {
        error->operations = operations;
        error->bytes = bytes;
    }
    return EPS_TOO_COSTLY;
}

enum eps_status eps__result_create(struct eps_result **result, struct eps_error *error, const struct eps_job *job)
{
    struct eps_result *made = *result = calloc(1, sizeof *made);
    if (!made)
        return eps__error(error, EPS_NO_MEMORY, "", "out of memory");
    made->solved_for = eps_job_unknown(job);
    made->epsilon = job->query.epsilon;
    made->delta = job->query.delta;
    made->noise_multiplier = job->query.noise_multiplier;
    made->bracket_lower = made->bracket_upper = made->least = NAN;
    made->guarantee = EPS_GUARANTEE_DETERMINISTIC;
    made->adjacency = job->mechanism.adjacency;
    made->p = made->expected_batch_size = made->sensitivity = made->optimality_gap = NAN;
    made->error_mean_squared = made->error_max_squared = made->error_last_squared = NAN;
    return EPS_OK;
}

static bool counts(const struct eps_result *result)
{
    return result->solved_for == EPS_SOLVE_N || result->solved_for == EPS_SOLVE_RUNS;
}

const struct eps_candidate *eps__result_worse(const struct eps_result *result)
{
    const struct eps_candidate *remove = &result->directions[EPS_REMOVE], *add = &result->directions[EPS_ADD];
    return (counts(result) ? add->value < remove->value : add->value > remove->value) ? add : remove;
}

void eps__result_settle(struct eps_result *result, const double lower[EPS_DIRECTIONS])
{
    const struct eps_candidate *worse = eps__result_worse(result);
    result->accountant = worse->accountant;
    result->bracket_upper = worse->value;
    result->bracket_lower = fmin(fmax(lower[EPS_REMOVE], lower[EPS_ADD]), worse->value);
    result->bracket_exact = false;
    result->least = NAN;
    switch (result->solved_for) {
    case EPS_SOLVE_EPSILON:
        result->epsilon = worse->value;
        break;
    case EPS_SOLVE_DELTA:
        result->delta = worse->value;
        break;
    default:
        result->noise_multiplier = worse->value;
        break;
    }
}

void eps__result_largest(struct eps_result *result, const struct eps__largest_answer found[EPS_DIRECTIONS],
                         const enum eps_accountant accountants[EPS_DIRECTIONS], uint64_t each)
{
    for (enum eps_direction d = 0; d < EPS_DIRECTIONS; d++)
        result->directions[d] = (struct eps_candidate){.accountant = accountants[d],
                                                       .direction = d,
                                                       .value = (double)(found[d].least * each),
                                                       .bad_event_share = found[d].bad_event_share};
    const struct eps_candidate *worse = eps__result_worse(result);
    uint64_t remove = found[EPS_REMOVE].most, add = found[EPS_ADD].most;
    result->accountant = worse->accountant;
    result->largest = (size_t)(found[worse->direction].least * each);
    result->bracket_lower = (double)result->largest;
    result->bracket_upper = (double)((add < remove ? add : remove) * each);
    result->bracket_exact = false; /* it may describe a bracket of epsilon */
    result->least = NAN;
}

void eps__hint_width(struct eps__sentences *hints, const struct eps_result *result, double tolerance)
{
    bool absolute = result->solved_for == EPS_SOLVE_EPSILON && result->bracket_upper < 1e-6;
    bool floor = result->solved_for == EPS_SOLVE_DELTA && result->delta <= EPS__DELTA_LEAST;
    double width = (result->bracket_upper - result->bracket_lower) / result->bracket_upper;
    if (counts(result) || !(result->bracket_upper > 0) || absolute || floor || !(width > tolerance))
        return; /* a curve has no bracket */
    eps__sentence(hints, "the relative width of the bracket is %.2g, more than the tolerance %.2g", width, tolerance);
}
