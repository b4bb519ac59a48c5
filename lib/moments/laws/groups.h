/*
 * Upper bounds on E X^a for high orders a from sums over few copies: a copies are divided into groups, and what copies
 * of different groups have in common is put upon the pairs within a group (M22).
 *
 * SPDX-License-Identifier: GPL-3.0-or-later
 */
#ifndef EPS_MOMENTS_LAWS_GROUPS_H
#define EPS_MOMENTS_LAWS_GROUPS_H

#include "lib/moments/laws/balls_in_bins.h"

/* The sums of a law over few copies. */
struct eps__copies {
    const void *law;
    /* The estimated operations of the sum over so many copies; INFINITY if it is not feasible. */
    double (*operations)(const void *law, unsigned copies);
    /* *sum: the sum over so many copies with the Gram matrix times `times` (M18), within *units units of quadruple
     * roundoff of itself; not finite if it is not known. EPS_OK, EPS_NO_MEMORY, EPS_CANCELED, EPS_TIMEOUT. */
    enum eps_status (*sum)(const struct eps_context *context, eps__quad *sum, double *units, const void *law,
                           unsigned copies, eps__quad times);
};

/* The orders that are computed; those between two of them are interpolated. */
struct eps__ladder {
    unsigned from, to, gap; /* after order a comes a + 1 + a/gap */
    unsigned largest;       /* the largest group of copies; 1: no orders are computed */
};

/* Chooses the largest groups, of at most `from` copies, with which the orders above `from` up to `to` take at most
 * `operations`, and narrow gaps; if none do, pairs with wide gaps. */
struct eps__ladder eps__ladder_of(const struct eps__copies *copies, unsigned from, unsigned to, double operations);
double eps__ladder_operations(const struct eps__copies *copies, const struct eps__ladder *ladder);

/* Whether orders above a may be of use, by ln E X^a and ln E X^2: the divergence of order a is moderate, or grows less
 * than four times as fast as that of a Gaussian. False if ln E X^a is not finite. */
bool eps__order_of_use(double log_moment, unsigned a, double log_second);

/* Puts the bound on ln E X^a of `stamps` independent laws side by side into *orders. What is not finite stays
 * unknown. */
void eps__orders_set(struct eps__orders *orders, unsigned a, eps__quad log_moment, double units, size_t stamps);

/* The highest order of eps__groups_orders(). */
enum { EPS__GROUPS_ORDERS_MAX = 256 };

/*
 * Bounds for more orders than *known has, up to max_order (0: EPS__GROUPS_ORDERS_MAX), in at most about `operations`,
 * or 1e9 where pairs take more than that; none if these take more. The caller clears *orders, which has those of
 * *known, too. The statuses of sum(); nothing is held unless EPS_OK. *spent: the estimated operations.
 */
enum eps_status eps__groups_orders(const struct eps_context *context, struct eps__orders *orders,
                                   const struct eps__orders *known, const struct eps__copies *copies, double operations,
                                   unsigned max_order, double *spent);

/* The operations of that, if the orders up to `from` are known. */
double eps__groups_operations(const struct eps__copies *copies, unsigned from, double operations, unsigned max_order);

/* Adds the orders above ladder->from, up to which *orders are known, to *orders, which has room for ladder->to. Ends
 * with the first that is not known. The statuses of sum(). */
enum eps_status eps__ladder_climb(const struct eps_context *context, struct eps__orders *orders,
                                  const struct eps__copies *copies, const struct eps__ladder *ladder, size_t stamps);

#endif
