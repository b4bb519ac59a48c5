/*
 * Ways to draw x = C^+ z for trees that keep a row for each height. They transpose the recursions of tree_decoder.c,
 * which lead from a row of A to a row of the decoder: here they lead from the noise of the nodes to that of the steps.
 *
 * online: the weighted sum of all noise below a complete node is the sum of its children's and its own. Step t adds the
 * estimate of the node that it completes and subtracts those of the nodes that are merged into it.
 *
 * full: x = X^-1 C' z. Up a subtree, f = 1' X^-1 C' z = tau (f_left + f_right) + (1 - tau) z. Down, the nodes above add
 * the same number `shift` to the right-hand side of every leaf, and a child gets tau (z + shift - f_left - f_right); at
 * a leaf, x is its own noise plus the shift. The way up is repeated at each node on the way down, O(n log n) in all, so
 * that only one path is kept.
 *
 * SPDX-License-Identifier: GPL-3.0-or-later
 */
#include <cblas.h>
#include <string.h>

#include "lib/strategy/failures.h"
#include "lib/strategy/kinds/tree_levels.h"
#include "lib/strategy/noise.h"

/* One tile of coordinates of a run, at one block. */
struct tile {
    struct eps__noise_run *run;
    const struct eps__tree_levels *levels;
    size_t above; /* rows of C before this block */
    size_t first, len;
    double *rows; /* one for each height, run->dimensions apart */
    double *z;
};

/* Generates the noise of the node of height l that contains leaf e. */
static void node_noise(const struct tile *t, double *out, size_t e, size_t l)
{
    size_t last = (((e >> l) + 1) << l) - 1;
    eps__white_row(&t->run->white, out, t->above + eps__tree_node_row(last, l), t->first, t->len);
}

static double *row_of(const struct tile *t, size_t height)
{
    return t->rows + height * t->run->dimensions;
}

static void add(const struct tile *t, double *y, double a, const double *x)
{
    cblas_daxpy((blasint)t->len, a, x, 1, y, 1);
}

/* ---------------------------------------------------------------- online */

static bool online_serves(const struct eps_strategy *s)
{
    return s->decoder != EPS_DECODER_FULL;
}

static double online_numbers(const struct eps_strategy *s, enum eps_part part, double dimensions)
{
    (void)part;
    return (double)(s->height + 1) * dimensions + 2 * EPS__WHITE_TILE;
}

/* Two nodes are drawn per step, and as many are merged. */
static double online_operations(const struct eps_strategy *s, enum eps_part part, double dimensions)
{
    (void)part;
    return (double)s->n * (2 * EPS__NORMAL_COST + 10) * dimensions;
}

/* rows[j] is the weighted sum below the complete node of height j in the binary representation of the completed
 * steps. */
static void online_step(const struct tile *t, double *x, size_t step)
{
    const struct eps__tree_levels *v = t->levels;
    size_t l = step + 1 == v->m && v->completion ? v->completion : (size_t)__builtin_ctzll(step + 1);
    double *sum = t->z + EPS__WHITE_TILE;
    memset(x, 0, t->len * sizeof *x);
    node_noise(t, sum, step, 0);
    for (size_t j = 0; j < l; j++) {
        if (step >> j & 1) {
            add(t, x, -1 / v->width[j], row_of(t, j));
            add(t, sum, 1, row_of(t, j));
        }
        node_noise(t, t->z, step, j + 1);
        add(t, sum, (double)((size_t)2 << j), t->z);
    }
    add(t, x, 1 / v->width[l], sum);
    memcpy(row_of(t, l), sum, t->len * sizeof *sum);
}

/* ---------------------------------------------------------------- full */

static bool full_serves(const struct eps_strategy *s)
{
    return s->decoder == EPS_DECODER_FULL;
}

/* Two rows for each height: the shift on the path, and a sum on the way up. */
static double full_numbers(const struct eps_strategy *s, enum eps_part part, double dimensions)
{
    (void)part;
    return 2 * (double)(s->height + 1) * dimensions + 2 * EPS__WHITE_TILE;
}

