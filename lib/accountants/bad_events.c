/*
 * A search for the best delta_1 with fast unproven compositions, and the profile of a composition with bad events.
 *
 * SPDX-License-Identifier: GPL-3.0-or-later
 */
#include "lib/accountants/bad_events.h"

#include <math.h>
#include <stdlib.h>

#include "lib/base/error.h"
#include "lib/base/limits.h"
#include "lib/numerics/bound.h"

enum { SEARCHES = 7 };

#define LOG_SHARE_LEAST (-9.2)  /* 1e-4 */
#define LOG_SHARE_MOST (-0.105) /* 0.9 */
#define LOG_HALF (-M_LN2)

/* The error that a composition may add: the inexact laws of steps may use ERROR_SHARE of the tolerance, and the
 * probability left out may be OUTSIDE_SHARE of the tolerance times delta. */
#define ERROR_SHARE 0.05
#define OUTSIDE_SHARE 1e-4

static enum eps_status compose(struct eps__spending *side, bool proven)
{
    enum eps_status status = side->class->compose(side, proven);
    side->composed = status == EPS_OK;
    side->rough = !proven;
    return status;
}

/* ------------------------------------------------------------ the choice of delta_1 */

static double epsilon_asked(const struct eps__spending *side)
{
    double eps = side->setting->job->query.epsilon;
    return isnan(eps) ? 1 : eps;
}

/* The objective, which is minimized: approximately epsilon if delta is given, else approximately ln delta. */
static enum eps_status trial(struct eps__spending *side, double log_delta1, double *value)
{
    side->spent.log_delta1 = log_delta1;
    enum eps_status status = compose(side, false);
    if (status != EPS_OK)
        return status;
    if (!isnan(side->log_delta))
        return side->class->epsilon(side, side->log_delta + log1p(-exp(log_delta1 - side->log_delta)), value);
    double log_delta2 = NAN;
    status = side->class->log_delta2(side, side->spent.eps, &log_delta2);
    *value = eps__log_add(log_delta1, log_delta2);
    return status;
}

/* A pattern search for the best ln delta_1 in [low, high], starting at `at`: the step is halved when neither neighbour
 * is better. */
static enum eps_status descend(struct eps__spending *side, double at, double low, double high, double *best,
                               double *best_value)
{
    double step = 1.4;
    enum eps_status status = trial(side, at, best_value);
    *best = at;
    for (int i = 0; i < SEARCHES && status == EPS_OK && step > 0.3; i++) {
        bool better = false;
        for (int way = -1; way <= 1 && !better && status == EPS_OK; way += 2) {
            double value, tried = fmin(fmax(*best + way * step, low), high);
            if (tried == *best)
                continue;
            status = trial(side, tried, &value);
            if (status == EPS_OK && value < *best_value) {
                *best = tried;
                *best_value = value;
                better = true;
            }
        }
        if (!better)
            step *= 0.5;
    }
    return status;
}

/* delta is given: delta_1 is a share of it. A small delta_1 costs little, because the bounds on the odds grow only with
 * the square root of ln 1/delta_1. If no share is clearly better than one half, it is one half. */
static enum eps_status choose_of_delta(struct eps__spending *side, double share)
{
    struct eps__bad_events *spent = &side->spent;
    double log_delta = side->log_delta, half = INFINITY, best = log_delta + LOG_HALF, best_value = INFINITY;
    spent->log_delta = log_delta;
    if (!isnan(share)) {
        spent->log_delta1 = log_delta + log(share);
        return trial(side, spent->log_delta1, &spent->eps);
    }
    enum eps_status status =
        descend(side, log_delta - 2, log_delta + LOG_SHARE_LEAST, log_delta + LOG_SHARE_MOST, &best, &best_value);
    if (status == EPS_OK)
        status = trial(side, log_delta + LOG_HALF, &half);
    /* The fast answers have an error of their own: a smaller difference means nothing. */
    bool better = best_value < half - 2 * side->accuracy.tolerance * fmax(half, 1e-6);
    spent->log_delta1 = better ? best : log_delta + LOG_HALF;
    spent->eps = better ? best_value : half;
    return status;
}

