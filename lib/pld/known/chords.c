/*
 * The curve is evaluated where it is needed. Beyond the last point, the distance to the next point follows the slope.
 * Between two points, the cell is halved until the chord is within the tolerance of the lines that bound the curve from
 * below.
 *
 * SPDX-License-Identifier: GPL-3.0-or-later
 */
#include "lib/pld/known/chords.h"

#include <assert.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "lib/pld/known/curves.h"

#define OWN_SHARE 0.5     /* share of the tolerance for the points */
#define CHORD_SHARE 1.0   /* share of the tolerance for the chords */
#define COARSE 1e-2       /* a tolerance above this is that of a search, whose chords get COARSE_SHARE of it */
#define COARSE_SHARE 3.0  /* of the tolerance */
#define DROP_MOST 0.5     /* drop of ln delta from the last point to the next, at most */
#define CHORD_DROP 3.0    /* drop of ln delta along a chord that is used, at most */
#define WIDEST 4.0        /* width of a cell whose chord is used, at most */
#define APART_SHARE 0.5   /* distance of a neighbour from a cell, at least, in widths of the cell */
#define WIDENED 2.0       /* growth of the distance between points beyond the last one */
#define NARROWED 0.25     /* the same at least, where the curve is steep */
#define NARROWEST 0x1p-30 /* width of a cell that is halved, at least, relative to its epsilon */

enum { HALVINGS_MAX = 60, CAPACITY = 64 };

struct point {
    double eps, tolerance;
    double upper, lower; /* logarithms of bounds on delta */
};

/* The points of the curve or, reversed, of that of the pair exchanged. */
struct side {
    struct point *points; /* in ascending order */
    size_t len, capacity;
    double asked; /* the last epsilon asked; a cell narrower than the distance to the next one is not halved */
};

struct chords {
    struct eps__curve base;
    struct eps__curve *curve;
    struct side sides[2];
};

/* ------------------------------------------------------------ convex (P22) */

static double *bound_of(struct point *point, enum eps__estimate estimate)
{
    return estimate == EPS__UPPER ? &point->upper : &point->lower;
}

/* ln of the negative slope of the bound between two points, as a function of a = e^eps. */
static double log_fall(const struct side *side, enum eps__estimate estimate, size_t i, size_t k)
{
    struct point *from = &side->points[i], *to = &side->points[k];
    double value = *bound_of(from, estimate);
    return value + log(-expm1(*bound_of(to, estimate) - value)) - from->eps - log(expm1(to->eps - from->eps));
}

/* ln of the chord between two points at x, rounded in the direction of the estimate. NAN if the chord is too steep or
 * too wide for the error bound and must not be used. */
static double log_chord(const struct side *side, enum eps__estimate estimate, size_t i, size_t k, double x)
{
    struct point *from = &side->points[i], *to = &side->points[k];
    double value = *bound_of(from, estimate), fall = value - *bound_of(to, estimate);
    double width = to->eps - from->eps, part = x - from->eps;
    if (!(fall < CHORD_DROP) || !(width < WIDEST))
        return NAN;
    double rise = expm1(part) / expm1(width), rest = expm1(part - width) / expm1(-width); /* shares of either end */
    double log_value = value + log(rest + rise * exp(-fall));
    /* Rounding of the two differences changes the shares; the slope of the chord turns that into units of its value. */
    double units = 4 * expm1(fabs(fall)) * exp(width) * (fabs(x) + to->eps) / width;
    return eps__shift(estimate, log_value, (units + 32 + 8 * fabs(value)) * EPS__UNIT_ROUNDOFF);
}

/* Lowers the bound at point i to the chord of its neighbours if it is above it. This improves an upper bound and keeps
 * a lower one valid. Returns whether it did. */
static bool lower_to_chord(struct side *side, enum eps__estimate estimate, size_t i)
{
    struct point *point = &side->points[i];
    double *bound = bound_of(point, estimate);
    if (i == 0 || i + 1 >= side->len || isinf(*bound_of(point + 1, estimate)) ||
        !(log_fall(side, estimate, i - 1, i) < log_fall(side, estimate, i, i + 1)))
        return false;
    double chord = log_chord(side, estimate, i - 1, i + 1, point->eps);
    if (!(chord < *bound))
        return false;
    *bound = chord;
    return true;
}

/* Makes both bounds monotone again, and convex around point i, after point i has changed. */
static void straighten(struct side *side, size_t i)
{
    struct point *points = side->points;
    if (i > 0)
        points[i].upper = fmin(points[i].upper, points[i - 1].upper);
    for (size_t k = i + 1; k < side->len && points[k].upper > points[k - 1].upper; k++)
        points[k].upper = points[k - 1].upper;
    if (i + 1 < side->len)
        points[i].lower = fmax(points[i].lower, points[i + 1].lower);
    for (size_t k = i; k-- > 0 && points[k].lower < points[k + 1].lower;)
        points[k].lower = points[k + 1].lower;
    for (enum eps__estimate estimate = EPS__UPPER; estimate <= EPS__LOWER; estimate++) {
        lower_to_chord(side, estimate, i);
        for (size_t k = i; k-- > 0 && lower_to_chord(side, estimate, k);)
            ;
        for (size_t k = i + 1; k < side->len && lower_to_chord(side, estimate, k); k++)
            ;
    }
}

