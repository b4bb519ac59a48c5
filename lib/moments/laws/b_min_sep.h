/*
 * Moments under b-min-sep sampling. An example that waits is drawn with probability p; one that was drawn sits out the
 * next b - 1 steps. If C has at most b bands, a copy of the example meets the last drawing of another copy only while
 * that copy sits out. So a state needs only how long each of a copies still sits out, and E X^a is a sum forward in
 * time (M23).
 *
 * SPDX-License-Identifier: GPL-3.0-or-later
 */
#ifndef EPS_MOMENTS_LAWS_B_MIN_SEP_H
#define EPS_MOMENTS_LAWS_B_MIN_SEP_H

#include "lib/moments/laws/poisson.h"

/* The highest order; further orders cost more to use than to compute. */
enum { EPS__B_MIN_SEP_ORDERS_MAX = 16 };

struct eps__b_min_sep {
    struct eps__banded_gram banded; /* the Gram matrix, of at most `separation` bands, and p */
    size_t separation;              /* b >= 1 */
    unsigned examples;              /* k >= 1 examples of one user; the gradients of those drawn together add up */
    bool warm;                      /* warm start: sampling begins in its steady state; requires examples = 1 */
};

/*
 * The estimated operations of E X^a; INFINITY if it is not feasible. *numbers: the numbers that it holds. Does not read
 * the Gram matrix.
 */
double eps__b_min_sep_operations(const struct eps__b_min_sep *b_min_sep, unsigned a, double *numbers);

/* The precision: 64 bits, or 113 bits, which takes QUAD_COST times as long. */
enum eps__b_min_sep_precision { EPS__B_MIN_SEP_LONG, EPS__B_MIN_SEP_QUAD };
#define EPS__B_MIN_SEP_QUAD_COST 12.0

/* *raw = E X^a, a >= 2, within *units units of quadruple roundoff of itself; not finite if it is not known. EPS_OK,
 * EPS_NO_MEMORY, EPS_CANCELED, EPS_TIMEOUT. */
enum eps_status eps__b_min_sep_raw(const struct eps_context *context, eps__quad *raw, double *units,
                                   const struct eps__b_min_sep *b_min_sep, unsigned a,
                                   enum eps__b_min_sep_precision precision);

/* The highest order, at most max_order (0: any), up to which all take at most `operations`; 1: none. *spent: the
 * estimated operations of these orders. */
unsigned eps__b_min_sep_fits(const struct eps__b_min_sep *b_min_sep, double operations, unsigned max_order,
                             double *spent);

/* Computes these orders, and the central moments that follow from them, as eps__raw_tell() returns them. EPS_OK,
 * EPS_NO_MEMORY, EPS_CANCELED, EPS_TIMEOUT; nothing is held unless EPS_OK. */
enum eps_status eps__b_min_sep_moments(const struct eps_context *context, struct eps__orders *orders,
                                       struct eps__laws *laws, const struct eps__b_min_sep *b_min_sep,
                                       double operations, unsigned max_order);

/*
 * waits[i]: the probability that the user waits (does not sit out) at step i < banded.len, if examples are drawn with
 * probability q from the first step on; the history of a warm start has the law for banded.p. The result is the same on
 * every machine. Returns the relative error bound of each.
 */
double eps__b_min_sep_waits(const struct eps__b_min_sep *b_min_sep, double q, double *waits);

#endif
