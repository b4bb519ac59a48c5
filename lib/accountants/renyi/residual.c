/*
 * See residual.h.
 *
 * SPDX-License-Identifier: GPL-3.0-or-later
 */
#include "lib/accountants/renyi/residual.h"

#include <assert.h>
#include <float.h>
#include <math.h>

#include "lib/base/error.h"
#include "lib/numerics/bound.h"
#include "lib/numerics/normal.h"

#define SPAN 1.0         /* remove: the levels span this much, */
#define SPAN_SPREAD 10.0 /* and this many standard deviations of Y/E Y */

enum { LEVELS = EPS__RESIDUAL_LEVELS };

/* ------------------------------------------------------------ the levels */

/* *log_beyond: ln E (Y - e^level)_+ for remove, ln E (1 - Y/e^level)_+ for add. */
static enum eps_status beyond(const struct eps_context *context, struct eps__interval *log_beyond,
                              struct eps__residual *residual, const struct eps__residual_law *law, double level)
{
    bool remove = residual->direction == EPS_REMOVE;
    double mean = remove ? law->log_mean.upper : law->log_mean.lower;
    double eps = fmax(remove ? eps__add_down(level, -mean) : eps__add_down(mean, -level), 0), upper, lower;
    size_t used = 0;
    enum eps_status status =
        eps__moments_log_delta(context, &law->laws.items[0], residual->direction, eps, &upper, &lower, &used);
    if (status != EPS_OK)
        return status;
    lower = fmin(isfinite(lower) ? lower : upper, upper);
    *log_beyond = remove ? (struct eps__interval){eps__add_down(lower, mean), eps__add_up(upper, mean)}
                         : (struct eps__interval){lower, upper};
    residual->moments = used > residual->moments ? (unsigned)used : residual->moments;
    return EPS_OK;
}

/* Levels from E Y on: to remove, upwards and finer at first; to add, down to the least value. */
static void make_levels(struct eps__residual *residual, const struct eps__residual_law *tilted)
{
    double spread = sqrt(fmax((double)tilted->laws.items[0].central[2], 0));
    for (size_t l = 0; l <= LEVELS; l++) {
        double share = (double)l / LEVELS;
        residual->level[l] = residual->direction == EPS_REMOVE
                                 ? tilted->log_mean.upper + share * share * (SPAN + SPAN_SPREAD * spread)
                                 : tilted->log_mean.lower + share * (tilted->least - tilted->log_mean.lower);
    }
    if (residual->direction == EPS_ADD)
        residual->level[LEVELS] = tilted->least;
}

enum eps_status eps__residual_make(const struct eps_context *context, struct eps__residual *residual,
                                   enum eps_direction direction, const struct eps__residual_law *tilted,
                                   const struct eps__residual_law *plain)
{
    assert(tilted->laws.items[0].len >= 2 && (direction == EPS_REMOVE ? tilted->t >= 1 : tilted->t <= 0));
    *residual = (struct eps__residual){.direction = direction, .t = tilted->t, .square = tilted->square};
    make_levels(residual, tilted);
    enum eps_status status = EPS_OK;
    for (size_t l = 0; status == EPS_OK && l < LEVELS; l++)
        status = beyond(context, &residual->log_beyond[l], residual, tilted, residual->level[l]);
    for (size_t l = 0; status == EPS_OK && direction == EPS_REMOVE && l <= LEVELS; l++)
        status = beyond(context, &residual->log_last[l], residual, plain, residual->level[l]);
    return status;
}

/* ------------------------------------------------------------ the bound */

static double end_of(struct eps__interval interval, enum eps__estimate estimate)
{
    return estimate == EPS__UPPER ? interval.upper : interval.lower;
}

/* ln of the sum of two positive numbers. */
static double sum_of(enum eps__estimate estimate, double a, double b)
{
    if (isinf(a) || isinf(b))
        return fmax(a, b);
    double sum = eps__log_add(a, b);
    return eps__shift(estimate, sum, 16 * EPS__UNIT_ROUNDOFF * (1 + fabs(a) + fabs(b)));
}

/* The bound on what Y beyond level l adds where Lambda is such that Y need not reach the next level. */
static double step_of(const struct eps__residual *residual, enum eps__estimate estimate, double eps, size_t l)
{
    double t = residual->t, next = residual->level[l + 1], half = 0.5 * t * t * end_of(residual->square, estimate);
    double power = residual->direction == EPS_REMOVE ? t - 1 : t, far = power * (next - eps);
    if (residual->direction == EPS_ADD)
        far = power * (next + eps);
    double own = end_of(residual->log_beyond[l], estimate), value = own + far + half;
    return eps__shift(estimate, value, 8 * EPS__UNIT_ROUNDOFF * (fabs(own) + fabs(power) * (fabs(next) + eps) + half));
}

/* The bound on what remains if level l is the last one. */
static double last_of(const struct eps__residual *residual, enum eps__estimate estimate, double eps, size_t l)
{
    if (residual->direction == EPS_ADD) /* the probability of events in which Y is below its least value */
        return l == LEVELS ? log(DBL_MIN) : INFINITY;
    double own = end_of(residual->log_last[l], estimate), value = own + eps - residual->level[l];
    return eps__shift(estimate, value, 8 * EPS__UNIT_ROUNDOFF * (fabs(own) + eps + fabs(residual->level[l])));
}

/* Delta if Y were e^level. */
static double whole_of(const struct eps__residual *residual, enum eps__estimate estimate, double eps, double level)
{
    double wide = end_of(residual->square, estimate), rounding;
    double narrow = estimate == EPS__UPPER ? residual->square.lower : residual->square.upper;
    double shift = eps__outward(estimate, sqrt(fmax(wide, DBL_MIN)), 6);
    bool remove = residual->direction == EPS_REMOVE;
    double log_mean = remove ? level + 0.5 * wide : 0;
    double at = remove ? eps - level - 0.5 * wide : eps + level + 0.5 * narrow;
    double error = 8 * EPS__UNIT_ROUNDOFF * (eps + fabs(level) + wide);
    double value = eps__gaussian_log_delta(shift, eps__shift(eps__other(estimate), at, error), &rounding);
    return eps__shift(estimate, value + log_mean, rounding + error + 2 * EPS__UNIT_ROUNDOFF * fabs(value));
}

double eps__residual_log_delta(const struct eps__residual *residual, enum eps__estimate estimate, double eps)
{
    double least = 0;
    for (size_t from = 0; from <= LEVELS; from++) {
        double sum = whole_of(residual, estimate, eps, residual->level[from]);
        for (size_t l = from; l <= LEVELS && sum < least; l++) {
            least = fmin(least, sum_of(estimate, sum, last_of(residual, estimate, eps, l)));
            if (l < LEVELS)
                sum = sum_of(estimate, sum, step_of(residual, estimate, eps, l));
        }
    }
    return least;
}
