/*
 * Balls in bins whose Gram matrix is diagonal: X is the mean of b independent lognormal numbers, and its moments of all
 * orders are the coefficients of a product of series (M12).
 *
 * SPDX-License-Identifier: GPL-3.0-or-later
 */
#ifndef EPS_MOMENTS_LAWS_POWERS_H
#define EPS_MOMENTS_LAWS_POWERS_H

#include "lib/moments/laws/bin_gram.h"
#include "lib/numerics/quad.h"

/* How many different numbers the diagonal has: the cost is that times most^3/3, and b most^2 at worst. */
size_t eps__powers_distinct(const struct eps__bin_gram *bins);

/*
 * central[j] = E (X - 1)^j for j <= most, of the diagonal alone: sums of terms that are not negative, each within
 * *units of quadruple roundoff of itself. EPS_OK, EPS_NO_MEMORY, EPS_CANCELED, EPS_TIMEOUT.
 */
enum eps_status eps__powers(const struct eps_context *context, const struct eps__bin_gram *bins, unsigned most,
                            eps__quad *central, double *units);

#endif
