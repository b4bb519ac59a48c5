/*
 * Solves a job with all accountants that serve it and fit the limits, and adds figures, assumptions and hints.
 *
 * SPDX-License-Identifier: GPL-3.0-or-later
 */
#include "lib/solve/solve.h"

#include <assert.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "lib/accountants/least.h"
#include "lib/base/error.h"
#include "lib/job/setting.h"
#include "lib/numerics/bound.h"
#include "lib/sampling/scheme.h"
#include "lib/solve/answer.h"
#include "lib/solve/beside.h"
#include "lib/solve/curve.h"
#include "lib/solve/doubts.h"
#include "lib/solve/scalar.h"
#include "lib/strategy/families/family.h"

/* A sensitivity this close to 1 counts as 1: a strategy scaled to sensitivity 1 differs from it by rounding. */
#define SAME 1e-12
#define NANO 1e-9 /* seconds of an operation */

/* ------------------------------------------------------------ cost */

/* The accountants of a job: those to run, and those that serve it but exceed a limit. */
struct lineup {
    const struct eps__accountant *items[EPS__ACCOUNTANTS_MAX];
    size_t len;
    struct too_costly {
        enum eps_accountant name;
        double operations, bytes;
    } dropped[EPS__ACCOUNTANTS_MAX];
    size_t dropped_len;
};

/* With auto, selects accountants in the order of the table as long as they fit the limits together. The others are
 * mentioned in the hints. If none fits, the last one is kept, so that check_cost() refuses it. */
static struct lineup choose_lineup(const struct eps__setting *setting, struct eps_error *error)
{
    const struct eps_context *context = setting->context;
    const struct eps__accountant *serving[EPS__ACCOUNTANTS_MAX];
    size_t serving_len = eps__setting_accountants(setting, serving, error);
    bool automatic = setting->job->query.accountant.method == EPS_ACCOUNTANT_AUTO;
    double total = 0, bytes_there = 0;
    struct lineup lineup = {.len = 0};
    eps__strategy_cost(&setting->job->mechanism, &total, &bytes_there);
    for (size_t i = 0; i < serving_len; i++) {
        double operations, bytes;
        serving[i]->cost(setting, &operations, &bytes);
        bool fits = !automatic || !context ||
                    ((context->max_operations <= 0 || total + operations <= context->max_operations) &&
                     (context->max_bytes <= 0 || bytes <= context->max_bytes));
        if (fits || (i + 1 == serving_len && lineup.len == 0)) {
            lineup.items[lineup.len++] = serving[i];
            total += operations;
        } else {
            lineup.dropped[lineup.dropped_len++] = (struct too_costly){serving[i]->method, operations, bytes};
        }
    }
    return lineup;
}

/* monte_carlo starts from deterministic bounds: the accountants of `auto` run before it. */
static struct lineup make_lineup(const struct eps__setting *setting, struct eps_error *error)
{
    struct lineup lineup = choose_lineup(setting, error);
    if (lineup.len != 1 || !lineup.items[0]->solve)
        return lineup;
    const struct eps__accountant *drawing = lineup.items[0];
    struct eps_job job;
    struct eps__setting proving = *setting;
    eps_job_init(&job);
    job = (struct eps_job){.mechanism = setting->job->mechanism, .query = {.accountant = job.query.accountant}};
    job.query.epsilon = setting->job->query.epsilon;
    job.query.delta = setting->job->query.delta;
    job.query.noise_multiplier = setting->job->query.noise_multiplier;
    proving.job = &job;
    lineup = choose_lineup(&proving, NULL);
    assert(lineup.len < EPS__ACCOUNTANTS_MAX);
    lineup.items[lineup.len++] = drawing;
    return lineup;
}

/* Estimated operations and bytes of a job. */
struct cost {
    double operations, bytes; /* of all */
    double audit;             /* operations */
    struct eps__mc_unproven_plan unproven;
};

