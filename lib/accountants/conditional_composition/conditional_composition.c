/*
 * Conditional composition for balls in bins (RA section 4).
 *
 * An example in bin i adds m_i to the noise. Given the rows before, its bin has a posterior law, and the next row is a
 * mixture of Gaussians under it. Unless a bad event happens, this law is dominated, in the order of the row's means, by
 * one that does not depend on the rows before (A9, A10). The rows then compose like dominating pairs, and delta(eps) is
 * at most delta_1, the probability of the bad events (accountants/bad_events.h), plus delta_2(eps), the delta of the
 * composition.
 *
 * The two directions have different bad events: remove measures them with the example, in a random bin, and add without
 * it. Only the Gram matrix of the m_i matters, so rows that are equal up to a factor are merged, and the rows may be
 * taken in reverse order (A7). Each direction chooses the order by fast unproven answers. Both orders give proven
 * bounds.
 *
 * SPDX-License-Identifier: GPL-3.0-or-later
 */
#include <assert.h>
#include <math.h>
#include <stdlib.h>

#include "lib/accountants/accountant.h"
#include "lib/accountants/bad_events.h"
#include "lib/accountants/conditional_composition/compose.h"
#include "lib/base/error.h"
#include "lib/base/limits.h"
#include "lib/numerics/bound.h"
#include "lib/sampling/pairs.h"
#include "lib/sampling/scheme.h"
#include "lib/strategy/merged.h"

#define REACH 190.0 /* the largest sensitivity over sigma that a PLD resolves */
#define STALE 2.5   /* minorants that were chosen for one ln beta are used for others within this distance */

/* The bins of one class: every `classes`-th one. */
struct part {
    struct eps__cc_steps *steps;
    struct eps__composition *composition;
    double share; /* the class's share of all bins */
};

/* Estimated operations. */
struct work {
    double once;   /* making the rows */
    double sample; /* finding the minorants of a sample */
    double trial;  /* composing the sample for one delta_1 */
    double proven; /* finding all minorants and composing the rows */
};

/* One direction of a profile. */
struct side {
    struct eps__spending base;
    struct work work;
    struct eps__cc_matrix own;           /* of remove, which both directions use */
    const struct eps__cc_matrix *matrix; /* of all bins */
    bool reversed;                       /* the rows are taken in reverse order */
    struct part *parts;
    size_t classes;
    struct eps__cc_sample *sample;    /* a sample of the first class's rows */
    double sample_log_beta;           /* the ln beta for which it was made */
    struct eps__composition *quickly; /* the composition of the sample, which is unproven */
};

/* ------------------------------------------------------------ rows */

/* The number of draws of an example's bin. With several draws, the rows of one epoch represent all epochs. */
static size_t draws_of(const struct eps__setting *setting)
{
    const struct eps_mechanism *mechanism = &setting->job->mechanism;
    return mechanism->sampling.redraw ? mechanism->n / eps__sampling_bins(mechanism) : 1;
}

static enum eps_status read_matrix(struct eps__cc_matrix *matrix, const struct eps__setting *setting)
{
    const struct eps_strategy *strategy = setting->strategy;
    size_t bins = eps__sampling_bins(&setting->job->mechanism), draws = draws_of(setting);
    size_t rows = eps_strategy_rows(strategy) / draws;
    double *row = malloc(bins * sizeof *row), *scratch = malloc(eps_strategy_columns(strategy) * sizeof *scratch);
    enum eps_status status = row && scratch ? EPS_OK : EPS_NO_MEMORY;
    double error = eps__merged_error(strategy, bins);
    assert(rows * draws == eps_strategy_rows(strategy));
    *matrix = (struct eps__cc_matrix){.bins = bins, .draws = draws};
    for (size_t i = 0; i < rows && status == EPS_OK; i++) {
        eps__merged_row(strategy, row, bins, i, scratch);
        status = eps__cc_matrix_add(matrix, row, error);
        if (status == EPS_OK)
            status = eps__poll(setting->context);
    }
    free(row);
    free(scratch);
    if (status == EPS_OK)
        eps__cc_matrix_close(matrix);
    return status;
}

/* ------------------------------------------------------------ classes */

static void forget_parts(struct side *side)
{
    eps__cc_sample_destroy(side->sample);
    eps__composition_destroy(side->quickly);
    for (size_t r = 0; side->parts && r < side->classes; r++) {
        eps__composition_destroy(side->parts[r].composition);
        eps__cc_steps_destroy(side->parts[r].steps);
    }
    free(side->parts);
    side->sample = NULL;
    side->quickly = NULL;
    side->parts = NULL;
    side->classes = 0;
}