/* ------------------------------------------------------------ points */

/* Evaluates both bounds at a point and keeps the better of these and the old ones. */
static enum eps_status ask(struct chords *chords, bool reversed, double tolerance, struct point *point)
{
    const struct eps__curve_class *class = chords->curve->class;
    double own = OWN_SHARE * tolerance, upper, lower;
    enum eps_status status = class->log_delta(chords->curve, reversed, EPS__UPPER, point->eps, own, &upper);
    if (status == EPS_OK)
        status = class->log_delta(chords->curve, reversed, EPS__LOWER, point->eps, own, &lower);
    if (status != EPS_OK)
        return status;
    point->upper = fmin(point->upper, eps__certain(EPS__UPPER, upper));
    point->lower = fmax(point->lower, eps__certain(EPS__LOWER, lower));
    point->tolerance = fmin(point->tolerance, tolerance);
    return EPS_OK;
}

/* Evaluates the curve at eps and inserts the point at index `at`. */
static enum eps_status insert(struct chords *chords, bool reversed, size_t at, double eps, double tolerance)
{
    struct side *side = &chords->sides[reversed];
    struct point fresh = {eps, INFINITY, 0, -INFINITY};
    enum eps_status status = ask(chords, reversed, tolerance, &fresh);
    if (status != EPS_OK)
        return status;
    if (side->len == side->capacity) {
        size_t capacity = side->capacity ? 2 * side->capacity : CAPACITY;
        struct point *points = realloc(side->points, capacity * sizeof *points);
        if (!points)
            return EPS_NO_MEMORY;
        side->points = points;
        side->capacity = capacity;
    }
    memmove(&side->points[at + 1], &side->points[at], (side->len - at) * sizeof *side->points);
    side->points[at] = fresh;
    side->len++;
    straighten(side, at);
    return EPS_OK;
}

/* Evaluates a point again if its bounds are too wide for this tolerance and were computed for a larger one. */
static enum eps_status settle(struct chords *chords, bool reversed, size_t i, double tolerance)
{
    struct point *point = &chords->sides[reversed].points[i];
    bool known = point->upper - point->lower <= OWN_SHARE * tolerance || point->tolerance <= tolerance;
    enum eps_status status = known ? EPS_OK : ask(chords, reversed, tolerance, point);
    if (!known && status == EPS_OK)
        straighten(&chords->sides[reversed], i);
    return status;
}

/* ------------------------------------------------------------ between two points (P22) */

/* Finds the points from which lines run under the cell after point i. A line magnifies the error of a point that is
 * near the cell, so these are the nearest points at least APART_SHARE of the cell's width away; if there is none, the
 * cell's own end. */
static void find_neighbours(const struct side *side, size_t i, size_t *before, size_t *after)
{
    double apart = APART_SHARE * (side->points[i + 1].eps - side->points[i].eps);
    *before = i > 0 ? i - 1 : i;
    *after = i + 2 < side->len ? i + 2 : i + 1;
    while (*before > 0 && side->points[i].eps - side->points[*before].eps < apart)
        --*before;
    while (*after + 1 < side->len && side->points[*after].eps - side->points[i + 1].eps < apart)
        ++*after;
}

/* ln of a lower bound at x in the cell after point i, rounded down: the largest of the lines from the neighbours
 * through the cell's ends and of the right end's bound. With EPS__UPPER the upper bounds of the ends are used in place
 * of the lower ones, which proves nothing. */
static double log_under(const struct side *side, size_t i, double x, enum eps__estimate estimate)
{
    size_t before_at, after_at;
    find_neighbours(side, i, &before_at, &after_at);
    struct point *left = &side->points[i], *right = left + 1;
    double scale = left->upper, low = exp(*bound_of(left, estimate) - scale);
    double high = exp(*bound_of(right, estimate) - scale), under = high, sizes = 1 + high;
    if (before_at < i) {
        const struct point *other = &side->points[before_at];
        double fall = -expm1(other->eps - left->eps), before = exp(other->upper - scale);
        double line = low + (low - before) / fall * expm1(x - left->eps);
        sizes += (low + before) / fall * expm1(x - left->eps) * (1 + (fabs(x) + left->eps) / (x - left->eps));
        under = fmax(under, line);
    }
    if (after_at > i + 1) {
        const struct point *other = &side->points[after_at];
        double rise = expm1(other->eps - right->eps), after = exp(other->upper - scale);
        double line = high + (after - high) / rise * expm1(x - right->eps);
        sizes += (high + after) / rise * (1 + (fabs(x) + right->eps) / (right->eps - x));
        under = fmax(under, line);
    }
    under -= 64 * (1 + fabs(scale)) * EPS__UNIT_ROUNDOFF * sizes;
    if (!(under > high))
        return *bound_of(right, estimate);
    double rest = log(under);
    return eps__shift(EPS__LOWER, scale + rest, 16 * EPS__UNIT_ROUNDOFF * (1 + fabs(scale) + fabs(rest)));
}

