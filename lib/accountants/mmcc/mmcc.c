/*
 * Matrix mechanism conditional composition (MMCC figures 1 and 2; appendix A for groups).
 *
 * Given the rows before, an example's participations in a row are dominated by independent ones with larger
 * probabilities, unless a bad event happens. The rows then compose like dominating pairs, and delta(eps) is at most
 * delta_1, the probability of the bad events (accountants/bad_events.h), plus delta_2(eps), the delta of the
 * composition.
 *
 * The two directions have different bad events. In the add direction they are measured without the example: the tail
 * bounds contain only noise, and the probabilities of participation are smaller.
 *
 * A data set whose groups take turns has one part per group, and delta is the largest over the parts. A Toeplitz
 * strategy has one worst part, the first one. For other strategies all parts are computed.
 *
 * SPDX-License-Identifier: GPL-3.0-or-later
 */
#include <math.h>
#include <stdlib.h>

#include "lib/accountants/accountant.h"
#include "lib/accountants/bad_events.h"
#include "lib/accountants/mmcc/compose.h"
#include "lib/accountants/mmcc/parts.h"
#include "lib/accountants/mmcc/steps.h"
#include "lib/base/error.h"
#include "lib/numerics/normal.h"
#include "lib/sampling/pairs.h"
#include "lib/sampling/scheme.h"

struct part {
    struct eps__rows *rows;
    struct eps__composition *composition;
    struct eps__rows_remainder remainder;
};

/* Estimated operations for one part of the data set. */
struct work {
    double once;   /* making the rows */
    double trial;  /* computing their tail bounds, for one delta_1 */
    double proven; /* composing them */
};

/* One direction of a profile. */
struct side {
    struct eps__spending base;
    struct part *parts;
    size_t parts_len;
    struct work work;
    double norm_square;
};

/* ------------------------------------------------------------ rows */

static struct work work_of_part(const struct eps__setting *setting);

static enum eps_status prepare(struct eps__spending *base, bool *spends, struct eps_error *error)
{
    struct side *side = (struct side *)base;
    size_t len = eps__mmcc_parts(base->setting);
    double norm = eps__strategy_largest_norm(base->setting->strategy);
    side->work = work_of_part(base->setting);
    side->norm_square = norm * norm;
    if (!side->parts)
        side->parts = calloc(len, sizeof *side->parts);
    if (!side->parts)
        return EPS_NO_MEMORY;
    for (; side->parts_len < len; side->parts_len++) {
        enum eps_status status =
            eps__mmcc_rows(&side->parts[side->parts_len].rows, base->setting, side->parts_len, error);
        if (status != EPS_OK)
            return status;
        eps__meter_add(base->setting->meter, side->work.once);
    }
    for (size_t i = 0; i < len; i++)
        *spends = *spends || eps__mmcc_uncertain_pairs(side->parts[i].rows) > 0;
    /* A curve beside the answer to a job spends for the delta of that job. */
    double delta = base->setting->job->query.delta;
    if (isnan(base->log_delta) && base->accuracy.unknown == EPS_SOLVE_CURVE && !isnan(delta))
        base->log_delta = log(delta);
    return EPS_OK;
}

/* ------------------------------------------------------------ compositions */

static enum eps_status compose_part(const struct side *side, struct part *part, const struct eps__rows_plan *plan)
{
    const struct eps__spending *base = &side->base;
    const struct eps__setting *setting = base->setting;
    struct eps__cache_use *cache_use =
        !plan->proven || base->accuracy.unknown == EPS_SOLVE_NOISE_MULTIPLIER ? NULL : setting->cache_use;
    eps__composition_destroy(part->composition);
    part->composition = NULL;
    enum eps_status status = eps__mmcc_bound(part->rows, setting->context, base->direction, base->sigma,
                                             base->spent.log_delta1, !plan->proven);
    eps__meter_add(setting->meter, side->work.trial);
    if (status == EPS_OK)
        status = eps__composition_create(&part->composition, setting->context, cache_use, &base->accuracy);
    if (status == EPS_OK)
        status = eps__rows_compose(part->composition, &part->remainder, part->rows, setting->context, plan);
    return status;
}

/* Composes all parts for base->spent. */
static enum eps_status compose(struct eps__spending *base, bool proven)
{
    struct side *side = (struct side *)base;
    struct eps__rows_plan plan = {.direction = base->direction,
                                  .times = 1,
                                  .sigma = base->sigma,
                                  .norm_square = side->norm_square,
                                  .proven = proven,
                                  .meter = proven ? base->setting->meter : NULL,
                                  .operations = side->work.proven};
    eps__spending_losses(&base->spent, &base->accuracy, base->finer, &plan.error, &plan.log_outside);
    enum eps_status status = EPS_OK;
    for (size_t i = 0; i < side->parts_len && status == EPS_OK; i++) {
        status = compose_part(side, &side->parts[i], &plan);
        if (status == EPS_OK && proven && base->finer > 1)
            eps__composition_refine(side->parts[i].composition, base->finer);
    }
    return status;
}

