/*
 * The certificate that a polynomial dominates the payoff: a proof that covers t >= -1 with intervals.
 *
 * On each side of the kink the difference f = p - payoff is a polynomial. It is expanded around points, with an error
 * bound for every coefficient. Around a contact, where p nearly touches the payoff, f is shown to be a bowl with a
 * minimum above 0. Between contacts, an interval is halved until the Bernstein coefficients of f are >= 0. Far out, all
 * coefficients of the expansion are >= 0.
 *
 * SPDX-License-Identifier: GPL-3.0-or-later
 */
#include <assert.h>
#include <math.h>

#include "lib/moments/bounds/polynomial.h"

enum {
    WAITING_MAX = 256,     /* intervals that wait: a halving adds one, and a quad has too few bits for more halvings */
    EXPANSIONS_MAX = 1000, /* on one side of the kink */
    RADII = 48,            /* bowls that are tried around a contact, each of half the radius */
    DOUBLINGS = 60         /* points that are tried far out */
};

/* An allowance for products that underflow (M2). */
#define UNDERFLOW_LOSS 0x1p-16000L
/* Coefficients of p are 0 or have sizes in [1/LARGEST, LARGEST], so that underflow matters only near t = 0. */
#define LARGEST 0x1p7600L
/* Units that cover the roundings in comparisons of sums of non-negative numbers. */
#define ROUNDINGS 256
/* The least normal number of quadruple precision. */
#define QUAD_MIN 0x1p-16382L

/* ---------------------------------------------------------------- expansions */

/* value: the coefficients of f in t. size: those of a polynomial that bounds their rounding. */
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

/* (M2) */
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

/* ---------------------------------------------------------------- one interval */

/* Whether every number within `error` of value is >= 0. False if either overflowed (M2). */
static bool certainly_positive(eps__quad value, eps__quad error)
{
    return finiteq(value) && value >= error;
}

/* Whether f is a bowl with a minimum above 0 within r of the point of expansion (M3). */
static bool bowl(const struct eps__expansion *f, eps__quad r)
{
    eps__quad rest = 0; /* sum over k >= 3 of |f_k| r^(k - 2) */
    for (size_t k = f->degree + 1; k-- > 3;)
        rest = (rest + fabsq(f->value[k]) + f->error[k]) * r;
    eps__quad bent = f->value[2] - f->error[2] - eps__quad_raise(rest, ROUNDINGS);
    eps__quad least = f->value[0] - f->error[0], slope = fabsq(f->value[1]) + f->error[1];
    return bent > 0 && least > 0 &&
           eps__quad_lower(4 * bent * least, ROUNDINGS) > eps__quad_raise(slope * slope, ROUNDINGS) + UNDERFLOW_LOSS;
}

/* Whether f >= 0 on [at, at + length], at the point of expansion, because no Bernstein coefficient of f is negative
 * (M4). */
