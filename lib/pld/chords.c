/*
 * Points come where somebody asks for the first time: beyond the last one by a stride that grows with the curve's smoothness, and
 * between two of them in the middle, until the chord is near enough to the lines that its neighbours leave under the curve.
 *
 * SPDX-License-Identifier: GPL-3.0-or-later
 */
#include "lib/pld/chords.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "lib/pld/curves.h"

#define OWN_SHARE 0.5     /* of the tolerance, for the points */
#define CHORD_SHARE 1.0   /* and for the chords */
#define ABOUT 1e-2        /* who asks no more finely only looks around: */
#define ABOUT_SHARE 3.0
#define DROP_MOST 0.5    /* of ln delta, by one stride */
#define CHORD_DROP 3.0   /* a chord that falls by more is none that is near to anything */
#define APART_SHARE 0.5  /* of a cell's width */
#define WIDENED 2.0      /* a stride, after one that was not too long */
#define WIDEST 4.0      /* a cell whose chord is used */
#define NARROWEST 0x1p-30 /* of a cell, beside its place */

enum { HALVINGS_MAX = 60, CAPACITY = 64 };

struct point {
    double eps, tolerance;
    double upper, lower; /* ln */
};

/* The curve or, reversed, that of the pair exchanged: the points in ascending order, convex in either bound. */
struct side {
    struct point *points;
    size_t len, capacity;
    double asked; /* the last time: what is no further apart than the questions is asked itself */
};

struct chords {
    struct eps__curve base;
    struct eps__curve *curve;
    struct side sides[2];
};

/* ------------------------------------------------------------ convex (L28) */

static double *bound_of(struct point *point, enum eps__estimate estimate)
{
    return estimate == EPS__UPPER ? &point->upper : &point->lower;
}

/* ln of how steeply the bound falls from one point to another, in a = e^eps. */
static double log_fall(const struct side *side, enum eps__estimate estimate, size_t i, size_t k)
{
    struct point *from = &side->points[i], *to = &side->points[k];
    double value = *bound_of(from, estimate);
    return value + log(-expm1(*bound_of(to, estimate) - value)) - from->eps - log(expm1(to->eps - from->eps));
}

/* ln of the chord from one point to another at x, rounded as the estimate is; NAN where it falls too much to be known well. */
static double log_chord(const struct side *side, enum eps__estimate estimate, size_t i, size_t k, double x)
{
    struct point *from = &side->points[i], *to = &side->points[k];
    double value = *bound_of(from, estimate), fall = value - *bound_of(to, estimate);
    double width = to->eps - from->eps, part = x - from->eps;
    if (!(fall < CHORD_DROP) || !(width < WIDEST))
        return NAN;
    double rise = expm1(part) / expm1(width), rest = expm1(part - width) / expm1(-width); /* shares of either end */
    double log_value = value + log(rest + rise * exp(-fall));
    /* of the shares: what the differences of losses are off by, times the slope in each */
    double units = 4 * expm1(fall) * exp(width) * (fabs(x) + to->eps) / width;
    return eps__shift(estimate, log_value, (units + 32 + 8 * fabs(value)) * EPS__UNIT_ROUNDOFF);
}

/* A bound at point i that is over the chord of its neighbours: no bound from above is worse than the chord, and none from below is needed
 * that is more. Whether it was lowered. */
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

/* After point i has changed: the bounds fall, and are convex where their neighbours tell. */
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

/* Both bounds of a point; what was known of it stays known. */
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

/* A new point before the one of this index. */
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

/* The point is known as precisely as this, or as its curve can be asked. */
static enum eps_status settle(struct chords *chords, bool reversed, size_t i, double tolerance)
{
    struct point *point = &chords->sides[reversed].points[i];
    bool known = point->upper - point->lower <= OWN_SHARE * tolerance || point->tolerance <= tolerance;
    enum eps_status status = known ? EPS_OK : ask(chords, reversed, tolerance, point);
    if (!known && status == EPS_OK)
        straighten(&chords->sides[reversed], i);
    return status;
}

/* ------------------------------------------------------------ between two points (L28) */

/* The points whose lines go under the cell after point i: the nearest ones that are not much nearer to its ends than those are to each
 * other, as what they are off by counts so many times more in the cell. None: the end itself. */
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

/* ln of the most that the lines which the neighbours leave under the curve reach at x in the cell after point i, the cell's ends by this
 * estimate of theirs; rounded down. */
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

/* Whether the chord is as near to the curve as that, as far as the upper ends tell. */
static bool near(const struct side *side, size_t i, double x, double tolerance)
{
    double share = tolerance > ABOUT ? ABOUT_SHARE : CHORD_SHARE;
    double chord = log_chord(side, EPS__UPPER, i, i + 1, x);
    return !isnan(chord) && chord - log_under(side, i, x, EPS__UPPER) <= log1p(share * tolerance);
}

/* ------------------------------------------------------------ where to ask */

/* How far beyond the last point. */
static double stride_of(const struct side *side, double x)
{
    const struct point *last = &side->points[side->len - 1];
    double least = x - last->eps;
    if (side->len < 2)
        return least;
    double width = last->eps - last[-1].eps, slope = (last[-1].upper - last->upper) / width;
    double stride = WIDENED * width;
    if (slope * stride > DROP_MOST)
        stride = fmax(DROP_MOST / slope, 0.25 * width);
    return fmax(stride, least);
}

/* The index of the last point that is not above x. */
static size_t find(const struct side *side, double x)
{
    size_t low = 0, high = side->len;
    while (high - low > 1) {
        size_t middle = low + (high - low) / 2;
        *(side->points[middle].eps <= x ? &low : &high) = middle;
    }
    return low;
}

/* There is a point at x, or one on either side of it whose chord does. *at: that at x, or the one before. */
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
        size_t others[2];
        find_neighbours(side, k, &others[0], &others[1]);
        if (status == EPS_OK)
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

static enum eps_status chords_log_delta(struct eps__curve *curve, bool reversed, enum eps__estimate estimate, double eps,
                                        double tolerance, double *log_delta)
{
    struct chords *chords = (struct chords *)curve;
    struct side *side = &chords->sides[reversed];
    size_t at;
    enum eps_status status = reach(chords, reversed, eps, tolerance, &at);
    if (status != EPS_OK)
        return status;
    if (side->points[at].eps != eps)
        *log_delta = estimate == EPS__UPPER ? log_chord(side, estimate, at, at + 1, eps)
                                            : log_under(side, at, eps, estimate);
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