static enum eps_status quick_log_delta2(struct eps__spending *base, double eps, double *log_delta2)
{
    const struct side *side = (const struct side *)base;
    *log_delta2 = -INFINITY;
    for (size_t i = 0; i < side->parts_len; i++)
        *log_delta2 = fmax(*log_delta2, side->parts[i].remainder.resolvable
                                            ? eps__composition_approximate(side->parts[i].composition, eps)
                                            : 0);
    return EPS_OK;
}

static enum eps_status quick_epsilon(struct eps__spending *base, double log_delta2, double *eps)
{
    const struct side *side = (const struct side *)base;
    *eps = 0;
    for (size_t i = 0; i < side->parts_len; i++)
        *eps = fmax(*eps, side->parts[i].remainder.resolvable
                              ? eps__composition_guess(side->parts[i].composition, log_delta2)
                              : EPS__SHIFT_MOST * EPS__SHIFT_MOST);
    return EPS_OK;
}

/* ------------------------------------------------------------ the profile */

/* ln of the largest delta of the parts. */
static enum eps_status log_delta(struct eps__spending *base, enum eps__estimate estimate, double eps, double *out)
{
    struct side *side = (struct side *)base;
    enum eps_status status = EPS_OK;
    *out = -INFINITY;
    for (size_t i = 0; i < side->parts_len && status == EPS_OK; i++) {
        struct part *part = &side->parts[i];
        double log_delta2 = estimate == EPS__UPPER ? 0 : -INFINITY;
        double delta1 = eps__mmcc_uncertain_pairs(part->rows) > 0 ? base->spent.log_delta1 : -INFINITY;
        if (part->remainder.resolvable)
            status = eps__composition_log_delta(part->composition, estimate, eps, &log_delta2);
        if (status == EPS_OK)
            *out = fmax(*out, eps__spending_total(estimate, log_delta2, part->remainder.outside, delta1));
    }
    return status;
}

static bool refine(struct eps__spending *base, double factor)
{
    struct side *side = (struct side *)base;
    if (base->finer * factor > 1e3 || !base->composed)
        return false;
    if (factor == 1) { /* keeps the rows and the compositions */
        for (size_t i = 0; i < side->parts_len; i++)
            eps__composition_refine(side->parts[i].composition, 1);
        return true;
    }
    base->finer *= factor;
    base->composed = false;
    eps__meter_expect(base->setting->meter, (double)side->parts_len * side->work.proven);
    return true;
}

static void destroy(struct eps__spending *base)
{
    struct side *side = (struct side *)base;
    for (size_t i = 0; i < side->parts_len; i++) {
        eps__composition_destroy(side->parts[i].composition);
        side->parts[i].rows->class->destroy(side->parts[i].rows);
    }
    free(side->parts);
}

static const struct eps__spending_class spending_class = {.size = sizeof(struct side),
                                                          .prepare = prepare,
                                                          .compose = compose,
                                                          .log_delta2 = quick_log_delta2,
                                                          .epsilon = quick_epsilon,
                                                          .log_delta = log_delta,
                                                          .refine = refine,
                                                          .destroy = destroy};

/* ------------------------------------------------------------ the accountant */

static bool serves(const struct eps__setting *setting, struct eps_error *error)
{
    const struct eps_mechanism *mechanism = &setting->job->mechanism;
    const struct eps_sampling *sampling = &mechanism->sampling;
    if (!eps__sampling_independent_rounds(mechanism))
        return eps__scheme_decline(error, "mmcc", eps__scheme_independent_rounds);
    if (sampling->truncation)
        return eps__decline(error, "/sampling/truncation", "mmcc does not serve truncated batches: remove truncation");
    if (sampling->examples_per_user > 1)
        return eps__decline(error, "/sampling/examples_per_user",
                            "mmcc serves one example per user: set examples_per_user to 1");
    if (sampling->last_iterate)
        return eps__decline(error, "/sampling/last_iterate",
                            "mmcc accounts for the release of every iterate: use pld for last_iterate");
    if (!eps__adjacency_known(error, "mmcc", EPS__AGAINST_NOISE, mechanism->adjacency))
        return false;
    if (setting->job->query.curve)
        return eps__decline(error, "/curve",
                            "mmcc has no privacy curve, because it spends a fixed part of delta on bad events: give "
                            "two of epsilon, delta and noise_multiplier instead");
    if (!eps__strategy_nonnegative(setting->strategy))
        return eps__decline(error, "/matrix", "amplification by mmcc needs a strategy whose entries are all >= 0");
    if (!eps__strategy_lower_triangular(setting->strategy))
        return eps__decline(error, "/matrix", "mmcc needs a lower-triangular strategy or a tree");
    return true;
}

