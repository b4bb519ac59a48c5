/*
 * Sums whose rounding is known. A compensated sum (Neumaier) of n numbers is within 2u|s| + 2 n^2 u^2 sum|x| of the
 * exact one, u = 2^-53: for n < 2^25 that is a few u of sum|x|, whatever the length. It also notices when nothing
 * was rounded at all, so that the sensitivity of the identity is 1 and not 1.0000000000000018.
 *
 * SPDX-License-Identifier: GPL-3.0-or-later
 */
#ifndef EPS_NUMERICS_SUM_H
#define EPS_NUMERICS_SUM_H

#include <math.h>
#include <stdbool.h>

/* What a sum of up to 2^25 terms, squares of the terms included, may be off by, relative to the sum of absolute
 * values: four times the bound above plus the rounding of the squares. */
#define EPS__SUM_ERROR 0x1p-49

/* A product under this may have lost bits to underflow; 2^25 of them still add to less than EPS__SUM_TINY. */
#define EPS__SUM_UNDERFLOW 1e-280
#define EPS__SUM_TINY 1e-270

struct eps__interval {
    double lower, upper;
};

/* Zero-initialise. */
struct eps__sum {
    double high, low;
    bool inexact;   /* some addition or square was rounded */
    bool underflow; /* some square was so small that its rounding is absolute */
};

static inline void eps__sum_add(struct eps__sum *sum, double x)
{
    double t = sum->high + x;
    double lost = fabs(sum->high) >= fabs(x) ? (sum->high - t) + x : (x - t) + sum->high;
    sum->high = t;
    sum->low += lost;
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
}

static inline double eps__sum_value(const struct eps__sum *sum)
{
    return sum->high + sum->low;
}

/* Bounds on the exact sum of non-negative terms, each of which may have had a relative error up to `relative`
 * before it was added (0: none, and then an exact sum is returned as it is). */
static inline struct eps__interval eps__sum_interval(const struct eps__sum *sum, double relative)
{
    double s = eps__sum_value(sum);
    if (relative <= 0 && !sum->inexact && !sum->underflow)
        return (struct eps__interval){s, s};
    double error = EPS__SUM_ERROR + relative * (1 + EPS__SUM_ERROR);
    return (struct eps__interval){s * (1 - error), s * (1 + error) + (sum->underflow ? EPS__SUM_TINY : 0)};
}

/* The square root, rounded up and down; exact where it is representable. */
static inline double eps__sqrt_up(double x)
{
    double root = sqrt(x);
    return fma(root, root, -x) >= 0 ? root : nextafter(root, INFINITY);
}

static inline double eps__sqrt_down(double x)
{
    double root = sqrt(x);
    return fma(root, root, -x) <= 0 ? root : nextafter(root, 0);
}

/* The product of non-negative numbers, rounded up and down. */
static inline double eps__multiply_up(double a, double b)
{
    double product = a * b;
    return fma(a, b, -product) <= 0 ? product : nextafter(product, INFINITY);
}

static inline double eps__multiply_down(double a, double b)
{
    double product = a * b;
    return fma(a, b, -product) >= 0 ? product : nextafter(product, 0);
}

#endif
