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
#include "lib/base/limits.h"
#include "lib/numerics/bound.h"
#include "lib/numerics/normal.h"
#include "lib/sampling/pairs.h"
#include "lib/sampling/scheme.h"

struct part {
    struct eps__rows *rows;
    struct eps__composition *composition;
    struct eps__rows_remainder remainder;
};

struct side {
    enum eps_direction direction;
    struct part *parts;
    size_t parts_len;
    bool chosen, composed, rough; /* delta_1 is chosen; compositions exist; these are unproven */
    struct eps__bad_events spent;
    double finer; /* the product of the refinement factors so far */
};

/* Estimated operations for one part of the data set. */
struct work {
    double once;   /* making the rows */
    double trial;  /* computing their tail bounds, for one delta_1 */
    double proven; /* composing them */
};

struct mmcc_profile {
    struct eps__profile base;
    const struct eps__setting *setting;
    struct work work;
    double sigma, norm_square;
    struct eps__accuracy accuracy;
    struct side sides[EPS_DIRECTIONS];
};

/* ------------------------------------------------------------ rows */

static enum eps_status prepare(const struct mmcc_profile *m, struct side *side, struct eps_error *error)
{
    size_t len = eps__mmcc_parts(m->setting);
    if (side->parts)
        return EPS_OK;
    side->parts = calloc(len, sizeof *side->parts);
    if (!side->parts)
        return EPS_NO_MEMORY;
    for (; side->parts_len < len; side->parts_len++) {
        enum eps_status status = eps__mmcc_rows(&side->parts[side->parts_len].rows, m->setting, side->parts_len, error);
        if (status != EPS_OK)
            return status;
        eps__meter_add(m->setting->meter, m->work.once);
    }
    return EPS_OK;
}

static double most_pairs(const struct side *side)
{
    double pairs = 0;
    for (size_t i = 0; i < side->parts_len; i++)
        pairs = fmax(pairs, eps__mmcc_uncertain_pairs(side->parts[i].rows));
    return pairs;
}

/* ------------------------------------------------------------ compositions */

static enum eps_status compose_part(const struct mmcc_profile *m, const struct side *side, struct part *part,
                                    const struct eps__rows_plan *plan)
{
    struct eps__cache_use *cache_use =
        !plan->proven || m->accuracy.unknown == EPS_SOLVE_NOISE_MULTIPLIER ? NULL : m->setting->cache_use;
    eps__composition_destroy(part->composition);
    part->composition = NULL;
    enum eps_status status = eps__mmcc_bound(part->rows, m->setting->context, side->direction, m->sigma,
                                             side->spent.log_delta1, !plan->proven);
    eps__meter_add(m->setting->meter, m->work.trial);
    if (status == EPS_OK)
        status = eps__composition_create(&part->composition, m->setting->context, cache_use, &m->accuracy);
    if (status == EPS_OK)
        status = eps__rows_compose(part->composition, &part->remainder, part->rows, m->setting->context, plan);
    return status;
}

/* Composes all parts for side->spent. */
static enum eps_status compose(const struct mmcc_profile *m, struct side *side, bool proven)
{
    struct eps__rows_plan plan = {.direction = side->direction,
                                  .times = 1,
                                  .sigma = m->sigma,
                                  .norm_square = m->norm_square,
                                  .proven = proven,
                                  .meter = proven ? m->setting->meter : NULL,
                                  .operations = m->work.proven};
    double tolerance = m->accuracy.tolerance;
    /* The widening of the loss that the tolerance allows: relative to epsilon, or relative to delta through the slope
     * of ln delta in epsilon, about ln delta/epsilon. */
    double scale = fmax(side->spent.eps, 1e-6);
    if (m->accuracy.unknown == EPS_SOLVE_DELTA || m->accuracy.unknown == EPS_SOLVE_CURVE)
        scale = fmin(1, scale / fmax(-side->spent.log_delta, 1));
    plan.error = EPS__ERROR_SHARE * tolerance * scale / (side->finer * side->finer);
    plan.log_outside =
        fmax(side->spent.log_delta, EPS__LOG_DELTA_LEAST) + log(EPS__OUTSIDE_SHARE * tolerance) - log(side->finer);
    enum eps_status status = EPS_OK;
    for (size_t i = 0; i < side->parts_len && status == EPS_OK; i++) {
        status = compose_part(m, side, &side->parts[i], &plan);
        if (status == EPS_OK && proven && side->finer > 1)
            eps__composition_refine(side->parts[i].composition, side->finer);
    }
    side->composed = status == EPS_OK;
    side->rough = !proven;
    return status;
}

