/*
 * Each row adds a rank-one term to the Gram matrix and splits the classes of equal means by its entries. A row costs
 * the square of its number of nonzero entries, plus the number of bins.
 *
 * SPDX-License-Identifier: GPL-3.0-or-later
 */
#include "lib/accountants/conditional_composition/walk.h"

#include <assert.h>
#include <math.h>
#include <stdlib.h>

#include "lib/base/error.h"
#include "lib/numerics/bound.h"

/* ------------------------------------------------------------ the order of a row */

static void sift(uint32_t *order, size_t from, size_t len, const double *row)
{
    for (size_t child; (child = 2 * from + 1) < len; from = child) {
        if (child + 1 < len && (row[order[child + 1]] > row[order[child]] ||
                                (row[order[child + 1]] == row[order[child]] && order[child + 1] > order[child])))
            child++;
        if (row[order[from]] > row[order[child]] ||
            (row[order[from]] == row[order[child]] && order[from] > order[child]))
            return;
        uint32_t other = order[from];
        order[from] = order[child];
        order[child] = other;
    }
}

/* Heapsort by the entries of the row; bins with equal entries are sorted by their index. */
static void sort(uint32_t *order, size_t len, const double *row)
{
    for (size_t i = len / 2; i-- > 0;)
        sift(order, i, len, row);
    for (size_t end = len; end-- > 1;) {
        uint32_t other = order[0];
        order[0] = order[end];
        order[end] = other;
        sift(order, 0, end, row);
    }
}

static void set_order(struct eps__cc_walk *walk)
{
    size_t bins = walk->steps->bins, shown = bins;
    const double *row = eps__cc_row(walk);
    walk->still = 0;
    for (size_t i = 0; i < bins; i++) {
        if (row[i] > 0)
            walk->order[--shown] = (uint32_t)i;
        else
            walk->order[walk->still++] = (uint32_t)i;
    }
    sort(walk->order + walk->still, bins - walk->still, row);
}

size_t eps__cc_walk_equal(const struct eps__cc_walk *walk, size_t at)
{
    size_t equal = 0;
    uint64_t mean_class = walk->mean_class[walk->order[at]];
    for (size_t k = 0; k < at; k++)
        equal += walk->mean_class[walk->order[k]] == mean_class;
    return equal;
}

/* ------------------------------------------------------------ a walk */

void eps__cc_walk_destroy(struct eps__cc_walk *walk)
{
    if (!walk)
        return;
    free(walk->gram);
    free(walk->near);
    free(walk->near_len);
    free(walk->mean_class);
    free(walk->order);
    free(walk);
}

enum eps_status eps__cc_walk_create(struct eps__cc_walk **out, const struct eps__cc_steps *steps)
{
    struct eps__cc_walk *walk = calloc(1, sizeof *walk);
    if (!walk)
        return EPS_NO_MEMORY;
    size_t bins = steps->bins;
    walk->steps = steps;
    walk->gram = calloc(bins * bins, sizeof *walk->gram);
    walk->near = malloc(bins * bins * sizeof *walk->near);
    walk->near_len = calloc(bins, sizeof *walk->near_len);
    walk->mean_class = calloc(bins, sizeof *walk->mean_class);
    walk->order = malloc(bins * sizeof *walk->order);
    walk->mean_classes = 1;
    if (!walk->gram || !walk->near || !walk->near_len || !walk->mean_class || !walk->order) {
        eps__cc_walk_destroy(walk);
        return EPS_NO_MEMORY;
    }
    if (steps->len > 0)
        set_order(walk);
    *out = walk;
    return EPS_OK;
}

/* Bins of one class stay together if their entries in this row are equal; otherwise they get new classes. Equal entries
 * are adjacent in the order. */
static void split_mean_classes(struct eps__cc_walk *walk)
{
    size_t bins = walk->steps->bins;
    const double *row = eps__cc_row(walk);
    uint64_t before = walk->mean_classes;
    for (size_t from = walk->still, to; from < bins; from = to) {
        for (to = from + 1; to < bins && row[walk->order[to]] == row[walk->order[from]];)
            to++;
        for (size_t i = from; i < to; i++) {
            uint64_t mean_class = walk->mean_class[walk->order[i]];
            if (mean_class >= before)
                continue;
            for (size_t k = i; k < to; k++)
                if (walk->mean_class[walk->order[k]] == mean_class)
                    walk->mean_class[walk->order[k]] = walk->mean_classes;
            walk->mean_classes++;
        }
    }
}

