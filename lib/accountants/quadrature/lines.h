/*
 * Sixteen lines along the first coordinate side by side, and the closed form of delta(eps) along each (A52).
 *
 * SPDX-License-Identifier: GPL-3.0-or-later
 */
#ifndef EPS_ACCOUNTANTS_QUADRATURE_LINES_H
#define EPS_ACCOUNTANTS_QUADRATURE_LINES_H

#include <stdbool.h>

#include "lib/accountants/quadrature/bin_points.h"
#include "lib/epsilon.h"
#include "lib/numerics/normal_tails.h"

enum { EPS__LINES = EPS__LANES };

#define EPS__LINE_FARTHEST 40.0 /* beyond it the standard normal law has no mass */

/* On a line along the first coordinate s, X(s) = sum_i e^(y_i + along_i s). */
struct eps__lines {
    const struct eps__bin_points *points;
    const struct eps__normal_tails *tails;
    double y[EPS__BIN_POINTS_MOST][EPS__LINES];
    double log_weight[EPS__LINES];
    double sizes[EPS__LINES]; /* the largest sum of sizes in a y_i */
    double error;             /* of the y_i, beyond their rounding */
    double most;              /* the largest along_i */
};

/* Where lines are cut. */
struct eps__cuts {
    double at[EPS__LINES], slope[EPS__LINES]; /* the slope of ln X there */
    double missed[EPS__LINES]; /* a bound on the distance of ln X from its target; INFINITY: on the wrong side */
};

/* Finds where ln X is a little below `target`, or a little above it, on each line. */
void eps__lines_cut(const struct eps__lines *lines, double target, bool below, struct eps__cuts *cuts);

/* The integral of X phi (remove) or phi (add) along each line, weight included, rounded up. */
void eps__lines_at_most(const struct eps__lines *lines, enum eps_direction direction, double *out);

/* Whether the cut of a line is proven to be where an upper bound needs it. */
bool eps__line_is_placed(const struct eps__lines *lines, size_t line, enum eps_direction direction, double eps,
                         const struct eps__cuts *cuts);

/* A bound on the integral of (X - e^eps)_+ phi (remove) or (1 - e^eps X)_+ phi (add) along each line, weight included.
 * Any cut gives a lower bound. NAN stays NAN where it would be an upper bound. */
void eps__lines_integrals(const struct eps__lines *lines, enum eps_direction direction, enum eps__estimate estimate,
                          double eps, const struct eps__cuts *cuts, double *out);

#endif