/* delta is the unknown: minimizes delta_1 + delta_2 at the given epsilon, or gives delta_1 the requested share. */
static enum eps_status choose_at_epsilon(struct eps__spending *side, double share)
{
    bool given = !isnan(share);
    double odds = given ? share / (1 - share) : 0.2, at = EPS__LOG_DELTA_ABOUT, value = 0, best;
    enum eps_status status = EPS_OK;
    side->spent.eps = epsilon_asked(side);
    side->spent.log_delta = EPS__LOG_DELTA_ABOUT;
    /* delta_2 falls slowly as delta_1 rises, so a fixed-point iteration finds where their ratio is `odds`. */
    for (int i = 0; i < 6 && status == EPS_OK; i++) {
        double log_delta2;
        status = trial(side, at, &value);
        if (status == EPS_OK)
            status = side->class->log_delta2(side, side->spent.eps, &log_delta2);
        if (status != EPS_OK)
            return status;
        double next = fmin(fmax(log_delta2 + log(odds), EPS__LOG_DELTA_LEAST), -1e-3);
        bool close = fabs(next - at) < (given ? 1e-3 : 0.5);
        at = next;
        if (close)
            break;
    }
    best = at;
    if (!given)
        status = descend(side, at, EPS__LOG_DELTA_LEAST, -1e-3, &best, &value);
    side->spent.log_delta1 = best;
    side->spent.log_delta = fmin(value, 0);
    return status;
}

/* Nothing is spent: only the point of interest is estimated. */
static enum eps_status choose_nothing(struct eps__spending *side)
{
    bool given = !isnan(side->log_delta);
    side->spent =
        (struct eps__bad_events){-INFINITY, given ? side->log_delta : EPS__LOG_DELTA_ABOUT, epsilon_asked(side)};
    enum eps_status status = compose(side, false);
    if (status != EPS_OK)
        return status;
    return given ? side->class->epsilon(side, side->log_delta, &side->spent.eps)
                 : side->class->log_delta2(side, side->spent.eps, &side->spent.log_delta);
}

/* Chooses delta_1 by unproven compositions, on the first call. */
static enum eps_status choose(struct eps__spending *side, struct eps_error *error)
{
    double share = side->setting->job->query.accountant.bad_event_share;
    bool spends = false;
    if (side->chosen)
        return EPS_OK;
    enum eps_status status = side->class->prepare(side, &spends, error);
    if (status != EPS_OK || side->chosen)
        return status;
    if (!spends)
        status = choose_nothing(side);
    else
        status = isnan(side->log_delta) ? choose_at_epsilon(side, share) : choose_of_delta(side, share);
    if (status == EPS_OK && side->accuracy.unknown == EPS_SOLVE_NOISE_MULTIPLIER)
        side->spent.eps = epsilon_asked(side);
    side->chosen = status == EPS_OK;
    return status;
}

/* ------------------------------------------------------------ the profile */

struct spending_profile {
    struct eps__profile base;
    struct eps__spending *sides[EPS_DIRECTIONS];
};

struct eps__spending *eps__spending_side(const struct eps__profile *profile, enum eps_direction direction)
{
    return ((const struct spending_profile *)profile)->sides[direction];
}

static enum eps_status log_delta(struct eps__profile *profile, enum eps_direction direction,
                                 enum eps__estimate estimate, double eps, double *out, struct eps_error *error)
{
    struct eps__spending *side = eps__spending_side(profile, direction);
    enum eps_status status = choose(side, error);
    if (status == EPS_OK && (!side->composed || side->rough))
        status = compose(side, true);
    return status == EPS_OK ? side->class->log_delta(side, estimate, eps, out) : status;
}

/* Ensures that delta_1 is chosen and a composition exists. */
static enum eps_status make_some(struct eps__spending *side, bool proven)
{
    enum eps_status status = choose(side, NULL);
    return status == EPS_OK && !side->composed ? compose(side, proven) : status;
}

static enum eps_status approximate(struct eps__profile *profile, enum eps_direction direction, double eps, double *out)
{
    struct eps__spending *side = eps__spending_side(profile, direction);
    double log_delta2 = NAN;
    enum eps_status status = make_some(side, false);
    if (status == EPS_OK)
        status = side->class->log_delta2(side, eps, &log_delta2);
    *out = status == EPS_OK ? fmin(eps__log_add(side->spent.log_delta1, log_delta2), 0) : NAN;
    return status == EPS_TOO_COSTLY ? EPS_OK : status;
}

