/*
 * See poisson_tree.h. A node has a table, indexed by how many of its leaves each copy takes. The table of a parent is
 * the convolution of those of its children, times the factors of the copies' meetings in the parent. Subtrees of one
 * height are equal, so a complete tree of n leaves needs log n tables; if the stream ends inside the tree, there is one
 * more at each height. All numbers are positive, so long double loses no digits to cancellation, and its range is that
 * of quadruple precision.
 *
 * SPDX-License-Identifier: GPL-3.0-or-later
 */
#include "lib/moments/laws/poisson_tree.h"

#include <assert.h>
#include <float.h>
#include <stdlib.h>
#include <string.h>

#include "lib/base/error.h"
#include "lib/numerics/binomial.h"
#include "lib/numerics/bound.h"

_Static_assert(LDBL_MANT_DIG >= 64 && LDBL_MAX_EXP >= 16384, "long double has 64 bits of mantissa and 15 of exponent");

enum { COPIES = EPS__TREE_COPIES_MAX };

#define SMALLEST 11000.0 /* every number on the way is 0 or at least e^-SMALLEST; the range ends at e^-11355 */
#define NUMBERS 4e6      /* numbers of a table, at most */
#define STARTING 4.0     /* the cost of starting a row, in operations */

/* ------------------------------------------------------------ caps */

static size_t minimum(size_t a, size_t b)
{
    return a < b ? a : b;
}

/* The least cap that a node with this number of leaves exceeds with probability at most e^log_share. */
static size_t cap_of(const struct eps__poisson_tree *tree, size_t leaves, double log_share)
{
    size_t low = 0, high = leaves; /* a cap of all leaves is never exceeded */
    if (tree->p == 0 || tree->p == 1)
        return tree->p == 0 ? 0 : leaves;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (eps__binomial_log_tail(leaves, tree->p, middle + 1, true) <= log_share)
            high = middle;
        else
            low = middle + 1;
    }
    return high;
}

/* An upper bound on the probability that one of `count` nodes exceeds its cap. */
static double over_cap(const struct eps__poisson_tree *tree, size_t count, size_t leaves, size_t cap)
{
    if (cap >= leaves || tree->p == 0 || count == 0)
        return 0;
    double tail = eps__exp_bound(EPS__UPPER, eps__binomial_log_tail(leaves, tree->p, cap + 1, true), 0);
    return eps__multiply_up((double)count, tail);
}

static size_t cut_leaves(const struct eps__poisson_tree *tree, size_t height)
{
    return tree->leaves & (((size_t)1 << height) - 1);
}

void eps__poisson_tree_make(struct eps__poisson_tree *tree, size_t leaves, size_t height, double p, double weight,
                            double wanted)
{
    assert(leaves >= 1 && height <= EPS__TREE_HEIGHT_MAX && leaves <= (size_t)1 << height && p >= 0 && p <= 1);
    assert(weight >= 0 && wanted > 0);
    *tree = (struct eps__poisson_tree){.leaves = leaves, .height = height, .p = p, .weight = weight};
    double log_share = log(wanted) - log(2 * ((double)height + 1));
    size_t root = cap_of(tree, leaves, log_share);
    for (size_t h = 0; h <= height; h++) {
        size_t count = leaves >> h, cut = cut_leaves(tree, h);
        /* No node needs a larger cap than the root. */
        tree->full[h] = count > 0 ? minimum(cap_of(tree, (size_t)1 << h, log_share - log((double)count)), root) : 0;
        tree->cut[h] = minimum(cap_of(tree, cut, log_share), root);
        if (tree->full[h] < root)
            tree->rare = eps__add_up(tree->rare, over_cap(tree, count, (size_t)1 << h, tree->full[h]));
        if (tree->cut[h] < root)
            tree->rare = eps__add_up(tree->rare, over_cap(tree, 1, cut, tree->cut[h]));
    }
    tree->rare = fmin(eps__add_up(tree->rare, over_cap(tree, 1, leaves, root)), 1);
}

/* ------------------------------------------------------------ tables */

/* The table of a node, indexed by the counts of all copies, each in 0 .. top. It is symmetric in the copies. */
struct table {
    size_t leaves, top;
    long double *at; /* (top + 1)^copies numbers */
    double units;    /* the error bound of each number, in units of long double */
};

