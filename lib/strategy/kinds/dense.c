/*
 * Dense blocks: square, row-major, lower triangular or not.
 *
 * SPDX-License-Identifier: GPL-3.0-or-later
 */
#include <stdlib.h>
#include <string.h>

#include "lib/numerics/linear/linalg.h"
#include "lib/numerics/normal.h"
#include "lib/strategy/decoder.h"
#include "lib/strategy/failures.h"
#include "lib/strategy/kinds/kinds.h"
#include "lib/strategy/noise.h"
#include "lib/strategy/sensitivity/sensitivity.h"

static void dense_row(const struct eps_strategy *s, double *out, size_t row)
{
    memcpy(out, s->entries + row * s->block, s->block * sizeof *out);
}

static void dense_band_row(const struct eps_strategy *s, double *out, size_t row)
{
    for (size_t d = 0; d < s->bands; d++)
        out[d] = d <= row ? s->entries[row * s->block + row - d] : 0;
}

static void dense_divide(struct eps_strategy *s, double divisor)
{
    for (size_t i = 0; i < s->entries_len; i++)
        s->entries[i] /= divisor;
}

static bool dense_measure(struct eps_strategy *s)
{
    size_t m = s->block, below = 0, above = 0;
    struct eps__interval *squares = realloc(s->squares, m * sizeof *squares);
    if (squares)
        s->squares = squares;
    struct eps__sum *sums = calloc(m, sizeof *sums);
    if (!squares || !sums) {
        free(sums);
        return false;
    }
    s->squares_len = m;
    s->nonnegative = true;
    for (size_t i = 0; i < m; i++) {
        for (size_t j = 0; j < m; j++) {
            double x = s->entries[i * m + j];
            if (x == 0)
                continue;
            eps__sum_add_square(&sums[j], x);
            if (x < 0)
                s->nonnegative = false;
            if (i > j && i - j > below)
                below = i - j;
            if (j > i && j - i > above)
                above = j - i;
        }
    }
    for (size_t j = 0; j < m; j++)
        squares[j] = eps__sum_interval(&sums[j], 0);
    free(sums);
    s->lower = above == 0;
    s->bands = below + above + 1 < m ? below + above + 1 : m;
    s->gram_error = ((double)m + 8) * EPS__UNIT_ROUNDOFF;
    return true;
}

static void dense_hash(const struct eps_strategy *s, struct eps__hash *hash)
{
    eps__hash_doubles(hash, s->entries, s->entries_len);
}

static size_t dense_square_index(const struct eps_strategy *s, size_t j)
{
    (void)s;
    return j;
}

static bool dense_gram(struct eps__work *work, const struct eps_strategy *s, double *out, size_t ld, size_t first,
                       size_t step, size_t count)
{
    size_t m = s->block;
    double *columns = malloc(m * count * sizeof *columns), *gram = malloc(count * count * sizeof *gram);
    bool ok = columns && gram;
    if (ok) {
        for (size_t i = 0; i < m; i++)
            for (size_t j = 0; j < count; j++)
                columns[i * count + j] = s->entries[i * m + first + j * step];
        eps__gram(work, gram, columns, m, count);
        ok = !eps__stopped(work);
        for (size_t i = 0; ok && i < count; i++)
            memcpy(out + i * ld, gram + i * count, count * sizeof *out);
    }
    free(columns);
    free(gram);
    return ok;
}

/* The squared norm of |C| times the indicator of a pattern, block by block; columns holds |C| transposed. */
static double pattern_square(const struct eps_strategy *s, const double *columns, double *v,
                             const struct eps__participation *participation, size_t start)
{
    size_t m = s->block, at = start, left = participation->epochs;
    struct eps__sum sum = {0};
    while (left && at < s->n) {
        size_t end = (at / m + 1) * m;
        memset(v, 0, m * sizeof *v);
        for (; at < end && left; at += participation->separation, left--) {
            const double *column = columns + at % m * m;
            for (size_t i = 0; i < m; i++)
                v[i] += column[i];
        }
        for (size_t i = 0; i < m; i++)
            eps__sum_add_square(&sum, v[i]);
    }
    return eps__sum_value(&sum);
}

