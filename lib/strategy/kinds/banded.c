/*
 * Banded blocks: lower triangular, with `width` numbers for each column from the diagonal down. Equal columns are
 * stored once: `entries` holds the last K columns, and all columns before them equal the first of these. So a Toeplitz
 * matrix whose columns were divided by their norms takes width^2 numbers for any n (only its last width - 1 columns are
 * cut off, and so change in the division), and any other matrix n width.
 *
 * Everything is computed from the columns. The decoder is not formed: y C = a is solved from the right in O(n width)
 * per row; banded_error.c computes the norms of all rows.
 *
 * SPDX-License-Identifier: GPL-3.0-or-later
 */
#include "lib/strategy/kinds/banded.h"

#include <stdlib.h>
#include <string.h>

#include "lib/strategy/failures.h"
#include "lib/strategy/kinds/kinds.h"
#include "lib/strategy/noise.h"
#include "lib/strategy/sensitivity/sensitivity.h"

void eps__banded_steal(struct eps_strategy *s, double *columns, size_t stored, size_t width)
{
    s->kind = &eps__strategy_banded;
    s->block_rows = s->block;
    s->entries = columns;
    s->entries_len = stored * width;
    s->width = width;
}

/* Only the last columns, which the end of the block cuts off, differ from the others after the division. */
enum eps_status eps__normalise_columns(struct eps_strategy *s, struct eps_error *error)
{
    size_t len = s->entries_len;
    double *columns = calloc(len * len, sizeof *columns), sum = 0;
    if (!columns)
        return eps__strategy_no_memory(error);
    /* Column i of the last len has len - i rows. */
    for (size_t rows = 1; rows <= len; rows++) {
        sum += s->entries[rows - 1] * s->entries[rows - 1];
        for (size_t d = 0; d < rows; d++)
            columns[(len - rows) * len + d] = s->entries[d] / sqrt(sum);
    }
    free(s->entries);
    eps__banded_steal(s, columns, len, len);
    return EPS_OK;
}

static void banded_row(const struct eps_strategy *s, double *out, size_t row)
{
    memset(out, 0, s->block * sizeof *out);
    for (size_t d = 0; d < s->width && d <= row; d++)
        out[row - d] = eps__banded_column(s, row - d)[d];
}

static void banded_band_row(const struct eps_strategy *s, double *out, size_t row)
{
    for (size_t d = 0; d < s->bands; d++)
        out[d] = d <= row ? eps__banded_column(s, row - d)[d] : 0;
}

static void banded_divide(struct eps_strategy *s, double divisor)
{
    for (size_t i = 0; i < s->entries_len; i++)
        s->entries[i] /= divisor;
}

static bool banded_measure(struct eps_strategy *s)
{
    size_t stored = eps__banded_stored(s), width = s->width;
    struct eps__interval *squares = realloc(s->squares, stored * sizeof *squares);
    if (!squares)
        return false;
    s->squares = squares;
    s->squares_len = stored;
    s->lower = s->nonnegative = true;
    s->bands = 1;
    s->gram_error = EPS__SUM_ERROR;
    for (size_t i = 0; i < stored; i++) {
        struct eps__sum sum = {0};
        for (size_t d = 0; d < width; d++) {
            double x = s->entries[i * width + d];
            eps__sum_add_square(&sum, x);
            s->nonnegative = s->nonnegative && x >= 0;
            if (x != 0 && d + 1 > s->bands)
                s->bands = d + 1;
        }
        squares[i] = eps__sum_interval(&sum, 0);
    }
    return true;
}

static void banded_hash(const struct eps_strategy *s, struct eps__hash *hash)
{
    eps__hash_u64(hash, s->width);
    eps__hash_doubles(hash, s->entries, s->entries_len);
}

static void banded_save(const struct eps_strategy *s, struct eps__record *out)
{
    eps__record_put_u64(out, s->width);
}

