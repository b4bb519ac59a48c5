/*
 * Canonical representations by orthogonal polynomials.
 *
 * With J moments fixed, the laws that may attain the optimum form a one-parameter family, a circle. The nodes of each
 * law are the eigenvalues of a Jacobi matrix. The moments determine its entries except the last one on the diagonal,
 * which is the free parameter. For even J the matrix belongs to the law of X. For odd J there is a further node at X =
 * 0, and the matrix belongs to X times the law, whose moments are mu_j + mu_(j+1).
 *
 * On the circle the mean of the payoff is least where a node is at the kink, and it has one maximum (M5). The maximum
 * is found by the sign of the derivative, which is the sign of the payoff's divided difference with every node taken
 * twice. If the best law would have a node below X = 0, the law with a node at X = 0 replaces it.
 *
 * Recurrences are computed from the moments in quadruple precision. The rest is in long double, which is precise enough
 * because the bound is flat near the optimum.
 *
 * SPDX-License-Identifier: GPL-3.0-or-later
 */
#include "lib/moments/bounds/canonical.h"

#include <assert.h>
#include <math.h>

enum { ROOT_STEPS = 400, SEARCH_STEPS = 80, NODES_MAX = EPS__CONTACTS_MAX };

/* ---------------------------------------------------------------- recurrences */

/* Chebyshev's algorithm for the recurrence, from the moments 0..len of a measure; moment[0] = 1. It stops before the
 * first b that is not positive and finite. */
static void chebyshev(struct eps__recurrence *r, const eps__quad *moment, size_t len)
{
    eps__quad older[EPS__MOMENTS_MAX + 1] = {0}, old[EPS__MOMENTS_MAX + 1], now[EPS__MOMENTS_MAX + 1];
    for (size_t l = 0; l <= len; l++)
        old[l] = moment[l];
    eps__quad a = moment[1], b = 1;
    *r = (struct eps__recurrence){.a_len = 1, .b_len = 1};
    r->a[0] = (long double)a;
    r->b[0] = 1;
    for (size_t k = 1; 2 * k <= len; k++) {
        for (size_t l = k; l + k <= len; l++)
            now[l] = old[l + 1] - a * old[l] - b * older[l];
        eps__quad next = now[k] / old[k - 1];
        if (!(next > 0) || !finiteq(next))
            return;
        r->b[r->b_len++] = (long double)next;
        if (2 * k + 1 > len)
            return;
        a = now[k + 1] / now[k] - old[k] / old[k - 1];
        b = next;
        if (!finiteq(a))
            return;
        r->a[r->a_len++] = (long double)a;
        for (size_t l = 0; l <= len; l++) {
            older[l] = old[l];
            old[l] = l >= k && l + k <= len ? now[l] : 0;
        }
    }
}

/* ---------------------------------------------------------------- nodes */

/* A Jacobi matrix of n rows whose last entry on the diagonal is free. Its eigenvalues are the nodes. */
struct jacobi {
    const struct eps__recurrence *r;
    size_t n;
    const long double *inner;    /* the roots of pi_(n-1), which separate the nodes */
    long double near[NODES_MAX]; /* the nodes found last, from which the next search starts */
    bool known;                  /* whether there are such nodes */
};

struct law {
    size_t len;
    long double node[NODES_MAX], weight[NODES_MAX];
};

/* pi_n at x and its derivative, with the last diagonal entry replaced by `last`. */
static long double pi_at(const struct eps__recurrence *r, size_t n, long double last, long double x, long double *slope)
{
    long double before = 0, now = 1, slope_before = 0, slope_now = 0;
    for (size_t k = 0; k < n; k++) {
        long double a = k + 1 == n ? last : r->a[k], b = k > 0 ? r->b[k] : 0;
        long double next = (x - a) * now - b * before, slope_next = now + (x - a) * slope_now - b * slope_before;
        before = now;
        now = next;
        slope_before = slope_now;
        slope_now = slope_next;
    }
    *slope = slope_now;
    return now;
}

/* The middle of an interval on a scale that is linear near 0 and logarithmic far out. */
static long double between(long double low, long double high, long double scale)
{
    return scale * sinhl((asinhl(low / scale) + asinhl(high / scale)) / 2);
}

/* The only root of pi_n in [low, high], by Newton's method safeguarded by bisection. It starts at x if that is inside,
 * else in the middle. */
static long double root(const struct eps__recurrence *r, size_t n, long double last, long double low, long double high,
                        long double x)
{
    long double slope, step_before = high - low;
    bool rising = pi_at(r, n, last, high, &slope) > 0;
    if (!(low < x && x < high))
        x = between(low, high, r->scale);
    for (int i = 0; i < ROOT_STEPS; i++) {
        long double value = pi_at(r, n, last, x, &slope);
        if (value == 0)
            return x;
        if ((value > 0) == rising)
            high = x;
        else
            low = x;
        long double next = x - value / slope, step = fabsl(next - x);
        if (step <= 0x1p-60L * (fabsl(x) + r->scale))
            return x;
        if (!(low < next && next < high) || step > 0.5L * step_before) {
            next = between(low, high, r->scale);
            step = high - low;
        }
        if (!(low < next && next < high))
            return x;
        step_before = step;
        x = next;
    }
    return x;
}

