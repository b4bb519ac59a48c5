/*
 * The points hold the excess E(a) = H(a) - (1 - a)_+ instead of the curve H because it is small where losses do not
 * matter. In a cell, E is H plus a linear function, so chords and gaps are the same; at loss 0 the slope of E jumps by
 * one.
 *
 * Upper: chords between points above a convex function lie above it, for any choice of points. Lower: the points are
 * lowered by a bound on how far a chord lies above two lines that are below the curve, the continuations of the
 * neighbouring chords.
 *
 * SPDX-License-Identifier: GPL-3.0-or-later
 */
#include "lib/pld/known/curve_points.h"

#include <assert.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "lib/pld/grid/knots.h"
#include "lib/base/error.h"

enum { KNOTS_LEAST = 4, POLL_EVERY = 64, INDEX_BITS = 26, TRIES = 32 };

static double loss_of(const struct eps__curve_points *points, size_t i)
{
    return (double)(points->first + (int64_t)i) * points->spacing;
}

/* ------------------------------------------------------------ evaluation */

/* Evaluates a bound on the excess at a loss. */
static enum eps_status ask(struct eps__curve *curve, enum eps__estimate estimate, double loss, double tolerance,
                           double *excess)
{
    double log_delta;
    enum eps_status status = curve->class->log_delta(curve, loss < 0, estimate, fabs(loss), tolerance, &log_delta);
    if (status != EPS_OK)
        return status;
    double value = eps__certain(estimate, log_delta) + fmin(loss, 0);
    *excess = eps__exp_bound(estimate, value, 2 * EPS__UNIT_ROUNDOFF * (fabs(value) + fabs(loss)));
    return EPS_OK;
}

double eps__curve_points_importance(const struct eps__curve_points_plan *plan, double excess, double loss)
{
    return log(excess) + eps__panel_log_delta(plan->others, plan->eps - loss) - plan->log_most;
}

/* The tolerance at a loss where the excess is about `excess`. It takes few values, because the curve may keep what it
 * made for one. */
static double tolerance_at(const struct eps__curve_points_plan *plan, double loss, double excess)
{
    double log_importance = plan->others ? eps__curve_points_importance(plan, excess, loss) : 0;
    double steps = floor((-log_importance - 1) / log(4));
    return fmin(plan->tolerance * exp2(2 * fmin(fmax(steps, 0), 60)), fmax(plan->least_tolerance, plan->tolerance));
}

/* Evaluates one side, from loss 0 outwards. The excess falls outwards on either side, so the bound of a knot nearer to
 * 0 holds too, and the smaller one is kept. */
static enum eps_status ask_side(const struct eps_context *context, double *side, size_t *len, struct eps__curve *curve,
                                const struct eps__curve_points_plan *plan, double step, double log_enough)
{
    for (*len = 0; *len < plan->most;) {
        size_t i = *len;
        double own;
        double loss = (double)i * step, tolerance = tolerance_at(plan, loss, i ? side[i - 1] : 1);
        enum eps_status status = ask(curve, EPS__UPPER, loss, tolerance, &own);
        if (status == EPS_OK && i % POLL_EVERY == 0)
            status = eps__poll(context);
        if (status != EPS_OK)
            return status;
        side[i] = i ? fmin(own, side[i - 1]) : fmin(own, 1);
        (*len)++;
        if (log(side[i]) < log_enough && *len >= KNOTS_LEAST)
            break;
    }
    return EPS_OK;
}

enum eps_status eps__curve_points_ask(const struct eps_context *context, struct eps__curve_points *points,
                                      struct eps__curve *curve, const struct eps__curve_points_plan *plan)
{
    size_t above_len = 0, below_len = 0;
    double spacing = (float)plan->spacing; /* 24 bits: its product with an index is exact */
    double *above = malloc(plan->most * sizeof *above), *below = malloc(plan->most * sizeof *below);
    enum eps_status status = EPS_NO_MEMORY;
    *points = (struct eps__curve_points){.spacing = spacing};
    assert(plan->most >= KNOTS_LEAST && plan->most < (size_t)1 << INDEX_BITS && spacing > 0);
    if (above && below)
        status = ask_side(context, above, &above_len, curve, plan, spacing, plan->log_above);
    if (status == EPS_OK)
        status = ask_side(context, below, &below_len, curve, plan, -spacing, plan->log_below);
    if (status == EPS_OK) {
        points->len = above_len + below_len - 1;
        points->zero = below_len - 1;
        points->first = -(int64_t)points->zero;
        points->excess[EPS__UPPER] = malloc(points->len * sizeof(double));
        status = points->excess[EPS__UPPER] ? EPS_OK : EPS_NO_MEMORY;
    }
    for (size_t i = 0; status == EPS_OK && i < points->len; i++)
        points->excess[EPS__UPPER][i] = i < points->zero ? below[points->zero - i] : above[i - points->zero];
    free(above);
    free(below);
    return status;
}

