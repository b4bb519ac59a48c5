/*
 * Balls in bins with a diagonal Gram matrix. X is the mean of b independent lognormal variables, and its moments are
 * the coefficients of a product of power series (M12).
 *
 * SPDX-License-Identifier: GPL-3.0-or-later
 */
#ifndef EPS_MOMENTS_LAWS_POWERS_H
#define EPS_MOMENTS_LAWS_POWERS_H

#include "lib/moments/laws/bin_gram.h"
#include "lib/numerics/quad.h"

/* The number of different entries of the diagonal. eps__powers() takes about most^3/3 operations for each of them, and
 * at most b most^2 for the products of series. */
size_t eps__powers_distinct(const struct eps__bin_gram *bins);

/*
 * central[j] = E (X - 1)^j for j <= most, each within *units units of quadruple roundoff of itself. Only the diagonal
 * of bins is read. EPS_OK, EPS_NO_MEMORY, EPS_CANCELED, EPS_TIMEOUT.
 */
enum eps_status eps__powers(const struct eps_context *context, const struct eps__bin_gram *bins, unsigned most,
                            eps__quad *central, double *units);

#endif