/* Fast approximations from the current compositions: ln delta_2(eps), and the epsilon with the given ln delta_2. */
static double quick_log_delta2(const struct side *side, double eps)
{
    double worst = -INFINITY;
    for (size_t i = 0; i < side->parts_len; i++)
        worst = fmax(worst, side->parts[i].remainder.resolvable
                                ? eps__composition_approximate(side->parts[i].composition, eps)
                                : 0);
    return worst;
}

static double quick_epsilon(const struct side *side, double log_delta2)
{
    double worst = 0;
    for (size_t i = 0; i < side->parts_len; i++)
        worst = fmax(worst, side->parts[i].remainder.resolvable
                                ? eps__composition_guess(side->parts[i].composition, log_delta2)
                                : EPS__SHIFT_MOST * EPS__SHIFT_MOST);
    return worst;
}

/* ------------------------------------------------------------ the choice of delta_1 */

struct asked {
    const struct mmcc_profile *m;
    struct side *side;
};

static enum eps_status ask_compose(void *user)
{
    const struct asked *asked = user;
    return compose(asked->m, asked->side, false);
}

static double ask_log_delta2(void *user, double eps)
{
    return quick_log_delta2(((const struct asked *)user)->side, eps);
}

static double ask_epsilon(void *user, double log_delta2)
{
    return quick_epsilon(((const struct asked *)user)->side, log_delta2);
}

/* Chooses delta_1 with unproven compositions, on the first call. */
static enum eps_status choose(struct mmcc_profile *m, struct side *side, struct eps_error *error)
{
    const struct eps_query *query = &m->setting->job->query;
    if (side->chosen)
        return EPS_OK;
    enum eps_status status = prepare(m, side, error);
    double log_delta = m->accuracy.log_delta, eps = isnan(query->epsilon) ? 1 : query->epsilon;
    if (isnan(log_delta) && m->accuracy.unknown == EPS_SOLVE_CURVE && !isnan(query->delta))
        log_delta = log(query->delta);
    if (status == EPS_OK && most_pairs(side) == 0) {
        side->spent.log_delta1 = -INFINITY;
        side->spent.log_delta = isnan(log_delta) ? EPS__LOG_DELTA_ABOUT : log_delta;
        side->spent.eps = eps;
        status = compose(m, side, false);
        if (status == EPS_OK && isnan(log_delta))
            side->spent.log_delta = quick_log_delta2(side, eps);
        else if (status == EPS_OK)
            side->spent.eps = quick_epsilon(side, log_delta);
    } else if (status == EPS_OK) {
        struct asked asked = {m, side};
        const struct eps__bad_events_ask ask = {&asked, ask_compose, ask_log_delta2, ask_epsilon};
        status = eps__bad_events_choose(&side->spent, &ask, query->accountant.bad_event_share, log_delta, eps,
                                        m->accuracy.tolerance);
    }
    if (status == EPS_OK && m->accuracy.unknown == EPS_SOLVE_NOISE_MULTIPLIER)
        side->spent.eps = eps;
    side->chosen = status == EPS_OK;
    return status;
}

/* ------------------------------------------------------------ the profile */

