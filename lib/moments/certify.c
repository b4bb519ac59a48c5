/*
 * The certificate: that a polynomial dominates the payoff, proven by covering t >= -1 with intervals.
 *
 * On each side of the kink the difference f = p - payoff is a polynomial. From its expansion around a point, with an error for every
 * coefficient, follows that f >= 0 within some radius: because its value outweighs the rest; or because it is a bowl
 * whose lowest point is over 0, which is how it goes where p all but touches the payoff; or because it is monotone
 * and not negative at its lower end. What is not covered so is split. Far out all coefficients are >= 0.
 *
 * SPDX-License-Identifier: GPL-3.0-or-later
 */
#include <assert.h>
#include <math.h>

#include "lib/moments/polynomial.h"

/* Intervals that wait: each halving leaves one behind, and none is halved more often than a quad has bits. */
enum { WAITING_MAX = 256, EXPANSIONS_MAX = 1500, RADII = 12, DOUBLINGS = 60 };

/* What products that underflow may lose (L2). */
#define UNDERFLOW_LOSS 0x1p-16000L
/* Every other coefficient is within these, or 0: nothing underflows but near t = 0. */
#define LARGEST 0x1p7600L
/* Of the few operations that compare sums of non-negative numbers. */
#define ROUNDINGS 256

/* ---------------------------------------------------------------- expansions */

/* The coefficients of f in t, and of what bounds their rounding. */
static void difference(eps__quad *value, eps__quad *size, const struct eps__polynomial *p,
                       const struct eps__payoff *payoff, bool above)
{
    for (size_t j = 0; j <= p->degree; j++) {
        value[j] = p->c[j];
        size[j] = fabsq(p->c[j]);
    }
    assert(p->degree >= 1);
    bool slanted = above == (payoff->direction == EPS_REMOVE);
    if (slanted) {
        eps__quad slope = above ? 1 : -1;
        value[0] += slope * payoff->kink;
        value[1] -= slope;
        size[0] += fabsq(payoff->kink);
        size[1] += 1;
    }
}

/* (L2) */
void eps__polynomial_expand(struct eps__expansion *expansion, const struct eps__polynomial *p,
                            const struct eps__payoff *payoff, bool above, eps__quad at)
{
    size_t n = p->degree;
    eps__quad *value = expansion->value, *size = expansion->error, away = fabsq(at);
    expansion->degree = n;
    difference(value, size, p, payoff, above);
    for (size_t k = 0; k < n; k++)
        for (size_t j = n; j-- > k;) {
            value[j] += at * value[j + 1];
            size[j] += away * size[j + 1];
        }
    eps__quad units = (eps__quad)(2 * n + 8) * EPS__QUAD_ROUNDOFF;
    for (size_t k = 0; k <= n; k++)
        size[k] = units * size[k] + UNDERFLOW_LOSS;
}

/* A lower bound of f at one point. */
static eps__quad least_at(const struct eps__polynomial *p, const struct eps__payoff *payoff, bool above, eps__quad at)
{
    eps__quad value[EPS__MOMENTS_MAX + 1], size[EPS__MOMENTS_MAX + 1], away = fabsq(at);
    size_t n = p->degree;
    difference(value, size, p, payoff, above);
    for (size_t j = n; j-- > 0;) {
        value[j] += at * value[j + 1];
        size[j] += away * size[j + 1];
    }
    return value[0] - eps__quad_raise((eps__quad)(2 * n + 8) * EPS__QUAD_ROUNDOFF * size[0] + UNDERFLOW_LOSS, ROUNDINGS);
}

static eps__quad most(const struct eps__expansion *f, size_t k)
{
    return fabsq(f->value[k]) + f->error[k];
}

/* sum over k >= first of weight(k) |f_k| r^(k - first), rounded up; weight 1, or k. */
static eps__quad rest(const struct eps__expansion *f, size_t first, bool weighted, eps__quad r)
{
    eps__quad sum = 0;
    for (size_t k = f->degree + 1; k-- > first;)
        sum = sum * r + most(f, k) * (weighted ? (eps__quad)k : 1);
    return eps__quad_raise(sum, ROUNDINGS);
}

/* ---------------------------------------------------------------- one interval */

/* Whether f >= 0 within r of the point of expansion (L3). */
static bool outweighs(const struct eps__expansion *f, eps__quad r)
{
    return f->value[0] - f->error[0] > eps__quad_raise(rest(f, 1, false, r) * r, ROUNDINGS);
}

static bool bowl(const struct eps__expansion *f, eps__quad r)
{
    if (f->degree < 2)
        return false;
    eps__quad bent = f->value[2] - f->error[2] - eps__quad_raise(rest(f, 3, false, r) * r, ROUNDINGS);
    eps__quad least = eps__quad_lower(f->value[0] - f->error[0], ROUNDINGS), slope = most(f, 1);
    return bent > 0 && least > 0 &&
           eps__quad_lower(4 * least, ROUNDINGS) * eps__quad_lower(bent, ROUNDINGS) >
               eps__quad_raise(slope * slope, ROUNDINGS);
}

/* 1: rising within r of the point of expansion, -1: falling, 0: not known. */
static int monotone(const struct eps__expansion *f, eps__quad r)
{
    eps__quad slope = fabsq(f->value[1]) - f->error[1];
    if (!(slope > eps__quad_raise(rest(f, 2, true, r) * r, ROUNDINGS)))
        return 0;
    return f->value[1] > 0 ? 1 : -1;
}

