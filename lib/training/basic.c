/*
 * Basic composition with a nearly optimal split of epsilon. At the optimum, moving a little epsilon from one run to
 * another gains nothing: delta_i s_i is equal for all runs, where s_i is the slope of -ln delta_i. The slopes are
 * measured at the split with equal deltas, and then determine the deltas.
 *
 * SPDX-License-Identifier: GPL-3.0-or-later
 */
#include "lib/training/basic.h"

#include <assert.h>
#include <math.h>
#include <stdlib.h>

#include "lib/base/limits.h"

#define SLOPE_STEP 1.0 /* difference in ln delta over which a slope is measured */

enum { HALVINGS = 30 }; /* bisection steps */

struct split {
    const struct eps__run *runs;
    size_t len;
    double *eps;   /* epsilon of one run each, >= 0 and finite */
    double *apart; /* ln delta of one run less the common ln delta */
};

/* Guesses the epsilon of every run for the common ln delta. *total: the sum over all runs. */
static enum eps_status spread(const struct split *split, double log_delta, double *total)
{
    enum eps_status status = EPS_OK;
    *total = 0;
    for (size_t i = 0; i < split->len && status == EPS_OK; i++) {
        struct eps__curve *curve = split->runs[i].curve;
        status = curve->class->guess(curve, false, fmin(log_delta + split->apart[i], 0), &split->eps[i]);
        if (!(split->eps[i] >= 0 && split->eps[i] < INFINITY))
            split->eps[i] = 0;
        *total += (double)split->runs[i].count * split->eps[i];
    }
    return status;
}

/* Finds the common ln delta at which the epsilons add up to about eps. */
static enum eps_status meet(const struct split *split, double eps, double *log_delta)
{
    double low = EPS__LOG_DELTA_FLOOR, high = 0, total;
    enum eps_status status = EPS_OK;
    for (int i = 0; i < HALVINGS && status == EPS_OK; i++) {
        double middle = 0.5 * (low + high);
        status = spread(split, middle, &total);
        *(total > eps ? &low : &high) = middle;
    }
    *log_delta = high;
    return status == EPS_OK ? spread(split, high, &total) : status;
}

/* Divides the delta of every run by its slope near the common ln delta. */
static enum eps_status by_slopes(const struct split *split, double log_delta)
{
    enum eps_status status = EPS_OK;
    for (size_t i = 0; i < split->len && status == EPS_OK; i++) {
        double further;
        struct eps__curve *curve = split->runs[i].curve;
        status = curve->class->guess(curve, false, log_delta - SLOPE_STEP, &further);
        double apart = log((further - split->eps[i]) / SLOPE_STEP);
        split->apart[i] = isfinite(apart) ? apart : 0;
    }
    return status;
}

/* (T7) Scales the epsilons so that they add up to at most eps, and adds up the deltas there. Every sum of len terms
 * is rounded up by at most 2 len units. */
static enum eps_status sum_up(const struct split *split, double eps, double tolerance, double *log_delta)
{
    double total = 0, sum = -INFINITY, used = 0;
    enum eps_status status = EPS_OK;
    for (size_t i = 0; i < split->len; i++)
        total = eps__add_up(total, eps__multiply_up((double)split->runs[i].count, split->eps[i]));
    double scale = total > 0 ? eps__lower(eps / total, 8 + 4 * (double)split->len) : 0;
    for (size_t i = 0; i < split->len && status == EPS_OK; i++) {
        struct eps__curve *curve = split->runs[i].curve;
        double own, count = (double)split->runs[i].count;
        double at = scale * split->eps[i];
        at = at > 0 ? eps__lower(at, 4) : 0;
        used = eps__add_up(used, eps__multiply_up(count, at));
        status = curve->class->log_delta(curve, false, EPS__UPPER, at, tolerance, &own);
        if (status == EPS_OK)
            sum = eps__log_add(sum, eps__certain(EPS__UPPER, own) + log(count));
    }
    if (status != EPS_OK)
        return status;
    assert(used <= eps);
    double units = 16 * (double)split->len * (1 + fabs(sum));
    *log_delta = fmin(eps__shift(EPS__UPPER, sum, units * EPS__UNIT_ROUNDOFF), 0);
    return EPS_OK;
}

enum eps_status eps__basic_log_delta(const struct eps__run *runs, size_t len, double eps, double tolerance,
                                     double *log_delta)
{
    struct split split = {runs, len, calloc(len, sizeof(double)), calloc(len, sizeof(double))};
    enum eps_status status = split.eps && split.apart ? EPS_OK : EPS_NO_MEMORY;
    double common;
    *log_delta = 0;
    assert(len >= 1 && eps >= 0);
    if (status == EPS_OK)
        status = meet(&split, eps, &common);
    if (status == EPS_OK)
        status = by_slopes(&split, common);
    if (status == EPS_OK)
        status = meet(&split, eps, &common);
    if (status == EPS_OK)
        status = sum_up(&split, eps, tolerance, log_delta);
    free(split.eps);
    free(split.apart);
    return status;
}