static enum eps_status guess(struct eps__profile *profile, enum eps_direction direction, double log_delta_wanted,
                             double *eps)
{
    struct eps__spending *side = eps__spending_side(profile, direction);
    enum eps_status status = make_some(side, side->class->proven_guess);
    *eps = 0;
    if (status != EPS_OK)
        return status == EPS_TOO_COSTLY ? EPS_OK : status;
    /* A delta below delta_1 is out of reach: then the epsilon at which delta_2 is a hundredth of delta_1. */
    double delta1 = side->spent.log_delta1;
    double left =
        log_delta_wanted > delta1 ? log_delta_wanted + log1p(-exp(delta1 - log_delta_wanted)) : delta1 + log(0.01);
    return side->class->epsilon(side, left, eps);
}

static bool refine(struct eps__profile *profile, enum eps_direction direction, double factor)
{
    struct eps__spending *side = eps__spending_side(profile, direction);
    return side->class->refine(side, factor);
}

static double bad_event_share(const struct eps__profile *profile, enum eps_direction direction, double log_delta_at)
{
    const struct eps__spending *side = eps__spending_side(profile, direction);
    return side->chosen && !isinf(side->spent.log_delta1) ? exp(side->spent.log_delta1 - log_delta_at)
                                                          : side->class->share_unspent;
}

static void destroy(struct eps__profile *profile)
{
    for (enum eps_direction direction = 0; direction < EPS_DIRECTIONS; direction++) {
        struct eps__spending *side = eps__spending_side(profile, direction);
        if (side)
            side->class->destroy(side);
        free(side);
    }
    free(profile);
}

static const struct eps__profile_class profile_class = {.log_delta = log_delta,
                                                        .approximate = approximate,
                                                        .guess = guess,
                                                        .refine = refine,
                                                        .bad_event_share = bad_event_share,
                                                        .destroy = destroy};

enum eps_status eps__spending_open(const struct eps__spending_class *class, const struct eps__setting *setting,
                                   double sigma, const struct eps__accuracy *accuracy, struct eps__profile **profile,
                                   struct eps_error *error)
{
    struct spending_profile *made = calloc(1, sizeof *made);
    bool starved = !made;
    for (enum eps_direction direction = 0; direction < EPS_DIRECTIONS && !starved; direction++) {
        struct eps__spending *side = made->sides[direction] = calloc(1, class->size);
        starved = !side;
        if (side)
            *side = (struct eps__spending){.class = class,
                                           .setting = setting,
                                           .sigma = sigma,
                                           .accuracy = *accuracy,
                                           .direction = direction,
                                           .log_delta = accuracy->log_delta,
                                           .spent.log_delta1 = -INFINITY,
                                           .finer = 1};
    }
    if (starved) {
        if (made)
            destroy(&made->base);
        return eps__error(error, EPS_NO_MEMORY, "", "out of memory");
    }
    made->base.class = &profile_class;
    *profile = &made->base;
    return EPS_OK;
}

/* ------------------------------------------------------------ what a composition adds */

void eps__spending_losses(const struct eps__bad_events *spent, const struct eps__accuracy *accuracy, double finer,
                          double *error, double *log_outside)
{
    double scale = fmax(spent->eps, 1e-6);
    /* The widening is relative to epsilon, or to delta through the slope of ln delta in epsilon, which is about
     * ln delta/epsilon. */
    if (accuracy->unknown == EPS_SOLVE_DELTA || accuracy->unknown == EPS_SOLVE_CURVE)
        scale = fmin(1, scale / fmax(-spent->log_delta, 1));
    *error = ERROR_SHARE * accuracy->tolerance * scale / (finer * finer);
    *log_outside = fmax(spent->log_delta, EPS__LOG_DELTA_LEAST) + log(OUTSIDE_SHARE * accuracy->tolerance) - log(finer);
}

double eps__spending_total(enum eps__estimate estimate, double log_delta2, double outside, double log_delta1)
{
    double sum;
    if (estimate == EPS__UPPER) {
        sum = eps__log_add(eps__log_add(log_delta2, log(outside)), log_delta1); /* (T1) */
        return fmin(eps__shift(EPS__UPPER, sum, 16 * EPS__UNIT_ROUNDOFF * (1 + fabs(sum))), 0);
    }
    double kept = log_delta2 + (outside > 0 ? log1p(-fmin(outside * exp(-log_delta2), 1)) : 0);
    sum = eps__log_add(isnan(kept) ? -INFINITY : kept, log_delta1);
    return eps__shift(EPS__LOWER, sum, 16 * EPS__UNIT_ROUNDOFF * (1 + fabs(sum)));
}
