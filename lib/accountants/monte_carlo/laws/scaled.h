/*
 * Non-negative numbers with a separate exponent, for sums of products that leave the range of doubles. Every operation
 * is within one unit of roundoff unless noted.
 *
 * SPDX-License-Identifier: GPL-3.0-or-later
 */
#ifndef EPS_ACCOUNTANTS_MONTE_CARLO_LAWS_SCALED_H
#define EPS_ACCOUNTANTS_MONTE_CARLO_LAWS_SCALED_H

#include <math.h>

#include <sleef.h>

/* mantissa 2^exponent, with the mantissa in [1/2, 1) and a whole exponent; 0 is mantissa 0 and exponent -INFINITY. */
struct eps__scaled {
    double mantissa, exponent;
};

static inline struct eps__scaled eps__scaled_of(double mantissa, double exponent)
{
    int shift;
    mantissa = frexp(mantissa, &shift);
    return (struct eps__scaled){mantissa, mantissa == 0 ? -INFINITY : exponent + shift};
}

static inline struct eps__scaled eps__scaled_times(struct eps__scaled a, struct eps__scaled b)
{
    return eps__scaled_of(a.mantissa * b.mantissa, a.exponent + b.exponent);
}

/* factor a, for factor >= 0. */
static inline struct eps__scaled eps__scaled_by(double factor, struct eps__scaled a)
{
    return eps__scaled_of(factor * a.mantissa, a.exponent);
}

/* Drops the smaller summand if it is less than 2^-199 of the larger one. */
static inline struct eps__scaled eps__scaled_add(struct eps__scaled a, struct eps__scaled b)
{
    struct eps__scaled most = a.exponent < b.exponent ? b : a, least = a.exponent < b.exponent ? a : b;
    double apart = least.exponent - most.exponent; /* NAN where both are 0 */
    if (!(apart > -200))
        return most;
    return eps__scaled_of(most.mantissa + ldexp(least.mantissa, (int)apart), most.exponent);
}

/* e^x for |x| < 1e9, within four units of roundoff. */
static inline struct eps__scaled eps__scaled_exp(double x)
{
    double whole = rint(x * M_LOG2E), rest = fma(-whole, 0x1.abc9e3b39803fp-56, fma(-whole, M_LN2, x));
    return eps__scaled_of(Sleef_cinz_expd1_u10purec(rest), whole);
}

/* ln x, within a few units of the sizes of its two terms. */
static inline double eps__scaled_log(struct eps__scaled x)
{
    return Sleef_cinz_logd1_u10purec(x.mantissa) + x.exponent * M_LN2;
}

#endif