/* An interval that contains all nodes, by Gershgorin's discs. */
static void span(const struct eps__recurrence *r, size_t n, long double last, long double *low, long double *high)
{
    *low = INFINITY;
    *high = -INFINITY;
    for (size_t k = 0; k < n; k++) {
        long double a = k + 1 == n ? last : r->a[k];
        long double reach = (k > 0 ? sqrtl(r->b[k]) : 0) + (k + 1 < n ? sqrtl(r->b[k + 1]) : 0);
        *low = fminl(*low, a - reach);
        *high = fmaxl(*high, a + reach);
    }
    long double margin = 0x1p-50L * fmaxl(fabsl(*low), fabsl(*high)) + r->scale * 0x1p-50L;
    *low -= margin;
    *high += margin;
}

/* The n roots of pi_n, given those of pi_{n-1} in `inner`. near: starting points or NULL; may be the same array as
 * nodes. */
static void interlace(long double *nodes, const struct eps__recurrence *r, size_t n, long double last,
                      const long double *inner, const long double *near)
{
    long double low, high;
    span(r, n, last, &low, &high);
    for (size_t i = 0; i < n; i++)
        nodes[i] =
            root(r, n, last, i > 0 ? inner[i - 1] : low, i + 1 < n ? inner[i] : high, near ? near[i] : -INFINITY);
}

/* The roots of every pi_k, which bracket those of pi_{k+1}. */
static void find_roots(struct eps__recurrence *r)
{
    size_t len = r->a_len < r->b_len ? r->a_len : r->b_len;
    assert(len < EPS__CONTACTS_MAX + 1);
    r->scale = 0x1p-10L * (r->b_len > 1 ? sqrtl(r->b[1]) : 1);
    for (size_t k = 1; k <= len; k++)
        interlace(r->roots[k], r, k, r->a[k - 1], r->roots[k - 1], NULL);
}

void eps__canonical_prepare(struct eps__canonical *canonical, const struct eps__moments *moments, size_t len)
{
    assert(2 <= len && len <= moments->len && len <= EPS__MOMENTS_MAX);
    eps__quad weighted[EPS__MOMENTS_MAX + 1];
    for (size_t j = 0; j < len; j++)
        weighted[j] = moments->central[j] + moments->central[j + 1];
    chebyshev(&canonical->plain, moments->central, len);
    chebyshev(&canonical->weighted, weighted, len - 1);
    find_roots(&canonical->plain);
    find_roots(&canonical->weighted);
}

static void prepare(struct jacobi *j, const struct eps__recurrence *r, size_t n)
{
    *j = (struct jacobi){.r = r, .n = n, .inner = r->roots[n - 1]};
}

/* The nodes for this value of the free entry. */
static const long double *nodes_of(struct jacobi *j, long double last)
{
    interlace(j->near, j->r, j->n, last, j->inner, j->known ? j->near : NULL);
    j->known = true;
    return j->near;
}

/* The law with this value of the free entry: its nodes and weights. */
static void weigh(struct law *law, struct jacobi *j, long double last)
{
    const long double *node = nodes_of(j, last);
    law->len = j->n;
    for (size_t i = 0; i < law->len; i++) {
        long double before = 0, now = 1, sum = 1, x = law->node[i] = node[i]; /* orthonormal polynomials at x */
        for (size_t k = 0; k + 1 < j->n; k++) {
            long double next =
                ((x - j->r->a[k]) * now - (k > 0 ? sqrtl(j->r->b[k]) : 0) * before) / sqrtl(j->r->b[k + 1]);
            before = now;
            now = next;
            sum += now * now;
        }
        law->weight[i] = 1 / sum;
    }
}

/* ---------------------------------------------------------------- the best law */

struct search {
    struct jacobi jacobi;
    const struct eps__payoff *payoff;
    long double kink;
    bool weighted;
};

/* The term of node i, taken twice, in the divided difference of a function with this value and slope there. */
static long double share(const struct search *s, const long double *node, size_t i, long double value,
                         long double slope)
{
    long double product = 1, sum = 0;
    for (size_t k = 0; k < s->jacobi.n; k++)
        if (k != i) {
            product *= node[i] - node[k];
            sum += 1 / (node[i] - node[k]);
        }
    return (slope - 2 * value * sum) / (product * product);
}

/* A number with the sign of the derivative of the payoff's mean with respect to the free entry: the payoff's divided
 * difference at all contacts (M5). It is 0 if the interpolating polynomial has the right degree. */
