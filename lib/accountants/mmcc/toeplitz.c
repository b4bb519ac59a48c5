/*
 * Toeplitz rows. The tail bound of row i and column j = i - m depends on m and on the number of columns before j within
 * the band: a table over (m, j), with j capped at the bandwidth. For later as for earlier columns j', the product
 * <C_{1:i-1,j}, C_{1:i-1,j'}> depends on m and j' - j. It gains one term when m grows by 1, and the logarithm of the
 * moment generating function gains one term when j grows by 1. So the cost of the table is proportional to its number
 * of entries, plus a few evaluations for the best tilt of each m, and no n x n matrix is formed.
 *
 * With cyclic Poisson sampling, rows are taken in blocks of g, and the columns of one part are g apart. The structure
 * is the same, with g steps in place of one. Part 0 is the worst: the matrix of any other part is a leading block of
 * its matrix.
 *
 * SPDX-License-Identifier: GPL-3.0-or-later
 */
#include <math.h>
#include <stdlib.h>

#include "lib/accountants/mmcc/rows.h"
#include "lib/base/error.h"
#include "lib/numerics/normal.h"

enum {
    BATCH = 64,            /* the rows of the table that are computed in parallel */
    SHORT_TABLE = 100,     /* the most tail bounds for which every method is used */
    SORTED_TABLE = 1 << 14 /* the most tail bounds for which the method that sorts the weights is used */
};

struct toeplitz_rows {
    struct eps__rows base;
    size_t stamps;
    size_t rounds;  /* the number of blocks of rows in one stamp */
    size_t bands;   /* the number of blocks that a column reaches */
    size_t whole;   /* the number of blocks that are not cut: rounds or rounds - 1 */
    size_t first;   /* the m of the column's first nonzero block: later blocks have something above */
    size_t steady;  /* whole blocks from this index on are equal; at most `whole` */
    double *entry;  /* by m: the norm of the column's m-th block of rows */
    double *last;   /* the same in the last block, which may be cut */
    double *odds;   /* the table of log odds: row m starts at offset[m] and is indexed by j */
    size_t *offset; /* bands + 1 numbers */
    const double *coefficients;
    size_t len, groups;
};

static size_t table_columns(const struct toeplitz_rows *t, size_t m)
{
    return t->rounds - m < t->bands ? t->rounds - m : t->bands;
}

/* ---- the tail bounds of one m ---- */

struct batch {
    struct toeplitz_rows *rows;
    const struct eps__tail_query *query;
    size_t first, len;
    double ratio;         /* the best tilt of the last batch, divided by the normal quantile */
    double ratios[BATCH]; /* the same for each row of this batch */
    double *square;       /* by row of the batch: ||a||^2 */
    double *later;        /* `bands` numbers per row: products with the columns d = 0, 1, ... after j */
    double *earlier;      /* `bands` numbers per row: at d - 1 the product with the column d = 1, 2, ... before j */
};

static void bound_with(struct batch *batch, size_t row, double *out)
{
    const struct toeplitz_rows *t = batch->rows;
    size_t m = batch->first + row, columns = table_columns(t, m), table = t->bands * t->bands;
    const double *later = batch->later + row * t->bands, *earlier = batch->earlier + row * t->bands;
    double tau = batch->query->sigma * eps__rows_norm_upper(&t->base, batch->square[row]);
    double log_eta = eps__rows_log_eta(&t->base, batch->query, batch->square[row]), z = fmax(batch->query->z, 0.1);
    double up = 1 + t->base.square_error;
    double *all = malloc((m + columns) * sizeof *all);
    if (!all) {
        atomic_store(&batch->rows->base.starved, true);
        for (size_t j = 0; j < columns; j++)
            out[j] = INFINITY;
        return;
    }
    for (size_t d = 0; d < m; d++)
        all[d] = later[d] * up;
    for (size_t j = 1; j < columns; j++)
        all[m + j - 1] = earlier[j - 1] * up;
    struct eps__weights weights = {all, NULL, m + columns - 1, t->base.p, &batch->rows->base.starved};
    if (batch->query->quick) { /* the bound of the last column, which is slightly too large for the others */
        struct eps__tilt tilt = eps__tilt_at(batch->ratio * z, tau);
        double tail = eps__tail_tilted_at(&tilt, eps__weights_log_moment(&weights, tilt.rate), log_eta);
        for (size_t j = 0; j < columns; j++)
            out[j] = tail;
        free(all);
        return;
    }
    /* The best tilt for the last column is used for all. */
    double ratio = batch->ratio;
    eps__tail_tilted(&weights, tau, log_eta, &ratio);
    struct eps__tilt tilt = eps__tilt_at(ratio * z, tau);
    weights.len = m;
    double log_moment = eps__weights_log_moment(&weights, tilt.rate), widest = tilt.rate * all[0];
    for (size_t j = 0; j < columns; j++) {
        if (j > 0) {
            double exponent = tilt.rate * all[m + j - 1];
            log_moment += eps__bernoulli_log_moment(t->base.p, exponent);
            widest = fmax(widest, exponent);
        }
        out[j] = eps__tail_tilted_at(&tilt, eps__raise(log_moment, 16 + (double)(m + j) + 4 * widest), log_eta);
        weights.len = m + j;
        if (table <= SORTED_TABLE)
            out[j] = fmin(out[j], eps__tail_largest(&weights, tau, log_eta));
        if (table <= SHORT_TABLE) {
            out[j] = fmin(out[j], eps__tail_tilted(&weights, tau, log_eta, NULL));
            out[j] = fmin(out[j], eps__tail_convolved(&weights, tau, log_eta));
        }
    }
    batch->ratios[row] = ratio;
    free(all);
}

