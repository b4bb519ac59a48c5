/*
 * Polynomials that touch the payoff at the atoms of a canonical law, are raised to dominate it, and have known means.
 *
 * A polynomial is found by Hermite interpolation; from then on its rounded coefficients are exact by definition. If it
 * is below the payoff, because of rounding or because the contacts are not quite the best ones, it is raised by a
 * multiple of a polynomial that is at least sum |c_j| |t|^j, which measures the rounding. Its mean includes the cost of
 * this, and the certificate decides whether it is enough.
 *
 * SPDX-License-Identifier: GPL-3.0-or-later
 */
#include <assert.h>
#include <math.h>

#include "lib/moments/bounds/polynomial.h"

enum { CONDITIONS_MAX = 2 * EPS__CONTACTS_MAX + 1, NEWTON_STEPS = 8 };

/* A polynomial that is below the payoff by more than this times sum |c_j| |t|^j is not repaired. */
#define LACKS_TOO_MUCH 1e-3L

/* ---------------------------------------------------------------- the mean */

/* (M1) */
eps__quad eps__polynomial_mean(const struct eps__polynomial *p, const struct eps__moments *moments)
{
    assert(p->degree <= moments->len);
    eps__quad mean = 0, size = 0, error = 0;
    for (size_t j = p->degree + 1; j-- > 0;) {
        mean += p->c[j] * moments->central[j];
        size += fabsq(p->c[j] * moments->central[j]);
        error += fabsq(p->c[j]) * moments->error[j];
    }
    eps__quad units = (eps__quad)(2 * p->degree + 8) * EPS__QUAD_ROUNDOFF;
    return eps__quad_raise(mean + eps__quad_raise(error + units * (size + error), 64), 4);
}

/* ---------------------------------------------------------------- touching */

/* The payoff and its slope at t. */
static eps__quad payoff_at(const struct eps__payoff *payoff, eps__quad t, eps__quad *slope)
{
    bool slanted = payoff->direction == EPS_REMOVE ? t > payoff->kink : t < payoff->kink;
    *slope = !slanted ? 0 : payoff->direction == EPS_REMOVE ? 1 : -1;
    return *slope * (t - payoff->kink);
}

/* The points of the interpolation conditions in ascending order: X = 0 once, each other contact twice; the last
 * condition is left out if there is one too many. */
static size_t conditions(eps__quad *at, const struct eps__contacts *contacts, size_t needed)
{
    size_t len = 0;
    if (contacts->zero)
        at[len++] = -1;
    for (size_t i = 0; i < contacts->len; i++) {
        at[len++] = contacts->node[i];
        at[len++] = contacts->node[i];
    }
    assert(needed <= len && len <= needed + 1 && len <= CONDITIONS_MAX);
    return needed;
}

void eps__polynomial_touch(struct eps__polynomial *p, size_t degree, const struct eps__payoff *payoff,
                           const struct eps__contacts *contacts)
{
    eps__quad at[CONDITIONS_MAX], divided[CONDITIONS_MAX], slope[CONDITIONS_MAX];
    size_t len = conditions(at, contacts, degree + 1);
    for (size_t i = 0; i < len; i++)
        divided[i] = payoff_at(payoff, at[i], &slope[i]);
    for (size_t k = 1; k < len; k++)
        for (size_t i = len; i-- > k;)
            divided[i] = at[i] == at[i - k] ? slope[i] : (divided[i] - divided[i - 1]) / (at[i] - at[i - k]);
    *p = (struct eps__polynomial){.degree = degree};
    for (size_t i = len; i-- > 0;) { /* p = p (t - at_i) + divided_i */
        for (size_t j = degree; j > 0; j--)
            p->c[j] = p->c[j - 1] - at[i] * p->c[j];
        p->c[0] = divided[i] - at[i] * p->c[0];
    }
}

/* ---------------------------------------------------------------- raising */

/* The coefficients of a polynomial that is at least sum size_j |t|^j on t >= -1. An odd power |t|^j is at most a
 * weighted mean of its neighbours, by the inequality of the means; the weights make both neighbours equally large under
 * the law. An odd highest power is at most t^j + 2 t^(j-1). */
