/*
 * Two levels. The coarse level, of a few hundred points for each curve, chooses the tilt, how far the points must
 * reach, how close together they must be and how close to the curve. The fine level proves the answer, whatever the
 * coarse level chose. Splitting a cell's mass between its ends adds a variance of width^2/6 to each pair, in proportion
 * to the pair's own, so that many pairs need no finer points than one. A relative error of a curve changes ln delta of
 * the composition by that error times `rate`, the sum of the pairs' excess moments.
 *
 * SPDX-License-Identifier: GPL-3.0-or-later
 */
#include "lib/pld/known/curves.h"

#include <assert.h>
#include <math.h>
#include <stdlib.h>

#include "lib/numerics/normal.h"
#include "lib/pld/compose/composition_internal.h"

enum { SLOTS = 8, FLOORS_MAX = 12, COARSER_MAX = 4, TILTS_MAX = 60, GUESSES_MAX = 60, FINER_MAX = 12, FINE_STEPS = 24 };
enum { COARSE_KNOTS = 400, COARSE_MOST = 1 << 16, FINE_MOST = 1 << 20 };

#define FINEST 1e3
#define LENGTH_MAX 0x1p22
#define COARSE_TOLERANCE 2e-2
#define FAR_UNDER 10.0
#define FIRST_EPSILON 0.1   /* first epsilon of a guess */
#define FURTHER 1.02        /* a guess goes this factor beyond the line through the last two */
#define FIRST_FLOOR (-30.0) /* first floor of ln delta, if none is known */
#define EPSILON_LEAST 1e-2  /* smaller epsilons are at first resolved relative to this */
#define SPACING_SHARE 0.1   /* share of the tolerance for the distance of the knots */
#define CURVE_SHARE 0.15    /* share of the tolerance for the error of the curve */

struct power {
    struct eps__curve *curve;
    uint64_t count;
};

/* Every pair's points and, by estimate, the distribution. */
struct level {
    double log_floor;                     /* the level is made for ln delta of at least this */
    struct eps__curve_points_plan *plans; /* how the points were evaluated */
    struct eps__curve_points *points;
    struct eps__pld *pld[2]; /* NULL until needed */
};

/* A composition around one epsilon. */
struct panel_slot {
    struct eps__panel panel;
    double centre, reach;
    bool used;
};

struct eps__curves {
    const struct eps_context *context;
    struct eps__accuracy accuracy;
    struct power *powers;
    size_t len;
    double total; /* number of pairs */
    double finer;
    struct level coarse, fine;
    struct eps__panel aimed; /* the composition of the coarse level at the last epsilon */
    struct panel_slot slots[SLOTS];
    size_t next_slot;
};

enum eps_status eps__curves_create(struct eps__curves **curves, const struct eps_context *context,
                                   const struct eps__accuracy *accuracy)
{
    struct eps__curves *made = calloc(1, sizeof *made);
    if (!made)
        return EPS_NO_MEMORY;
    made->context = context;
    made->accuracy = *accuracy;
    made->finer = 1;
    *curves = made;
    return EPS_OK;
}

enum eps_status eps__curves_add(struct eps__curves *c, struct eps__curve *curve, uint64_t count)
{
    struct power *powers = curve ? realloc(c->powers, (c->len + 1) * sizeof *powers) : NULL;
    assert(count >= 1 && !c->coarse.points);
    if (!powers) {
        if (curve)
            curve->class->destroy(curve);
        return EPS_NO_MEMORY;
    }
    c->powers = powers;
    c->powers[c->len++] = (struct power){curve, count};
    c->total += (double)count;
    return EPS_OK;
}

/* ------------------------------------------------------------ levels (P20) */

static void level_clear(const struct eps__curves *c, struct level *level)
{
    for (size_t i = 0; i < c->len; i++) {
        for (int estimate = 0; estimate < 2; estimate++)
            if (level->pld[estimate])
                eps__pld_clear(&level->pld[estimate][i]);
        if (level->points)
            eps__curve_points_clear(&level->points[i]);
    }
    free(level->points);
    free(level->plans);
    free(level->pld[EPS__UPPER]);
    free(level->pld[EPS__LOWER]);
    *level = (struct level){0};
}

static void slot_clear(struct panel_slot *slot)
{
    eps__panel_clear(&slot->panel);
    *slot = (struct panel_slot){0};
}

void eps__curves_destroy(struct eps__curves *c)
{
    if (!c)
        return;
    level_clear(c, &c->coarse);
    level_clear(c, &c->fine);
    eps__panel_clear(&c->aimed);
    for (size_t i = 0; i < SLOTS; i++)
        slot_clear(&c->slots[i]);
    for (size_t i = 0; i < c->len; i++)
        c->powers[i].curve->class->destroy(c->powers[i].curve);
    free(c->powers);
    free(c);
}