static void bound_row(void *user, size_t row)
{
    struct batch *batch = user;
    const struct toeplitz_rows *t = batch->rows;
    size_t m = batch->first + row, columns = table_columns(t, m);
    double *out = t->odds + t->offset[m], square = batch->square[row];
    if (m <= t->first) {
        for (size_t j = 0; j < columns; j++)
            out[j] = t->base.prior;
        return;
    }
    if (batch->query->direction == EPS_REMOVE) {
        bound_with(batch, row, out);
    } else {
        double tail = eps__rows_tail_without(&t->base, batch->query, square);
        for (size_t j = 0; j < columns; j++)
            out[j] = tail;
    }
    for (size_t j = 0; j < columns; j++)
        out[j] = eps__rows_log_odds(&t->base, batch->query, square, out[j]);
}

/* Updates the products over m - 1 blocks of rows to those over m blocks. */
static void grow(const struct toeplitz_rows *t, size_t m, double *later, double *earlier)
{
    size_t end = m * t->groups < t->len ? m * t->groups : t->len;
    for (size_t row = (m - 1) * t->groups; row < end; row++) {
        double c = t->coefficients[row];
        for (size_t d = 0; d * t->groups <= row && d < t->bands; d++)
            later[d] += c * t->coefficients[row - d * t->groups];
        for (size_t d = 1; row + d * t->groups < t->len && d < t->bands; d++)
            earlier[d - 1] += c * t->coefficients[row + d * t->groups];
    }
}

static enum eps_status bound_toeplitz(struct eps__rows *rows, const struct eps_context *context,
                                      const struct eps__tail_query *query)
{
    struct toeplitz_rows *t = (struct toeplitz_rows *)rows;
    struct batch batch = {.rows = t, .query = query, .ratio = 0.95};
    enum eps_status status = EPS_NO_MEMORY;
    size_t needed = query->direction == EPS_REMOVE ? 2 * t->bands - 2 : t->bands - 1, bands = t->bands;
    t->steady = needed < t->whole ? needed : t->whole;
    t->base.classes = t->steady + (t->steady < t->whole) + (t->whole < t->rounds);
    batch.square = calloc(BATCH, sizeof(double));
    batch.later = calloc(BATCH * bands, sizeof(double));
    batch.earlier = calloc(BATCH * bands, sizeof(double));
    if (!batch.square || !batch.later || !batch.earlier)
        goto out;
    for (batch.first = 0; batch.first < bands; batch.first += batch.len) {
        batch.len = bands - batch.first < BATCH ? bands - batch.first : BATCH;
        for (size_t row = 0; row < batch.len; row++) {
            size_t m = batch.first + row, before = row > 0 ? row - 1 : BATCH - 1;
            for (size_t d = 0; d < bands && row != before; d++) {
                batch.later[row * bands + d] = batch.later[before * bands + d];
                batch.earlier[row * bands + d] = batch.earlier[before * bands + d];
            }
            if (m > 0)
                grow(t, m, batch.later + row * bands, batch.earlier + row * bands);
            batch.square[row] = batch.later[row * bands];
        }
        if (context && context->parallel_for)
            context->parallel_for(context->user, batch.len, bound_row, &batch);
        for (size_t row = 0; !(context && context->parallel_for) && row < batch.len; row++)
            bound_row(&batch, row);
        if (batch.ratios[batch.len - 1] > 0)
            batch.ratio = batch.ratios[batch.len - 1];
        status = eps__poll(context);
        if (status != EPS_OK)
            goto out;
    }
    status = atomic_load(&t->base.starved) ? EPS_NO_MEMORY : EPS_OK;
out:
    free(batch.square);
    free(batch.later);
    free(batch.earlier);
    return status;
}