/* ln delta of one part. The upper estimate adds the probability that was left out, the lower one subtracts it. */
static enum eps_status part_log_delta(const struct side *side, struct part *part, enum eps__estimate estimate,
                                      double eps, double *out)
{
    double log_delta2 = estimate == EPS__UPPER ? 0 : -INFINITY, outside = part->remainder.outside;
    enum eps_status status = EPS_OK;
    if (part->remainder.resolvable)
        status = eps__composition_log_delta(part->composition, estimate, eps, &log_delta2);
    if (status != EPS_OK)
        return status;
    double delta1 = eps__mmcc_uncertain_pairs(part->rows) > 0 ? side->spent.log_delta1 : -INFINITY, sum;
    if (estimate == EPS__UPPER) {
        sum = eps__log_add(eps__log_add(log_delta2, log(outside)), delta1);
        *out = fmin(eps__shift(EPS__UPPER, sum, 16 * EPS__UNIT_ROUNDOFF * (1 + fabs(sum))), 0);
        return EPS_OK;
    }
    double kept = log_delta2 + (outside > 0 ? log1p(-fmin(outside * exp(-log_delta2), 1)) : 0);
    sum = eps__log_add(isnan(kept) ? -INFINITY : kept, delta1);
    *out = eps__shift(EPS__LOWER, sum, 16 * EPS__UNIT_ROUNDOFF * (1 + fabs(sum)));
    return EPS_OK;
}

static enum eps_status log_delta(struct eps__profile *profile, enum eps_direction direction,
                                 enum eps__estimate estimate, double eps, double *out, struct eps_error *error)
{
    struct mmcc_profile *m = (struct mmcc_profile *)profile;
    struct side *side = &m->sides[direction];
    enum eps_status status = choose(m, side, error);
    if (status == EPS_OK && (!side->composed || side->rough))
        status = compose(m, side, true);
    *out = -INFINITY;
    for (size_t i = 0; i < side->parts_len && status == EPS_OK; i++) {
        double own = -INFINITY;
        status = part_log_delta(side, &side->parts[i], estimate, eps, &own);
        *out = fmax(*out, own);
    }
    return status;
}

/* Ensures that delta_1 is chosen and a composition exists. */
static enum eps_status make_quick(struct mmcc_profile *m, struct side *side)
{
    enum eps_status status = choose(m, side, NULL);
    return status == EPS_OK && !side->composed ? compose(m, side, false) : status;
}

static enum eps_status approximate(struct eps__profile *profile, enum eps_direction direction, double eps, double *out)
{
    struct mmcc_profile *m = (struct mmcc_profile *)profile;
    struct side *side = &m->sides[direction];
    enum eps_status status = make_quick(m, side);
    *out = status == EPS_OK ? fmin(eps__log_add(side->spent.log_delta1, quick_log_delta2(side, eps)), 0) : NAN;
    return status == EPS_TOO_COSTLY ? EPS_OK : status;
}

static enum eps_status guess(struct eps__profile *profile, enum eps_direction direction, double log_delta_wanted,
                             double *eps)
{
    struct mmcc_profile *m = (struct mmcc_profile *)profile;
    struct side *side = &m->sides[direction];
    enum eps_status status = make_quick(m, side);
    *eps = 0;
    if (status != EPS_OK)
        return status == EPS_TOO_COSTLY ? EPS_OK : status;
    /* A delta below delta_1 is out of reach: then the epsilon at which delta_2 is a hundredth of delta_1. */
    double left = log_delta_wanted > side->spent.log_delta1
                      ? log_delta_wanted + log1p(-exp(side->spent.log_delta1 - log_delta_wanted))
                      : side->spent.log_delta1 + log(0.01);
    *eps = quick_epsilon(side, left);
    return EPS_OK;
}

static bool refine(struct eps__profile *profile, enum eps_direction direction, double factor)
{
    struct mmcc_profile *m = (struct mmcc_profile *)profile;
    struct side *side = &m->sides[direction];
    if (side->finer * factor > 1e3 || !side->composed)
        return false;
    if (factor == 1) { /* keeps the rows and the compositions */
        for (size_t i = 0; i < side->parts_len; i++)
            eps__composition_refine(side->parts[i].composition, 1);
        return true;
    }
    side->finer *= factor;
    side->composed = false;
    eps__meter_expect(m->setting->meter, (double)side->parts_len * m->work.proven);
    return true;
}