/* ---------------------------------------------------------------- covering */

struct interval {
    eps__quad from, to;
};

struct cover {
    const struct eps__polynomial *p;
    const struct eps__payoff *payoff;
    const struct eps__contacts *hints;
    bool above;
    unsigned expansions;
};

/* In the middle: in size, where the ends differ by much. */
static eps__quad middle(eps__quad from, eps__quad to)
{
    if (from > 0 && to > 8 * from)
        return sqrtq(from) * sqrtq(to);
    if (to < 0 && from < 8 * to)
        return -(sqrtq(-from) * sqrtq(-to));
    return from + (to - from) / 2;
}

/* Where to expand: at a contact that is in the interval, else in the middle. */
static eps__quad centre(const struct cover *cover, eps__quad from, eps__quad to)
{
    for (size_t i = 0; i < cover->hints->len; i++)
        if (from < cover->hints->node[i] && cover->hints->node[i] < to)
            return cover->hints->node[i];
    return middle(from, to);
}

/* Covers as much as it can around one point; what is left goes to `left`. -1: no proof. Else how many are left. */
static int cover_some(struct cover *cover, struct interval whole, struct interval left[2])
{
    struct eps__expansion f;
    eps__quad at = centre(cover, whole.from, whole.to);
    if (++cover->expansions > EXPANSIONS_MAX || !(whole.from <= at && at <= whole.to))
        return -1;
    eps__polynomial_expand(&f, cover->p, cover->payoff, cover->above, at);
    eps__quad reach = eps__quad_raise(fmaxq(whole.to - at, at - whole.from), 4), r = reach;
    int way = monotone(&f, reach);
    if (way && least_at(cover->p, cover->payoff, cover->above, way > 0 ? whole.from : whole.to) >= 0)
        return 0;
    if (!(f.value[0] - f.error[0] >= 0)) /* nothing will help: a point at which f is not seen to be >= 0 */
        return -1;
    for (int i = 0; i < RADII && !outweighs(&f, r) && !bowl(&f, r); i++)
        r *= i ? 0.5 : 0.999;
    if (!outweighs(&f, r) && !bowl(&f, r))
        r = 0; /* split there */
    /* The ends of what is covered, rounded inwards. */
    eps__quad low = r > 0 ? at - eps__quad_lower(r, 4) : at, high = r > 0 ? at + eps__quad_lower(r, 4) : at;
    low += EPS__QUAD_ROUNDOFF * fabsq(low) * 2;
    high -= EPS__QUAD_ROUNDOFF * fabsq(high) * 2;
    int count = 0;
    if (!(low < high))
        low = high = at;
    if (low > whole.from)
        left[count++] = (struct interval){whole.from, low};
    if (high < whole.to)
        left[count++] = (struct interval){high, whole.to};
    return count;
}

/* Whether f >= 0 on [from, to]. */
static bool covers(struct cover *cover, eps__quad from, eps__quad to)
{
    struct interval waiting[WAITING_MAX];
    size_t len = 0;
    waiting[len++] = (struct interval){from, to};
    while (len > 0) {
        struct interval left[2];
        int count = cover_some(cover, waiting[--len], left);
        if (count < 0 || len + (size_t)count > WAITING_MAX)
            return false;
        for (int i = 0; i < count; i++)
            waiting[len++] = left[i];
    }
    return true;
}

/* A t beyond which f >= 0, because none of its coefficients there is negative; NAN if none was found. */
static eps__quad far_out(const struct cover *cover, eps__quad from)
{
    eps__quad at = from > 0 ? 2 * from : from + 1;
    for (int i = 0; i < DOUBLINGS; i++, at *= 2) {
        struct eps__expansion f;
        eps__polynomial_expand(&f, cover->p, cover->payoff, cover->above, at);
        bool positive = true;
        for (size_t k = 0; k <= f.degree && positive; k++)
            positive = f.value[k] >= f.error[k] || (k == f.degree && f.value[k] >= 0);
        if (positive)
            return at;
    }
    return (eps__quad)NAN;
}

static bool in_range(const struct eps__polynomial *p)
{
    for (size_t j = 0; j <= p->degree; j++) {
        eps__quad size = fabsq(p->c[j]);
        if (!(size <= LARGEST) || (size > 0 && size < 1 / (eps__quad)LARGEST))
            return false;
    }
    return true;
}

bool eps__polynomial_dominates(const struct eps__polynomial *p, const struct eps__payoff *payoff,
                               const struct eps__contacts *hints)
{
    assert(1 <= p->degree && p->degree <= EPS__MOMENTS_MAX && hints->len <= EPS__CONTACTS_MAX);
    if (!in_range(p) || !(payoff->kink > -1) || !(payoff->kink <= LARGEST))
        return false;
    struct cover below = {p, payoff, hints, false, 0}, above = {p, payoff, hints, true, 0};
    eps__quad last = hints->len ? fmaxq(hints->node[hints->len - 1], payoff->kink) : payoff->kink;
    eps__quad far = far_out(&above, last);
    return finiteq(far) && covers(&below, -1, payoff->kink) && covers(&above, payoff->kink, far);
}
