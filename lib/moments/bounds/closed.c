/*
 * See closed.h. All computations are in quadruple precision, and units are its units of roundoff.
 *
 * SPDX-License-Identifier: GPL-3.0-or-later
 */
#include "lib/moments/bounds/closed.h"

#include <assert.h>
#include <math.h>

#include "lib/numerics/bound.h"

/* An error bound in units for each of the formulas before the logarithm is taken. */
#define UNITS 64

double eps__moments_log_up(eps__quad log_value)
{
    double value = (double)log_value;
    return eps__shift(EPS__UPPER, value, 2 * EPS__UNIT_ROUNDOFF * fabs(value)); /* N7 */
}

/* expm1q is within 4 units. */
eps__quad eps__moments_distance(enum eps_direction direction, double eps)
{
    return eps__quad_lower(direction == EPS_REMOVE ? expm1q(eps) : -expm1q(-(eps__quad)eps), 8);
}

/* (M6) */
static eps__quad log_scarf(const struct eps__moments *moments, enum eps_direction direction, double eps)
{
    eps__quad variance = eps__quad_raise(moments->central[2] + moments->error[2], 4);
    if (variance < 0)
        return 0;
    eps__quad away = eps__moments_distance(direction, eps), sum = sqrtq(variance + away * away) + away;
    eps__quad bound = variance > 0 ? variance / (2 * sum) : 0, factor = direction == EPS_ADD ? eps : 0;
    eps__quad log_bound = logq(eps__quad_raise(bound, UNITS)) + factor;
    eps__quad kink = expq(direction == EPS_REMOVE ? eps : -(eps__quad)eps);
    if (eps__quad_raise(2 * kink, UNITS) <= 1 + variance) { /* an atom at X = 0 */
        eps__quad excess = direction == EPS_REMOVE ? variance - away : variance;
        log_bound = fminq(log_bound, logq(eps__quad_raise(excess / (1 + variance), UNITS)));
    }
    return log_bound;
}

/* An upper bound on ln E X^alpha (M1). */
static eps__quad log_raw_moment(const struct eps__moments *moments, size_t alpha)
{
    eps__quad sum = 0, size = 0, error = 0, choose = 1;
    for (size_t j = 0; j <= alpha; j++) {
        sum += choose * moments->central[j];
        size += choose * fabsq(moments->central[j]);
        error += choose * moments->error[j];
        choose = choose * (eps__quad)(alpha - j) / (eps__quad)(j + 1); /* exact: an integer */
    }
    eps__quad units = (eps__quad)(alpha + 8) * EPS__QUAD_ROUNDOFF;
    return logq(eps__quad_raise(sum + error + units * (size + error), UNITS));
}

/* The bound from a single order: c X^n touches the call, c (1 - X)^n the put, at X = 0 or above (M6). */
static eps__quad log_single(const struct eps__moments *moments, size_t order, enum eps_direction direction, double eps)
{
    eps__quad n = (eps__quad)order, excess = eps;
    if (direction == EPS_REMOVE)
        return log_raw_moment(moments, order) + (n - 1) * (logq(n - 1) - excess) - n * logq(n);
    eps__quad moment = eps__quad_raise(moments->central[order] + moments->error[order], 4);
    eps__quad away = eps__moments_distance(direction, eps);
    if (moment < 0)
        return 0;
    if (n * away < eps__quad_lower(n - 1, UNITS))
        return excess + (n - 1) * (logq(n - 1) - logq(away)) - n * logq(n) + logq(moment);
    return logq(moment);
}

double eps__moments_closed(const struct eps__moments *moments, size_t len, enum eps_direction direction, double eps,
                           size_t *used)
{
    assert(len <= moments->len);
    double best = 0; /* delta <= 1 */
    *used = 0;
    for (size_t order = 2; order <= len; order += direction == EPS_ADD ? 2 : 1) {
        eps__quad log_bound = log_single(moments, order, direction, eps);
        if (order == 2)
            log_bound = fminq(log_bound, log_scarf(moments, direction, eps));
        eps__quad lost = UNITS * EPS__QUAD_ROUNDOFF * (eps__quad)(order + 1) * (1 + eps + fabsq(log_bound));
        double bound = finiteq(log_bound) ? eps__moments_log_up(log_bound + lost) : (double)log_bound;
        if (bound < best) {
            best = bound;
            *used = order;
        }
    }
    return best;
}
