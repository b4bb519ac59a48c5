/*
 * How a tree's decoder merges the children of a node at each height, for both decoders. The decoder's rows and the
 * noise drawn through it use it. Derived in tree_decoder.c.
 *
 * SPDX-License-Identifier: GPL-3.0-or-later
 */
#ifndef EPS_STRATEGY_KINDS_TREE_LEVELS_H
#define EPS_STRATEGY_KINDS_TREE_LEVELS_H

#include "lib/strategy/kinds/tree.h"

enum { EPS__TREE_HEIGHTS = 64 };

/* The numbers that merging needs at each height, for one decoder of one block. Nodes are complete, except at most one
 * partial node of each height, which holds step m - 1 and extends beyond m. */
struct eps__tree_levels {
    bool full;
    size_t m, height;
    double tau[EPS__TREE_HEIGHTS], partial_tau[EPS__TREE_HEIGHTS]; /* full: 1 / (1 + beta) */
    double alpha[EPS__TREE_HEIGHTS];                               /* full: 1' X^-1 1 */
    double partial_alpha[EPS__TREE_HEIGHTS];                       /* 0 if there is no partial node */
    double width[EPS__TREE_HEIGHTS];                               /* online: 2^(l+1) - 1 */
    double delta[EPS__TREE_HEIGHTS],
        square[EPS__TREE_HEIGHTS]; /* online: a child's change of weights; the row's own square */
    size_t completion;             /* online: the height of the partial node that completes step m - 1; 0: none does */
    double completion_square;
};

void eps__tree_levels_init(struct eps__tree_levels *v, const struct eps_strategy *s);

/* The number of steps in the partial node of height l; 0: there is none. */
static inline size_t eps__tree_remainder(const struct eps__tree_levels *v, size_t l)
{
    return v->m & (((size_t)1 << l) - 1);
}

/* The row, in post-order, of the node of height `l` whose last leaf is `last`. */
static inline size_t eps__tree_node_row(size_t last, size_t l)
{
    return 2 * last - (size_t)__builtin_popcountll(last) + l;
}

#endif