/* ln of the excess of one pair at which the points may stop: negligible for all pairs together, above loss 0 against
 * delta = e^log_floor, and below loss 0 against 1. */
static double log_above(const struct eps__curves *c, double log_floor)
{
    return log_floor + log(1e-3 * fmin(c->accuracy.tolerance, 1) / c->total);
}

static double log_below(const struct eps__curves *c)
{
    return log(1e-6 * fmin(c->accuracy.tolerance, 1) / c->total);
}

static enum eps_status connect(const struct eps__curves *c, struct level *level, enum eps__estimate estimate)
{
    enum eps_status status = EPS_OK;
    struct eps__pld *pld = level->pld[estimate] = calloc(c->len, sizeof *pld);
    if (!pld)
        return EPS_NO_MEMORY;
    for (size_t i = 0; i < c->len && status == EPS_OK; i++) {
        if (estimate == EPS__LOWER)
            status = eps__curve_points_ask_lower(c->context, &level->points[i], c->powers[i].curve, &level->plans[i]);
        if (status == EPS_OK)
            status = eps__curve_points_connect(&level->points[i], estimate, &pld[i]);
    }
    return status;
}

/* ln of the largest importance of a loss, in units of the plan's log_most. */
static double log_largest(const struct eps__curve_points *points, const struct eps__curve_points_plan *plan)
{
    double most = -INFINITY;
    for (size_t i = 0; i < points->len; i++) {
        double loss = (double)(points->first + (int64_t)i) * points->spacing;
        most = fmax(most, eps__curve_points_importance(plan, points->excess[EPS__UPPER][i], loss));
    }
    return most + plan->log_most;
}

/* Evaluates the points of all pairs and connects them to upper distributions. The other level's points, if any, give
 * the importance of losses. */
static enum eps_status level_make(const struct eps__curves *c, struct level *level,
                                  const struct eps__curve_points_plan *common, double log_floor,
                                  const struct level *other)
{
    enum eps_status status = EPS_OK;
    level_clear(c, level);
    level->points = calloc(c->len, sizeof *level->points);
    level->plans = calloc(c->len, sizeof *level->plans);
    if (!level->points || !level->plans)
        status = EPS_NO_MEMORY;
    level->log_floor = log_floor;
    for (size_t i = 0; i < c->len && status == EPS_OK; i++) {
        level->plans[i] = *common;
        level->plans[i].log_above = log_above(c, log_floor);
        level->plans[i].log_below = log_below(c);
        level->plans[i].log_most = 0;
        level->plans[i].log_most = other ? log_largest(&other->points[i], &level->plans[i]) : 0;
        status = eps__curve_points_ask(c->context, &level->points[i], c->powers[i].curve, &level->plans[i]);
    }
    if (status == EPS_OK)
        status = connect(c, level, EPS__UPPER);
    if (status != EPS_OK)
        level_clear(c, level);
    return status;
}

static enum eps_status make_coarse(struct eps__curves *c, double log_floor)
{
    struct eps__curve_points_plan plan = {
        .spacing = INFINITY, .most = COARSE_MOST, .tolerance = COARSE_TOLERANCE, .least_tolerance = COARSE_TOLERANCE};
    enum eps_status status = EPS_OK;
    for (size_t i = 0; i < c->len && status == EPS_OK; i++) {
        struct eps__curve *curve = c->powers[i].curve;
        double above = 0, below = 0;
        status = curve->class->guess(curve, false, log_above(c, log_floor), &above);
        if (status == EPS_OK)
            status = curve->class->guess(curve, true, log_below(c), &below);
        plan.spacing = fmin(plan.spacing, fmax(above + below, 1e-12) / COARSE_KNOTS);
    }
    for (int i = 0; i < FINER_MAX && status == EPS_OK; i++) { /* while the guessed range was too wide */
        size_t least = SIZE_MAX;
        status = level_make(c, &c->coarse, &plan, log_floor, NULL);
        for (size_t k = 0; status == EPS_OK && k < c->len; k++)
            least = c->coarse.points[k].len < least ? c->coarse.points[k].len : least;
        if (least >= COARSE_KNOTS / 4)
            break;
        plan.spacing *= 1.5 * (double)least / COARSE_KNOTS;
    }
    return status;
}

/* ------------------------------------------------------------ where to look */

