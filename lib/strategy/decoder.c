/*
 * Access to the parts of the factorisation, C, C^-1 and B = A C^-1: by shape, by coefficients, by row and, for trainers
 * that draw C^-1 z, by recurrence. The inverse of a block is computed on first use and kept, because matrices are
 * streamed row by row.
 *
 * A row y of B solves y C = (row of A) block by block. With the inverse, this is a convolution (Toeplitz) or a product
 * (dense).
 *
 * SPDX-License-Identifier: GPL-3.0-or-later
 */
#include "lib/strategy/decoder.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "lib/numerics/fft/convolve.h"
#include "lib/strategy/failures.h"

enum eps_status eps__strategy_inverse(const struct eps_context *context, const double **out, struct eps_error *error,
                                      const struct eps_strategy *strategy)
{
    /* Removes const: the strategy was allocated as mutable, and only what the lock guards is written. */
    struct eps_strategy *s = (struct eps_strategy *)(uintptr_t)strategy;
    enum eps_status status = EPS_OK;
    pthread_mutex_lock(&s->lock);
    if (s->inverse_state == EPS__INVERSE_UNKNOWN) {
        bool defined = false;
        double *inverse = NULL;
        status = s->kind->invert(context, &inverse, &defined, error, s);
        if (status == EPS_OK && defined) {
            s->inverse = inverse;
            s->inverse_state = EPS__INVERSE_READY;
        } else {
            free(inverse);
            if (status == EPS_OK)
                s->inverse_state = EPS__INVERSE_NONE;
        }
    }
    *out = s->inverse;
    pthread_mutex_unlock(&s->lock);
    return status;
}

/* The inverse, or EPS_UNSUPPORTED with the reason. */
static enum eps_status require_inverse(const double **out, struct eps_error *error, const struct eps_strategy *s)
{
    enum eps_status status = eps__strategy_inverse(NULL, out, error, s);
    if (status != EPS_OK || *out)
        return status;
    return eps__error(error, EPS_UNSUPPORTED, "/matrix",
                      "C has no inverse in double precision: only the encoder is available");
}

enum eps_status eps_strategy_shape(const struct eps_strategy *strategy, struct eps_error *error, enum eps_part part,
                                   size_t *rows, size_t *columns)
{
    if (part != EPS_PART_ENCODER) {
        const double *inverse;
        enum eps_status status = require_inverse(&inverse, error, strategy);
        if (status != EPS_OK)
            return status;
    }
    *rows = part == EPS_PART_ENCODER ? eps_strategy_rows(strategy) : strategy->n;
    *columns = part == EPS_PART_ENCODER ? strategy->n : eps_strategy_rows(strategy);
    return EPS_OK;
}

static enum eps_status require_finite(const double *numbers, size_t len, struct eps_error *error, enum eps_part part)
{
    for (size_t i = 0; i < len; i++)
        if (!isfinite(numbers[i]))
            return eps__error(error, EPS_UNSUPPORTED, part == EPS_PART_NOISE ? "/matrix" : "/workload",
                              "the %s exceeds the range of doubles: use fewer steps, or numbers closer to 1",
                              eps_part_name(part));
    return EPS_OK;
}

enum eps_status eps_strategy_coefficients(const struct eps_strategy *strategy, double *coefficients,
                                          struct eps_error *error, enum eps_part part, size_t len)
{
    const struct eps__workload *w = &strategy->workload;
    const double *inverse;
    if (!eps_strategy_is_toeplitz(strategy) || (part == EPS_PART_DECODER && !eps__workload_is_toeplitz(w)))
        return eps__error(error, EPS_UNSUPPORTED, "", "the %s is not a Toeplitz matrix: request its rows",
                          eps_part_name(part));
    len = len < strategy->n ? len : strategy->n;
    if (part == EPS_PART_ENCODER) {
        size_t given = len < strategy->entries_len ? len : strategy->entries_len;
        memcpy(coefficients, strategy->entries, given * sizeof *coefficients);
        memset(coefficients + given, 0, (len - given) * sizeof *coefficients);
        return EPS_OK;
    }
    enum eps_status status = require_inverse(&inverse, error, strategy);
    if (status != EPS_OK)
        return status;
    if (part == EPS_PART_NOISE) {
        memcpy(coefficients, inverse, len * sizeof *coefficients);
    } else if (w->recursive) {
        double momentum = 0, value = 0;
        for (size_t t = 0; t < len; t++) {
            momentum = w->momentum * momentum + inverse[t];
            coefficients[t] = value = w->decay * value + momentum;
        }
    } else {
        bool kept;
        if (!eps__convolve_digits(coefficients, len, w->coefficients, w->coefficients_len, inverse, len, &kept))
            return eps__strategy_no_memory(error);
        if (!kept)
            return eps__error(error, EPS_UNSUPPORTED, "/workload",
                              "A C^-1 spans too many orders of magnitude to be computed for %zu steps: use fewer steps",
                              len);
    }
    return require_finite(coefficients, len, error, part);
}

