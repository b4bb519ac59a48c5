/*
 * Cumulative tables: one of n items is drawn by one uniform number. The actual probability of each item, with all
 * rounding included, is at least its weight over a known sum (A31).
 *
 * SPDX-License-Identifier: GPL-3.0-or-later
 */
#ifndef EPS_ACCOUNTANTS_MONTE_CARLO_LAWS_CUMULATIVE_H
#define EPS_ACCOUNTANTS_MONTE_CARLO_LAWS_CUMULATIVE_H

#include <stddef.h>

/* Makes the table of n weights >= 0, 1 <= n < 2^30. ends: n numbers, may be the same array as weight. Returns the sum;
 * 0 if all weights are 0 and INFINITY if their sum is not finite: then there is no table. */
double eps__cumulative_make(double *ends, const double *weight, size_t n);

/* Returns the item that a number of eps__uniform() draws. An item of weight 0 is never drawn. */
size_t eps__cumulative_draw(const double *ends, size_t n, double uniform);

#endif
