/*
 * Numbers that are bounds.
 *
 * SPDX-License-Identifier: GPL-3.0-or-later
 */
#ifndef EPS_NUMERICS_BOUND_H
#define EPS_NUMERICS_BOUND_H

#include <math.h>

/* Which side of the truth a number is on. */
enum eps__estimate { EPS__UPPER, EPS__LOWER };

/* A bound on ln of a probability. What is no number bounds nothing: then 0 from above, -INFINITY from below. */
static inline double eps__certain(enum eps__estimate estimate, double log_bound)
{
    return isnan(log_bound) ? (estimate == EPS__UPPER ? 0 : -INFINITY) : log_bound;
}

/* ln(e^a + e^b), rounded to nearest. */
static inline double eps__log_add(double a, double b)
{
    double most = fmax(a, b), least = fmin(a, b);
    return isinf(most) ? most : most + log1p(exp(least - most));
}

#endif
