/*
 * Moments of X = P/Q under balls in bins: exact ones if the Gram matrix is banded or the order is low, and bounds on
 * those of higher orders (RA section 3).
 *
 * SPDX-License-Identifier: GPL-3.0-or-later
 */
#ifndef EPS_MOMENTS_LAWS_BALLS_IN_BINS_H
#define EPS_MOMENTS_LAWS_BALLS_IN_BINS_H

#include "lib/moments/bounds/shared.h"
#include "lib/moments/laws/bin_gram.h"

/* The highest order that is computed. */
enum { EPS__ORDERS_MAX = 128 };

/* Limits on a computation. */
struct eps__effort {
    double operations;  /* approximate */
    unsigned max_order; /* 0: as high as the operations allow */
    size_t bandwidth;   /* the width of the band that is summed over; 0: chosen */
};

/* Bounds on ln E X^a, 0 <= a <= len; upper bounds are INFINITY if none is known. */
struct eps__orders {
    unsigned len;
    double *log_upper, *log_lower;
};

/* Computes bounds for orders up to orders->len >= 2, which is chosen. The lower bounds differ from the upper ones only
 * by rounding. If the band is cut they are lower bounds on the cut sum, not on E X^a. The caller clears. EPS_OK,
 * EPS_NO_MEMORY, EPS_CANCELED, EPS_TIMEOUT; nothing is held unless EPS_OK. */
enum eps_status eps__bin_gram_orders(const struct eps_context *context, struct eps__orders *orders,
                                     const struct eps__bin_gram *bins, const struct eps__effort *effort);
void eps__orders_clear(struct eps__orders *orders);
/* Allocates bounds of which only those of the orders 0 and 1 are known. The caller clears. EPS_OK, EPS_NO_MEMORY. */
enum eps_status eps__orders_alloc(struct eps__orders *orders, unsigned len);

enum { EPS__LAWS_MAX = 3 };

/* Central moments, within their errors, of one or more laws. For balls in bins each law dominates the mechanism's. */
struct eps__laws {
    size_t len;
    struct eps__moments items[EPS__LAWS_MAX];
    /* If shared[i].square > 0, X of this law is a lognormal factor that all bins share, times an independent Y, whose
     * central moments are rest[i] (M28). */
    struct eps__shared shared[EPS__LAWS_MAX];
    struct eps__moments rest[EPS__LAWS_MAX];
    struct eps__shared_table *tables[EPS__LAWS_MAX]; /* those of rest, for one direction */
};

/*
 * Computes as many moments of the law itself as the effort allows (its len is 1 if none are known). If its band is too
 * wide for many moments, adds laws with a narrower band that dominate it in both directions. The caller clears. EPS_OK,
 * EPS_NO_MEMORY, EPS_CANCELED, EPS_TIMEOUT; nothing is held unless EPS_OK.
 */
enum eps_status eps__bin_gram_laws(const struct eps_context *context, struct eps__laws *laws,
                                   const struct eps__bin_gram *bins, const struct eps__effort *effort);
void eps__laws_clear(struct eps__laws *laws);

#endif
