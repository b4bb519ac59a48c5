/*
 * The central moments of balls in bins up to order 4, for any Gram matrix, as sums over graphs (M13).
 *
 * SPDX-License-Identifier: GPL-3.0-or-later
 */
#ifndef EPS_MOMENTS_LAWS_LOW_ORDERS_H
#define EPS_MOMENTS_LAWS_LOW_ORDERS_H

#include "lib/moments/laws/bin_gram.h"

/* The estimated floating-point operations of the orders up to `most` <= 4. */
double eps__low_orders_operations(const struct eps__bin_gram *bins, unsigned most);

/* central[j] = E (X - 1)^j for j <= most, 2 <= most <= 4, each within *units units of double roundoff of itself;
 * INFINITY for higher orders and on overflow. EPS_OK, EPS_NO_MEMORY, EPS_CANCELED, EPS_TIMEOUT. */
enum eps_status eps__low_orders(const struct eps_context *context, const struct eps__bin_gram *bins, unsigned most,
                                double central[5], double *units);

#endif
