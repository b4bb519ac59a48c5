/*
 * Quadruple precision: 113 bits of mantissa, 15 bits of exponent (up to e^11356). The functions are libquadmath's,
 * which comes with gcc; they are declared here because clang has no header for them.
 *
 * SPDX-License-Identifier: GPL-3.0-or-later
 */
#ifndef EPS_NUMERICS_QUAD_H
#define EPS_NUMERICS_QUAD_H

__extension__ typedef __float128 eps__quad;

/* The unit roundoff of quadruple precision. */
#define EPS__QUAD_ROUNDOFF 0x1p-113
/* The unit roundoffs of long double, 2^-64, and of double, 2^-53, in units of EPS__QUAD_ROUNDOFF. */
#define EPS__LONG_UNITS 0x1p49
#define EPS__DOUBLE_UNITS 0x1p60

extern eps__quad expq(eps__quad x);
extern eps__quad expm1q(eps__quad x);
extern eps__quad logq(eps__quad x);
extern eps__quad log1pq(eps__quad x);
extern eps__quad erfcq(eps__quad x);
extern eps__quad sqrtq(eps__quad x);
extern eps__quad cosq(eps__quad x);
extern eps__quad sinq(eps__quad x);
extern eps__quad fabsq(eps__quad x);
extern eps__quad fmaxq(eps__quad x, eps__quad y);
extern eps__quad fminq(eps__quad x, eps__quad y);
extern eps__quad nextafterq(eps__quad x, eps__quad y);
extern int finiteq(eps__quad x);

/* x raised or lowered by `units` unit roundoffs of |x|. units must be the relative error of x in these units plus 2
 * (N6). */
static inline eps__quad eps__quad_raise(eps__quad x, double units)
{
    return x > 0 ? x + units * EPS__QUAD_ROUNDOFF * x : x - units * EPS__QUAD_ROUNDOFF * x;
}

static inline eps__quad eps__quad_lower(eps__quad x, double units)
{
    return -eps__quad_raise(-x, units);
}

#endif
