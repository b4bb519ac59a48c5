/*
 * The first moments of balls in bins for any Gram matrix: over graphs (M13).
 *
 * SPDX-License-Identifier: GPL-3.0-or-later
 */
#ifndef EPS_MOMENTS_LAWS_LOW_ORDERS_H
#define EPS_MOMENTS_LAWS_LOW_ORDERS_H

#include "lib/moments/laws/bin_gram.h"

/* What the orders up to `most` <= 4 take, in floating-point operations. */
double eps__low_orders_operations(const struct eps__bin_gram *bins, unsigned most);

/* central[j] = E (X - 1)^j for j <= most, 2 <= most <= 4: each within *units of roundoff of itself; INFINITY where a
 * double does not reach. EPS_OK, EPS_NO_MEMORY, EPS_CANCELED, EPS_TIMEOUT. */
enum eps_status eps__low_orders(const struct eps_context *context, const struct eps__bin_gram *bins, unsigned most,
                                double central[5], double *units);

#endif
