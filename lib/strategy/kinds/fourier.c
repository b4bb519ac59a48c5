/*
 * The first m columns of a circulant of 2m rows: column j is a kernel y shifted down cyclically by j places. Only y is
 * stored.
 *
 * The Gram matrix is Toeplitz, X_ij = the circular autocorrelation of y at i - j, with entries of either sign. The Gram
 * matrix of a pattern depends on its start only through the number of its steps in each block.
 *
 * SPDX-License-Identifier: GPL-3.0-or-later
 */
#include "lib/strategy/kinds/fourier.h"

#include <stdlib.h>
#include <string.h>

#include "lib/numerics/fft/fft.h"
#include "lib/numerics/normal.h"
#include "lib/strategy/failures.h"
#include "lib/strategy/kinds/kinds.h"
#include "lib/strategy/noise.h"
#include "lib/strategy/sensitivity/sensitivity.h"

static void fourier_row(const struct eps_strategy *s, double *out, size_t row)
{
    for (size_t j = 0; j < s->block; j++)
        out[j] = s->entries[(row >= j ? 0 : s->block_rows) + row - j];
}

static void fourier_divide(struct eps_strategy *s, double divisor)
{
    for (size_t i = 0; i < s->entries_len; i++)
        s->entries[i] /= divisor;
    s->scale /= divisor;
}

static bool fourier_measure(struct eps_strategy *s)
{
    struct eps__interval *squares = realloc(s->squares, sizeof *squares);
    struct eps__sum sum = {0};
    if (!squares)
        return false;
    s->squares = squares;
    s->squares_len = 1;
    s->nonnegative = true;
    for (size_t i = 0; i < s->entries_len; i++) {
        eps__sum_add_square(&sum, s->entries[i]);
        s->nonnegative = s->nonnegative && s->entries[i] >= 0;
    }
    squares[0] = eps__sum_interval(&sum, 0);
    s->bands = s->block;
    s->lower = false;
    s->gram_error = EPS__SUM_ERROR;
    return true;
}

static void fourier_hash(const struct eps_strategy *s, struct eps__hash *hash)
{
    eps__hash_doubles(hash, s->entries, s->entries_len);
    eps__hash_u64(hash, (uint64_t)s->decoder);
}

static size_t fourier_square_index(const struct eps_strategy *s, size_t j)
{
    (void)s;
    (void)j;
    return 0;
}

static bool fourier_gram(struct eps__work *work, const struct eps_strategy *s, double *out, size_t ld, size_t first,
                         size_t step, size_t count)
{
    (void)work;
    (void)first;
    const double *y = s->entries;
    size_t rows = s->block_rows;
    for (size_t e = 0; e < count; e++) {
        size_t lag = e * step;
        struct eps__sum sum = {0};
        for (size_t i = 0; i + lag < rows; i++)
            eps__sum_add(&sum, y[i + lag] * y[i]);
        for (size_t i = 0; i < lag; i++)
            eps__sum_add(&sum, y[rows - lag + i] * y[i]);
        for (size_t i = 0; i + e < count; i++)
            out[i * ld + i + e] = out[(i + e) * ld + i] = eps__sum_value(&sum);
    }
    return true;
}

/* The sum over u of (|y_u| + |y_(u - b)| + ...)^2, with count terms each, cyclically. The window runs over a copy of y
 * that begins m places earlier, so it never wraps. */
static bool window_square(struct eps__interval *out, const struct eps_strategy *s, size_t count, size_t b)
{
    size_t m = s->block;
    double *copy = malloc(6 * m * sizeof *copy);
    if (!copy)
        return false;
    double *window = copy + 3 * m;
    memcpy(copy, s->entries + m, m * sizeof *copy);
    memcpy(copy + m, s->entries, 2 * m * sizeof *copy);
    bool ok = eps__strided_window(window, 3 * m, copy, 3 * m, count, b);
    struct eps__sum sum = {0};
    for (size_t u = m; ok && u < 3 * m; u++)
        eps__sum_add_square(&sum, window[u]);
    *out = eps__sum_interval(&sum, EPS__SUM_ERROR);
    free(copy);
    return ok;
}

/* The contribution of a block depends only on the number of steps in it; each is computed when first needed. */
static enum eps_status fourier_fixed_order(const struct eps_context *context, struct eps__interval *out,
                                           struct eps_error *error, const struct eps_strategy *s,
                                           const struct eps__participation *participation)
{
    enum eps_status status = EPS_OK;
    size_t m = s->block, b = participation->separation, most = (m - 1) / b + 1;
    size_t starts = s->stamps == 1 ? 1 : eps__participation_starts(participation, s->n);
    struct eps__interval best = {0}, *parts = calloc(most + 1, sizeof *parts);
    if (!parts)
        return eps__strategy_no_memory(error);
    for (size_t start = 0; start < starts; start++) {
        struct eps__sum lower = {0}, upper = {0};
        if ((status = eps__strategy_poll(context, error)) != EPS_OK)
            goto out;
        for (size_t at = start, left = participation->epochs; at < s->n && left;) {
            size_t count = (m - 1 - at % m) / b + 1;
            count = count < left ? count : left;
            if (parts[count].upper <= 0 && !window_square(&parts[count], s, count, b)) {
                status = eps__strategy_no_memory(error);
                goto out;
            }
            eps__sum_add(&lower, parts[count].lower);
            eps__sum_add(&upper, parts[count].upper);
            left -= count;
            at += count * b;
        }
        best.lower = fmax(best.lower, eps__sum_interval(&lower, 0).lower);
        best.upper = fmax(best.upper, eps__sum_interval(&upper, 0).upper);
    }
    *out = best;
out:
    free(parts);
    return status;
}

