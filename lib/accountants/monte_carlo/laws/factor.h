/*
 * Vectors f_0 .. f_{b-1} in the place of the merged columns over sigma: rows of a lower-triangular matrix F, whose Gram matrix F F' is
 * nowhere less than theirs. So the pair of means f_i dominates the mechanism's (M8), and it is the one that is drawn
 * from: y has b coordinates, one a bin, however many steps there are; F is known exactly, and how it came about does not matter.
 *
 * SPDX-License-Identifier: GPL-3.0-or-later
 */
#ifndef EPS_ACCOUNTANTS_MONTE_CARLO_LAWS_FACTOR_H
#define EPS_ACCOUNTANTS_MONTE_CARLO_LAWS_FACTOR_H

#include "lib/moments/laws/bin_gram.h"
#include "lib/numerics/lanes/lanes.h"

struct eps__mc_factor {
    size_t len;
    size_t *first; /* row i has entries first[i] .. i, all others are 0 */
    size_t *start; /* len + 1: where they begin */
    double *entries;
    double *half;        /* half the squared norm of each row */
    double longest;      /* the largest sum of a row's absolute entries */
    double largest;      /* the largest absolute entry */
    double largest_half; /* and of the numbers above */
    size_t widest;       /* the most entries of a row */
};

/*
 * gram_upper: NULL, or where upper ends of F F' go, len x len, malloc'ed; NULL there where F is diagonal. The caller clears, and frees.
 * EPS_NO_MEMORY; EPS_INTERNAL: not found. Nothing is held unless EPS_OK.
 */
EPS_MUST_USE enum eps_status eps__mc_factor_make(struct eps__mc_factor *factor, const struct eps__bin_gram *bins,
                                                 double **gram_upper);
void eps__mc_factor_clear(struct eps__mc_factor *factor);

/* y += count f_i in one lane. */
void eps__mc_factor_add(double *y, const struct eps__mc_factor *factor, size_t i, double count, size_t lane);

/* ln P/Q at y, P the mean of N(f_i, I) and Q = N(0, I), for all lanes; work: len rows. */
void eps__mc_factor_log_ratio(double *log_ratio, const struct eps__mc_factor *factor, const double *y, double *work);

/* How far that is off, either way, where no |y_i| is larger than `reach` (A30). */
double eps__mc_factor_error(const struct eps__mc_factor *factor, double reach);

#endif