static void banded_load(struct eps_strategy *s, struct eps__record *from)
{
    s->width = eps__record_get_u64(from);
    /* Sizes that do not fit mark the record as bad. */
    if (s->width == 0 || s->entries_len == 0 || s->entries_len % s->width != 0 || s->width > s->block ||
        s->entries_len / s->width > s->block ||
        (s->entries_len / s->width < s->block && s->entries_len / s->width < s->width))
        from->bad = true;
}

static size_t banded_square_index(const struct eps_strategy *s, size_t j)
{
    size_t stored = eps__banded_stored(s);
    return j + stored > s->block ? j + stored - s->block : 0;
}

/* The inner product of columns j and j + lag, or of their absolute values. */
static double inner(const struct eps_strategy *s, size_t j, size_t lag, bool absolute)
{
    struct eps__sum sum = {0};
    const double *a = eps__banded_column(s, j), *b = eps__banded_column(s, j + lag);
    for (size_t d = 0; d + lag < s->bands; d++) {
        double product = a[d + lag] * b[d];
        eps__sum_add(&sum, absolute ? fabs(product) : product);
    }
    return eps__sum_value(&sum);
}

double eps__banded_gram(const struct eps_strategy *s, size_t i, size_t j)
{
    size_t first = i < j ? i : j, lag = i < j ? j - i : i - j;
    return lag < s->bands ? inner(s, first, lag, false) : 0;
}

static bool banded_gram(struct eps__work *work, const struct eps_strategy *s, double *out, size_t ld, size_t first,
                        size_t step, size_t count)
{
    (void)work;
    for (size_t i = 0; i < count; i++)
        for (size_t j = i; j < count; j++)
            out[i * ld + j] = out[j * ld + i] = eps__banded_gram(s, first + i * step, first + j * step);
    return true;
}

/* ---- fixed_order, with |C| in place of C ---- */

/* The squared norm of |C| times the indicator of a pattern, row by row: for few starting points. v: a block's
 * numbers. */
static double pattern_square(const struct eps_strategy *s, double *v, const struct eps__participation *participation,
                             size_t start)
{
    size_t m = s->block, at = start, left = participation->epochs;
    struct eps__sum sum = {0};
    while (left && at < s->n) {
        size_t end = (at / m + 1) * m, low = at % m, high = low;
        for (; at < end && left; at += participation->separation, left--) {
            size_t j = at % m, rows = m - j < s->bands ? m - j : s->bands;
            const double *column = eps__banded_column(s, j);
            for (; high < j + rows; high++)
                v[high] = 0;
            for (size_t d = 0; d < rows; d++)
                v[j + d] += fabs(column[d]);
        }
        for (; low < high; low++)
            eps__sum_add_square(&sum, v[low]);
    }
    return eps__sum_value(&sum);
}

/* Twice the sum of the inner products of the column of step `at` with those of its pattern before it, or after it, at
 * most `reach` of them. alike[e] caches the product of equal columns b e apart; NAN: not computed. */
static double shared_with(const struct eps_strategy *s, double *alike, size_t at, size_t b, size_t reach, bool before)
{
    size_t m = s->block, same = m - eps__banded_stored(s);
    struct eps__sum sum = {0};
    for (size_t e = 1; e <= reach && e * b < s->bands; e++) {
        if (before ? at % m < e * b : at % m + e * b >= m)
            break;
        size_t first = before ? at % m - e * b : at % m;
        bool equal = first + e * b <= same;
        double product = equal && !isnan(alike[e]) ? alike[e] : inner(s, first, e * b, true);
        if (equal)
            alike[e] = product;
        eps__sum_add(&sum, 2 * product);
    }
    return eps__sum_value(&sum);
}

/* For many starting points: the pattern slides along its class modulo b, losing one step for each that it gains; every
 * k-th sum is computed anew (F1). */