static long double rise(struct search *s, long double last)
{
    const struct jacobi *j = &s->jacobi;
    const long double *node = nodes_of(&s->jacobi, last);
    long double sum = 0, at_zero = 1, k = s->kink, sign = s->payoff->direction == EPS_REMOVE ? 1 : -1;
    for (size_t i = 0; i < j->n; i++) {
        long double x = 1 + node[i], value = sign * (node[i] - k);
        at_zero *= x;
        if (value > 0)
            sum +=
                s->weighted ? share(s, node, i, value / x, sign * (k + 1) / (x * x)) : share(s, node, i, value, sign);
    }
    return s->weighted && sign < 0 ? sum + (k + 1) / (at_zero * at_zero) : sum;
}

/* The entry in [low, high] at which the mean is largest; it rises at low and falls at high. Regula falsi in the
 * Illinois variant, with a bisection every third step. */
static long double level(struct search *s, long double low, long double high, long double at_low, long double at_high)
{
    long double scale = s->jacobi.r->scale;
    int stuck = 0;
    for (int i = 0; i < SEARCH_STEPS && high - low > 0x1p-56L * (fabsl(low) + fabsl(high) + scale); i++) {
        long double at = (low * at_high - high * at_low) / (at_high - at_low);
        if (i % 3 == 0 || !(low < at && at < high))
            at = between(low, high, scale);
        if (!(low < at && at < high))
            break;
        long double value = rise(s, at);
        if (value > 0) {
            low = at;
            at_low = value;
            at_high *= stuck > 0 ? 0.5L : 1;
            stuck = 1;
        } else {
            high = at;
            at_high = value;
            at_low *= stuck < 0 ? 0.5L : 1;
            stuck = -1;
        }
    }
    return between(low, high, scale);
}

/* The free entry at which the mean is largest. False if it is at infinity, where the last moment does not help. */
static bool best_entry(struct search *s, long double *entry)
{
    const struct jacobi *j = &s->jacobi;
    long double low, high, slope, k = s->kink;
    span(j->r, j->n - 1, j->r->a[j->n - 2], &low, &high);
    long double far = 0x1p40L * fmaxl(fmaxl(fabsl(low), fabsl(high)), fmaxl(fabsl(k), sqrtl(j->r->b[j->n - 1])));
    long double at_kink = k - j->r->b[j->n - 1] * pi_at(j->r, j->n - 2, j->n > 2 ? j->r->a[j->n - 3] : 0, k, &slope) /
                                  pi_at(j->r, j->n - 1, j->r->a[j->n - 2], k, &slope);
    bool inside = -far < at_kink && at_kink < far;
    long double first = rise(s, -far), second = rise(s, far);
    if (inside && second < 0) /* above the entry with a node at the kink, the mean first rises and then falls */
        *entry = level(s, at_kink, far, 1, second);
    else if (inside && first > 0)
        *entry = level(s, -far, at_kink, first, -1);
    else if (!inside && first > 0 && second < 0)
        *entry = level(s, -far, far, first, second);
    else
        return false;
    return true;
}

static long double payoff_at(const struct eps__payoff *payoff, long double t)
{
    long double over = t - (long double)payoff->kink;
    return fmaxl(payoff->direction == EPS_REMOVE ? over : -over, 0);
}

/* The mean of the payoff under the law, or NAN if the weights are not those of a law. zero: with a node at X = 0. */
static long double mean_of(const struct law *law, const struct eps__payoff *payoff, bool zero)
{
    long double sum = 0, left = 1;
    for (size_t i = 0; i < law->len; i++) {
        long double weight = zero ? law->weight[i] / (1 + law->node[i]) : law->weight[i];
        sum += weight * payoff_at(payoff, law->node[i]);
        left -= weight;
    }
    if (zero && !(left > 0x1p-56L)) /* up to rounding, the weight at X = 0 may be negative */
        return NAN;
    return zero ? sum + fmaxl(left, 0) * payoff_at(payoff, -1) : sum;
}

bool eps__canonical_contacts(struct eps__contacts *contacts, long double *mean, const struct eps__canonical *canonical,
                             size_t degree, bool corner, const struct eps__payoff *payoff)
{
    bool zero = corner || degree % 2 == 1, free_entry = !corner;
    const struct eps__recurrence *r = zero ? &canonical->weighted : &canonical->plain;
    size_t n = zero ? (degree + 1) / 2 : degree / 2 + 1;
    struct search s = {.payoff = payoff, .kink = (long double)payoff->kink, .weighted = zero};
    struct law law;
    long double last;
    assert(2 <= degree && degree <= EPS__MOMENTS_MAX && (!corner || degree % 2 == 0) && n <= NODES_MAX);
    if (r->b_len < n || r->a_len < (free_entry ? n - 1 : n))
        return false;
    prepare(&s.jacobi, r, n);
    if (!free_entry)
        last = r->a[n - 1];
    else if (!best_entry(&s, &last))
        return false;
    weigh(&law, &s.jacobi, last);
    *contacts = (struct eps__contacts){.len = n, .zero = zero};
    for (size_t i = 0; i < n; i++) {
        if (!(law.node[i] > (i > 0 ? law.node[i - 1] : -1)) || !isfinite(law.node[i]))
            return false;
        contacts->node[i] = law.node[i];
    }
    *mean = mean_of(&law, payoff, zero);
    return true;
}