/* Estimates the cost and checks it. estimated: whether an unproven estimate is wanted. */
static enum eps_status check_cost(const struct eps__setting *setting, const struct lineup *lineup, bool estimated,
                                  struct cost *cost, struct eps_error *error)
{
    double total = 0, largest = 0;
    eps__strategy_cost(&setting->job->mechanism, &total, &largest);
    for (size_t i = 0; i < lineup->len; i++) {
        double one_operations, one_bytes;
        lineup->items[i]->cost(setting, &one_operations, &one_bytes);
        total += one_operations;
        largest = fmax(largest, one_bytes);
    }
    *cost = (struct cost){.bytes = largest};
    enum eps_status status = eps__plan_audit(&cost->audit, setting, error);
    total += cost->audit;
    if (status == EPS_OK)
        status = eps__within_limits(setting->context, error, "", "the job needs", total, largest);
    if (status != EPS_OK)
        return status;
    if (estimated)
        eps__plan_unproven(&cost->unproven, setting, lineup->items, lineup->len, total);
    cost->operations = total + cost->unproven.operations;
    return EPS_OK;
}

enum eps_status eps__mechanism_serves(const struct eps_context *context, struct eps_error *error,
                                      const struct eps_job *job, double *operations, double *bytes)
{
    struct eps__setting setting;
    enum eps_status status = eps__setting_probe(&setting, error, context, job);
    if (status != EPS_OK)
        return status;
    struct lineup lineup = make_lineup(&setting, error);
    struct cost cost;
    status = lineup.len ? check_cost(&setting, &lineup, true, &cost, error) : EPS_UNSUPPORTED;
    if (status == EPS_OK && operations)
        *operations = cost.operations;
    if (status == EPS_OK && bytes)
        *bytes = cost.bytes;
    eps__setting_close(&setting);
    return status;
}

/* ------------------------------------------------------------ sentences */

static bool add_assumptions(struct eps_result *result, const struct eps__setting *setting)
{
    const struct eps_mechanism *mechanism = &setting->asked->mechanism;
    const struct eps_sampling *sampling = &mechanism->sampling;
    struct eps__sentences list = {&result->assumptions, &result->assumptions_len, false};
    eps__sentence(&list, "each contribution is clipped to norm 1, and the noise is an exact Gaussian whose seed the "
                         "adversary does not know");
    eps__scheme_of(mechanism)->assume(&list, sampling);
    if (!eps__sampling_random(mechanism))
        return !list.failed;
    if (sampling->truncation)
        eps__sentence(
            &list,
            "a batch of more than %llu examples is cut to a uniformly random subset of that size; the size of the "
            "data set, %llu, is public",
            (unsigned long long)sampling->max_batch_size, (unsigned long long)sampling->dataset_size);
    if (sampling->examples_per_user > 1)
        eps__sentence(&list, "a user holds at most %zu examples, drawn independently of each other",
                      sampling->examples_per_user);
    if (sampling->last_iterate)
        eps__sentence(&list, "the losses are linear and only the last iterate is released");
    if (!eps__family_of(&mechanism->matrix)->diagonal && eps__strategy_nonnegative(setting->strategy))
        eps__sentence(&list, "all entries of the strategy are >= 0");
    for (int d = 0; d < EPS_DIRECTIONS; d++) {
        enum eps_accountant name = result->directions[d].accountant;
        const struct eps__accountant *accountant = eps__accountant_find(name);
        if (accountant->assume && (d == 0 || name != result->directions[0].accountant))
            accountant->assume(&list, setting, result);
    }
    return !list.failed;
}

/* Adds a hint for each accountant that serves the job but exceeds a limit. */
static void add_dropped(struct eps__sentences *list, const struct eps__setting *setting, const struct lineup *lineup)
{
    for (size_t i = 0; i < lineup->dropped_len; i++) {
        const struct too_costly *dropped = &lineup->dropped[i];
        eps__sentence(list,
                      "%s was not tried: it needs about %.2g operations and %.2g bytes, and the limits are %.2g and "
                      "%.2g; raise them, lower n, or raise accountant.tolerance",
                      eps_accountant_name(dropped->name), dropped->operations, dropped->bytes,
                      setting->context->max_operations, setting->context->max_bytes);
    }
}

