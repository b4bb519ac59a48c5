/*
 * Lower-triangular Toeplitz blocks. No matrix is formed; everything is computed from the first column. The columns of a
 * block are shifts of each other, cut off at its end. So if a pattern is shifted down, its Gram matrix is a principal
 * submatrix of the unshifted one minus a positive semidefinite part: without stamps, the first pattern is the worst.
 *
 * SPDX-License-Identifier: GPL-3.0-or-later
 */
#include <cblas.h>
#include <stdlib.h>
#include <string.h>

#include "lib/numerics/fft/convolve.h"
#include "lib/strategy/decoder.h"
#include "lib/strategy/failures.h"
#include "lib/strategy/kinds/kinds.h"
#include "lib/strategy/sensitivity/sensitivity.h"

void eps__toeplitz_steal(struct eps_strategy *s, double *coefficients, size_t len)
{
    s->kind = &eps__strategy_toeplitz;
    s->block_rows = s->block;
    s->entries = coefficients;
    s->entries_len = len;
}

/* The multiplications between two polls, and those above which quotients are computed by transforms (about 20
 * seconds). */
static const size_t poll_operations = (size_t)1 << 22;
static const double quotient_operations_max = 0x1p36;

enum eps_status eps__toeplitz_quotient(const struct eps_context *context, double *out, struct eps_error *error,
                                       const double *a, size_t n, const double *c, size_t len)
{
    size_t order = len - 1, every = poll_operations / len + 1;
    enum eps_status status = EPS_OK;
    double *reversed = malloc(len * sizeof *reversed), scale = 1 / c[0];
    if (!reversed)
        return eps__strategy_no_memory(error);
    for (size_t j = 0; j < order; j++)
        reversed[j] = c[order - j] * scale;
    for (size_t t = 0; t < n; t++) {
        size_t terms = t < order ? t : order;
        double start = a ? a[t] * scale : t ? 0 : scale, sum = 0;
        const double *tail = reversed + (order - terms), *before = out + (t - terms);
        if (terms < 16)
            for (size_t j = 0; j < terms; j++)
                sum += tail[j] * before[j];
        else
            sum = cblas_ddot((blasint)terms, tail, 1, before, 1);
        out[t] = start - sum;
        if (t % every == 0 && (status = eps__strategy_poll(context, error)))
            break;
    }
    free(reversed);
    return status;
}

enum eps_status eps__toeplitz_from_inverse(const struct eps_context *context, struct eps_strategy *s,
                                           struct eps_error *error, double *inverse, size_t len)
{
    size_t n = s->block;
    enum eps_status status = EPS_OK;
    double *c = malloc(n * sizeof *c);
    if (!c)
        status = eps__strategy_no_memory(error);
    else if ((double)n * (double)len <= quotient_operations_max)
        status = eps__toeplitz_quotient(context, c, error, NULL, n, inverse, len);
    else if (!eps__series_inverse(c, n, inverse, len))
        status = eps__strategy_no_memory(error);
    if (status != EPS_OK) {
        free(c);
        free(inverse);
        return status;
    }
    eps__toeplitz_steal(s, c, n);
    s->known_inverse = inverse;
    s->known_inverse_len = len;
    return EPS_OK;
}

static void toeplitz_row(const struct eps_strategy *s, double *out, size_t row)
{
    memset(out, 0, s->block * sizeof *out);
    for (size_t i = 0; i <= row && i < s->entries_len; i++)
        out[row - i] = s->entries[i];
}

static void toeplitz_band_row(const struct eps_strategy *s, double *out, size_t row)
{
    for (size_t d = 0; d < s->bands; d++)
        out[d] = d <= row ? s->entries[d] : 0;
}

static void toeplitz_divide(struct eps_strategy *s, double divisor)
{
    for (size_t i = 0; i < s->entries_len; i++)
        s->entries[i] /= divisor;
    for (size_t i = 0; i < s->known_inverse_len; i++)
        s->known_inverse[i] *= divisor;
}

static bool toeplitz_measure(struct eps_strategy *s)
{
    while (s->entries_len > 1 && s->entries[s->entries_len - 1] == 0)
        s->entries_len--;
    size_t len = s->entries_len;
    struct eps__interval *squares = realloc(s->squares, len * sizeof *squares);
    if (!squares)
        return false;
    s->squares = squares;
    s->squares_len = len;
    s->bands = len;
    s->lower = true;
    s->nonnegative = true;
    s->gram_error = EPS__SUM_ERROR;
    struct eps__sum sum = {0};
    for (size_t i = 0; i < len; i++) {
        eps__sum_add_square(&sum, s->entries[i]);
        squares[i] = eps__sum_interval(&sum, 0);
        if (s->entries[i] < 0)
            s->nonnegative = false;
    }
    /* Repeating a diagonal block does not change C, so stamps are dropped: one C has one id. */
    if (len == 1) {
        s->stamps = 1;
        s->block = s->block_rows = s->n;
    }
    return true;
}

static void toeplitz_hash(const struct eps_strategy *s, struct eps__hash *hash)
{
    eps__hash_u64(hash, s->entries_len);
    eps__hash_doubles(hash, s->entries, s->entries_len);
}