/* Whether the chord at x is within the tolerance of the curve, as estimated from the upper bounds. */
static bool near(const struct side *side, size_t i, double x, double tolerance)
{
    double share = tolerance > COARSE ? COARSE_SHARE : CHORD_SHARE;
    double chord = log_chord(side, EPS__UPPER, i, i + 1, x);
    return !isnan(chord) && chord - log_under(side, i, x, EPS__UPPER) <= log1p(share * tolerance);
}

/* ------------------------------------------------------------ where to evaluate */

/* The distance from the last point to the next one; at least as far as x. */
static double stride_of(const struct side *side, double x)
{
    const struct point *last = &side->points[side->len - 1];
    double least = x - last->eps;
    if (side->len < 2)
        return least;
    double width = last->eps - last[-1].eps, slope = (last[-1].upper - last->upper) / width;
    double stride = WIDENED * width;
    if (slope * stride > DROP_MOST)
        stride = fmax(DROP_MOST / slope, NARROWED * width);
    return fmax(stride, least);
}

/* The index of the last point at or below x. */
static size_t find(const struct side *side, double x)
{
    size_t low = 0, high = side->len;
    while (high - low > 1) {
        size_t middle = low + (high - low) / 2;
        *(side->points[middle].eps <= x ? &low : &high) = middle;
    }
    return low;
}

/* Evaluates the curve until there is a point at x or a chord over x that is near the curve. Out: *at, the index of that
 * point or of the chord's left end. */
static enum eps_status reach(struct chords *chords, bool reversed, double x, double tolerance, size_t *at)
{
    struct side *side = &chords->sides[reversed];
    double apart = fabs(x - side->asked);
    enum eps_status status = side->len ? EPS_OK : insert(chords, reversed, 0, 0, tolerance);
    while (status == EPS_OK && side->points[side->len - 1].eps < x) {
        double last = side->points[side->len - 1].eps;
        status = insert(chords, reversed, side->len, fmax(last + stride_of(side, x), x), tolerance);
    }
    for (int i = 0; status == EPS_OK; i++) {
        size_t k = *at = find(side, x);
        status = settle(chords, reversed, k, tolerance);
        if (status != EPS_OK || side->points[k].eps == x)
            break;
        assert(k + 1 < side->len && side->points[k].eps < x && x < side->points[k + 1].eps);
        size_t others[2];
        find_neighbours(side, k, &others[0], &others[1]);
        status = settle(chords, reversed, k + 1, tolerance);
        for (int m = 0; m < 2 && status == EPS_OK; m++)
            status = settle(chords, reversed, others[m], tolerance);
        if (status != EPS_OK || near(side, k, x, tolerance))
            break;
        double from = side->points[k].eps, to = side->points[k + 1].eps, middle = 0.5 * (from + to);
        bool halved = i < HALVINGS_MAX && 0.5 * (to - from) > apart && to - from > NARROWEST * to;
        status = insert(chords, reversed, k + 1, halved ? middle : x, tolerance);
    }
    side->asked = x;
    return status;
}

static enum eps_status chords_log_delta(struct eps__curve *curve, bool reversed, enum eps__estimate estimate,
                                        double eps, double tolerance, double *log_delta)
{
    struct chords *chords = (struct chords *)curve;
    struct side *side = &chords->sides[reversed];
    size_t at;
    *log_delta = eps__certain(estimate, NAN);
    if (!(eps >= 0 && eps < INFINITY)) /* outside the domain: the trivial bound */
        return EPS_OK;
    enum eps_status status = reach(chords, reversed, eps, tolerance, &at);
    if (status != EPS_OK)
        return status;
    if (side->points[at].eps != eps)
        *log_delta =
            estimate == EPS__UPPER ? log_chord(side, estimate, at, at + 1, eps) : log_under(side, at, eps, estimate);
    else
        *log_delta = *bound_of(&side->points[at], estimate);
    return EPS_OK;
}

/* ------------------------------------------------------------ the curve */

static enum eps_status chords_guess(struct eps__curve *curve, bool reversed, double log_delta, double *eps)
{
    struct chords *chords = (struct chords *)curve;
    return chords->curve->class->guess(chords->curve, reversed, log_delta, eps);
}

static void chords_destroy(struct eps__curve *curve)
{
    struct chords *chords = (struct chords *)curve;
    chords->curve->class->destroy(chords->curve);
    for (int reversed = 0; reversed < 2; reversed++)
        free(chords->sides[reversed].points);
    free(chords);
}

static const struct eps__curve_class chords_class = {chords_log_delta, chords_guess, chords_destroy};

struct eps__curve *eps__curve_chords(struct eps__curve *curve)
{
    struct chords *made = curve ? calloc(1, sizeof *made) : NULL;
    if (!made) {
        if (curve)
            curve->class->destroy(curve);
        return NULL;
    }
    made->base.class = &chords_class;
    made->curve = curve;
    return &made->base;
}