enum eps_status eps__decoder_row_by_blocks(const struct eps_strategy *s, double *out, struct eps_error *error,
                                           const double *inverse, size_t row, eps__solve_fn *solve)
{
    size_t m = s->block;
    double *a = malloc((row + 1) * sizeof *a), *work = malloc(2 * s->block_rows * sizeof *work);
    bool ok = a && work;
    if (ok)
        eps__workload_row(&s->workload, a, row);
    memset(out, 0, eps_strategy_rows(s) * sizeof *out);
    for (size_t first = 0; ok && first <= row; first += m) {
        size_t len = row + 1 - first < m ? row + 1 - first : m;
        ok = solve(s, out + first / m * s->block_rows, inverse, a + first, len, work);
    }
    free(a);
    free(work);
    return ok ? EPS_OK : eps__strategy_no_memory(error);
}

enum eps_status eps__noise_row_by_solving(const struct eps_strategy *s, double *out, struct eps_error *error,
                                          const double *inverse, size_t row, eps__solve_fn *solve)
{
    size_t local = row % s->block;
    double *a = calloc(local + 1, sizeof *a), *work = malloc(2 * s->block_rows * sizeof *work);
    bool ok = a && work;
    memset(out, 0, eps_strategy_rows(s) * sizeof *out);
    if (ok) {
        a[local] = 1;
        ok = solve(s, out + row / s->block * s->block_rows, inverse, a, local + 1, work);
    }
    free(a);
    free(work);
    return ok ? EPS_OK : eps__strategy_no_memory(error);
}

enum eps_status eps_strategy_row(const struct eps_strategy *strategy, double *out, struct eps_error *error,
                                 enum eps_part part, size_t row)
{
    size_t rows = part == EPS_PART_ENCODER ? eps_strategy_rows(strategy) : strategy->n;
    if (row >= rows)
        return eps__error(error, EPS_INVALID, "", "row %zu of a matrix of %zu rows: rows count from 0", row, rows);
    if (part == EPS_PART_ENCODER) {
        memset(out, 0, strategy->n * sizeof *out);
        strategy->kind->row(strategy, out + row / strategy->block_rows * strategy->block, row % strategy->block_rows);
        return EPS_OK;
    }
    const double *inverse;
    enum eps_status status = require_inverse(&inverse, error, strategy);
    if (status != EPS_OK)
        return status;
    status = part == EPS_PART_DECODER ? strategy->kind->decoder_row(strategy, out, error, inverse, row)
                                      : strategy->kind->noise_row(strategy, out, error, inverse, row);
    return status == EPS_OK ? require_finite(out, eps_strategy_rows(strategy), error, part) : status;
}

enum eps_status eps_strategy_band_row(const struct eps_strategy *strategy, double *out, struct eps_error *error,
                                      size_t row)
{
    if (!strategy->kind->band_row || !strategy->lower)
        return eps__error(error, EPS_UNSUPPORTED, "/matrix",
                          "C is not square and lower triangular, so it has no bands: request its rows");
    if (row >= strategy->n)
        return eps__error(error, EPS_INVALID, "", "row %zu of a matrix of %zu rows: rows count from 0", row,
                          strategy->n);
    strategy->kind->band_row(strategy, out, row % strategy->block);
    return EPS_OK;
}

enum eps_status eps_strategy_recurrence(const struct eps_strategy *strategy, struct eps_recurrence *recurrence,
                                        struct eps_error *error)
{
    const double *inverse;
    enum eps_status status = require_inverse(&inverse, error, strategy);
    if (status != EPS_OK)
        return status;
    struct eps_recurrence r = {
        .kind = EPS_RECURRENCE_ROWS, .block = strategy->block, .block_rows = strategy->block_rows};
    if (strategy->kind->recurrence)
        strategy->kind->recurrence(strategy, &r);
    *recurrence = r;
    return EPS_OK;
}
