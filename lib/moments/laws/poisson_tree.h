/*
 * Moments under Poisson sampling with a tree strategy. C x has an entry for each node: the number of its leaves that
 * take part, times a constant. Copies of x therefore meet in nodes, and E X^a is a recursion from the leaves to the
 * root over the counts of a copies (M20). Patterns with counts over a cap are left out of P; the rest is a law with
 * exact moments, and the patterns left out are rare (M21). Higher orders are bounded by groups of copies (M22).
 *
 * SPDX-License-Identifier: GPL-3.0-or-later
 */
#ifndef EPS_MOMENTS_LAWS_POISSON_TREE_H
#define EPS_MOMENTS_LAWS_POISSON_TREE_H

#include "lib/moments/laws/balls_in_bins.h"

enum { EPS__TREE_HEIGHT_MAX = 48, EPS__TREE_COPIES_MAX = 6 };

/* A tree over 2^height steps, of which the first `leaves` are in use. Each is taken with probability p. A meeting of
 * two copies in a node, one leaf of each, has the factor e^weight. */
struct eps__poisson_tree {
    size_t leaves, height; /* 2^height >= leaves >= 1 */
    double p;              /* in [0, 1] */
    double weight;         /* >= 0 */
    /* Caps on the leaves that may take part, by height: under a full node, and under the node with leaves % 2^height
     * leaves in use. */
    size_t full[EPS__TREE_HEIGHT_MAX + 1], cut[EPS__TREE_HEIGHT_MAX + 1];
    double rare; /* an upper bound on the probability that some node exceeds its cap */
};

/* Makes a tree with caps such that rare is at most about `wanted` > 0. */
void eps__poisson_tree_make(struct eps__poisson_tree *tree, size_t leaves, size_t height, double p, double weight,
                            double wanted);

/* The estimated operations, in long double, of the sum for this number of copies; INFINITY if its numbers do not fit
 * into the range of long double, or into memory. */
double eps__poisson_tree_operations(const struct eps__poisson_tree *tree, unsigned copies);

/* Limits on operations in long double. */
struct eps__tree_effort {
    double second;  /* for E X^2 */
    double moments; /* for all exact moments together */
    double orders;  /* for bounds on moments of higher orders */
};

/* The highest order whose exact moment fits; 1: none. */
unsigned eps__poisson_tree_fits(const struct eps__poisson_tree *tree, const struct eps__tree_effort *effort);
/* The estimated operations of eps__poisson_tree_moments(). orders: with bounds on higher orders. */
double eps__poisson_tree_spends(const struct eps__poisson_tree *tree, const struct eps__tree_effort *effort,
                                unsigned max_order, bool orders);

/*
 * *sum: the sum of M20 over the patterns of all copies that are within the caps, where each meeting has the factor
 * e^(weight times). It is within *units units of quadruple roundoff of itself, and not finite if it is not known. For
 * one copy it is the probability of being within the caps. EPS_OK, EPS_NO_MEMORY, EPS_CANCELED, EPS_TIMEOUT.
 */
enum eps_status eps__poisson_tree_sum(const struct eps_context *context, eps__quad *sum, double *units,
                                      const struct eps__poisson_tree *tree, unsigned copies, eps__quad times);

/*
 * Computes bounds on ln E X^a, and central moments, for the law within the caps of `stamps` such trees side by side. P
 * differs from this law by a probability of at most stamps times tree->rare (M21). Orders are at most max_order (0:
 * any). If nothing is known, laws->len = 0 and orders->log_upper[2] = INFINITY. orders or laws may be NULL. The caller
 * clears both. Errors as above; nothing is held unless EPS_OK.
 */
enum eps_status eps__poisson_tree_moments(const struct eps_context *context, struct eps__orders *orders,
                                          struct eps__laws *laws, const struct eps__poisson_tree *tree, size_t stamps,
                                          const struct eps__tree_effort *effort, unsigned max_order);

#endif