struct fold {
    const struct eps_context *context;
    const struct eps__poisson_tree *tree;
    unsigned copies;
    long double *powers; /* e^(weight n), n <= reach */
    size_t reach;
};

static double volume(double side, unsigned dimensions)
{
    double count = 1;
    for (unsigned c = 0; c < dimensions; c++)
        count *= side;
    return count;
}

static size_t place(const size_t *counts, unsigned copies, size_t side)
{
    size_t at = 0;
    for (unsigned c = 0; c < copies; c++)
        at = at * side + counts[c];
    return at;
}

/* The sum over pairs of copies of the product of their counts. */
static size_t meetings(const size_t *counts, unsigned len)
{
    size_t sum = 0, before = 0;
    for (unsigned c = 0; c < len; c++) {
        sum += before * counts[c];
        before += counts[c];
    }
    return sum;
}

/* Advances to the next ascending sequence of numbers up to top; false after the last one. */
static bool next_rising(size_t *counts, unsigned len, size_t top)
{
    for (unsigned c = len; c-- > 0;)
        if (counts[c] < top) {
            size_t up = counts[c] + 1;
            for (; c < len; c++)
                counts[c] = up;
            return true;
        }
    return false;
}

/* Advances to the next tuple with first <= counts <= last; false after the last one. */
static bool next_within(size_t *counts, const size_t *first, const size_t *last, unsigned len)
{
    for (unsigned c = len; c-- > 0; counts[c] = first[c])
        if (counts[c] < last[c]) {
            counts[c]++;
            return true;
        }
    return false;
}

static void sort(size_t *counts, unsigned len)
{
    for (unsigned i = 1; i < len; i++)
        for (unsigned j = i; j > 0 && counts[j] < counts[j - 1]; j--) {
            size_t swapped = counts[j];
            counts[j] = counts[j - 1];
            counts[j - 1] = swapped;
        }
}

/* A row of a table, top + 1 numbers. */
struct row {
    const long double *at;
    size_t top;
};

/* row[i] += times sum_j a[j] b[i - j] for from <= i <= top. */
static void convolve(long double *row, size_t from, size_t top, struct row a, struct row b, long double times)
{
    for (size_t i = from; i <= top; i++) {
        size_t first = i > b.top ? i - b.top : 0, last = minimum(i, a.top);
        long double sum = 0;
        for (size_t j = first; j <= last; j++)
            sum += a.at[j] * b.at[i - j];
        row[i] += times * sum;
    }
}

/* The row of these counts of all copies but the last one. */
static struct row row_at(const struct table *table, const size_t *counts, unsigned given)
{
    return (struct row){table->at + place(counts, given, table->top + 1) * (table->top + 1), table->top};
}

/* Adds up a row of the convolution of two tables. The counts of all copies but the last one are given, in ascending
 * order. */
static void merge_row(const struct fold *fold, long double *row, const size_t *counts, size_t top,
                      const struct table *a, const struct table *b)
{
    size_t first[COPIES], last[COPIES], taken[COPIES], left[COPIES];
    unsigned given = fold->copies - 1;
    size_t from = given > 0 ? counts[given - 1] : 0;
    for (unsigned c = 0; c < given; c++) {
        first[c] = taken[c] = counts[c] > b->top ? counts[c] - b->top : 0;
        last[c] = minimum(counts[c], a->top);
    }
    if (a == b && given > 0) /* by symmetry, let the first child have the smaller part of the first copy's count */
        last[0] = minimum(last[0], counts[0] / 2);
    do {
        for (unsigned c = 0; c < given; c++)
            left[c] = counts[c] - taken[c];
        bool twice = a == b && given > 0 && 2 * taken[0] < counts[0];
        convolve(row, from, top, row_at(a, taken, given), row_at(b, left, given), twice ? 2 : 1);
    } while (next_within(taken, first, last, given));
}

/* Fills in all numbers from those at ascending counts, by symmetry. */
static void fill(struct table *table, unsigned copies)
{
    size_t counts[COPIES] = {0}, first[COPIES] = {0}, last[COPIES], sorted[COPIES], index = 0;
    for (unsigned c = 0; c < copies; c++)
        last[c] = table->top;
    do {
        memcpy(sorted, counts, sizeof sorted);
        sort(sorted, copies);
        table->at[index++] = table->at[place(sorted, copies, table->top + 1)];
    } while (next_within(counts, first, last, copies));
}

