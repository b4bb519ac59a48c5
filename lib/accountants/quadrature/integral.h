/*
 * delta(eps) of points against the origin, by a closed form along the first coordinate and a sum over a grid of the
 * others (A52).
 *
 * SPDX-License-Identifier: GPL-3.0-or-later
 */
#ifndef EPS_ACCOUNTANTS_QUADRATURE_INTEGRAL_H
#define EPS_ACCOUNTANTS_QUADRATURE_INTEGRAL_H

#include "lib/accountants/quadrature/axis.h"
#include "lib/accountants/quadrature/bin_points.h"
#include "lib/epsilon.h"
#include "lib/numerics/sum.h"

struct eps__work;

/* A grid over all coordinates but the first. */
struct eps__bin_grid {
    size_t axes;
    struct eps__axis items[EPS__BIN_AXES_MOST];
    double outside;    /* a bound on what the region beyond the grid adds to delta */
    double negligible; /* remove: what need not be resolved on a line */
};

/*
 * A grid for these points and this direction. log_outside: ln of what may be neglected, about; spacing: the width of a
 * cell times the largest coordinate on its axis, about, and larger if the grid had more cells than `most`. The caller
 * clears it if the return value is true; false: out of memory.
 */
bool eps__bin_grid_make(struct eps__bin_grid *grid, const struct eps__bin_points *points, enum eps_direction direction,
                        double log_outside, double spacing, double most);
void eps__bin_grid_clear(struct eps__bin_grid *grid);

/* The number of cells. */
double eps__bin_grid_cells(const struct eps__bin_grid *grid);

/*
 * A bound on delta(eps), eps >= 0. grid: made for this direction; for EPS__LOWER, the points are those of that
 * estimate. `work` may stop it; then the value is meaningless.
 */
double eps__bin_integral(const struct eps__bin_points *points, const struct eps__bin_grid *grid,
                         enum eps_direction direction, enum eps__estimate estimate, double eps, struct eps__work *work);

#endif