/* ---- classes ---- */

/* The order of the classes: each row before the steady ones, all steady rows, the cut row (A1). */
static bool is_cut(const struct toeplitz_rows *t, size_t k)
{
    return t->whole < t->rounds && k + 1 == t->base.classes;
}

static uint64_t count_toeplitz(const struct eps__rows *rows, size_t k)
{
    const struct toeplitz_rows *t = (const struct toeplitz_rows *)rows;
    bool steady = k == t->steady && !is_cut(t, k);
    return t->stamps * (steady ? t->whole - t->steady : 1);
}

static size_t fill_toeplitz(const struct eps__rows *rows, size_t k, struct eps__factor *out)
{
    const struct toeplitz_rows *t = (const struct toeplitz_rows *)rows;
    size_t i = is_cut(t, k) ? t->rounds - 1 : k, len = 0;
    const double *entry = is_cut(t, k) ? t->last : t->entry;
    for (size_t m = 0; m <= i && m < t->bands; m++) {
        size_t columns = table_columns(t, m), j = i - m < columns ? i - m : columns - 1;
        if (entry[m] > 0)
            out[len++] = (struct eps__factor){entry[m], t->odds[t->offset[m] + j], 1};
    }
    return len;
}

static void destroy_toeplitz(struct eps__rows *rows)
{
    struct toeplitz_rows *t = (struct toeplitz_rows *)rows;
    free(t->entry);
    free(t->last);
    free(t->odds);
    free(t->offset);
    free(t);
}

static const struct eps__rows_class toeplitz_class = {bound_toeplitz, count_toeplitz, fill_toeplitz, destroy_toeplitz};

/* The norm of `height` entries of the first column, from row `from` on. It is 0 only if all of them are. */
static double block_norm(const struct toeplitz_rows *t, size_t from, size_t height)
{
    double sum = 0, most = 0;
    if (height == 1)
        return from < t->len ? t->coefficients[from] : 0;
    for (size_t row = from; row < from + height && row < t->len; row++)
        most = fmax(most, t->coefficients[row]);
    for (size_t row = from; row < from + height && row < t->len && most > 0; row++)
        sum += (t->coefficients[row] / most) * (t->coefficients[row] / most);
    return sqrt(sum) * most;
}

enum eps_status eps__toeplitz_rows(struct eps__rows **rows, const struct eps__blocks *blocks, size_t groups, double p)
{
    struct toeplitz_rows *t = calloc(1, sizeof *t);
    if (!t)
        return EPS_NO_MEMORY;
    eps__rows_init(&t->base, &toeplitz_class, p, (double)blocks->coefficients_len, (double)blocks->block);
    t->coefficients = blocks->coefficients;
    t->len = blocks->coefficients_len;
    t->groups = groups;
    t->stamps = blocks->stamps;
    t->rounds = (blocks->block + groups - 1) / groups;
    t->bands = (t->len + groups - 1) / groups;
    size_t left = blocks->block - (t->rounds - 1) * groups; /* rows of the last block */
    t->whole = left < groups ? t->rounds - 1 : t->rounds;
    t->base.rows = (uint64_t)t->stamps * t->rounds;
    t->base.entries_max = t->bands;
    if (groups == 1)
        t->base.entry_error = 0;
    t->entry = malloc(t->bands * sizeof *t->entry);
    t->last = malloc(t->bands * sizeof *t->last);
    t->offset = malloc((t->bands + 1) * sizeof *t->offset);
    if (!t->entry || !t->last || !t->offset)
        goto fail;
    t->offset[0] = 0;
    for (size_t m = 0; m < t->bands; m++) {
        t->offset[m + 1] = t->offset[m] + table_columns(t, m);
        t->entry[m] = block_norm(t, m * groups, groups);
        t->last[m] = block_norm(t, m * groups, left);
    }
    t->odds = malloc(t->offset[t->bands] * sizeof *t->odds);
    if (!t->odds)
        goto fail;
    while (t->first < t->bands && !(t->entry[t->first] > 0))
        t->first++;
    /* A pair is an entry with something above it. */
    for (size_t m = t->first + 1; m < t->bands; m++) {
        double full = (double)(t->rounds - m - 1);
        t->base.pairs += (double)t->stamps * ((t->entry[m] > 0 ? full : 0) + (t->last[m] > 0 ? 1 : 0));
    }
    *rows = &t->base;
    return EPS_OK;
fail:
    destroy_toeplitz(&t->base);
    return EPS_NO_MEMORY;
}
