/*
 * Numbers >= 0 with an exponent of their own, for a recursion that would leave the range of doubles.
 *
 * SPDX-License-Identifier: GPL-3.0-or-later
 */
#ifndef EPS_ACCOUNTANTS_MC_SCALED_H
#define EPS_ACCOUNTANTS_MC_SCALED_H

#include <math.h>

#include <sleef.h>

/* mantissa 2^exponent, the mantissa 0 or in [1/2, 1). */
struct eps__scaled {
    double mantissa, exponent;
};

static inline struct eps__scaled eps__scaled_normal(double mantissa, double exponent)
{
    int shift;
    mantissa = frexp(mantissa, &shift);
    return (struct eps__scaled){mantissa, mantissa == 0 ? -INFINITY : exponent + shift};
}

static inline struct eps__scaled eps__scaled_add(struct eps__scaled a, struct eps__scaled b)
{
    struct eps__scaled most = a.exponent < b.exponent ? b : a, least = a.exponent < b.exponent ? a : b;
    double apart = least.exponent - most.exponent;
    if (!(apart > -200))
        return most;
    return eps__scaled_normal(most.mantissa + ldexp(least.mantissa, (int)apart), most.exponent);
}

/* a factor >= 0 times b */
static inline struct eps__scaled eps__scaled_times(double factor, struct eps__scaled b)
{
    return eps__scaled_normal(factor * b.mantissa, b.exponent);
}

static inline struct eps__scaled eps__scaled_product(struct eps__scaled a, struct eps__scaled b)
{
    return eps__scaled_normal(a.mantissa * b.mantissa, a.exponent + b.exponent);
}

/* e^x */
static inline struct eps__scaled eps__scaled_power(double x)
{
    double whole = rint(x * M_LOG2E);
    return eps__scaled_normal(Sleef_cinz_expd1_u10purec(fma(-whole, 0x1.abc9e3b39803fp-56, fma(-whole, M_LN2, x))),
                              whole);
}

/* ln a */
static inline double eps__scaled_log(struct eps__scaled a)
{
    return Sleef_cinz_logd1_u10purec(a.mantissa) + a.exponent * M_LN2;
}

#endif