/* The error bound of a merge (M20): that of both children, one product, the additions, and the power with its
 * product. */
static double merge_units(const struct table *a, const struct table *b, unsigned copies)
{
    double terms = (double)minimum(a->top, b->top) + 1;
    return a->units + b->units + terms + volume(terms, copies - 1) + 6;
}

/* Makes the table, cut at `cap`, of the parent of a and b, which may be the same table. */
static enum eps_status merge(const struct fold *fold, struct table *out, const struct table *a, const struct table *b,
                             size_t cap)
{
    unsigned given = fold->copies - 1;
    size_t counts[COPIES] = {0}, top = minimum(cap, a->top + b->top), side = top + 1;
    *out = (struct table){a->leaves + b->leaves, top, NULL, merge_units(a, b, fold->copies)};
    out->at = calloc((size_t)volume((double)side, fold->copies), sizeof *out->at);
    if (!out->at)
        return EPS_NO_MEMORY;
    do {
        long double *row = out->at + place(counts, given, side) * side;
        enum eps_status status = eps__poll(fold->context);
        if (status != EPS_OK) {
            free(out->at);
            return status;
        }
        merge_row(fold, row, counts, top, a, b);
        for (size_t i = given > 0 ? counts[given - 1] : 0; i <= top; i++) {
            counts[given] = i;
            size_t met = meetings(counts, fold->copies);
            assert(met <= fold->reach);
            row[i] *= fold->powers[met];
        }
    } while (next_rising(counts, given, top));
    fill(out, fold->copies);
    return EPS_OK;
}

/* ------------------------------------------------------------ from the leaves to the root */

/* The table of a node without leaves in use. */
static enum eps_status nobody(struct table *out)
{
    *out = (struct table){0, 0, malloc(sizeof *out->at), 0};
    if (!out->at)
        return EPS_NO_MEMORY;
    out->at[0] = 1;
    return EPS_OK;
}

static enum eps_status one_leaf(const struct fold *fold, struct table *out)
{
    size_t counts[COPIES] = {0}, first[COPIES] = {0}, last[COPIES], top = minimum(fold->tree->full[0], 1), index = 0;
    *out = (struct table){1, top, malloc((size_t)volume((double)top + 1, fold->copies) * sizeof *out->at), 4};
    if (!out->at)
        return EPS_NO_MEMORY;
    for (unsigned c = 0; c < fold->copies; c++)
        last[c] = top;
    do {
        eps__quad chance = 1, p = fold->tree->p;
        for (unsigned c = 0; c < fold->copies; c++)
            chance *= counts[c] ? p : 1 - p;
        out->at[index++] = (long double)chance * fold->powers[meetings(counts, fold->copies)];
    } while (next_within(counts, first, last, fold->copies));
    return EPS_OK;
}

/* Replaces the cut node of height - 1 by that of this height: it has a full child or none, and the cut child. */
static enum eps_status cut_node(const struct fold *fold, struct table *cut, const struct table *full, size_t height)
{
    bool whole = fold->tree->leaves >> (height - 1) & 1;
    struct table before = *cut, none;
    if (!whole && before.leaves == 0)
        return EPS_OK;
    enum eps_status status = nobody(&none);
    if (status == EPS_OK) {
        status = merge(fold, cut, whole ? full : &none, &before, fold->tree->cut[height]);
        free(none.at);
    }
    if (status != EPS_OK)
        *cut = before;
    else
        free(before.at);
    return status;
}

/* Replaces the full node of height - 1 by that of this height. */
static enum eps_status full_node(const struct fold *fold, struct table *full, size_t height)
{
    struct table child = *full;
    enum eps_status status = merge(fold, full, &child, &child, fold->tree->full[height]);
    if (status != EPS_OK)
        *full = child;
    else
        free(child.at);
    return status;
}

static void sum_table(eps__quad *sum, double *units, const struct table *table, unsigned copies)
{
    size_t len = (size_t)volume((double)table->top + 1, copies);
    *sum = 0;
    for (size_t i = 0; i < len; i++)
        *sum += (eps__quad)table->at[i];
    *units = (table->units * 1.01 + 1) * EPS__LONG_UNITS + (double)len;
}