static enum eps_status dense_fixed_order(const struct eps_context *context, struct eps__interval *out,
                                         struct eps_error *error, const struct eps_strategy *s,
                                         const struct eps__participation *participation)
{
    enum eps_status status = EPS_OK;
    size_t m = s->block, starts = eps__participation_starts(participation, s->n);
    double *columns = malloc(m * m * sizeof *columns), *v = malloc(m * sizeof *v), best = 0;
    if (!columns || !v) {
        status = eps__strategy_no_memory(error);
        goto out;
    }
    for (size_t i = 0; i < m; i++)
        for (size_t j = 0; j < m; j++)
            columns[j * m + i] = fabs(s->entries[i * m + j]);
    for (size_t start = 0; start < starts; start++) {
        if ((status = eps__strategy_poll(context, error)) != EPS_OK)
            goto out;
        double square = pattern_square(s, columns, v, participation, start);
        best = square > best ? square : best;
    }
    /* Each v is a plain sum of at most `epochs` non-negative terms. */
    double relative = 2 * EPS__SUM_ERROR + 2 * ((double)participation->epochs + 2) * EPS__UNIT_ROUNDOFF;
    *out = (struct eps__interval){best * (1 - relative), best * (1 + relative)};
out:
    free(columns);
    free(v);
    return status;
}

static enum eps_status dense_invert(const struct eps_context *context, double **inverse, bool *defined,
                                    struct eps_error *error, const struct eps_strategy *s)
{
    size_t m = s->block, len = m * m;
    *inverse = malloc(len * sizeof **inverse);
    if (!*inverse)
        return eps__strategy_no_memory(error);
    memcpy(*inverse, s->entries, len * sizeof **inverse);
    struct eps__work work = {.context = context};
    enum eps__lapack end = EPS__LAPACK_DONE;
    if (s->lower)
        *defined = eps__lower_inverse(&work, *inverse, m);
    else
        *defined = (end = eps__general_inverse(&work, *inverse, m)) == EPS__LAPACK_DONE;
    if (end == EPS__LAPACK_NO_MEMORY || eps__stopped(&work))
        return eps__strategy_stopped(error, work.status != EPS_OK ? work.status : EPS_NO_MEMORY);
    *defined = *defined && eps__all_finite(*inverse, len);
    return EPS_OK;
}

static bool dense_solve(const struct eps_strategy *s, double *out, const double *inverse, const double *a, size_t len,
                        double *work)
{
    (void)work;
    eps__multiply_row(out, a, inverse, len, s->block);
    return true;
}

static enum eps_status dense_decoder_row(const struct eps_strategy *s, double *out, struct eps_error *error,
                                         const double *inverse, size_t row)
{
    return eps__decoder_row_by_blocks(s, out, error, inverse, row, dense_solve);
}

static enum eps_status dense_noise_row(const struct eps_strategy *s, double *out, struct eps_error *error,
                                       const double *inverse, size_t row)
{
    size_t m = s->block, local = row % m;
    (void)error;
    memset(out, 0, s->n * sizeof *out);
    memcpy(out + (row - local), inverse + local * m, m * sizeof *out);
    return EPS_OK;
}

static double dense_numbers(const struct eps__forecast *c)
{
    return c->block * c->block;
}

static double dense_gram_cost(const struct eps__forecast *c, double k, double *numbers)
{
    *numbers = k * c->block;
    return k * k * c->block;
}

static void dense_fixed_order_cost(struct eps__cost *cost, const struct eps__forecast *c,
                                   const struct eps__participation *participation, double starts)
{
    cost->operations += starts * (double)participation->epochs * c->block;
    cost->bytes += 8 * (c->block * c->block);
}

static void dense_error_cost(struct eps__cost *cost, const struct eps__forecast *c, const struct eps_workload *w)
{
    double m = c->block;
    bool given = eps__workload_given(w);
    cost->operations += (given ? 4 : 2) * m * m * m + (given && c->stamps > 1 ? c->n * m * m : 4 * c->n * m);
    cost->bytes += 8 * ((given ? 3 : 1) * m * m + 2 * c->n);
}

const struct eps__strategy_kind eps__strategy_dense = {
    .name = "dense",
    .shape = EPS__SHAPE_OTHER,
    .inverse_is_matrix = true,
    .min_separation = eps__row_bound,
    .row = dense_row,
    .band_row = dense_band_row,
    .divide = dense_divide,
    .measure = dense_measure,
    .hash = dense_hash,
    .square_index = dense_square_index,
    .gram = dense_gram,
    .fixed_order = dense_fixed_order,
    .invert = dense_invert,
    .variance = eps__dense_variance,
    .decoder_row = dense_decoder_row,
    .noise_row = dense_noise_row,
    .noise_ways = eps__noise_of_square,
    .numbers = dense_numbers,
    .gram_cost = dense_gram_cost,
    .fixed_order_cost = dense_fixed_order_cost,
    .min_separation_cost = eps__row_bound_cost,
    .error_cost = dense_error_cost,
};