static size_t toeplitz_square_index(const struct eps_strategy *s, size_t j)
{
    size_t rows = s->block - j;
    return (rows < s->entries_len ? rows : s->entries_len) - 1;
}

static bool toeplitz_gram(struct eps__work *work, const struct eps_strategy *s, double *out, size_t ld, size_t first,
                          size_t step, size_t count)
{
    (void)work;
    const double *c = s->entries;
    for (size_t e = 0; e < count; e++) {
        /* Along a diagonal, each product is the one below it plus a few terms. */
        size_t lag = e * step, done = 0;
        struct eps__sum sum = {0};
        for (size_t j = count; j-- > e;) {
            size_t rows = s->block - (first + j * step);
            size_t end = lag >= s->bands ? 0 : s->bands - lag;
            for (end = rows < end ? rows : end; done < end; done++)
                eps__sum_add(&sum, c[done + lag] * c[done]);
            out[(j - e) * ld + j] = out[j * ld + j - e] = eps__sum_value(&sum);
        }
    }
    return true;
}

/* The sum of the squares of v[0..n-1], each of which has a relative error of 4 units of rounding. */
static struct eps__interval sum_squares(const double *v, size_t n)
{
    struct eps__sum sum = {0};
    for (size_t i = 0; i < n; i++)
        eps__sum_add_square(&sum, v[i]);
    return eps__sum_interval(&sum, EPS__SUM_ERROR);
}

static void prefix_squares(double *out, const double *v, size_t n)
{
    struct eps__sum sum = {0};
    out[0] = 0;
    for (size_t i = 0; i < n; i++) {
        eps__sum_add_square(&sum, v[i]);
        out[i + 1] = eps__sum_value(&sum);
    }
}

/*
 * With stamps. A pattern enters each block at some offset o. Either it continues to the end of the block, which
 * contributes the first block - o squares of the unlimited window, or it stops there after `left` steps, which needs
 * the window of that width. Both are kept as prefix sums of squares; the width seldom changes from one starting point
 * to the next.
 */
static enum eps_status stamped_fixed_order(const struct eps_context *context, struct eps__interval *out,
                                           struct eps_error *error, const struct eps_strategy *s,
                                           const struct eps__participation *participation)
{
    enum eps_status status = EPS_OK;
    size_t m = s->block, b = participation->separation, starts = eps__participation_starts(participation, s->n),
           width = 0;
    double *window = malloc(m * sizeof *window), *whole = malloc((m + 1) * sizeof *whole);
    double *cut = malloc((m + 1) * sizeof *cut), best = 0;
    if (!window || !whole || !cut || !eps__strided_window(window, m, s->entries, s->entries_len, m, b)) {
        status = eps__strategy_no_memory(error);
        goto out;
    }
    prefix_squares(whole, window, m);
    for (size_t start = 0; start < starts; start++) {
        if (start % 256 == 0 && (status = eps__strategy_poll(context, error)))
            goto out;
        double total = 0;
        size_t left = participation->epochs;
        for (size_t at = start; at < s->n && left;) {
            size_t rows = m - at % m, steps = (rows - 1) / b + 1;
            if (steps <= left) {
                total += whole[rows];
                left -= steps;
                at += steps * b;
                continue;
            }
            if (width != left) {
                width = left;
                if (!eps__strided_window(window, m, s->entries, s->entries_len, width, b)) {
                    status = eps__strategy_no_memory(error);
                    goto out;
                }
                prefix_squares(cut, window, m);
            }
            total += cut[rows];
            left = 0;
        }
        best = total > best ? total : best;
    }
    double relative = 2 * EPS__SUM_ERROR + (double)s->stamps * 0x1p-52;
    *out = (struct eps__interval){best * (1 - relative), best * (1 + relative) + EPS__SUM_TINY * best};
out:
    free(window);
    free(whole);
    free(cut);
    return status;
}

static enum eps_status toeplitz_fixed_order(const struct eps_context *context, struct eps__interval *out,
                                            struct eps_error *error, const struct eps_strategy *s,
                                            const struct eps__participation *participation)
{
    if (s->stamps > 1)
        return stamped_fixed_order(context, out, error, s, participation);
    double *window = malloc(s->n * sizeof *window);
    if (!window || !eps__strided_window(window, s->n, s->entries, s->entries_len, participation->epochs,
                                        participation->separation)) {
        free(window);
        return eps__strategy_no_memory(error);
    }
    *out = sum_squares(window, s->n);
    free(window);
    return eps__strategy_poll(context, error);
}

static enum eps_status toeplitz_invert(const struct eps_context *context, double **inverse, bool *defined,
                                       struct eps_error *error, const struct eps_strategy *s)
{
    (void)context;
    size_t m = s->block;
    if (s->entries[0] == 0)
        return EPS_OK;
    *inverse = calloc(m, sizeof **inverse);
    if (!*inverse)
        return eps__strategy_no_memory(error);
    if (s->known_inverse)
        memcpy(*inverse, s->known_inverse, s->known_inverse_len * sizeof **inverse);
    else if (!eps__series_inverse(*inverse, m, s->entries, s->entries_len))
        return eps__strategy_no_memory(error);
    *defined = eps__all_finite(*inverse, m);
    return EPS_OK;
}