static bool bernstein(const struct eps__expansion *f, eps__quad length)
{
    size_t n = f->degree;
    eps__quad value[EPS__MOMENTS_MAX + 1], error[EPS__MOMENTS_MAX + 1], scale = 1;
    eps__quad units = (eps__quad)(4 * n + 16) * EPS__QUAD_ROUNDOFF;
    for (size_t k = 0; k <= n; k++) {
        if (!(scale >= QUAD_MIN)) /* underflow */
            return false;
        value[k] = f->value[k] * scale;
        error[k] = (f->error[k] + units * (fabsq(f->value[k]) + f->error[k])) * scale + UNDERFLOW_LOSS;
        scale *= length * (eps__quad)(k + 1) / (eps__quad)(n - k > 0 ? n - k : 1); /* length^k / (n over k) */
    }
    for (size_t pass = 1; pass <= n; pass++)
        for (size_t k = n; k >= pass; k--) {
            value[k] += value[k - 1];
            error[k] += error[k - 1];
        }
    for (size_t k = 0; k <= n; k++)
        if (!certainly_positive(value[k], eps__quad_raise(error[k], ROUNDINGS)))
            return false;
    return true;
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

/* The middle of an interval; the geometric mean if the ends differ by a large factor. */
static eps__quad middle(eps__quad from, eps__quad to)
{
    if (from > 0 && to > 8 * from)
        return sqrtq(from) * sqrtq(to);
    if (to < 0 && from < 8 * to)
        return -(sqrtq(-from) * sqrtq(-to));
    return from + (to - from) / 2;
}

/* A contact inside the interval, or NULL. */
static const eps__quad *contact(const struct cover *cover, const struct interval *whole)
{
    for (size_t i = 0; i < cover->hints->len; i++)
        if (whole->from < cover->hints->node[i] && cover->hints->node[i] < whole->to)
            return &cover->hints->node[i];
    return NULL;
}

/* Covers a bowl around a contact, if one is found; left[]: what remains on both sides. */
static void cover_contact(struct cover *cover, const struct interval *whole, eps__quad at, struct interval left[2])
{
    struct eps__expansion f;
    eps__polynomial_expand(&f, cover->p, cover->payoff, cover->above, at);
    eps__quad r = fmaxq(whole->to - at, at - whole->from), low = at, high = at;
    for (int i = 0; i < RADII; i++, r /= 2)
        if (bowl(&f, r)) {
            eps__quad inwards = 4 * EPS__QUAD_ROUNDOFF * (fabsq(at) + r);
            low = fminq(at - r + inwards, at);
            high = fmaxq(at + r - inwards, at);
            break;
        }
    left[0] = (struct interval){whole->from, low};
    left[1] = (struct interval){high, whole->to};
}

/* Covers part of an interval or halves it. What remains is in left[0] and left[1], empty if to <= from. False: no
 * proof. */
static bool cover_some(struct cover *cover, const struct interval *whole, struct interval left[2])
{
    if (++cover->expansions > EXPANSIONS_MAX)
        return false;
    const eps__quad *at = contact(cover, whole);
    if (at) {
        cover_contact(cover, whole, *at, left);
        return true;
    }
    struct eps__expansion f;
    eps__polynomial_expand(&f, cover->p, cover->payoff, cover->above, whole->from);
    eps__quad half = middle(whole->from, whole->to);
    if (bernstein(&f, eps__quad_raise(whole->to - whole->from, 4))) {
        left[0] = left[1] = (struct interval){0, 0};
        return true;
    }
    left[0] = (struct interval){whole->from, half};
    left[1] = (struct interval){half, whole->to};
    return whole->from < half && half < whole->to && f.value[0] >= f.error[0];
}

/* Whether f >= 0 on [from, to]. */
static bool covers(struct cover *cover, eps__quad from, eps__quad to)
{
    struct interval waiting[WAITING_MAX];
    size_t len = 0;
    waiting[len++] = (struct interval){from, to};
    while (len > 0) {
        struct interval left[2], whole = waiting[--len];
        if (len + 2 > WAITING_MAX || !cover_some(cover, &whole, left))
            return false;
        for (int i = 0; i < 2; i++)
            if (left[i].from < left[i].to)
                waiting[len++] = left[i];
    }
    return true;
}

/* A t beyond which f >= 0, because none of its coefficients there is negative; NAN if none was found. */
static eps__quad far_out(const struct cover *cover, eps__quad from)
{
    eps__quad at = from > 0 ? 2 * from : from + 1;
    if (!(cover->p->c[cover->p->degree] >= 0)) /* f has this coefficient at every point of expansion, as degree >= 2 */
        return (eps__quad)NAN;
    for (int i = 0; i < DOUBLINGS; i++, at *= 2) {
        struct eps__expansion f;
        eps__polynomial_expand(&f, cover->p, cover->payoff, cover->above, at);
        bool positive = true;
        for (size_t k = 0; k < f.degree && positive; k++)
            positive = certainly_positive(f.value[k], f.error[k]);
        if (positive)
            return at;
    }
    return (eps__quad)NAN;
}

/* Whether the coefficients have the sizes that M2 assumes. */
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
    assert(2 <= p->degree && p->degree <= EPS__MOMENTS_MAX && hints->len <= EPS__CONTACTS_MAX);
    if (!in_range(p) || !(payoff->kink > -1) || !(payoff->kink <= LARGEST))
        return false;
    struct cover below = {p, payoff, hints, false, 0}, above = {p, payoff, hints, true, 0};
    eps__quad last = hints->len ? fmaxq(hints->node[hints->len - 1], payoff->kink) : payoff->kink;
    eps__quad far = far_out(&above, last);
    return finiteq(far) && covers(&below, -1, payoff->kink) && covers(&above, payoff->kink, far);
}