/* The moments of the tilted sum from a level's upper distributions. Out: *rate, the sum over pairs of 1 - 1/E e^{tilt
 * L}. */
static void find_moments(const struct eps__curves *c, const struct level *level, double tilt,
                         struct eps__saddle *saddle, double *rate)
{
    *saddle = (struct eps__saddle){.tilt = tilt};
    *rate = 0;
    for (size_t i = 0; i < c->len; i++) {
        const struct eps__pld *pld = &level->pld[EPS__UPPER][i];
        double largest = -INFINITY, total = 0, mean = 0, square = 0, count = (double)c->powers[i].count;
        for (size_t j = 0; j < pld->len; j++)
            if (pld->mass[j] > 0)
                largest = fmax(largest, log(pld->mass[j]) + tilt * eps__pld_loss(pld, j));
        for (size_t j = 0; j < pld->len; j++) {
            double loss = eps__pld_loss(pld, j), weight = pld->mass[j] * exp(fmin(tilt * loss - largest, 700));
            total += weight;
            mean += weight * loss;
            square += weight * loss * loss;
        }
        mean /= total;
        saddle->log_moment += count * (largest + log(total));
        saddle->mean += count * mean;
        saddle->variance += count * fmax(square / total - mean * mean, 1e-300);
        *rate += count * fmax(-expm1(-(largest + log(total))), 0);
    }
}

static void find_tilt(const struct eps__curves *c, const struct level *level, double eps, struct eps__saddle *saddle,
                      double *rate)
{
    find_moments(c, level, 0, saddle, rate);
    if (saddle->mean >= eps)
        return;
    double low = 0, high = INFINITY, tilt = (eps - saddle->mean) / saddle->variance;
    for (int i = 0; i < TILTS_MAX; i++) {
        find_moments(c, level, tilt, saddle, rate);
        double residual = eps - saddle->mean;
        if (fabs(residual) < 0.02 * sqrt(saddle->variance))
            return;
        *(residual > 0 ? &low : &high) = tilt;
        double next = tilt + residual / saddle->variance;
        if (!(next > low && next < high) || (isinf(high) && next > 4 * tilt))
            next = isinf(high) ? 4 * tilt : 0.5 * (low + high);
        if (high - low < 1e-6 * high || next * level->points[0].spacing > 100)
            return;
        tilt = next;
    }
}

static enum eps_status compose(const struct eps__curves *c, const struct level *level, enum eps__estimate estimate,
                               const struct eps__saddle *saddle, struct eps__panel *panel)
{
    struct eps__compose_plan plan = {.tilt = saddle->tilt,
                                     .tail_mass = eps__tail_mass(saddle, c->accuracy.tolerance),
                                     .log_infinity = INFINITY,
                                     .max_len = (size_t)LENGTH_MAX};
    if (c->context && c->context->max_bytes > 0)
        plan.max_len = (size_t)fmin(c->context->max_bytes / 64, LENGTH_MAX);
    struct eps__pld_power *powers = malloc(c->len * sizeof *powers);
    if (!powers)
        return EPS_NO_MEMORY;
    for (size_t i = 0; i < c->len; i++)
        powers[i] = (struct eps__pld_power){&level->pld[estimate][i], c->powers[i].count};
    enum eps_status status = eps__compose(c->context, panel, powers, c->len, &plan);
    free(powers);
    return status;
}

/* The least ln delta of interest. If delta is not the unknown, a delta far below the given one needs no more
 * precision. */
static double least_floor(const struct eps__curves *c)
{
    double least = EPS__LOG_DELTA_FLOOR - 5;
    return isnan(c->accuracy.log_delta) ? least : fmax(c->accuracy.log_delta - FAR_UNDER, least);
}

/* Finds the tilt for eps and, from the coarse level, an upper bound on ln delta there. Extends the points of the coarse
 * level as far as a delta this small requires. */
static enum eps_status aim(struct eps__curves *c, double eps, struct eps__saddle *saddle, double *rate)
{
    double least = least_floor(c);
    double log_floor = fmax(isnan(c->accuracy.log_delta) ? FIRST_FLOOR : c->accuracy.log_delta - 2, least);
    enum eps_status status = c->coarse.points ? EPS_OK : make_coarse(c, log_floor);
    for (int i = 0; i < FLOORS_MAX && status == EPS_OK; i++) {
        eps__panel_clear(&c->aimed);
        find_tilt(c, &c->coarse, eps, saddle, rate);
        saddle->eps = eps;
        saddle->log_delta = fmin(eps__saddle_log_delta(saddle, eps), 0);
        status = compose(c, &c->coarse, EPS__UPPER, saddle, &c->aimed);
        if (status != EPS_OK)
            break;
        saddle->log_delta = eps__panel_log_delta(&c->aimed, eps);
        if (saddle->log_delta >= c->coarse.log_floor || c->coarse.log_floor <= least)
            break;
        status = make_coarse(c, fmax(fmin(1.5 * c->coarse.log_floor, saddle->log_delta - 2), least));
    }
    return status;
}