enum eps_status eps__curve_points_ask_lower(const struct eps_context *context, struct eps__curve_points *points,
                                            struct eps__curve *curve, const struct eps__curve_points_plan *plan)
{
    double *lower = malloc(points->len * sizeof *lower);
    enum eps_status status = lower ? EPS_OK : EPS_NO_MEMORY;
    for (size_t k = 0; status == EPS_OK && k < points->len; k++) { /* losses from 0 upwards, then those below 0
                                                                    * downwards */
        size_t i = points->zero + k < points->len ? points->zero + k : points->len - 1 - k;
        double tolerance = tolerance_at(plan, loss_of(points, i), points->excess[EPS__UPPER][i]);
        status = ask(curve, EPS__LOWER, loss_of(points, i), tolerance, &lower[i]);
        if (status == EPS_OK && k % POLL_EVERY == 0)
            status = eps__poll(context);
    }
    for (size_t i = points->len - 1; status == EPS_OK && i-- > points->zero;)
        lower[i] = fmax(lower[i], lower[i + 1]);
    for (size_t i = 1; status == EPS_OK && i <= points->zero; i++)
        lower[i] = fmax(lower[i], lower[i - 1]);
    if (status != EPS_OK) {
        free(lower);
        return status;
    }
    points->excess[EPS__LOWER] = lower;
    return EPS_OK;
}

void eps__curve_points_clear(struct eps__curve_points *points)
{
    free(points->excess[EPS__UPPER]);
    free(points->excess[EPS__LOWER]);
    *points = (struct eps__curve_points){0};
}

/* ------------------------------------------------------------ masses */

#define NO_KNOT SIZE_MAX

/* The mass at knot i between its neighbours: the change of the curve's slope, in units of 1/a. Out: *error, a bound on
 * its rounding error. Left of all knots the excess is 0 at a = 0; right of them the curve is constant. */
static double mass_at(const struct eps__curve_points *points, const double *excess, size_t left, size_t i, size_t right,
                      double *error)
{
    double rise = right == NO_KNOT ? INFINITY : expm1((double)(right - i) * points->spacing);
    double fall = left == NO_KNOT ? 1 : -expm1(-(double)(i - left) * points->spacing);
    double before = left == NO_KNOT ? 0 : excess[left], after = right == NO_KNOT ? 0 : excess[right];
    double kink = i == points->zero ? 1 : 0;
    double sizes = kink + (fabs(after) + fabs(excess[i])) / rise + (fabs(before) + fabs(excess[i])) / fall;
    *error = 10 * EPS__UNIT_ROUNDOFF * sizes;
    return kink + (after - excess[i]) / rise + (before - excess[i]) / fall;
}

/* The knots of the lower convex hull, up to rounding, and always the knot of loss 0. The bounds hold for any choice of
 * knots. */
static size_t choose_knots(const struct eps__curve_points *points, const double *excess, size_t *kept)
{
    size_t len = 0;
    for (size_t i = 0; i < points->len; i++) {
        double error;
        while (len >= 1 && kept[len - 1] != points->zero &&
               mass_at(points, excess, len >= 2 ? kept[len - 2] : NO_KNOT, kept[len - 1], i, &error) < 0)
            len--;
        kept[len++] = i;
    }
    return len;
}

/* Lowers the point at loss 0 to the chord of its neighbours if it is above it. (choose_knots() always keeps this
 * point.) Returns whether it did. */