static void add_strategy_hints(struct eps__sentences *list, const struct eps_result *result,
                               const struct eps__setting *setting)
{
    const struct eps_mechanism *mechanism = &setting->asked->mechanism;
    bool defined = isfinite(result->error_mean_squared);
    char text[256];
    for (size_t i = 0; eps__strategy_hint(text, sizeof text, setting->strategy, mechanism, defined, i); i++)
        eps__sentence(list, "%s", text);
}

/* Whether the answer follows from sampling alone, whatever the noise (S3). */
static bool decided_by_sampling(const struct eps_result *result, const struct eps__setting *setting)
{
    const struct eps_mechanism *mechanism = &setting->job->mechanism;
    enum eps_direction worse = eps__result_worse(result)->direction;
    if (!eps__sampling_independent_rounds(mechanism) && eps__sampling_log_delta(mechanism, EPS_REMOVE, 0).upper >= 0)
        return false; /* the example participates for certain, or its probability is not known */
    switch (result->solved_for) {
    case EPS_SOLVE_DELTA:
        return log(result->delta) >= eps__sampling_log_delta(mechanism, worse, result->epsilon).lower - 1e-9;
    case EPS_SOLVE_EPSILON:
        return result->epsilon >= eps__lower(eps__sampling_epsilon(mechanism, worse, log(result->delta)), 1e7);
    default:
        return result->noise_multiplier == 0 && result->sensitivity > 0;
    }
}

static bool add_hints(struct eps_result *result, const struct eps__setting *setting, const struct lineup *lineup,
                      const struct eps__mc_unproven *unproven)
{
    const struct eps_mechanism *mechanism = &setting->job->mechanism;
    struct eps__sentences list = {&result->hints, &result->hints_len, false};
    bool amplified = lineup->dropped_len > 0, random = eps__sampling_random(mechanism),
         curve = result->solved_for == EPS_SOLVE_CURVE;
    add_strategy_hints(&list, result, setting);
    add_dropped(&list, setting, lineup);
    for (size_t i = 0; i < lineup->len; i++)
        amplified |= lineup->items[i]->amplifies;
    if (!random && fabs(result->sensitivity - 1) > SAME && result->sensitivity > 0 && !curve)
        eps__sentence(&list, "noise_multiplier / sensitivity = %.6g, the value that papers report",
                      result->noise_multiplier / result->sensitivity);
    bool decided = random && !curve && decided_by_sampling(result, setting);
    if (decided)
        eps__sentence(
            &list,
            "this answer needs no noise: it follows from the probability %.6g that an example ever affects a batch",
            -expm1(eps__sampling_log_never(mechanism).upper));
    else if (random && setting->p < 1 && !amplified && setting->job->query.accountant.method == EPS_ACCOUNTANT_AUTO)
        eps__sentence(&list, "this is the bound without amplification by sampling: no accountant of this version "
                             "amplifies this strategy under this scheme");
    if (random && !curve && !setting->of_phases)
        eps__hint_drawing(&list, result, setting, decided, unproven);
    if (!setting->upper_alone)
        eps__hint_width(&list, result, setting->job->query.accountant.tolerance);
    return !list.failed;
}

/* ------------------------------------------------------------ the result */

static bool copy_blt(struct eps_result *result, const struct eps_strategy *strategy)
{
    const double *decay, *scale;
    size_t len = eps_strategy_blt(strategy, &decay, &scale);
    if (!len)
        return true;
    result->blt_decay = malloc(2 * len * sizeof *decay);
    if (!result->blt_decay)
        return false;
    result->blt_scale = result->blt_decay + len;
    result->blt_len = len;
    memcpy(result->blt_decay, decay, len * sizeof *decay);
    memcpy(result->blt_scale, scale, len * sizeof *scale);
    return true;
}