/* ------------------------------------------------------------ the fine level */

static double on_scale(double value)
{
    return exp2(floor(log2(value) * 4) / 4);
}

/* The largest over all curves of the mean square slope of ln excess, weighted by importance: a chord of width w has a
 * relative error of w^2/8 times this. */
static double steepness(const struct eps__curves *c, struct eps__curve_points_plan *plan)
{
    double most = 0;
    for (size_t k = 0; k < c->len; k++) {
        const struct eps__curve_points *points = &c->coarse.points[k];
        const double *excess = points->excess[EPS__UPPER];
        double sum = 0, weights = 0;
        plan->log_most = 0;
        plan->log_most = log_largest(points, plan);
        for (size_t i = 1; i + 1 < points->len; i++) {
            if (!(excess[i - 1] > 0 && excess[i + 1] > 0)) /* losses end here */
                continue;
            double weight = exp(
                eps__curve_points_importance(plan, excess[i], (double)(points->first + (int64_t)i) * points->spacing));
            double slope = (log(excess[i + 1]) - log(excess[i - 1])) / (2 * points->spacing);
            sum += weight * slope * slope;
            weights += weight;
        }
        most = fmax(most, sum / weights);
    }
    return most;
}

/* Chooses the distance of the knots and the tolerance of the curve. As in pld/compose/resolution.c, an added variance
 * changes ln delta by half of it times the density over delta. slope is -d ln delta / d eps, the Q-tail over delta. */
static void choose(const struct eps__curves *c, const struct eps__saddle *saddle, double rate,
                   struct eps__curve_points_plan *plan)
{
    double deviation = sqrt(saddle->variance), u = (saddle->tilt + 1) * deviation, least_rate;
    double fall = saddle->tilt * deviation < 1e4 ? eps__mills(saddle->tilt * deviation) - eps__mills(u)
                                                 : deviation / (saddle->tilt * deviation * u);
    double slope = eps__mills(u) / fall, allowed = c->accuracy.tolerance; /* allowed error of ln delta */
    if (c->accuracy.unknown == EPS_SOLVE_EPSILON)
        allowed *= fmax(saddle->eps, EPSILON_LEAST) * slope;
    else if (c->accuracy.unknown == EPS_SOLVE_NOISE_MULTIPLIER)
        allowed *= fmax(fmax(2 * rate, 1), saddle->eps * slope); /* about the least effect of sigma */
    allowed /= c->finer * c->finer;
    struct eps__saddle untilted;
    find_moments(c, &c->coarse, 0, &untilted, &least_rate);
    double variance = 2 * SPACING_SHARE * allowed * deviation * fall;
    double spacing = sqrt(6 * variance / c->total);
    spacing = fmin(spacing, 0.5 / (1 + saddle->tilt) / c->finer);
    spacing = fmin(spacing, 0.25 * sqrt(fmin(saddle->variance, untilted.variance) / c->total) / c->finer);
    spacing = fmin(spacing, sqrt(8 * SPACING_SHARE * fmin(allowed, 1) / (fmax(rate, 1) * steepness(c, plan))));
    plan->spacing = on_scale(fmax(spacing, 1e-12));
    plan->tolerance = on_scale(fmin(CURVE_SHARE * allowed / fmax(rate, 1), COARSE_TOLERANCE));
}

/* Makes the fine level, unless the present one is good enough, with knots `coarser` times as far apart as they should
 * be. */
static enum eps_status make_fine(struct eps__curves *c, enum eps__estimate estimate, const struct eps__saddle *saddle,
                                 double rate, double coarser)
{
    struct eps__curve_points_plan plan = {
        .most = FINE_MOST, .least_tolerance = COARSE_TOLERANCE, .others = &c->aimed, .eps = saddle->eps};
    choose(c, saddle, rate, &plan);
    plan.spacing *= coarser;
    const struct eps__curve_points_plan *made = c->fine.plans;
    bool serves = made && made->spacing <= 1.2 * plan.spacing && made->tolerance <= 1.2 * plan.tolerance &&
                  fabs(made->eps - plan.eps) < sqrt(saddle->variance) &&
                  c->fine.log_floor <= fmax(saddle->log_delta, least_floor(c));
    enum eps_status status = EPS_OK;
    if (!serves)
        status = level_make(c, &c->fine, &plan, fmax(saddle->log_delta - 3, least_floor(c)), &c->coarse);
    if (status == EPS_OK && !c->fine.pld[estimate])
        status = connect(c, &c->fine, estimate);
    if (status != EPS_OK)
        level_clear(c, &c->fine);
    return status;
}

