/*
 * What is known of the law of X = P/Q under balls in bins without drawing anything: its moments, exact where the Gram
 * matrix is banded or the order low, and bounds on those of higher orders (RA section 3).
 *
 * SPDX-License-Identifier: GPL-3.0-or-later
 */
#ifndef EPS_MOMENTS_LAWS_BALLS_IN_BINS_H
#define EPS_MOMENTS_LAWS_BALLS_IN_BINS_H

#include "lib/moments/laws/bin_gram.h"
#include "lib/moments/bounds/moments.h"

/* No higher order is computed. */
enum { EPS__ORDERS_MAX = 128 };

/* How much may be computed. */
struct eps__effort {
    double operations;  /* about */
    unsigned max_order; /* 0: as many as the operations allow */
    size_t bandwidth;   /* the width of the band that is summed over; 0: chosen */
};

/* Bounds on ln E X^a, 0 <= a <= len; the upper ones INFINITY where none is known. */
struct eps__orders {
    unsigned len;
    double *log_upper, *log_lower;
};

/* 2 <= len; the caller clears. The lower ones bound what the upper ones bound but for rounding: where the band is cut,
 * that is not E X^a itself. EPS_OK, EPS_NO_MEMORY, EPS_CANCELED, EPS_TIMEOUT; nothing is held unless EPS_OK. */
enum eps_status eps__bin_gram_orders(const struct eps_context *context, struct eps__orders *orders,
                                     const struct eps__bin_gram *bins, const struct eps__effort *effort);
void eps__orders_clear(struct eps__orders *orders);
/* Nothing is known but for the orders 0 and 1. EPS_NO_MEMORY. */
enum eps_status eps__orders_alloc(struct eps__orders *orders, unsigned len);

/*
 * Exact central moments: of the law itself, as many as the effort allows (len = 1 where none could be had), and where
 * its band is too wide for many of them, of laws with a narrower band that dominate it, in both directions.
 */
enum { EPS__LAWS_MAX = 3 };

struct eps__laws {
    size_t len;
    struct eps__moments items[EPS__LAWS_MAX];
};

/* Likewise. */
enum eps_status eps__bin_gram_laws(const struct eps_context *context, struct eps__laws *laws,
                                   const struct eps__bin_gram *bins, const struct eps__effort *effort);
void eps__laws_clear(struct eps__laws *laws);

#endif