static enum eps_status fold_tree(const struct fold *fold, eps__quad *sum, double *units)
{
    const struct eps__poisson_tree *tree = fold->tree;
    struct table full = {0}, cut = {0};
    enum eps_status status = nobody(&cut);
    if (status == EPS_OK)
        status = one_leaf(fold, &full);
    for (size_t h = 1; status == EPS_OK && h <= tree->height; h++) {
        status = cut_node(fold, &cut, &full, h);
        if (status == EPS_OK && tree->leaves >> h > 0)
            status = full_node(fold, &full, h);
        assert(status != EPS_OK || cut.leaves == cut_leaves(tree, h));
    }
    const struct table *root = tree->leaves >> tree->height > 0 ? &full : &cut;
    if (status == EPS_OK) {
        assert(root->leaves == tree->leaves);
        sum_table(sum, units, root, fold->copies);
    }
    free(full.at);
    free(cut.at);
    return status;
}

static size_t root_cap(const struct eps__poisson_tree *tree)
{
    return tree->leaves >> tree->height > 0 ? tree->full[tree->height] : tree->cut[tree->height];
}

/* Whether no number on the way is below e^-SMALLEST. Each is at least the probability of a pattern of all copies
 * (M20). */
static bool in_range(const struct eps__poisson_tree *tree, unsigned copies)
{
    double rarest = 0;
    if (tree->p > 0 && tree->p < 1)
        rarest = -log(tree->p) * (double)root_cap(tree) - log1p(-tree->p) * (double)tree->leaves;
    return rarest * copies <= SMALLEST;
}

enum eps_status eps__poisson_tree_sum(const struct eps_context *context, eps__quad *sum, double *units,
                                      const struct eps__poisson_tree *tree, unsigned copies, eps__quad times)
{
    size_t top = root_cap(tree), reach = copies * (copies - 1) / 2 * (top > 0 ? top * top : 1);
    struct fold fold = {context, tree, copies, malloc((reach + 1) * sizeof *fold.powers), reach};
    assert(copies >= 1 && copies <= COPIES);
    if (!fold.powers)
        return EPS_NO_MEMORY;
    eps__quad once = expq((eps__quad)tree->weight * times), power = 1;
    for (size_t n = 0; n <= reach; n++, power *= once)
        fold.powers[n] = (long double)power;
    enum eps_status status = fold_tree(&fold, sum, units);
    if (status == EPS_OK && !in_range(tree, copies))
        *sum = (eps__quad)NAN;
    free(fold.powers);
    return status;
}

/* ------------------------------------------------------------ cost */

/* For one copy: the number of pairs of counts in two nodes whose sum is at most top. */
static double pairs_of(size_t a, size_t b, size_t top)
{
    double sum = 0;
    for (size_t i = 0; i <= a && i <= top; i++)
        sum += (double)minimum(b, top - i) + 1;
    return sum;
}

static double merge_operations(size_t a, size_t b, size_t cap, bool alike, unsigned copies)
{
    size_t top = minimum(cap, a + b);
    double side = (double)top + 1, rising = 1, all = volume(side, copies);
    if (all > NUMBERS)
        return INFINITY;
    double pairs = pairs_of(a, b, top);
    for (unsigned c = 0; c < copies; c++)
        rising *= (side + c) / ((c + 1) * side);
    return volume(pairs, copies) * rising * (alike && copies > 1 ? 0.5 : 1) * (1 + STARTING * side / pairs) +
           all * copies;
}

double eps__poisson_tree_operations(const struct eps__poisson_tree *tree, unsigned copies)
{
    size_t full = minimum(tree->full[0], 1), cut = 0, top = root_cap(tree);
    double sum = 1000 + 8 * (double)(copies * (copies - 1)) * (double)top * (double)top;
    if (!in_range(tree, copies))
        return INFINITY;
    for (size_t h = 1; h <= tree->height; h++) {
        bool whole = tree->leaves >> (h - 1) & 1;
        if (whole || cut_leaves(tree, h - 1) > 0) {
            sum += merge_operations(whole ? full : 0, cut, tree->cut[h], false, copies);
            cut = minimum(tree->cut[h], (whole ? full : 0) + cut);
        }
        if (tree->leaves >> h > 0) {
            sum += merge_operations(full, full, tree->full[h], true, copies);
            full = minimum(tree->full[h], 2 * full);
        }
    }
    return sum;
}