static void majorant(eps__quad *s, const eps__quad *size, size_t degree, const struct eps__moments *moments)
{
    for (size_t j = 0; j <= degree; j++)
        s[j] = 0;
    for (size_t j = 0; j <= degree; j++) {
        if (j % 2 == 0) {
            s[j] += size[j];
        } else if (j == degree) {
            s[j] += size[j];
            s[j - 1] += 2 * size[j];
        } else {
            eps__quad ratio = sqrtq(moments->central[j + 1] / moments->central[j - 1]);
            if (!(ratio > 0) || !finiteq(ratio))
                ratio = 1;
            s[j - 1] += size[j] * ratio / 2;
            s[j + 1] += size[j] / ratio / 2;
        }
    }
}

/* found[]: p - payoff at t, its derivative, and half its second derivative. */
static void look(eps__quad found[3], const struct eps__polynomial *p, const struct eps__payoff *payoff, eps__quad t)
{
    eps__quad a = 0, b = 0, c = 0, slope, value = payoff_at(payoff, t, &slope);
    for (size_t j = p->degree + 1; j-- > 0;) {
        c = c * t + b;
        b = b * t + a;
        a = a * t + p->c[j];
    }
    found[0] = a - value;
    found[1] = b - slope;
    found[2] = c;
}

/* Moves a contact, by Newton's method, to the nearby minimum of p - payoff in (low, high). Returns the value there. */
static eps__quad settle(eps__quad *t, const struct eps__polynomial *p, const struct eps__payoff *payoff, eps__quad low,
                        eps__quad high)
{
    eps__quad found[3];
    look(found, p, payoff, *t);
    for (int i = 0; i < NEWTON_STEPS && found[2] > 0; i++) {
        eps__quad next = *t - found[1] / (2 * found[2]), there[3];
        if (!(low < next && next < high) || next == *t)
            break;
        look(there, p, payoff, next);
        if (!(there[0] < found[0]))
            break;
        *t = next;
        for (int k = 0; k < 3; k++)
            found[k] = there[k];
    }
    return found[0];
}

static eps__quad polynomial_at(const eps__quad *c, size_t degree, eps__quad t)
{
    eps__quad value = 0;
    for (size_t j = degree + 1; j-- > 0;)
        value = value * t + c[j];
    return value;
}

bool eps__polynomial_repair(struct eps__polynomial *p, const struct eps__payoff *payoff, struct eps__contacts *contacts,
                            const struct eps__moments *moments)
{
    size_t n = p->degree;
    eps__quad size[EPS__MOMENTS_MAX + 1], s[EPS__MOMENTS_MAX + 1], lacking = 0;
    for (size_t j = 0; j <= n; j++)
        size[j] = fabsq(p->c[j]);
    size[0] += fabsq(payoff->kink);
    size[1] += 1;
    majorant(s, size, n, moments);
    for (size_t i = 0; i < contacts->len; i++) {
        eps__quad *t = &contacts->node[i];
        bool above = *t > payoff->kink;
        eps__quad low = i > 0 ? contacts->node[i - 1] : -1,
                  high = i + 1 < contacts->len ? contacts->node[i + 1] : 2 * *t + 2;
        low = above ? fmaxq(low, payoff->kink) : low;
        high = above ? high : fminq(high, payoff->kink);
        eps__quad least = settle(t, p, payoff, low, high);
        lacking = fmaxq(lacking, -least / polynomial_at(s, n, *t));
    }
    eps__quad slope, zero = polynomial_at(p->c, n, -1) - payoff_at(payoff, -1, &slope);
    lacking = fmaxq(lacking, -zero / polynomial_at(s, n, -1));
    if (!(lacking < LACKS_TOO_MUCH))
        return false;
    lacking = 2 * lacking + (eps__quad)(8 * n + 64) * EPS__QUAD_ROUNDOFF;
    for (size_t j = 0; j <= n; j++)
        p->c[j] += lacking * s[j];
    return true;
}