static void sliding(struct eps__interval *best, const struct eps_strategy *s, double *alike,
                    const struct eps__participation *participation, size_t residue, size_t starts)
{
    size_t b = participation->separation, next = residue, taken = 0;
    struct eps__sum lower = {0}, upper = {0}, shared = {0};
    for (size_t start = residue; start < starts; start += b) {
        if ((start - residue) / b % participation->epochs == 0) {
            lower = upper = shared = (struct eps__sum){0};
            taken = 0;
            next = start;
        } else {
            taken--;
            eps__sum_add(&lower, -eps__column_square(s, start - b)->lower);
            eps__sum_add(&upper, -eps__column_square(s, start - b)->upper);
            eps__sum_add(&shared, -shared_with(s, alike, start - b, b, taken, false));
        }
        for (; taken < participation->epochs && next < s->n; next += b, taken++) {
            eps__sum_add(&lower, eps__column_square(s, next)->lower);
            eps__sum_add(&upper, eps__column_square(s, next)->upper);
            eps__sum_add(&shared, shared_with(s, alike, next, b, taken, true));
        }
        struct eps__interval cross = eps__sum_interval(&shared, 2 * EPS__SUM_ERROR);
        best->lower = fmax(best->lower, eps__sum_interval(&lower, EPS__SUM_ERROR).lower + cross.lower);
        best->upper = fmax(best->upper, eps__sum_interval(&upper, EPS__SUM_ERROR).upper + cross.upper);
    }
}

static enum eps_status banded_fixed_order(const struct eps_context *context, struct eps__interval *out,
                                          struct eps_error *error, const struct eps_strategy *s,
                                          const struct eps__participation *participation)
{
    enum eps_status status = EPS_OK;
    size_t b = participation->separation, starts = eps__participation_starts(participation, s->n),
           reach = (s->bands - 1) / b + 1;
    double *v = malloc((s->block > reach ? s->block : reach + 1) * sizeof *v), largest = 0;
    *out = (struct eps__interval){0};
    if (!v)
        return eps__strategy_no_memory(error);
    if (starts > b) {
        for (size_t e = 0; e <= reach && e < s->block; e++)
            v[e] = NAN;
        for (size_t residue = 0; status == EPS_OK && residue < b; residue++) {
            sliding(out, s, v, participation, residue, starts);
            status = residue % 64 == 0 ? eps__strategy_poll(context, error) : EPS_OK;
        }
        out->upper = eps__raise(out->upper, 4);
        out->lower = eps__lower(out->lower, 4);
    } else {
        for (size_t start = 0; status == EPS_OK && start < starts; start++) {
            largest = fmax(largest, pattern_square(s, v, participation, start));
            status = start % 64 == 0 ? eps__strategy_poll(context, error) : EPS_OK;
        }
        /* Each v is a plain sum of at most `reach` non-negative terms. */
        double relative = 2 * EPS__SUM_ERROR + 2 * ((double)reach + 2) * 0x1p-53;
        *out = (struct eps__interval){largest * (1 - relative), largest * (1 + relative)};
    }
    free(v);
    return status;
}

/* ---- the inverse ---- */

/* Solves y C0 = a from the right. */
static bool banded_solve(const struct eps_strategy *s, double *out, const double *inverse, const double *a, size_t len,
                         double *work)
{
    (void)work;
    memset(out + len, 0, (s->block - len) * sizeof *out);
    for (size_t j = len; j-- > 0;) {
        const double *column = eps__banded_column(s, j);
        double sum = a[j];
        for (size_t d = 1; d < s->bands && j + d < len; d++)
            sum -= column[d] * out[j + d];
        out[j] = sum * inverse[banded_square_index(s, j)];
    }
    return true;
}

/* The reciprocals of the diagonal. The inverse counts as defined if these and the last row of C0^-1, which reaches
 * farthest, are finite. */