/* ------------------------------------------------------------ delta */

static struct panel_slot *find_slot(struct eps__curves *c, enum eps__estimate estimate, double eps)
{
    struct panel_slot *nearest = NULL;
    for (size_t i = 0; i < SLOTS; i++) {
        struct panel_slot *slot = &c->slots[i];
        if (slot->used && slot->panel.estimate == estimate && fabs(slot->centre - eps) <= slot->reach &&
            (!nearest || fabs(slot->centre - eps) < fabs(nearest->centre - eps)))
            nearest = slot;
    }
    return nearest;
}

enum eps_status eps__curves_log_delta(struct eps__curves *c, enum eps__estimate estimate, double eps, double *out)
{
    struct panel_slot *slot = find_slot(c, estimate, eps);
    struct eps__saddle saddle = {0};
    double rate;
    *out = c->len && estimate == EPS__UPPER ? 0 : -INFINITY;
    if (c->len == 0)
        return EPS_OK;
    if (slot) {
        *out = eps__panel_log_delta(&slot->panel, eps);
        return EPS_OK;
    }
    enum eps_status status = aim(c, eps, &saddle, &rate);
    if (status == EPS_OK && estimate == EPS__UPPER)
        *out = saddle.log_delta;
    if (status == EPS_OK && saddle.log_delta < fmax(least_floor(c), EPS__LOG_DELTA_FLOOR))
        return EPS_OK;
    if (status == EPS_OK) {
        slot = &c->slots[c->next_slot++ % SLOTS];
        status = EPS_TOO_COSTLY;
        double coarser = 1;
        for (int i = 0; i < COARSER_MAX && status == EPS_TOO_COSTLY; i++, coarser *= 4) {
            slot_clear(slot);
            status = make_fine(c, estimate, &saddle, rate, coarser);
            if (status == EPS_OK)
                status = compose(c, &c->fine, estimate, &saddle, &slot->panel);
        }
    }
    if (status == EPS_OK) {
        slot->centre = eps;
        slot->reach = 2.5 * sqrt(saddle.variance);
        slot->used = true;
        double own = eps__panel_log_delta(&slot->panel, eps);
        *out = estimate == EPS__UPPER ? fmin(*out, own) : own;
    }
    return status == EPS_TOO_COSTLY ? EPS_OK : status;
}

bool eps__curves_refine(struct eps__curves *c, double factor)
{
    if (c->finer * factor > FINEST)
        return false;
    c->finer *= factor;
    for (size_t i = 0; i < SLOTS; i++)
        slot_clear(&c->slots[i]);
    return true;
}

/* ------------------------------------------------------------ unproven */

enum eps_status eps__curves_approximate(struct eps__curves *c, double eps, double *out)
{
    struct eps__saddle saddle;
    double rate;
    *out = -INFINITY;
    enum eps_status status = c->len ? aim(c, eps, &saddle, &rate) : EPS_OK;
    if (status == EPS_OK && c->len)
        *out = saddle.log_delta;
    return status;
}

/* The next guess: ln delta by a line through two values, and a little further, because it mostly falls faster further
 * on. */
static double further(double eps, double value, double before, double value_before, double log_delta)
{
    double fall = (value_before - value) / (eps - before), line = eps + FURTHER * (value - log_delta) / fall;
    return fall > 0 && line < 2 * eps ? line : 2 * eps;
}

enum eps_status eps__curves_guess(struct eps__curves *c, double log_delta, double *eps)
{
    double low = 0, high = 0, value, value_low = 0;
    enum eps_status status = eps__curves_approximate(c, 0, &value);
    for (int i = 0; i < GUESSES_MAX && status == EPS_OK && value > log_delta; i++) {
        double next = high > 0 ? further(high, value, low, value_low, log_delta) : FIRST_EPSILON;
        low = high;
        value_low = value;
        high = next;
        status = eps__curves_approximate(c, high, &value);
    }
    for (int i = 0; i < FINE_STEPS && status == EPS_OK && high - low > 1e-2 * high; i++) {
        double middle = 0.5 * (low + high);
        status = eps__curves_approximate(c, middle, &value);
        *(value > log_delta ? &low : &high) = middle;
    }
    *eps = high;
    return status;
}
