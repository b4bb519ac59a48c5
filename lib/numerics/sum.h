/*
 * Compensated sums with a known rounding error. Neumaier's sum of n numbers is within 2u|s| + 2 n^2 u^2 sum|x| of the
 * exact sum, u = 2^-53, which is less than 3u sum|x| for n < 2^25. A sum also records whether any operation rounded, so
 * that the sensitivity of the identity is 1 and not 1.0000000000000018.
 *
 * SPDX-License-Identifier: GPL-3.0-or-later
 */
#ifndef EPS_NUMERICS_SUM_H
#define EPS_NUMERICS_SUM_H

#include <math.h>
#include <stdbool.h>

#include "lib/numerics/bound.h"

/* Error of a sum of up to 2^25 terms or squares, relative to the sum of absolute values: four times the bound above
 * plus the rounding of the squares. */
#define EPS__SUM_ERROR 0x1p-49

/* A product below EPS__SUM_UNDERFLOW may have lost bits to underflow. 2^25 such products add up to less than
 * EPS__SUM_TINY. */
#define EPS__SUM_UNDERFLOW 1e-280
#define EPS__SUM_TINY 1e-270

struct eps__interval {
    double lower, upper;
};

/* A running sum. Start from all zeros. */
struct eps__sum {
    double high, low;
    bool inexact;   /* whether any addition or square was rounded */
    bool underflow; /* whether any square was so small that its rounding error is absolute */
#ifdef EPS_VERIFY
    eps__quad exact;
    bool signs; /* whether any term was negative: then the interval claims nothing */
#endif
};

#ifdef EPS_VERIFY
#define EPS__SUM_EXACTLY(sum, x, first) ((void)((sum)->exact += (x), (sum)->signs |= (first) < 0))
#else
#define EPS__SUM_EXACTLY(sum, x, first) ((void)0)
#endif

static inline void eps__sum_add(struct eps__sum *sum, double x)
{
    double t = sum->high + x;
    double lost = fabs(sum->high) >= fabs(x) ? (sum->high - t) + x : (x - t) + sum->high;
    sum->high = t;
    sum->low += lost;
    EPS__SUM_EXACTLY(sum, x, x);
    if (lost != 0)
        sum->inexact = true;
}

static inline void eps__sum_add_square(struct eps__sum *sum, double x)
{
    double square = x * x;
    if (fma(x, x, -square) != 0)
        sum->inexact = true;
    if (x != 0 && square < EPS__SUM_UNDERFLOW)
        sum->underflow = true;
    eps__sum_add(sum, square);
    EPS__SUM_EXACTLY(sum, (eps__quad)x * x - square, 0);
}

static inline double eps__sum_value(const struct eps__sum *sum)
{
    return sum->high + sum->low;
}

/* Bounds on the exact sum of non-negative terms, each of which had a relative error of at most `relative` before it was
 * added. If `relative` is 0 and nothing was rounded, both ends are the sum itself. */
static inline struct eps__interval eps__sum_interval(const struct eps__sum *sum, double relative)
{
    double s = eps__sum_value(sum);
    double error = EPS__SUM_ERROR + relative * (1 + EPS__SUM_ERROR);
    struct eps__interval interval = {s * (1 - error), s * (1 + error)};
    if (sum->underflow) /* 2^25 squares, each off by at most 2^-1075 */
        interval = (struct eps__interval){fmax(interval.lower - DBL_MIN, 0), interval.upper + EPS__SUM_TINY};
    if (relative <= 0 && !sum->inexact && !sum->underflow)
        interval = (struct eps__interval){s, s};
    EPS__VERIFY(sum->signs ||
                (eps__verify_order(interval.lower, sum->exact) && eps__verify_order(sum->exact, interval.upper)));
    return interval;
}

#endif