static void add_rank(struct eps__cc_walk *walk)
{
    size_t bins = walk->steps->bins;
    const double *row = eps__cc_row(walk);
    for (size_t a = walk->still; a < bins; a++) {
        size_t i = walk->order[a];
        double *out = walk->gram + i * bins, value = row[i];
        for (size_t b = walk->still; b < bins; b++) {
            size_t j = walk->order[b];
            bool apart = out[j] == 0;
            out[j] += value * row[j];
            if (apart && out[j] != 0)
                walk->near[i * bins + walk->near_len[i]++] = (uint32_t)j;
        }
    }
}

void eps__cc_walk_advance(struct eps__cc_walk *walk)
{
    assert(walk->at < walk->steps->len);
    split_mean_classes(walk);
    add_rank(walk);
    if (++walk->at < walk->steps->len)
        set_order(walk);
}

/* ------------------------------------------------------------ the steps */

void eps__cc_steps_destroy(struct eps__cc_steps *steps)
{
    if (!steps)
        return;
    free(steps->shift);
    free(steps);
}

/* Counts one bound for each row and each bin with an entry in it, if some bin before it in the order has a different
 * mean so far. */
static enum eps_status count_bounds(struct eps__cc_steps *steps, const struct eps_context *context)
{
    struct eps__cc_walk *walk;
    enum eps_status status = eps__cc_walk_create(&walk, steps);
    if (status != EPS_OK)
        return status;
    for (; walk->at < steps->len && status == EPS_OK; status = eps__poll(context)) {
        size_t first = 0; /* the number of leading bins in the class of the first bin */
        while (first < steps->bins && walk->mean_class[walk->order[first]] == walk->mean_class[walk->order[0]])
            first++;
        for (size_t at = walk->still; at < steps->bins; at++)
            steps->bounds += at >= first && at > 0;
        split_mean_classes(walk);
        if (++walk->at < steps->len)
            set_order(walk);
    }
    eps__cc_walk_destroy(walk);
    return status;
}

enum eps_status eps__cc_steps_create(struct eps__cc_steps **out, const struct eps_context *context,
                                     const struct eps__cc_matrix *matrix, double sigma, bool reversed)
{
    assert(matrix->draws >= 1);
    struct eps__cc_steps *steps = calloc(1, sizeof *steps);
    if (!steps)
        return EPS_NO_MEMORY;
    steps->bins = matrix->bins;
    steps->len = matrix->len;
    steps->draws = matrix->draws;
    steps->error = matrix->error + 8 * EPS__UNIT_ROUNDOFF;
    steps->shift = malloc((matrix->len * matrix->bins + 1) * sizeof *steps->shift);
    enum eps_status status = steps->shift ? EPS_OK : EPS_NO_MEMORY;
    for (size_t k = 0; k < matrix->len && status == EPS_OK; k++) {
        const double *from = matrix->entry + (reversed ? matrix->len - 1 - k : k) * matrix->bins;
        for (size_t i = 0; i < matrix->bins; i++) /* an entry that underflows must not become 0 */
            steps->shift[k * matrix->bins + i] = from[i] > 0 ? fmax(eps__raise(from[i] / sigma, 4), DBL_MIN) : 0;
    }
    if (status == EPS_OK)
        status = count_bounds(steps, context);
    if (status != EPS_OK) {
        eps__cc_steps_destroy(steps);
        return status;
    }
    *out = steps;
    return EPS_OK;
}

double eps__cc_log_beta(const struct eps__cc_steps *steps, double log_delta1)
{
    if (steps->bounds == 0)
        return -1;
    double log_beta = log_delta1 - log((double)steps->bounds * (double)steps->draws);
    return eps__shift(EPS__LOWER, log_beta, 4 * EPS__UNIT_ROUNDOFF * (fabs(log_beta) + fabs(log_delta1)));
}