static double bad_event_share(const struct eps__profile *profile, enum eps_direction direction, double log_delta_at)
{
    return exp(((const struct mmcc_profile *)profile)->sides[direction].spent.log_delta1 - log_delta_at);
}

static void destroy(struct eps__profile *profile)
{
    struct mmcc_profile *m = (struct mmcc_profile *)profile;
    for (int direction = 0; direction < EPS_DIRECTIONS; direction++) {
        struct side *side = &m->sides[direction];
        for (size_t i = 0; i < side->parts_len; i++) {
            eps__composition_destroy(side->parts[i].composition);
            side->parts[i].rows->class->destroy(side->parts[i].rows);
        }
        free(side->parts);
    }
    free(m);
}

static const struct eps__profile_class profile_class = {.log_delta = log_delta,
                                                        .approximate = approximate,
                                                        .guess = guess,
                                                        .refine = refine,
                                                        .bad_event_share = bad_event_share,
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

#define TRIAL 8e6 /* the operations of a trial that do not depend on the rows */

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
        return (struct size){100, TRIAL + 1e5 * n + 1e6 * (double)(blocks.height + 1), 2 * (double)blocks.height + 2,
                             64, 1e4};
    double parts = (double)groups, columns = blocks.block % groups ? ceil(n / (double)groups) : rounds;
    double pairs = parts * columns * wide, products = fmin(0.5 * pairs * wide, 2e6 * parts);
    double reading = parts * n * n, gram = parts * n * wide * wide;
    return (struct size){reading + 2 * gram, TRIAL + (pairs <= FULL_TABLE ? 300 : 40) * products + 500 * pairs,
                         parts * columns, wide, parts * (columns * columns + 2e6) + 10 * pairs};
}

/* For cost(), as measured (tests/bench/bench_costs.c): the trials of delta_1 in a profile if its share is not given,
 * and the profiles that a search for sigma opens, of which only the last one is proven. */
enum { TRIALS = 12, OPENED = 8 };

/* The operations of mixtures, of pairs on a grid, and of transforms. *grid is the length of the grid. */
static double proven_operations(const struct eps__setting *setting, const struct size *size, double *grid)
{
    double tolerance = setting->job->query.accountant.tolerance;
    *grid = 12 * sqrt((double)setting->job->mechanism.n) / sqrt(0.6 * tolerance) + 4096;
    return size->rows * (1000 * size->width + 2e6 / sqrt(tolerance * 1e3) + 60 * *grid);
}

static void cost(const struct eps__setting *setting, double *operations, double *bytes)
{
    struct size size = size_of_rows(setting);
    const struct eps_query *query = &setting->job->query;
    double opened = query->noise_multiplier > 0 ? 1 : OPENED, grid;
    double trials = isnan(query->accountant.bad_event_share) ? TRIALS : 1;
    double proven = proven_operations(setting, &size, &grid);
    *operations = 2 * (opened * (size.once + trials * size.trial) + proven);
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
    struct mmcc_profile *m = calloc(1, sizeof *m);
    if (!m)
        return eps__error(error, EPS_NO_MEMORY, "", "out of memory");
    m->base.class = &profile_class;
    m->setting = setting;
    m->sigma = sigma;
    m->accuracy = *accuracy;
    m->work = work_of_part(setting);
    double norm = eps__strategy_largest_norm(setting->strategy);
    m->norm_square = norm * norm;
    for (enum eps_direction direction = 0; direction < EPS_DIRECTIONS; direction++)
        m->sides[direction] = (struct side){.direction = direction, .finer = 1, .spent.log_delta1 = -INFINITY};
    *profile = &m->base;
    return EPS_OK;
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
