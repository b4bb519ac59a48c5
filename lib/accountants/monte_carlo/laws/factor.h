/*
 * Vectors f_0 .. f_(b-1) that replace the merged columns m_i over sigma: the rows of a lower-triangular matrix F whose
 * Gram matrix F F' is at least theirs, entry by entry. The pair with the means f_i therefore dominates the mechanism's
 * (M8), and draws are made of it. y has b coordinates, one for each bin, whatever the number of steps. F is exactly
 * what is stored; how it was computed does not matter.
 *
 * SPDX-License-Identifier: GPL-3.0-or-later
 */
#ifndef EPS_ACCOUNTANTS_MONTE_CARLO_LAWS_FACTOR_H
#define EPS_ACCOUNTANTS_MONTE_CARLO_LAWS_FACTOR_H

#include "lib/moments/laws/bin_gram.h"
#include "lib/numerics/lanes/lanes.h"

struct eps__mc_factor {
    size_t len;
    size_t *first; /* row i has entries in columns first[i] .. i; all others are 0 */
    size_t *start; /* len + 1 numbers: where the entries of each row begin */
    double *entries;
    double *half;        /* half the squared norm of each row */
    double longest;      /* the largest sum of a row's absolute entries */
    double largest;      /* the largest absolute entry */
    double largest_half; /* the largest number of `half` */
    size_t widest;       /* the largest number of entries of a row */
};

/*
 * Makes the factor. *gram_upper, if gram_upper is not NULL, becomes a len x len array of upper bounds on F F', which
 * the caller frees, or NULL if F is diagonal. The caller clears the factor if the status is EPS_OK; otherwise nothing
 * is held. EPS_OK, EPS_NO_MEMORY, EPS_INTERNAL (no F was verified to dominate).
 */
EPS_MUST_USE enum eps_status eps__mc_factor_make(struct eps__mc_factor *factor, const struct eps__bin_gram *bins,
                                                 double **gram_upper);
void eps__mc_factor_clear(struct eps__mc_factor *factor);

/* y += count f_i in one lane. */
void eps__mc_factor_add(double *y, const struct eps__mc_factor *factor, size_t i, double count, size_t lane);

/* ln P/Q at y for all lanes, where P is the mixture of the N(f_i, I) with equal weights and Q = N(0, I). work: scratch
 * space of len rows. */
void eps__mc_factor_log_ratio(double *log_ratio, const struct eps__mc_factor *factor, const double *y, double *work);

/* The absolute error bound of eps__mc_factor_log_ratio() if all |y_i| <= reach (A30). */
double eps__mc_factor_error(const struct eps__mc_factor *factor, double reach);

#endif
