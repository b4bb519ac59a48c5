/*
 * Directed rounding: the operations that turn a computed number into a proven bound (N6).
 *
 * Up is towards INFINITY, down towards -INFINITY; an upper estimate is rounded up, a lower one down. Errors are either
 * relative, in units of roundoff ("units"; eps__raise(), eps__lower(), eps__outward(), eps__log_bound()), or absolute
 * (eps__shift(), eps__exp_bound()). The verify build checks every operation against quadruple precision at run time.
 *
 * SPDX-License-Identifier: GPL-3.0-or-later
 */
#ifndef EPS_NUMERICS_BOUND_H
#define EPS_NUMERICS_BOUND_H

#include <float.h>
#include <math.h>
#include <stdbool.h>

#include "lib/numerics/verify.h"

/* u of double precision. N7 justifies error bounds of the form: a multiple of u times a sum of sizes. */
#define EPS__UNIT_ROUNDOFF 0x1p-53

/* The side on which a number is a bound. */
enum eps__estimate { EPS__UPPER, EPS__LOWER };

static inline enum eps__estimate eps__other(enum eps__estimate estimate)
{
    return estimate == EPS__UPPER ? EPS__LOWER : EPS__UPPER;
}

/* Returns a bound on the logarithm of a probability, with NAN replaced by the trivial bound: 0 from above, -INFINITY
 * from below. */
static inline double eps__certain(enum eps__estimate estimate, double log_bound)
{
    return isnan(log_bound) ? (estimate == EPS__UPPER ? 0 : -INFINITY) : log_bound;
}

/* ---------------------------------------------------------------- known relative or absolute errors */

/* x moved up or down by `units` unit roundoffs of |x|. units must be at least 2 and be the relative error of x in these
 * units plus 2. */
static inline double eps__raise(double x, double units)
{
    double raised = x * (x > 0 ? 1 + units * EPS__UNIT_ROUNDOFF : 1 - units * EPS__UNIT_ROUNDOFF);
    EPS__VERIFY(units >= 2 && eps__verify_moved(x, raised, units - 2));
    return raised;
}

static inline double eps__lower(double x, double units)
{
    double lowered = x * (x > 0 ? 1 - units * EPS__UNIT_ROUNDOFF : 1 + units * EPS__UNIT_ROUNDOFF);
    EPS__VERIFY(units >= 2 && eps__verify_moved(x, lowered, -(units - 2)));
    return lowered;
}

static inline double eps__outward(enum eps__estimate estimate, double x, double units)
{
    return estimate == EPS__UPPER ? eps__raise(x, units) : eps__lower(x, units);
}

/* x moved by an absolute error and by the rounding of the addition itself. */
static inline double eps__shift(enum eps__estimate estimate, double x, double error)
{
    double moved = fabs(error) + 3 * EPS__UNIT_ROUNDOFF * (fabs(x) + fabs(error));
    double shifted = isinf(x) ? x : estimate == EPS__UPPER ? x + moved : x - moved;
    EPS__VERIFY(eps__verify_shifted(x, shifted, estimate == EPS__UPPER ? error : -error));
    return shifted;
}

/* The bound of eps__exp_bound() from `computed`, the exponential of x shifted by the error. */
static inline double eps__exp_outward(enum eps__estimate estimate, double x, double computed)
{
    double power = eps__outward(estimate, computed, 8);
    if (power < DBL_MIN && x > -INFINITY)
        power = estimate == EPS__UPPER ? DBL_MIN : 0;
    return power;
}

/* A bound on e^y for every y within `error` of x. An underflow gives DBL_MIN as the upper bound and 0 as the lower
 * one. */
static inline double eps__exp_bound(enum eps__estimate estimate, double x, double error)
{
    double power = eps__exp_outward(estimate, x, exp(eps__shift(estimate, x, error)));
    EPS__VERIFY(eps__verify_exp(x, power, estimate == EPS__UPPER ? error : -error));
    return power;
}

/* A bound on ln y for every y > 0 within `units` unit roundoffs of x, units <= 1e12. -INFINITY for x = 0. */
static inline double eps__log_bound(enum eps__estimate estimate, double x, double units)
{
    double value = log(x), error = EPS__UNIT_ROUNDOFF * (1.001 * units + 4 * fabs(value));
    double shifted = isinf(value) ? value : eps__shift(estimate, value, error);
    EPS__VERIFY(eps__verify_log(x, shifted, estimate == EPS__UPPER ? units : -units));
    return shifted;
}

/* ln(e^a + e^b), not rounded outwards: the error is at most 8 units of 1 and of the result. NAN if an argument is
 * NAN. */
static inline double eps__log_add(double a, double b)
{
    if (isnan(a) || isnan(b))
        return NAN;
    double most = fmax(a, b), least = fmin(a, b);
    return isinf(most) ? most : most + log1p(exp(least - most));
}

/* ---------------------------------------------------------------- one operation, exact if its result is
 * representable */

static inline double eps__add_up(double a, double b)
{
    double sum = a + b, part = sum - a, lost = (a - (sum - part)) + (b - part);
    double up = lost > 0 ? nextafter(sum, INFINITY) : sum;
    EPS__VERIFY(eps__verify_order((eps__quad)a + b, up));
    return up;
}

static inline double eps__add_down(double a, double b)
{
    return -eps__add_up(-a, -b);
}

/* For non-negative numbers. Below DBL_MIN/u the rounding error may itself underflow, so the result is always moved. */
static inline double eps__multiply_up(double a, double b)
{
    double product = a * b, up = product;
    if (a > 0 && b > 0 && (product < DBL_MIN / EPS__UNIT_ROUNDOFF || fma(a, b, -product) > 0))
        up = nextafter(product, INFINITY);
    EPS__VERIFY(eps__verify_order((eps__quad)a * b, up));
    return up;
}

static inline double eps__multiply_down(double a, double b)
{
    double product = a * b, down = product;
    if (product > 0 && (product < DBL_MIN / EPS__UNIT_ROUNDOFF || fma(a, b, -product) < 0))
        down = nextafter(product, 0);
    EPS__VERIFY(eps__verify_order(down, (eps__quad)a * b));
    return down;
}

/* Below it the residual of a square root may be lost. */
#define EPS__SQUARE_LEAST 0x1p-969

/* The square root, rounded up or down; exact if it is representable and x is 0 or at least EPS__SQUARE_LEAST. */
static inline double eps__sqrt_up(double x)
{
    bool lost = x > 0 && x < EPS__SQUARE_LEAST;
    double root = sqrt(x), up = !lost && fma(root, root, -x) >= 0 ? root : nextafter(root, INFINITY);
    EPS__VERIFY(eps__verify_order(x, (eps__quad)up * up));
    return up;
}

static inline double eps__sqrt_down(double x)
{
    bool lost = x > 0 && x < EPS__SQUARE_LEAST;
    double root = sqrt(x), down = !lost && fma(root, root, -x) <= 0 ? root : nextafter(root, 0);
    EPS__VERIFY(eps__verify_order((eps__quad)down * down, x));
    return down;
}

#endif
