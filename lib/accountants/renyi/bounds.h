/*
 * Closed-form bounds on delta for balls in bins: one Renyi order, and the geometric mean of the bins' likelihood
 * ratios.
 *
 * SPDX-License-Identifier: GPL-3.0-or-later
 */
#ifndef EPS_ACCOUNTANTS_RENYI_BOUNDS_H
#define EPS_ACCOUNTANTS_RENYI_BOUNDS_H

#include "lib/moments/laws/balls_in_bins.h"
#include "lib/numerics/sum.h"

/* ln of the least bound on delta_remove(eps) from one order, real ones included (A14, A15); INFINITY where no order is
 * known. *order: the integer next above it. */
double eps__orders_log_delta(const struct eps__orders *orders, enum eps__estimate estimate, double eps,
                             unsigned *order);

/* What the geometric mean of the bins' likelihood ratios needs of the Gram matrix over sigma^2 (A16). */
struct eps__geometric {
    double len, empty;          /* bins, and those that show nothing of the example */
    struct eps__interval trace; /* of the matrix */
    struct eps__interval total; /* of all its entries */
};
/* draws: of so many independent bins, each with this matrix. */
struct eps__geometric eps__geometric_of(const struct eps__bin_gram *bins, size_t draws);

/* ln of the bound on delta_add(eps), the better one of its two forms. */
double eps__geometric_log_delta(const struct eps__geometric *geometric, enum eps__estimate estimate, double eps);

#endif