static bool lower_zero(const struct eps__curve_points *points, double *excess, const size_t *kept, size_t len)
{
    size_t k = 0;
    while (kept[k] != points->zero)
        k++;
    double error, rise = INFINITY, fall = 1, before = 0, after = 0;
    size_t left = k ? kept[k - 1] : NO_KNOT, right = k + 1 < len ? kept[k + 1] : NO_KNOT;
    if (!(mass_at(points, excess, left, kept[k], right, &error) < 0))
        return false;
    if (left != NO_KNOT) {
        fall = -expm1(-(double)(points->zero - left) * points->spacing);
        before = excess[left];
    }
    if (right != NO_KNOT) {
        rise = expm1((double)(right - points->zero) * points->spacing);
        after = excess[right];
    }
    double chord = eps__raise((1 + after / rise + before / fall) / (1 / rise + 1 / fall), 24);
    if (!(chord < excess[points->zero]))
        return false;
    excess[points->zero] = chord;
    return true;
}

static bool reserve(struct eps__pld *pld, size_t len)
{
    pld->index = malloc(len * sizeof *pld->index);
    pld->mass = malloc(len * sizeof *pld->mass);
    return pld->index && pld->mass;
}

/* Masses at least those of the chords, which give a curve that is not lower (P18). */
static enum eps_status connect_upper(const struct eps__curve_points *points, struct eps__pld *pld)
{
    double *excess = malloc(points->len * sizeof *excess);
    size_t *kept = malloc(points->len * sizeof *kept);
    if (!kept || !excess || !reserve(pld, points->len)) {
        free(kept);
        free(excess);
        return EPS_NO_MEMORY;
    }
    memcpy(excess, points->excess[EPS__UPPER], points->len * sizeof *excess);
    for (int i = 0; i < TRIES; i++) {
        pld->len = choose_knots(points, excess, kept);
        if (!lower_zero(points, excess, kept, pld->len))
            break;
    }
    for (size_t k = 0; k < pld->len; k++) {
        double error;
        size_t left = k ? kept[k - 1] : NO_KNOT, right = k + 1 < pld->len ? kept[k + 1] : NO_KNOT;
        double mass = mass_at(points, excess, left, kept[k], right, &error);
        pld->index[k] = points->first + (int64_t)kept[k];
        pld->mass[k] = fmax(eps__add_up(mass, error), 0);
    }
    pld->infinity = excess[points->len - 1];
    free(kept);
    free(excess);
    return EPS_OK;
}

/* ------------------------------------------------------------ lower */

/* A lower bound on the slope of the excess to the right of knot i, in units of 1/a: the slope of the line from the
 * upper bound at the left neighbour to the lower bound at i. The slope of H is never below -1. */
static double slope_after(const struct eps__curve_points *points, size_t i)
{
    double least = i < points->zero ? 0 : -exp(loss_of(points, i)), kink = i == points->zero ? 1 : 0;
    if (i == 0)
        return least;
    double fall = -expm1(-points->spacing), from = points->excess[EPS__UPPER][i - 1],
           to = points->excess[EPS__LOWER][i];
    double slope = (to - from) / fall - kink;
    slope -= EPS__UNIT_ROUNDOFF * 8 * ((from + to) / fall + kink);
    return fmax(slope, eps__lower(least, 8));
}

/* An upper bound on the slope to the left of knot i, from the upper bound at the right neighbour. H does not rise. */
static double slope_before(const struct eps__curve_points *points, size_t i)
{
    double most = i > points->zero ? 0 : exp(loss_of(points, i)), kink = i == points->zero ? 1 : 0;
    if (i + 1 == points->len)
        return most;
    double rise = expm1(points->spacing), from = points->excess[EPS__LOWER][i], to = points->excess[EPS__UPPER][i + 1];
    double slope = (to - from) / rise + kink;
    slope += EPS__UNIT_ROUNDOFF * 8 * ((from + to) / rise + kink);
    return fmin(slope, eps__raise(most, 8));
}

/* A bound on how far the chord from knot i to the next lies above the curve. Below the curve are the line from the
 * chord's left end and the one to its right end; the chord is furthest above both where they meet (P19). */