static double full_operations(const struct eps_strategy *s, enum eps_part part, double dimensions)
{
    (void)part;
    return (double)s->n * (2 * EPS__NORMAL_COST + 6) * (double)(s->height + 1) * dimensions;
}

static double tau_of(const struct eps__tree_levels *v, size_t first, size_t l)
{
    return first + ((size_t)1 << l) <= v->m ? v->tau[l] : v->partial_tau[l];
}

static void up(const struct tile *t, double *out, size_t first, size_t l);

/* f_left + f_right of the node of height l > 0 whose first leaf is `first`. */
static void children(const struct tile *t, double *out, size_t first, size_t l)
{
    size_t right = first + ((size_t)1 << (l - 1));
    double *other = row_of(t, t->levels->height + l);
    up(t, out, first, l - 1);
    if (right < t->levels->m) {
        up(t, other, right, l - 1);
        add(t, out, 1, other);
    }
}

/* f of the node of height l whose first leaf is `first`. */
static void up(const struct tile *t, double *out, size_t first, size_t l)
{
    if (l == 0) {
        node_noise(t, out, first, 0);
        return;
    }
    double tau = tau_of(t->levels, first, l);
    children(t, out, first, l);
    node_noise(t, t->z, first, l);
    for (size_t i = 0; i < t->len; i++)
        out[i] = tau * out[i] + (1 - tau) * t->z[i];
}

/* rows[l] is the shift of the node of height l that contains the step; it is valid as long as the node's parent is the
 * same. */
static void full_step(const struct tile *t, double *x, size_t step)
{
    const struct eps__tree_levels *v = t->levels;
    size_t top = step ? (size_t)__builtin_ctzll(step) : v->height;
    double *sum = t->z + EPS__WHITE_TILE;
    if (step == 0)
        memset(row_of(t, top), 0, t->len * sizeof *sum);
    for (size_t l = top; l > 0; l--) {
        double tau = tau_of(v, step, l), *shift = row_of(t, l), *below = row_of(t, l - 1);
        children(t, sum, step, l);
        node_noise(t, t->z, step, l);
        for (size_t i = 0; i < t->len; i++)
            below[i] = tau * (t->z[i] + shift[i] - sum[i]);
    }
    node_noise(t, x, step, 0);
    add(t, x, 1, row_of(t, 0));
}

/* ---------------------------------------------------------------- both */

static enum eps_status tree_row(struct eps__noise_run *run, const struct eps_context *context, double *out,
                                struct eps_error *error, size_t row)
{
    const struct eps_strategy *s = run->strategy;
    struct eps__tree_levels levels;
    size_t d = run->dimensions, rows = (s->height + 1) * (s->decoder == EPS_DECODER_FULL ? 2 : 1);
    eps__tree_levels_init(&levels, s);
    for (size_t first = 0; first < d; first += EPS__WHITE_TILE) {
        struct tile tile = {run,
                            &levels,
                            row / s->block * s->block_rows,
                            first,
                            eps__noise_tile(run, first),
                            run->memory + first,
                            run->memory + rows * d};
        (levels.full ? full_step : online_step)(&tile, out + first, row % s->block);
        cblas_dscal((blasint)tile.len, *run->inverse, out + first, 1);
        enum eps_status status = eps__strategy_poll(context, error);
        if (status != EPS_OK)
            return status;
    }
    return EPS_OK;
}

static const struct eps__noise_way online = {
    .serves = online_serves,
    .numbers = online_numbers,
    .operations = online_operations,
    .row = tree_row,
    .from = eps__noise_from_block,
};

static const struct eps__noise_way full = {
    .serves = full_serves,
    .numbers = full_numbers,
    .operations = full_operations,
    .row = tree_row,
    .from = eps__noise_from_block,
};

const struct eps__noise_way *const eps__tree_noise[] = {&online, &full, &eps__noise_by_panels, NULL};
