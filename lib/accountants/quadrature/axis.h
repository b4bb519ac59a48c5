/*
 * One axis of a normal vector, divided into cells of one width. A convex function of the vector is replaced by its
 * linear interpolation between the ends of a cell, which is an upper bound on its mean, or by its value at the mean of
 * each cell, which is a lower bound (A52). Both are sums over points; those of several axes are products.
 *
 * SPDX-License-Identifier: GPL-3.0-or-later
 */
#ifndef EPS_ACCOUNTANTS_QUADRATURE_AXIS_H
#define EPS_ACCOUNTANTS_QUADRATURE_AXIS_H

#include <stdbool.h>
#include <stddef.h>

#include "lib/numerics/bound.h"

/* The points of a sum and the logarithms of their weights. */
struct eps__axis_points {
    size_t len;
    double *at, *log_weight;
    double error; /* the absolute error of a point */
};

struct eps__axis {
    size_t cells;
    struct eps__axis_points ends;  /* cells + 1: cell j is from j to j + 1; their weights are rounded up */
    struct eps__axis_points means; /* cells; their weights are rounded down */
};

/* cells >= 1 from low to high > low; |low| and |high| at most 1000. The caller clears it if the return value is true;
 * false: out of memory. */
bool eps__axis_make(struct eps__axis *axis, double low, double high, size_t cells);
void eps__axis_clear(struct eps__axis *axis);

/* The integral of f(z) = e^(tilt z - tilt^2/2) over a cell under the standard normal law, and the same by the sum: of
 * two numbers of which one exceeds the other because f is convex, bounds that make the difference wider. */
struct eps__axis_mean {
    double larger, smaller;
};

/* EPS__UPPER: the larger one is that of f's interpolation, the smaller one exact. EPS__LOWER: the larger one is exact,
 * the smaller one is the mass of the cell times f at its mean. */
struct eps__axis_mean eps__axis_mean(const struct eps__axis *axis, double tilt, size_t j, enum eps__estimate estimate);

#endif