static bool exact(const struct eps__setting *setting)
{
    (void)setting;
    return false;
}

struct size {
    double once, trial; /* operations, as in struct work */
    double rows;        /* the number of distinct rows */
    double width;       /* the participations in a row */
    double numbers;     /* the numbers of 8 bytes that are stored */
};

enum { FULL_TABLE = 1 << 14 }; /* the most tail bounds for which slower methods are used, too */

#define TRIAL 5e6 /* the operations of a trial that do not depend on the rows */

static struct size size_of_rows(const struct eps__setting *setting)
{
    struct eps__blocks blocks = eps__strategy_blocks(setting->strategy);
    size_t groups = eps__sampling_groups(&setting->job->mechanism);
    double n = (double)setting->job->mechanism.n, bands = (double)eps_strategy_bands(setting->strategy);
    double rounds = ceil((double)blocks.block / (double)groups), wide = fmin(ceil(bands / (double)groups) + 1, rounds);
    if (eps__mmcc_toeplitz_parts(&blocks, groups)) /* a table, and some evaluations for the tilt of each of its rows */
        return (struct size){100, TRIAL + (wide * wide <= FULL_TABLE ? 40 : 4) * wide * (12 * wide + bands),
                             fmin(2 * wide, rounds), wide, wide * wide + 200 * wide};
    if (blocks.shape == EPS__SHAPE_TREE && groups == 1)
        return (struct size){100, 0.25 * TRIAL + 6e4 * n + 3e5 * (double)(blocks.height + 1),
                             2 * (double)blocks.height + 2, 64, 1e4};
    double parts = (double)groups, columns = blocks.block % groups ? ceil(n / (double)groups) : rounds;
    double pairs = parts * columns * wide, products = fmin(0.5 * pairs * wide, 2e6 * parts);
    double reading = parts * n * n, gram = parts * n * wide * wide;
    return (struct size){reading + 2 * gram, TRIAL + (pairs <= FULL_TABLE ? 300 : 40) * products + 500 * pairs,
                         parts * columns, wide, parts * (columns * columns + 2e6) + 10 * pairs};
}

/* For cost(), as measured (tests/bench/bench_costs.c): the trials of delta_1 in a profile if its share is not given,
 * and the profiles that a search for sigma opens, of which only the last one is proven. */
enum { TRIALS = 12, OPENED = 16 };

/* The operations of mixtures, of pairs on a grid, and of transforms. *grid is the length of the grid. */
static double proven_operations(const struct eps__setting *setting, const struct size *size, double *grid)
{
    double tolerance = setting->job->query.accountant.tolerance;
    *grid = 12 * sqrt((double)setting->job->mechanism.n) / sqrt(0.6 * tolerance) + 4096;
    return size->rows * (600 * size->width + 2e6 / sqrt(tolerance * 1e3) + 60 * *grid);
}

static void cost(const struct eps__setting *setting, double *operations, double *bytes)
{
    struct size size = size_of_rows(setting);
    const struct eps_query *query = &setting->job->query;
    double opened = query->noise_multiplier > 0 ? 1 : OPENED, grid;
    double trials = isnan(query->accountant.bad_event_share) ? TRIALS : 1;
    double proven = proven_operations(setting, &size, &grid);
    *operations = opened * (size.once + trials * size.trial) + proven;
    *bytes = 2 * (8 * size.numbers + size.rows * 4e4 + 64 * grid) + 1e6;
}

static struct work work_of_part(const struct eps__setting *setting)
{
    struct eps__blocks blocks = eps__strategy_blocks(setting->strategy);
    struct size size = size_of_rows(setting);
    size_t groups = eps__sampling_groups(&setting->job->mechanism), n = setting->job->mechanism.n;
    double grid, parts = eps__mmcc_toeplitz_parts(&blocks, groups) ? 1 : (double)(groups < n ? groups : n);
    return (struct work){size.once / parts, size.trial / parts, proven_operations(setting, &size, &grid) / parts};
}

static double least_sigma(const struct eps__setting *setting)
{
    return eps__strategy_largest_norm(setting->strategy) / EPS__SHIFT_MOST;
}

static enum eps_status open_profile(const struct eps__setting *setting, double sigma,
                                    const struct eps__accuracy *accuracy, struct eps__profile **profile,
                                    struct eps_error *error)
{
    return eps__spending_open(&spending_class, setting, sigma, accuracy, profile, error);
}

const struct eps__accountant eps__accountant_mmcc = {
    .method = EPS_ACCOUNTANT_MMCC,
    .name = "mmcc",
    .amplifies = true,
    .composes = true,
    .assume = eps__assume_causal_order,
    .serves = serves,
    .exact = exact,
    .cost = cost,
    .open = open_profile,
    .least_sigma = least_sigma,
    .steps = eps__mmcc_stepper,
};