static enum eps_status make_steps(struct side *side, size_t class)
{
    struct part *part = &side->parts[class];
    struct eps__cc_matrix own = {0};
    part->share = 1;
    if (side->classes == 1)
        return eps__cc_steps_create(&part->steps, side->base.setting->context, side->matrix, side->base.sigma,
                                    side->reversed);
    enum eps_status status = eps__cc_matrix_class(&own, side->matrix, side->classes, class);
    part->share = (double)own.bins / (double)side->matrix->bins;
    if (status == EPS_OK)
        status =
            eps__cc_steps_create(&part->steps, side->base.setting->context, &own, side->base.sigma, side->reversed);
    eps__cc_matrix_clear(&own);
    return status;
}

/* Sets the number of classes and the order of the rows, and makes the steps of the first class. */
static enum eps_status set_parts(struct side *side, size_t classes, bool reversed)
{
    forget_parts(side);
    side->parts = calloc(classes, sizeof *side->parts);
    if (!side->parts)
        return EPS_NO_MEMORY;
    side->classes = classes;
    side->reversed = reversed;
    return make_steps(side, 0);
}

/* ------------------------------------------------------------ compositions */

static enum eps_status compose_quickly(struct side *side)
{
    const struct eps__cc_steps *steps = side->parts[0].steps;
    double log_beta = eps__cc_log_beta(steps, side->base.spent.log_delta1);
    enum eps_status status = EPS_OK;
    if (side->sample && fabs(log_beta - side->sample_log_beta) > STALE) {
        eps__cc_sample_destroy(side->sample);
        side->sample = NULL;
    }
    if (!side->sample) {
        status =
            eps__cc_sample_create(&side->sample, steps, side->base.setting->context, side->base.direction, log_beta);
        side->sample_log_beta = log_beta;
        eps__meter_add(side->base.setting->meter, side->work.sample);
    }
    eps__composition_destroy(side->quickly);
    side->quickly = NULL;
    if (status == EPS_OK)
        status = eps__composition_create(&side->quickly, side->base.setting->context, NULL, &side->base.accuracy);
    if (status == EPS_OK)
        status = eps__cc_sample_compose(side->quickly, side->sample, log_beta);
    eps__meter_add(side->base.setting->meter, side->work.trial);
    return status;
}

static enum eps_status compose_part(const struct side *side, struct part *part)
{
    struct eps__cache_use *cache_use =
        side->base.accuracy.unknown == EPS_SOLVE_NOISE_MULTIPLIER ? NULL : side->base.setting->cache_use;
    struct eps__cc_plan plan = {.direction = side->base.direction,
                                .log_beta = eps__cc_log_beta(part->steps, side->base.spent.log_delta1),
                                .meter = side->base.setting->meter,
                                .operations = side->work.proven / (double)side->classes};
    eps__composition_destroy(part->composition);
    part->composition = NULL;
    enum eps_status status =
        eps__composition_create(&part->composition, side->base.setting->context, cache_use, &side->base.accuracy);
    return status == EPS_OK ? eps__cc_compose(part->composition, part->steps, side->base.setting->context, &plan)
                            : status;
}

static enum eps_status compose_parts(struct side *side)
{
    enum eps_status status = EPS_OK;
    for (size_t r = 0; r < side->classes && status == EPS_OK; r++) {
        if (!side->parts[r].steps)
            status = make_steps(side, r);
        if (status == EPS_OK)
            status = compose_part(side, &side->parts[r]);
    }
    return status;
}

/* ------------------------------------------------------------ the choice of delta_1, the order and the classes */

/* The approximate result of a number of classes and an order of the rows; smaller is better. */
static enum eps_status try_way(struct side *side, size_t classes, bool reversed, double *value)
{
    double log_delta = side->base.accuracy.log_delta, eps = side->base.setting->job->query.epsilon;
    bool at_eps = isnan(log_delta) || side->base.accuracy.unknown == EPS_SOLVE_NOISE_MULTIPLIER;
    enum eps_status status = set_parts(side, classes, reversed);
    side->base.spent.log_delta1 = isnan(log_delta) ? EPS__LOG_DELTA_ABOUT : log_delta - M_LN2;
    if (status == EPS_OK)
        status = compose_quickly(side);
    if (status == EPS_OK)
        *value = at_eps ? eps__composition_approximate(side->quickly, eps)
                        : eps__composition_guess(side->quickly, log_delta - M_LN2);
    return status;
}

/* Tries both orders with a single class. Then, if the bin is drawn once, it tries enough classes that the bins of one
 * hardly overlap, and halves their number as long as the result improves. */