static enum eps_status fill_figures(struct eps_result *result, struct eps_error *error,
                                    const struct eps__setting *setting)
{
    const struct eps_mechanism *mechanism = &setting->asked->mechanism;
    double mean, max, last, variance = result->noise_multiplier * result->noise_multiplier;
    enum eps_status status = eps__strategy_error(setting->context, setting->strategy, mechanism, &mean, &max, &last);
    if (status != EPS_OK)
        return eps__error(error, status, "", "the error figures were not computed");
    /* If one figure overflows, all three are absent. */
    bool finite = isfinite(max * variance) && isfinite(mean * variance);
    result->error_mean_squared = finite ? mean * variance : NAN;
    result->error_max_squared = finite ? max * variance : NAN;
    result->error_last_squared = finite ? last * variance : NAN;
    result->adjacency = mechanism->adjacency;
    /* Without amplification any C is equivalent to a lower-triangular one, because the noise is rotation invariant. */
    result->adaptive =
        !eps__sampling_random(mechanism) || (eps__strategy_lower_triangular(setting->strategy) &&
                                             eps__strategy_decoder(setting->strategy) != EPS_DECODER_FULL);
    result->p = eps__sampling_probability(mechanism);
    result->bins = eps__sampling_bins(mechanism);
    result->expected_batch_size = eps__sampling_expected_batch(mechanism);
    struct eps_sensitivity sensitivity =
        setting->sensitivity_known ? setting->sensitivity : (struct eps_sensitivity){0};
    result->sensitivity = sensitivity.value;
    result->sensitivity_rule = sensitivity.rule;
    result->sensitivity_exact = sensitivity.exact;
    snprintf(result->factorization_id, sizeof result->factorization_id, "%s", eps_strategy_id(setting->strategy));
    result->iterations = eps_strategy_iterations(setting->strategy);
    result->optimality_gap = eps_strategy_optimality_gap(setting->strategy);
    return copy_blt(result, setting->strategy) ? EPS_OK : eps__error(error, EPS_NO_MEMORY, "", "out of memory");
}

/* The share of progress of building the strategy. The rest is a formula without sampling, and a search over loss
 * distributions with sampling. */
static double strategy_share(const struct eps_mechanism *mechanism)
{
    if (!eps__strategy_is_optimised(&mechanism->matrix))
        return 0;
    return eps__sampling_random(mechanism) ? 0.06 : 0.95;
}

/* The approximate share of the audit in the work after the strategy is built. */
static double audit_share(const struct cost *cost)
{
    return cost->audit > 0 ? fmin(fmax(cost->audit / cost->operations, 0.05), 0.95) : 0;
}

/* Sets `least` if the accountants did not: from what every adversary sees, and from the audit, with the confidence
 * of the audit. */
static enum eps_status find_least(struct eps_result *result, struct eps_error *error,
                                  const struct eps__setting *setting)
{
    double seen = 0;
    if (result->solved_for == EPS_SOLVE_CURVE)
        return EPS_OK;
    if (isnan(result->least)) {
        enum eps_status status = eps__least(&seen, setting);
        if (status != EPS_OK)
            return eps__error(error, status, "",
                              status == EPS_NO_MEMORY ? "out of memory" : "the answer did not finish");
        if (seen > 0)
            result->least = seen;
    }
    for (enum eps_direction d = 0; d < EPS_DIRECTIONS; d++)
        if (result->solved_for != EPS_SOLVE_NOISE_MULTIPLIER && result->audit[d].samples > 0)
            result->least = fmax(result->least, result->audit[d].lower);
    return EPS_OK;
}