/* a C0^-1 is a convolution with the reversed first column of the inverse. */
static bool toeplitz_solve(const struct eps_strategy *s, double *out, const double *inverse, const double *a,
                           size_t len, double *work)
{
    size_t m = s->block;
    bool kept; /* if small numbers were lost, the row is still accurate in norm */
    for (size_t j = 0; j < len; j++)
        work[j] = a[len - 1 - j];
    if (!eps__convolve_digits(work + m, len, work, len, inverse, len, &kept))
        return false;
    for (size_t j = 0; j < len; j++)
        out[j] = work[m + len - 1 - j];
    memset(out + len, 0, (m - len) * sizeof *out);
    return true;
}

static enum eps_status toeplitz_decoder_row(const struct eps_strategy *s, double *out, struct eps_error *error,
                                            const double *inverse, size_t row)
{
    return eps__decoder_row_by_blocks(s, out, error, inverse, row, toeplitz_solve);
}

static enum eps_status toeplitz_noise_row(const struct eps_strategy *s, double *out, struct eps_error *error,
                                          const double *inverse, size_t row)
{
    size_t local = row % s->block;
    (void)error;
    memset(out, 0, s->n * sizeof *out);
    for (size_t j = 0; j <= local; j++)
        out[row - local + j] = inverse[local - j];
    return EPS_OK;
}

static void toeplitz_save(const struct eps_strategy *s, struct eps__record *out)
{
    eps__record_put_doubles(out, s->known_inverse, s->known_inverse_len);
    eps__record_put_doubles(out, s->blt, 2 * s->blt_len);
}

static void toeplitz_load(struct eps_strategy *s, struct eps__record *from)
{
    eps__record_get_doubles(from, &s->known_inverse, &s->known_inverse_len);
    size_t blt_numbers;
    eps__record_get_doubles(from, &s->blt, &blt_numbers);
    s->blt_len = blt_numbers / 2;
    if (blt_numbers % 2 || !s->entries_len || s->entries_len > s->block || s->known_inverse_len > s->block)
        from->bad = true;
}

/* ---- costs ---- */

static double toeplitz_numbers(const struct eps__forecast *c)
{
    return c->bands;
}

static double toeplitz_gram_cost(const struct eps__forecast *c, double k, double *numbers)
{
    *numbers = 0;
    return 8 * k * c->bands;
}

static void toeplitz_fixed_order_cost(struct eps__cost *cost, const struct eps__forecast *c,
                                      const struct eps__participation *participation, double starts)
{
    cost->operations += 20 * c->n + (c->stamps > 1 ? starts * fmin(c->stamps, (double)participation->epochs) : 0);
    cost->bytes += 8 * (3 * c->n);
}

static void toeplitz_min_separation_cost(struct eps__cost *cost, const struct eps__forecast *c)
{
    if (c->block <= 2048)
        eps__row_bound_cost(cost, c);
    else
        eps__pass_cost(cost, c);
}

static void toeplitz_error_cost(struct eps__cost *cost, const struct eps__forecast *c, const struct eps_workload *w)
{
    double m = c->block;
    bool given = eps__workload_given(w), cooldown = eps__workload_cools(w);
    cost->operations += (c->inverse_known ? m : eps__product_cost(m, c->bands)) +
                        (given ? eps__product_cost(m, m) : 10 * c->n) + (given && c->stamps > 1 ? 4 * c->n * m : 0) +
                        (cooldown ? 2 * c->n * m * (1 - w->cooldown_from * w->cooldown_from) : 0);
    if (c->bands > 1 || cooldown || given)
        cost->bytes += 8 * (4 * c->n + (c->bands > 64 ? 12 * m : 0));
}

const struct eps__strategy_kind eps__strategy_toeplitz = {
    .name = "toeplitz",
    .shape = EPS__SHAPE_TOEPLITZ,
    .first_is_worst = true,
    .min_separation = eps__majorant_bound,
    .row = toeplitz_row,
    .band_row = toeplitz_band_row,
    .divide = toeplitz_divide,
    .measure = toeplitz_measure,
    .hash = toeplitz_hash,
    .square_index = toeplitz_square_index,
    .gram = toeplitz_gram,
    .fixed_order = toeplitz_fixed_order,
    .invert = toeplitz_invert,
    .variance = eps__toeplitz_variance,
    .decoder_row = toeplitz_decoder_row,
    .noise_row = toeplitz_noise_row,
    .noise_ways = eps__toeplitz_noise,
    .recurrence = eps__toeplitz_recurrence,
    .save = toeplitz_save,
    .load = toeplitz_load,
    .numbers = toeplitz_numbers,
    .gram_cost = toeplitz_gram_cost,
    .fixed_order_cost = toeplitz_fixed_order_cost,
    .min_separation_cost = toeplitz_min_separation_cost,
    .error_cost = toeplitz_error_cost,
};