static enum eps_status arrange(struct side *side)
{
    double best, value;
    size_t classes = 1, bands = eps_strategy_bands(side->base.setting->strategy), some = side->matrix->bins / 4;
    size_t most = side->matrix->draws > 1 ? 1 : bands < some ? bands : some;
    bool reversed = false;
    enum eps_status status = try_way(side, 1, false, &best);
    if (status != EPS_OK || side->parts[0].steps->bounds == 0)
        return status;
    status = try_way(side, 1, true, &value);
    if (status == EPS_OK && value < best) {
        best = value;
        reversed = true;
    }
    for (size_t tried = most; status == EPS_OK && tried > 1; tried /= 2) {
        status = try_way(side, tried, reversed, &value);
        /* The first class represents all of them. If it needs no bounds it is not typical. */
        if (status != EPS_OK || !(value < best) || side->parts[0].steps->bounds == 0)
            break;
        best = value;
        classes = tried;
    }
    if (status == EPS_OK && (side->classes != classes || side->reversed != reversed))
        status = set_parts(side, classes, reversed);
    return status;
}

/* Chooses the classes and the order of the rows. */
static enum eps_status prepare(struct eps__spending *base, bool *spends, struct eps_error *error)
{
    struct side *side = (struct side *)base;
    (void)error;
    enum eps_status status = arrange(side);
    *spends = status == EPS_OK && side->parts[0].steps->bounds > 0;
    return status;
}

/* ------------------------------------------------------------ the profile */

static enum eps_status compose(struct eps__spending *base, bool proven)
{
    struct side *side = (struct side *)base;
    return proven ? compose_parts(side) : compose_quickly(side);
}

static enum eps_status quick_log_delta2(struct eps__spending *base, double eps, double *log_delta2)
{
    *log_delta2 = eps__composition_approximate(((const struct side *)base)->quickly, eps);
    return EPS_OK;
}

static enum eps_status quick_epsilon(struct eps__spending *base, double log_delta2, double *eps)
{
    *eps = eps__composition_guess(((const struct side *)base)->quickly, log_delta2);
    return EPS_OK;
}

/* delta is at most the weighted mean of the classes' deltas, each of which includes delta_1 for its bad events
 * (A12). */
static enum eps_status log_delta(struct eps__spending *base, enum eps__estimate estimate, double eps, double *out)
{
    const struct side *side = (const struct side *)base;
    enum eps_status status = EPS_OK;
    double sum = -INFINITY;
    for (size_t r = 0; r < side->classes && status == EPS_OK; r++) {
        const struct part *part = &side->parts[r];
        double own;
        status = eps__composition_log_delta(part->composition, estimate, eps, &own);
        if (status == EPS_OK && part->steps->bounds > 0)
            own = eps__log_add(own, base->spent.log_delta1);
        if (status == EPS_OK)
            sum = eps__log_add(sum, own + log(part->share));
    }
    if (status != EPS_OK)
        return status;
    *out = eps__shift(estimate, sum, 16 * EPS__UNIT_ROUNDOFF * (double)side->classes * (1 + fabs(sum)));
    if (estimate == EPS__UPPER)
        *out = fmin(*out, 0);
    return EPS_OK;
}

static bool refine(struct eps__spending *base, double factor)
{
    const struct side *side = (const struct side *)base;
    bool refined = base->composed && !base->rough;
    for (size_t r = 0; r < side->classes && refined; r++)
        refined = eps__composition_refine(side->parts[r].composition, factor);
    return refined;
}

static void destroy(struct eps__spending *base)
{
    struct side *side = (struct side *)base;
    forget_parts(side);
    eps__cc_matrix_clear(&side->own);
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
    size_t bins = eps__sampling_bins(mechanism);
    if (bins == 0)
        return eps__scheme_decline(error, "conditional_composition", eps__scheme_bins);
    if (draws_of(setting) > 1 && !eps__merged_repeats(setting->strategy, bins))
        return eps__decline(
            error, "/sampling/redraw",
            "conditional_composition with redraw needs a strategy no row of which spans two epochs, such as identity "
            "or stamps that divide the bins: change the strategy or remove redraw");
    if (!eps__adjacency_known(error, "conditional_composition", EPS__AGAINST_NOISE, mechanism->adjacency))
        return false;
    if (setting->job->query.curve)
        return eps__decline(error, "/curve",
                            "conditional_composition has no privacy curve, because it spends a fixed part of delta on "
                            "bad events: give two of epsilon, delta and noise_multiplier instead");
    if (!eps__strategy_nonnegative(setting->strategy))
        return eps__decline(error, "/matrix",
                            "amplification by conditional_composition needs a strategy whose entries are all >= 0");
    return true;
}

static bool exact(const struct eps__setting *setting)
{
    (void)setting;
    return false;
}

/* For cost(), as measured (tests/bench/bench_costs.c). */
enum {
    LAWS = 15,      /* the laws psi that are evaluated for a bound */
    QUICK_LAWS = 5, /* the same in a quick search */
    SAMPLED = 48,   /* the rows of a sample */
    TRIALS = 14,    /* the trials of delta_1 in a profile */
    OPENED = 16,    /* the profiles that a search for a noise multiplier opens */
    PROVEN = 6      /* those of them that are proven */
};

