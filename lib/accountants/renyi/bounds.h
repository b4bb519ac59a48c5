/*
 * Closed-form bounds on delta: from single Rényi orders, and from the geometric mean of likelihood ratios.
 *
 * SPDX-License-Identifier: GPL-3.0-or-later
 */
#ifndef EPS_ACCOUNTANTS_RENYI_BOUNDS_H
#define EPS_ACCOUNTANTS_RENYI_BOUNDS_H

#include "lib/moments/laws/balls_in_bins.h"
#include "lib/numerics/sum.h"

/* ln of the least bound on delta_remove(eps) from a single order, real orders included (A14, A15); INFINITY if no order
 * is known. *order is the best order, rounded up to an integer. */
double eps__orders_log_delta(const struct eps__orders *orders, enum eps__estimate estimate, double eps,
                             unsigned *order);

/* The quantities of the Gram matrix over sigma^2 that determine the geometric mean of the bins' likelihood ratios
 * (A16). */
struct eps__geometric {
    double len, empty;          /* the number of bins, and of those with m_i = 0; empty/len is the p_0 of A16 */
    struct eps__interval trace; /* the trace of the matrix */
    struct eps__interval total; /* the sum of all its entries */
};

/* `draws` is the number of independent draws of a bin, each with this matrix. */
struct eps__geometric eps__geometric_of(const struct eps__bin_gram *bins, size_t draws);

/* ln of the bound on delta_add(eps): the smaller one of its two forms. */
double eps__geometric_log_delta(const struct eps__geometric *geometric, enum eps__estimate estimate, double eps);

#endif