/*
 * By transforms of a length that holds the linear correlation, so that eps__fft_error() applies. With kappa its bound
 * and L the length, transform values have an error of kappa ||y||_1, and their squares of 2 |Y| kappa ||y||_1 and a
 * little more; these add up to L ||y|| 2 kappa ||y||_1 (Cauchy and Parseval). The inverse transform adds kappa times
 * the sum of the squares, L ||y||^2. Two linear lags make a circular one.
 */
bool eps__fourier_lags(double *out, double *error, const struct eps_strategy *s)
{
    size_t m = s->block, length = eps__fft_length(4 * m);
    double *x = eps__fft_alloc_real(length), one_norm = 0, norm = eps__sqrt_up(s->squares[0].upper);
    double complex *spectrum = eps__fft_alloc_complex(length / 2 + 1);
    bool ok = x && spectrum;
    for (size_t i = 0; ok && i < length; i++) {
        x[i] = i < 2 * m ? s->entries[i] : 0;
        one_norm += fabs(x[i]);
    }
    ok = ok && eps__fft_forward(spectrum, x, length) == 0;
    for (size_t k = 0; ok && k <= length / 2; k++) {
        double re = creal(spectrum[k]), im = cimag(spectrum[k]);
        spectrum[k] = re * re + im * im;
    }
    ok = ok && eps__fft_backward(x, spectrum, length) == 0;
    for (size_t e = 0; ok && e < m; e++)
        out[e] = (x[e] + (e ? x[2 * m - e] : 0)) / (double)length;
    double kappa = eps__fft_error(length) + 4 * EPS__UNIT_ROUNDOFF;
    *error = 2.1 * (2 * kappa * one_norm * norm + kappa * norm * norm + kappa * kappa * one_norm * one_norm);
    eps__fft_free(x);
    eps__fft_free(spectrum);
    return ok && !isnan(kappa);
}

/* The row bound (min_separation.c) for rows of X that are all alike: a row that extends over the whole block on both
 * sides bounds them all. */
static enum eps_status circulant_row_bound(const struct eps_context *context, struct eps__square *out,
                                           struct eps_error *error, const struct eps_strategy *s,
                                           const struct eps__participation *participation)
{
    (void)context;
    size_t m = s->block, width = 2 * m - 1, most = (m - 1) / participation->separation + 1;
    most = most < participation->epochs ? most : participation->epochs;
    double lag_error, *lags = malloc(m * sizeof *lags), *row = malloc(width * sizeof *row);
    double *best = malloc((width + 1) * sizeof *best);
    uint32_t *taken = malloc((width + 1) * sizeof *taken);
    bool ok = lags && row && best && taken && eps__fourier_lags(lags, &lag_error, s);
    if (ok) {
        for (size_t i = 0; i < width; i++) {
            size_t apart = i < m ? m - 1 - i : i - (m - 1);
            row[i] = apart >= participation->separation ? fabs(lags[apart]) + lag_error : 0;
        }
        double others = eps__separated_bound(row, width, most - 1, participation->separation, best, taken);
        double slack = (double)most * lag_error / s->squares[0].lower + eps__separated_error(most);
        out->value.upper = eps__raise((double)participation->epochs * (s->squares[0].upper + others), 6);
        out->value.lower = out->value.upper * (1 - 4 * slack);
        out->rule = "row_bound";
        out->exact = false;
    }
    free(lags);
    free(row);
    free(best);
    free(taken);
    return ok ? EPS_OK : eps__strategy_no_memory(error);
}

static double fourier_numbers(const struct eps__forecast *c)
{
    return 8 * c->block;
}

static void fourier_fixed_order_cost(struct eps__cost *cost, const struct eps__forecast *c,
                                     const struct eps__participation *participation, double starts)
{
    (void)participation;
    cost->operations += 60 * c->n + 8 * starts * c->stamps;
    cost->bytes += 8 * (3 * c->n);
}

static void fourier_error_cost(struct eps__cost *cost, const struct eps__forecast *c, const struct eps_workload *w)
{
    double m = c->block;
    cost->operations += 4 * eps__product_cost(2 * m, 2 * m) + 20 * c->n +
                        (eps__workload_given(w) && c->stamps > 1 ? 8 * c->n * m : 0) +
                        (eps__workload_cools(w) ? 6 * c->n * m : 0);
    cost->bytes += 8 * (4 * c->n + 24 * m);
}

const struct eps__strategy_kind eps__strategy_fourier = {
    .name = "fourier",
    .shape = EPS__SHAPE_OTHER,
    .first_is_worst = true,
    .min_separation = circulant_row_bound,
    .row = fourier_row,
    .divide = fourier_divide,
    .measure = fourier_measure,
    .hash = fourier_hash,
    .square_index = fourier_square_index,
    .gram = fourier_gram,
    .fixed_order = fourier_fixed_order,
    .invert = eps__fourier_invert,
    .variance = eps__fourier_variance,
    .decoder_row = eps__fourier_decoder_row,
    .noise_row = eps__fourier_noise_row,
    .noise_ways = eps__noise_of_any,
    .numbers = fourier_numbers,
    .gram_cost = eps__columns_gram_cost,
    .fixed_order_cost = fourier_fixed_order_cost,
    .min_separation_cost = eps__pass_cost,
    .error_cost = fourier_error_cost,
};