static double gap_after(const struct eps__curve_points *points, const double *lower, size_t i)
{
    double width = expm1(points->spacing), growth = exp(points->spacing); /* relative to a at knot i */
    double chord = (lower[i + 1] - lower[i]) / width, left = slope_after(points, i);
    double right = slope_before(points, i + 1) / growth;
    double error = 8 * EPS__UNIT_ROUNDOFF * ((lower[i + 1] + lower[i]) / width + fabs(left) + fabs(right));
    double over_left = chord - left + error, over_right = right - chord + error;
    if (!(over_left > 0 && over_right > 0))
        return 0;
    return eps__raise(width * over_left / (over_left + over_right) * over_right, 16);
}

/* The values of the lower curve, the chords of which are nowhere above the pair's. At the ends it is (1 - a)_+. The
 * first chord that leaves it has at most the slope of the curve there, and likewise the last (P19). */
static void lower_values(const struct eps__curve_points *points, double *value)
{
    const double *lower = points->excess[EPS__LOWER];
    double width = expm1(points->spacing), fall = -expm1(-points->spacing), gap = 0;
    size_t zero = points->zero, last = points->len - 1, low, high;
    for (size_t i = 0; i <= last; i++) {
        double next = i < last ? gap_after(points, lower, i) : 0;
        value[i] = lower[i] - fmax(gap, next);
        gap = next;
    }
    for (low = zero; low > 0 && value[low - 1] > 0;)
        low--;
    low = low ? low - 1 : 0;
    while (low < zero && !(slope_after(points, low) > 0))
        low++;
    for (high = zero; high < last && value[high + 1] > 0;)
        high++;
    high = high < last ? high + 1 : last;
    while (high > zero && !(slope_before(points, high) < 0))
        high--;
    for (size_t i = 0; i <= last; i++)
        if (i <= low || i >= high || low >= zero || high <= zero)
            value[i] = 0;
    if (low >= zero || high <= zero)
        return;
    value[low + 1] = fmin(value[low + 1], eps__lower(slope_after(points, low) * width, 8));
    value[high - 1] = fmin(value[high - 1], eps__lower(-slope_before(points, high) * fall, 8));
}

/* Masses at most those of the chords. Negative masses are shared by their neighbours, which lowers the curve again.
 * Returns false if a negative one remains at the upper end. */
static bool lower_masses(const struct eps__curve_points *points, const double *value, struct eps__pld *pld)
{
    for (size_t i = 0; i < points->len; i++) {
        double error,
            mass = mass_at(points, value, i ? i - 1 : NO_KNOT, i, i + 1 < points->len ? i + 1 : NO_KNOT, &error);
        pld->index[i] = points->first + (int64_t)i;
        pld->mass[i] = error > 0 ? eps__add_down(mass, -error) : mass;
    }
    pld->len = eps__knots_make_convex(points->spacing, 0, pld->index, pld->mass, points->len);
    for (size_t i = 0; i + 1 < pld->len && pld->mass[i] < 0;
         i++) { /* moving negative mass to a larger loss lowers the curve */
        pld->mass[i + 1] = eps__add_down(pld->mass[i + 1], pld->mass[i]);
        pld->mass[i] = 0;
    }
    for (size_t i = 0; i < pld->len; i++)
        if (!(pld->mass[i] >= 0))
            return false;
    return true;
}

static enum eps_status connect_lower(const struct eps__curve_points *points, struct eps__pld *pld)
{
    double *value = malloc(points->len * sizeof *value);
    if (!value || !reserve(pld, points->len)) {
        free(value);
        return EPS_NO_MEMORY;
    }
    lower_values(points, value);
    if (!lower_masses(points, value, pld)) { /* the trivial lower bound (1 - a)_+: a certain loss of 0 */
        pld->len = 1;
        pld->index[0] = 0;
        pld->mass[0] = 1;
    }
    free(value);
    return EPS_OK;
}

enum eps_status eps__curve_points_connect(const struct eps__curve_points *points, enum eps__estimate estimate,
                                          struct eps__pld *pld)
{
    struct eps__pld made = {.estimate = estimate, .spacing = points->spacing};
    assert(points->excess[estimate] && points->zero < points->len);
    enum eps_status status = estimate == EPS__UPPER ? connect_upper(points, &made) : connect_lower(points, &made);
    if (status != EPS_OK) {
        eps__pld_clear(&made);
        return status;
    }
    *pld = made;
    return EPS_OK;
}
