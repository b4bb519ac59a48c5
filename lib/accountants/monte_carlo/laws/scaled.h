/*
 * Numbers >= 0 with an exponent of their own, for sums of products that leave the range of doubles.
 *
 * SPDX-License-Identifier: GPL-3.0-or-later
 */
#ifndef EPS_ACCOUNTANTS_MONTE_CARLO_LAWS_SCALED_H
#define EPS_ACCOUNTANTS_MONTE_CARLO_LAWS_SCALED_H

#include <math.h>

#include <sleef.h>

/* mantissa 2^exponent, the mantissa in [1/2, 1), or 0 with the exponent -INFINITY. */
struct eps__scaled {
    double mantissa, exponent;
};

static inline struct eps__scaled eps__scaled_of(double mantissa, double exponent)
{
    int shift;
    mantissa = frexp(mantissa, &shift);
    return (struct eps__scaled){mantissa, mantissa == 0 ? -INFINITY : exponent + shift};
}

/* Both within a unit of roundoff of themselves. */
static inline struct eps__scaled eps__scaled_times(struct eps__scaled a, struct eps__scaled b)
{
    return eps__scaled_of(a.mantissa * b.mantissa, a.exponent + b.exponent);
}

/* A number >= 0 times it. */
static inline struct eps__scaled eps__scaled_by(double factor, struct eps__scaled a)
{
    return eps__scaled_of(factor * a.mantissa, a.exponent);
}

static inline struct eps__scaled eps__scaled_add(struct eps__scaled a, struct eps__scaled b)
{
    struct eps__scaled most = a.exponent < b.exponent ? b : a, least = a.exponent < b.exponent ? a : b;
    double apart = least.exponent - most.exponent; /* NAN where both are 0 */
    if (!(apart > -200))
        return most;
    return eps__scaled_of(most.mantissa + ldexp(least.mantissa, (int)apart), most.exponent);
}

/* e^x for |x| < 1e9, within four units. */
static inline struct eps__scaled eps__scaled_exp(double x)
{
    double whole = rint(x * M_LOG2E), rest = fma(-whole, 0x1.abc9e3b39803fp-56, fma(-whole, M_LN2, x));
    return eps__scaled_of(Sleef_cinz_expd1_u10purec(rest), whole);
}

static inline double eps__scaled_log(struct eps__scaled x)
{
    return Sleef_cinz_logd1_u10purec(x.mantissa) + x.exponent * M_LN2;
}

#endif