struct size {
    double bins, rows; /* the number of bins, and of rows after merging */
    double width;      /* the entries of a row */
    double law;        /* the operations for one law psi */
    double pairs;      /* the operations for one pair on the grid */
    double read;       /* the operations for reading the rows */
};

static struct size size_of(const struct eps__setting *setting)
{
    struct eps__blocks blocks = eps__strategy_blocks(setting->strategy);
    double bins = (double)eps__sampling_bins(&setting->job->mechanism), n = (double)setting->job->mechanism.n;
    double bands = (double)eps_strategy_bands(setting->strategy), draws = (double)draws_of(setting);
    double all = (double)eps_strategy_rows(setting->strategy) / draws;
    double tolerance = setting->job->query.accountant.tolerance;
    struct size size = {.bins = bins, .rows = all, .width = fmin(bands, bins)};
    if (blocks.shape == EPS__SHAPE_TOEPLITZ && blocks.stamps == 1)
        size.rows = fmin(n / draws, bins + bands);
    size.law = bins * (0.25 * fmin(2 * size.width, bins) + 25);
    double grid = 12 * sqrt(size.rows * draws) / sqrt(0.6 * tolerance) + 4096;
    size.pairs = grid * (12 + 4 * fmin(size.width, 48)) + 8e5 / sqrt(tolerance * 1e3);
    size.read = all * (blocks.shape == EPS__SHAPE_TREE ? n : bins + bands) + all * size.rows;
    return size;
}

static struct work work_of(const struct eps__setting *setting)
{
    struct size size = size_of(setting);
    /* If classes can be formed whose bins do not overlap, they usually are, and few bounds are needed. */
    double bounds = size.width * (4 * size.width <= size.bins && size.width > 1 ? 0.05 : size.width > 1 ? 0.4 : 1);
    double sampled = fmin(size.rows, SAMPLED), walk = size.rows * (size.width * size.width + 10 * size.bins);
    return (struct work){.once = size.read + 2 * walk,
                         .sample = walk + sampled * size.width * QUICK_LAWS * size.law,
                         .trial = sampled * (size.width * 4e3 + 4e4),
                         .proven = walk + size.rows * (bounds * LAWS * size.law + size.pairs)};
}

static void cost(const struct eps__setting *setting, double *operations, double *bytes)
{
    struct size size = size_of(setting);
    struct work work = work_of(setting);
    bool given = setting->job->query.noise_multiplier > 0;
    double opened = given ? 1 : OPENED, proven = given ? 1 : PROVEN;
    *operations = 2 * (opened * (work.once + 3 * work.sample + TRIALS * work.trial) + proven * work.proven);
    *bytes = 16 * size.rows * size.bins + 48 * size.bins * size.bins + 2 * size.rows * 4e4 + 1e6 +
             SAMPLED * size.width * 1500;
}

static double least_sigma(const struct eps__setting *setting)
{
    return setting->sensitivity.value / REACH;
}

static enum eps_status open_profile(const struct eps__setting *setting, double sigma,
                                    const struct eps__accuracy *accuracy, struct eps__profile **profile,
                                    struct eps_error *error)
{
    if (sigma <
        eps__lower(least_sigma(setting), 1e7)) /* the range of a step's losses grows with the square of its shifts */
        return eps__error(error, EPS_TOO_COSTLY, "/noise_multiplier",
                          "conditional_composition cannot resolve a noise multiplier below %.3g for this mechanism: "
                          "increase it",
                          least_sigma(setting));
    struct eps__profile *made;
    enum eps_status status = eps__spending_open(&spending_class, setting, sigma, accuracy, &made, error);
    if (status != EPS_OK)
        return status;
    struct eps__cc_matrix *matrix = &((struct side *)eps__spending_side(made, EPS_REMOVE))->own;
    struct work work = work_of(setting);
    for (enum eps_direction direction = 0; direction < EPS_DIRECTIONS; direction++) {
        struct side *side = (struct side *)eps__spending_side(made, direction);
        side->work = work;
        side->matrix = matrix;
    }
    status = read_matrix(matrix, setting);
    eps__meter_add(setting->meter, work.once);
    if (status != EPS_OK) {
        made->class->destroy(made);
        return status == EPS_NO_MEMORY ? eps__error(error, EPS_NO_MEMORY, "", "out of memory") : status;
    }
    *profile = made;
    return EPS_OK;
}

const struct eps__accountant eps__accountant_conditional_composition = {
    .method = EPS_ACCOUNTANT_CONDITIONAL_COMPOSITION,
    .name = "conditional_composition",
    .amplifies = true,
    .foretells = true,
    .composes = true,
    .assume = eps__assume_causal_order,
    .serves = serves,
    .exact = exact,
    .cost = cost,
    .open = open_profile,
    .least_sigma = least_sigma,
};
