/*
 * The least of the closed forms and of the means of certified polynomials.
 *
 * A polynomial of a lower degree is also one of a higher degree, so the highest degree is tried first. Lower degrees
 * follow if digits run out, if the errors of the moments cost too much, or if no proof is found.
 *
 * SPDX-License-Identifier: GPL-3.0-or-later
 */
#include "lib/moments/bounds/moments.h"

#include <assert.h>
#include <math.h>
#include <stdlib.h>

#include "lib/base/error.h"
#include "lib/moments/bounds/canonical.h"
#include "lib/moments/bounds/closed.h"
#include "lib/numerics/bound.h"

/* Moments with a larger relative error do not improve bounds. */
#define USELESS 1e-3
/* If a bound is within this factor of what a law attains, no lower degree is tried. */
#define NEAR 1.00001L
/* Larger epsilons are replaced by these, as quadruple precision does not resolve them; delta falls as epsilon rises
 * (M7). */
#define EPSILON_MOST_REMOVE 10000.0
#define EPSILON_MOST_ADD 40.0

enum eps_status eps__moments_alloc(struct eps__moments *moments, size_t len)
{
    assert(len >= 2);
    *moments = (struct eps__moments){.len = len};
    moments->central = calloc(len + 1, sizeof *moments->central);
    moments->error = calloc(len + 1, sizeof *moments->error);
    if (!moments->central || !moments->error) {
        eps__moments_clear(moments);
        return EPS_NO_MEMORY;
    }
    moments->central[0] = 1;
    return EPS_OK;
}

void eps__moments_clear(struct eps__moments *moments)
{
    free(moments->central);
    free(moments->error);
    *moments = (struct eps__moments){0};
}

/* mu_j = sum_i (-1)^{j-i} C(j, i) E X^i, with an error that accounts for cancellation. each: raw[i] is within units[i];
 * otherwise all are within units[0]. */
static void centre(struct eps__moments *moments, const eps__quad *raw, const double *units, bool each)
{
    for (size_t j = 2; j <= moments->len; j++) {
        eps__quad sum = 0, sizes = 0, binomial = 1;
        for (size_t i = j + 1; i-- > 0;) {
            eps__quad term = binomial * (i < 2 ? 1 : raw[i]);
            sum += (j - i) % 2 == 0 ? term : -term;
            sizes += term * (eps__quad)(units[each ? i : 0] + 4 * (double)j);
            binomial = binomial * i / (j - i + 1);
        }
        moments->central[j] = sum;
        moments->error[j] = sizes * (eps__quad)1.01 * EPS__QUAD_ROUNDOFF;
    }
}

void eps__moments_centre(struct eps__moments *moments, const eps__quad *raw, double units)
{
    centre(moments, raw, &units, false);
}

void eps__moments_centre_each(struct eps__moments *moments, const eps__quad *raw, const double *units)
{
    centre(moments, raw, units, true);
}

/* The size of moment j, for comparison with its error: at least that of a normal law's deviation to this power, because
 * odd moments may be near 0. */
static eps__quad size_of(const struct eps__moments *moments, size_t j)
{
    eps__quad power = 1, root = sqrtq(fmaxq(moments->central[2], 0));
    for (size_t i = 0; i < j; i++)
        power *= root;
    return fmaxq(power, fabsq(moments->central[j]));
}

/* A variance is kept whatever its error, because Scarf's bound needs only an upper bound on it (M6). */
void eps__moments_keep_known(struct eps__moments *moments)
{
    for (size_t j = 2; j <= moments->len; j++)
        if (!finiteq(moments->central[j]) || !finiteq(moments->error[j]) ||
            (j > 2 && !(moments->error[j] <= USELESS * size_of(moments, j)))) {
            moments->len = j - 1;
            return;
        }
}

/* The highest order up to which all moments are finite; at least 2. */
static size_t sound_len(const struct eps__moments *moments)
{
    size_t len = 2;
    while (len < moments->len && len < EPS__MOMENTS_MAX && finiteq(moments->central[len + 1]) &&
           finiteq(moments->error[len + 1]))
        len++;
    return len;
}

/* The mean of a certified polynomial of this degree, or NAN. *attained: the payoff's mean under the law on its
 * contacts, or NAN. */
static eps__quad certified(const struct eps__canonical *canonical, const struct eps__moments *moments, size_t degree,
                           bool corner, const struct eps__payoff *payoff, long double *attained)
{
    struct eps__contacts contacts;
    struct eps__polynomial p;
    if (!eps__canonical_contacts(&contacts, attained, canonical, degree, corner, payoff))
        return (eps__quad)NAN;
    eps__polynomial_touch(&p, degree, payoff, &contacts);
    if (!eps__polynomial_repair(&p, payoff, &contacts, moments) || !eps__polynomial_dominates(&p, payoff, &contacts))
        return (eps__quad)NAN;
    return eps__polynomial_mean(&p, moments);
}

enum eps_status eps__moments_log_delta(const struct eps_context *context, const struct eps__moments *moments,
                                       enum eps_direction direction, double eps, double *log_upper, double *log_lower,
                                       size_t *used)
{
    assert(moments->len >= 2 && moments->central[0] == 1 && moments->central[1] == 0 && eps >= 0);
    size_t len = sound_len(moments);
    eps = fmin(eps, direction == EPS_REMOVE ? EPSILON_MOST_REMOVE : EPSILON_MOST_ADD);
    *log_upper = eps__moments_closed(moments, len, direction, eps, used);
    *log_lower = -INFINITY;
    eps__quad away = eps__moments_distance(direction, eps);
    struct eps__payoff payoff = {direction, direction == EPS_REMOVE ? away : -away};
    struct eps__canonical canonical;
    eps__canonical_prepare(&canonical, moments, len);
    double factor = direction == EPS_ADD ? eps : 0;
    bool near = false;
    for (size_t degree = len; degree >= 2 && !near; degree--)
        for (int corner = 0; corner <= (degree % 2 == 0) && !near; corner++) {
            long double attained = NAN;
            eps__quad bound = certified(&canonical, moments, degree, corner, &payoff, &attained);
            double log_bound = bound > 0 ? eps__add_up(eps__moments_log_up(logq(bound)), factor) : INFINITY;
            if (log_bound < *log_upper) {
                *log_upper = log_bound;
                *used = degree;
            }
            near = bound > 0 && bound <= NEAR * attained;
            if (near)
                *log_lower = fmin((double)logl(attained) + factor, *log_upper);
            enum eps_status status = eps__poll(context);
            if (status != EPS_OK)
                return status;
        }
    return EPS_OK;
}
