/*
 * Rows of a complete binary tree in post-order. The rows above a node of height h in the column of one of its leaves
 * are the h nodes on the path down to that leaf. By symmetry there is one tail bound per height. Two leaves whose paths
 * meet at height l share the h - l nodes from l to h - 1, and 2^(l-1) leaves meet the path of a given leaf at height l.
 * A node that the end of the stream cuts has fewer leaves: the odds of a full node bound its odds.
 *
 * SPDX-License-Identifier: GPL-3.0-or-later
 */
#include <math.h>
#include <stdlib.h>

#include "lib/accountants/mmcc/rows.h"
#include "lib/base/error.h"
#include "lib/numerics/normal.h"

enum { CONVOLVED_LEAVES = 4096 }; /* the largest tree whose tail bounds use a convolution */

struct tree_rows {
    struct eps__rows base;
    size_t stamps, leaves, height;
    double scale;
    double *odds; /* by height */
};

static double bound_height(struct tree_rows *t, const struct eps__tail_query *query, size_t height)
{
    double weight[64], count[64], square = t->scale * t->scale, up = 1 + t->base.square_error;
    struct eps__weights weights = {weight, count, 0, t->base.p, &t->base.starved};
    if (query->direction == EPS_ADD)
        return eps__rows_tail_without(&t->base, query, (double)height * square);
    for (size_t parting = 0; parting < height; parting++) {
        weight[weights.len] = (double)(height - parting) * square * up;
        count[weights.len++] = parting ? ldexp(1, (int)parting - 1) : 1;
    }
    double tau = query->sigma * eps__rows_norm_upper(&t->base, (double)height * square);
    double log_eta = eps__rows_log_eta(&t->base, query, (double)height * square);
    double tail = fmin(eps__tail_tilted(&weights, tau, log_eta, NULL), eps__tail_largest(&weights, tau, log_eta));
    if (ldexp(1, (int)height) <= CONVOLVED_LEAVES)
        tail = fmin(tail, eps__tail_convolved(&weights, tau, log_eta));
    return tail;
}

static enum eps_status bound_tree(struct eps__rows *rows, const struct eps_context *context,
                                  const struct eps__tail_query *query)
{
    struct tree_rows *t = (struct tree_rows *)rows;
    t->odds[0] = t->base.prior;
    for (size_t height = 1; height <= t->height; height++) {
        double square = (double)height * t->scale * t->scale;
        t->odds[height] = eps__rows_log_odds(&t->base, query, square, bound_height(t, query, height));
        enum eps_status status = eps__poll(context);
        if (status != EPS_OK)
            return status;
    }
    return atomic_load(&t->base.starved) ? EPS_NO_MEMORY : EPS_OK;
}

/* The number of leaves of a node in class k. Class 2 h holds the full nodes of height h, class 2 h + 1 the node that
 * the end of the stream cuts. */
static size_t leaves_of(const struct tree_rows *t, size_t k)
{
    size_t full = (size_t)1 << (k / 2);
    return k % 2 ? t->leaves % full : full;
}

static uint64_t count_tree(const struct eps__rows *rows, size_t k)
{
    const struct tree_rows *t = (const struct tree_rows *)rows;
    if (k % 2)
        return leaves_of(t, k) > 0 ? t->stamps : 0;
    return t->stamps * (t->leaves >> (k / 2));
}

static size_t fill_tree(const struct eps__rows *rows, size_t k, struct eps__factor *out)
{
    const struct tree_rows *t = (const struct tree_rows *)rows;
    out[0] = (struct eps__factor){t->scale, t->odds[k / 2], (double)leaves_of(t, k)};
    return leaves_of(t, k) > 0;
}

static void destroy_tree(struct eps__rows *rows)
{
    free(((struct tree_rows *)rows)->odds);
    free(rows);
}

static const struct eps__rows_class tree_class = {bound_tree, count_tree, fill_tree, destroy_tree};

enum eps_status eps__tree_rows(struct eps__rows **rows, const struct eps__blocks *blocks, double p)
{
    struct tree_rows *t = calloc(1, sizeof *t);
    if (!t)
        return EPS_NO_MEMORY;
    eps__rows_init(&t->base, &tree_class, p, 4, (double)blocks->block);
    t->stamps = blocks->stamps;
    t->leaves = blocks->block;
    t->height = blocks->height;
    t->scale = blocks->scale;
    t->base.entry_error = 0;
    t->base.entries_max = 1;
    t->base.classes = 2 * (t->height + 1);
    for (size_t height = 0; height <= t->height; height++) /* counts the nodes with a leaf in use */
        t->base.rows += (uint64_t)t->stamps * (((t->leaves - 1) >> height) + 1);
    t->base.pairs = (double)t->stamps * (double)t->leaves * (double)t->height;
    t->odds = malloc((t->height + 1) * sizeof *t->odds);
    if (!t->odds) {
        free(t);
        return EPS_NO_MEMORY;
    }
    *rows = &t->base;
    return EPS_OK;
}