static enum eps_status banded_invert(const struct eps_context *context, double **inverse, bool *defined,
                                     struct eps_error *error, const struct eps_strategy *s)
{
    (void)context;
    size_t stored = eps__banded_stored(s);
    double *a = calloc(2 * s->block, sizeof *a);
    *inverse = calloc(stored, sizeof **inverse);
    if (!a || !*inverse) {
        free(a);
        return eps__strategy_no_memory(error);
    }
    for (size_t i = 0; i < stored; i++)
        (*inverse)[i] = 1 / s->entries[i * s->width];
    a[s->block - 1] = 1;
    banded_solve(s, a + s->block, *inverse, a, s->block, NULL);
    *defined = eps__all_finite(*inverse, stored) && eps__all_finite(a + s->block, s->block);
    free(a);
    return EPS_OK;
}

static enum eps_status banded_decoder_row(const struct eps_strategy *s, double *out, struct eps_error *error,
                                          const double *inverse, size_t row)
{
    return eps__decoder_row_by_blocks(s, out, error, inverse, row, banded_solve);
}

static enum eps_status banded_noise_row(const struct eps_strategy *s, double *out, struct eps_error *error,
                                        const double *inverse, size_t row)
{
    return eps__noise_row_by_solving(s, out, error, inverse, row, banded_solve);
}

static double banded_numbers(const struct eps__forecast *c)
{
    return c->stored * c->bands;
}

static void banded_fixed_order_cost(struct eps__cost *cost, const struct eps__forecast *c,
                                    const struct eps__participation *participation, double starts)
{
    double k = (double)participation->epochs, b = (double)participation->separation;
    cost->operations +=
        starts > b ? 10 * (c->n + c->stored * c->bands * (c->bands / b + 1)) : 2 * starts * k * c->bands;
    cost->bytes += 8 * (3 * c->n);
}

static void banded_min_separation_cost(struct eps__cost *cost, const struct eps__forecast *c)
{
    cost->operations += 4 * fmin(c->block, c->stored + c->bands) * c->bands * (2 * c->bands + 100) + 300 * c->n;
    cost->bytes += 32 * c->n;
}

static void banded_error_cost(struct eps__cost *cost, const struct eps__forecast *c, const struct eps_workload *w)
{
    double m = c->block;
    cost->operations += eps__workload_given(w)
                            ? m * (2 * m * c->bands + eps__product_cost(c->n, (double)w->coefficients_len) + 2 * c->n)
                            : (eps__workload_cools(w) ? c->n : m) * (4 * c->bands * c->bands + 20 * c->bands + 40);
    cost->bytes += 8 * (2 * c->n + 4 * m + c->bands * (c->bands + 4));
}

static void banded_recurrence(const struct eps_strategy *s, struct eps_recurrence *r)
{
    r->kind = EPS_RECURRENCE_COLUMNS;
    r->numbers = s->entries;
    r->len = s->entries_len;
    r->width = s->width;
}

const struct eps__strategy_kind eps__strategy_banded = {
    .name = "banded",
    .shape = EPS__SHAPE_OTHER,
    .gram_entry = eps__banded_gram,
    .min_separation = eps__row_bound,
    .row = banded_row,
    .band_row = banded_band_row,
    .divide = banded_divide,
    .measure = banded_measure,
    .hash = banded_hash,
    .square_index = banded_square_index,
    .gram = banded_gram,
    .fixed_order = banded_fixed_order,
    .invert = banded_invert,
    .variance = eps__banded_variance,
    .decoder_row = banded_decoder_row,
    .noise_row = banded_noise_row,
    .noise_ways = eps__noise_of_square,
    .recurrence = banded_recurrence,
    .save = banded_save,
    .load = banded_load,
    .numbers = banded_numbers,
    .gram_cost = eps__columns_gram_cost,
    .fixed_order_cost = banded_fixed_order_cost,
    .min_separation_cost = banded_min_separation_cost,
    .error_cost = banded_error_cost,
};
