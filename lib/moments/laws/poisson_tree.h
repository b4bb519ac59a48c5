/*
 * Plain Poisson sampling with a tree as its moments see it: C x lists, node by node, how many of the node's leaves take
 * part, so that copies of x meet in the nodes and E X^a is a recursion from the leaves to the root over the counts of a
 * copies (M20). Counts over a cap are left out of P: what is left is a law with exact moments, and what was left out is
 * rare (M21). Higher orders are bounded by groups of copies (M22).
 *
 * SPDX-License-Identifier: GPL-3.0-or-later
 */
#ifndef EPS_MOMENTS_LAWS_POISSON_TREE_H
#define EPS_MOMENTS_LAWS_POISSON_TREE_H

#include "lib/moments/laws/balls_in_bins.h"

enum { EPS__TREE_HEIGHT_MAX = 48, EPS__TREE_COPIES_MAX = 6 };

/* The first `leaves` of 2^height steps, each taken with probability p; e^weight is what two copies' meeting in a node
 * is worth. */
struct eps__poisson_tree {
    size_t leaves, height; /* 2^height >= leaves >= 1 */
    double p;              /* in [0, 1] */
    double weight;
    /* The most that may take part under a full node of each height, and under the one of leaves % 2^height leaves. */
    size_t full[EPS__TREE_HEIGHT_MAX + 1], cut[EPS__TREE_HEIGHT_MAX + 1];
    double rare; /* at least the probability that more do anywhere */
};

/* Caps such that rare is at most about `wanted`, as far as doubles go. */
void eps__poisson_tree_make(struct eps__poisson_tree *tree, size_t leaves, size_t height, double p, double weight,
                            double wanted);

/* About the operations in long double of E X^a; INFINITY where quadruple precision's range does not hold them. */
double eps__poisson_tree_operations(const struct eps__poisson_tree *tree, unsigned copies);

/* Operations in long double at most. */
struct eps__tree_effort {
    double second;  /* on E X^2 */
    double moments; /* on all that are exact */
    double orders;  /* on bounds on those of higher orders */
};

/* How many copies fit; 1: not even two. */
unsigned eps__poisson_tree_fits(const struct eps__poisson_tree *tree, const struct eps__tree_effort *effort);
/* About what eps__poisson_tree_moments() takes, with higher orders or without. */
double eps__poisson_tree_spends(const struct eps__poisson_tree *tree, const struct eps__tree_effort *effort,
                                unsigned max_order, bool orders);

/*
 * *sum: that over patterns within the caps of all copies, each meeting worth e^(weight times), within *units of
 * quadruple roundoff of itself; what is no number is not known. One copy: the probability of being within. EPS_OK,
 * EPS_NO_MEMORY, EPS_CANCELED, EPS_TIMEOUT.
 */
enum eps_status eps__poisson_tree_sum(const struct eps_context *context, eps__quad *sum, double *units,
                                      const struct eps__poisson_tree *tree, unsigned copies, eps__quad times);

/*
 * Of the law within the caps, of `stamps` such trees side by side: ln E X^a between bounds, and the central moments. P
 * is that law but for `rare` times stamps. No order is over max_order, if that is not 0. laws->len = 0,
 * orders->log_upper[2] = INFINITY where there is none. Either may be NULL; the caller clears. EPS_OK and as above;
 * nothing is held unless EPS_OK.
 */
enum eps_status eps__poisson_tree_moments(const struct eps_context *context, struct eps__orders *orders,
                                          struct eps__laws *laws, const struct eps__poisson_tree *tree, size_t stamps,
                                          const struct eps__tree_effort *effort, unsigned max_order);

#endif
