/*
 * Balls in a few bins as points in as many dimensions. The first coordinate is along the sum of the m_i, on which no
 * m_i projects to a negative number, so that P/Q rises along it; the others are the principal axes of what is left.
 *
 * SPDX-License-Identifier: GPL-3.0-or-later
 */
#ifndef EPS_ACCOUNTANTS_QUADRATURE_BIN_POINTS_H
#define EPS_ACCOUNTANTS_QUADRATURE_BIN_POINTS_H

#include <stdbool.h>

#include "lib/moments/laws/bin_gram.h"
#include "lib/numerics/bound.h"

enum { EPS__BIN_POINTS_MOST = 4, EPS__BIN_AXES_MOST = EPS__BIN_POINTS_MOST - 1 };

/* The points, in units of sigma: P = (1/len) sum_i N((along_i, across_i), I), Q = N(0, I). */
struct eps__bin_points {
    size_t len, axes;
    double along[EPS__BIN_POINTS_MOST]; /* >= 0 */
    double across[EPS__BIN_POINTS_MOST][EPS__BIN_AXES_MOST];
};

/*
 * Points whose inner products are no less (EPS__UPPER) or no more (EPS__LOWER) than those of the mechanism, and close
 * to them (A52). bins: at most EPS__BIN_POINTS_MOST, no groups. False if rounding prevents that.
 */
bool eps__bin_points_make(struct eps__bin_points *points, const struct eps__bin_gram *bins,
                          enum eps__estimate estimate);

#endif
