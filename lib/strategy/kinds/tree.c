/*
 * Trees: one row for each node of a complete binary tree, the indicator of its leaves. A block of m steps uses the
 * first m of 2^h leaves and has 2^(h+1) - 1 rows, in post-order: every node follows its children, so a row can be
 * released as soon as its last step is known. Only the scale is stored: each column has h + 1 equal entries, and two
 * columns share the rows of their common ancestors. tree_decoder.c has the decoders.
 *
 * SPDX-License-Identifier: GPL-3.0-or-later
 */
#include "lib/strategy/kinds/tree.h"

#include <stdlib.h>
#include <string.h>

#include "lib/strategy/failures.h"
#include "lib/strategy/kinds/kinds.h"
#include "lib/strategy/sensitivity/sensitivity.h"

/* Walks down from the root: a subtree of height h consists of 2^h - 1 rows for each child, then its own row. */
static void tree_row(const struct eps_strategy *s, double *out, size_t row)
{
    size_t height = s->height, leaf = 0;
    while (row != ((size_t)2 << height) - 2) {
        size_t child = ((size_t)1 << height) - 1;
        height--;
        if (row >= child) {
            row -= child;
            leaf += (size_t)1 << height;
        }
    }
    memset(out, 0, s->block * sizeof *out);
    for (size_t j = leaf; j < leaf + ((size_t)1 << height) && j < s->block; j++)
        out[j] = s->scale;
}

static void tree_divide(struct eps_strategy *s, double divisor)
{
    s->scale /= divisor;
}

/* count times the square of the scale, where count is an integer below 2^53. */
static struct eps__interval times_square(const struct eps_strategy *s, double count)
{
    double square = s->scale * s->scale, below = nextafter(square, 0), above = nextafter(square, INFINITY);
    if (fma(s->scale, s->scale, -square) == 0)
        below = above = square;
    return (struct eps__interval){eps__multiply_down(count, below), eps__multiply_up(count, above)};
}

static bool tree_measure(struct eps_strategy *s)
{
    struct eps__interval *squares = realloc(s->squares, sizeof *squares);
    if (!squares)
        return false;
    s->squares = squares;
    s->squares_len = 1;
    squares[0] = times_square(s, (double)s->height + 1);
    s->bands = s->block;
    s->nonnegative = true;
    s->lower = true;
    s->gram_error = 0x1p-50;
    return true;
}

static void tree_hash(const struct eps_strategy *s, struct eps__hash *hash)
{
    eps__hash_doubles(hash, &s->scale, 1);
    eps__hash_u64(hash, (uint64_t)s->decoder);
}

static size_t tree_square_index(const struct eps_strategy *s, size_t j)
{
    (void)s;
    (void)j;
    return 0;
}

static bool tree_gram(struct eps__work *work, const struct eps_strategy *s, double *out, size_t ld, size_t first,
                      size_t step, size_t count)
{
    (void)work;
    for (size_t i = 0; i < count; i++) {
        for (size_t j = 0; j < count; j++) {
            size_t common = s->height + 1;
            for (size_t apart = (first + i * step) ^ (first + j * step); apart; apart >>= 1)
                common--;
            out[i * ld + j] = (double)common * (s->scale * s->scale);
        }
    }
    return true;
}

/* The sum over nodes of the squared number of steps of one pattern below them: an integer. */
static double pattern_square(const struct eps_strategy *s, const struct eps__participation *participation, size_t start)
{
    size_t b = participation->separation, steps = (s->n - 1 - start) / b + 1;
    steps = steps < participation->epochs ? steps : participation->epochs;
    double total = 0;
    for (size_t level = 0; level <= s->height; level++) {
        if (((size_t)1 << level) <= b) {
            total += (double)steps;
            continue;
        }
        for (size_t i = 0; i < steps;) {
            /* The steps below the node of step i, up to the end of the node or of its block. */
            size_t at = start + i * b, offset = at % s->block;
            size_t end = at - offset + (((offset >> level) + 1) << level), stop = at - offset + s->block;
            end = end < stop ? end : stop;
            size_t under = (end - 1 - at) / b + 1;
            under = under < steps - i ? under : steps - i;
            total += (double)under * (double)under;
            i += under;
        }
    }
    return total;
}

static enum eps_status tree_fixed_order(const struct eps_context *context, struct eps__interval *out,
                                        struct eps_error *error, const struct eps_strategy *s,
                                        const struct eps__participation *participation)
{
    double best = 0;
    size_t starts = eps__participation_starts(participation, s->n);
    for (size_t start = 0; start < starts; start++) {
        enum eps_status status = start % 64 == 0 ? eps__strategy_poll(context, error) : EPS_OK;
        if (status != EPS_OK)
            return status;
        double square = pattern_square(s, participation, start);
        best = square > best ? square : best;
    }
    *out = times_square(s, best);
    return EPS_OK;
}

/* At each level, the bound places the steps in as few nodes as possible. */
static enum eps_status tree_min_separation(const struct eps_context *context, struct eps__square *out,
                                           struct eps_error *error, const struct eps_strategy *s,
                                           const struct eps__participation *participation)
{
    (void)context;
    (void)error;
    double total = 0;
    for (size_t level = 0; level <= s->height; level++) {
        size_t width = (size_t)1 << level, nodes = s->stamps * ((s->block - 1) / width + 1);
        size_t leaves = width < s->block ? width : s->block, crowd = (leaves - 1) / participation->separation + 1;
        crowd = crowd < participation->epochs ? crowd : participation->epochs;
        size_t full = participation->epochs / crowd, rest = participation->epochs % crowd;
        if (full >= nodes) {
            full = nodes;
            rest = 0;
        }
        total += (double)full * (double)crowd * (double)crowd + (double)rest * (double)rest;
    }
    *out = (struct eps__square){times_square(s, total), "level_bound", false};
    return EPS_OK;
}

static double tree_numbers(const struct eps__forecast *c)
{
    (void)c;
    return 1;
}

static void tree_fixed_order_cost(struct eps__cost *cost, const struct eps__forecast *c,
                                  const struct eps__participation *participation, double starts)
{
    double k = (double)participation->epochs, b = (double)participation->separation;
    cost->operations += starts * k * (log2(c->block) + 1 - fmin(log2(b), log2(c->block)));
    cost->bytes += 8 * (3 * c->n);
}

static void tree_error_cost(struct eps__cost *cost, const struct eps__forecast *c, const struct eps_workload *w)
{
    cost->operations += 30 * c->n * (log2(c->block) + 2);
    cost->bytes += 8 * (eps__workload_given(w) ? 7 : 1) * c->n;
}

const struct eps__strategy_kind eps__strategy_tree = {
    .name = "tree",
    .shape = EPS__SHAPE_TREE,
    .row = tree_row,
    .divide = tree_divide,
    .measure = tree_measure,
    .hash = tree_hash,
    .square_index = tree_square_index,
    .gram = tree_gram,
    .fixed_order = tree_fixed_order,
    .min_separation = tree_min_separation,
    .invert = eps__tree_invert,
    .variance = eps__tree_variance,
    .decoder_row = eps__tree_decoder_row,
    .noise_row = eps__tree_noise_row,
    .noise_ways = eps__tree_noise,
    .numbers = tree_numbers,
    .gram_cost = eps__columns_gram_cost,
    .fixed_order_cost = tree_fixed_order_cost,
    .min_separation_cost = eps__pass_cost,
    .error_cost = tree_error_cost,
};