enum eps_status eps__mechanism_describe(struct eps_result **result, struct eps_error *error,
                                        const struct eps__setting *setting, double noise_multiplier,
                                        const enum eps_accountant accountants[EPS_DIRECTIONS])
{
    const struct eps_job job = {
        .query = {.epsilon = NAN, .delta = NAN, .noise_multiplier = noise_multiplier, .curve = true}};
    struct eps_result *made;
    enum eps_status status = eps__result_create(&made, error, &job);
    if (status != EPS_OK)
        return status;
    for (enum eps_direction d = 0; d < EPS_DIRECTIONS; d++)
        made->directions[d] =
            (struct eps_candidate){.accountant = accountants[d], .direction = d, .value = NAN, .bad_event_share = NAN};
    status = fill_figures(made, error, setting);
    if (status == EPS_OK && !add_assumptions(made, setting))
        status = eps__error(error, EPS_NO_MEMORY, "", "out of memory");
    if (status != EPS_OK) {
        eps_result_destroy(made);
        return status;
    }
    made->cache_factorization = eps__strategy_cache_state(setting->strategy);
    *result = made;
    return EPS_OK;
}

enum eps_status eps__mechanism_solve(const struct eps_context *context, struct eps_result **result,
                                     struct eps_error *error, const struct eps_job *job,
                                     const struct eps__occasion *occasion)
{
    struct eps__setting setting;
    struct eps_result *made = NULL;
    struct eps__cache_use cache_use = {0};
    struct eps__context_part building, searching, estimating, auditing;
    struct eps__mc_unproven unproven = {0};
    struct cost cost;
    double built = strategy_share(&job->mechanism);
    bool estimated = !occasion || !(occasion->upper_alone || occasion->of_phases || occasion->proven_alone);
    enum eps_status status = eps__setting_open(&setting, error, eps__context_part(&building, context, 0, built), job);
    if (status != EPS_OK)
        return status;
    setting.context = context;
    setting.cache_use = &cache_use;
    setting.upper_alone = occasion && occasion->upper_alone;
    setting.of_phases = occasion && occasion->of_phases;
    struct lineup lineup = make_lineup(&setting, error);
    status = lineup.len ? check_cost(&setting, &lineup, estimated, &cost, error) : EPS_UNSUPPORTED;
    if (status != EPS_OK)
        goto out;
    double answered = built + (1 - built) * (1 - audit_share(&cost));
    double searched = built + (answered - built) * (1 - cost.unproven.operations / cost.operations);
    setting.context = eps__context_part(&searching, context, built, searched);
    status = eps__result_create(&made, error, job);
    if (status != EPS_OK)
        goto out;
    if (made->solved_for == EPS_SOLVE_CURVE)
        status = eps__curve(made, error, &setting, lineup.items, lineup.len, lineup.dropped_len == 0,
                            job->query.accountant.tolerance);
    else
        status = eps__scalar(made, error, &setting, lineup.items, lineup.len, lineup.dropped_len == 0);
    setting.context = eps__context_part(&estimating, context, searched, answered);
    if (status == EPS_OK && cost.unproven.samples > 0)
        status = eps__estimate_unproven(&unproven, error, &setting, &cost.unproven, made);
    unproven.seconds += NANO * (cost.operations - cost.unproven.operations - cost.audit); /* it runs `auto` first */
    setting.context = eps__context_part(&auditing, context, answered, 1);
    if (status == EPS_OK && job->query.accountant.audit > 0)
        status = eps__audit(made, error, &setting);
    if (status == EPS_OK)
        status = find_least(made, error, &setting);
    if (status == EPS_OK)
        status = fill_figures(made, error, &setting);
    if (status != EPS_OK)
        goto out;
    made->unproven_estimate = unproven.estimate;
    made->cache_pld = eps__cache_use_state(&cache_use);
    made->cache_factorization = eps__strategy_cache_state(setting.strategy);
    if (!add_assumptions(made, &setting) || !add_hints(made, &setting, &lineup, &unproven)) {
        status = eps__error(error, EPS_NO_MEMORY, "", "out of memory");
        goto out;
    }
    status = eps__add_doubts(made, error, &setting);
    if (status != EPS_OK)
        goto out;
    *result = made;
    made = NULL;
out:
    eps_result_destroy(made);
    eps__setting_close(&setting);
    return status;
}
