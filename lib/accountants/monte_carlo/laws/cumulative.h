/*
 * Cumulative tables: which of n items, drawn by one uniform number such that the probability of each, as it is drawn
 * and not as it is meant, is at least its weight over a known sum (A31).
 *
 * SPDX-License-Identifier: GPL-3.0-or-later
 */
#ifndef EPS_ACCOUNTANTS_MONTE_CARLO_LAWS_CUMULATIVE_H
#define EPS_ACCOUNTANTS_MONTE_CARLO_LAWS_CUMULATIVE_H

#include <stddef.h>

/* weight: n >= 1 numbers >= 0, under 2^30 of them; ends: n numbers, may be the same array. Returns the sum; 0: all
 * weights are 0, and nothing can be drawn; INFINITY: nor can it where they have no finite sum. */
double eps__cumulative_make(double *ends, const double *weight, size_t n);

/* uniform: of eps__uniform(). No item of weight 0 is drawn. */
size_t eps__cumulative_draw(const double *ends, size_t n, double uniform);

#endif
