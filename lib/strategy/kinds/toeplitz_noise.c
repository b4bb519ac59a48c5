/*
 * Ways to draw x = C^-1 z for Toeplitz blocks: by the filter C^-1, if the family defines C by it (BISR, BandInvMF),
 * which keeps the last rows of z; and by the buffers of a BLT, a row for each decay (eps_strategy_blt() documents the
 * recursion).
 *
 * SPDX-License-Identifier: GPL-3.0-or-later
 */
#include <cblas.h>
#include <string.h>

#include "lib/strategy/failures.h"
#include "lib/strategy/kinds/kinds.h"
#include "lib/strategy/noise.h"

/* ---------------------------------------------------------------- by the filter */

static bool filter_serves(const struct eps_strategy *s)
{
    return s->known_inverse_len > 0;
}

static double filter_numbers(const struct eps_strategy *s, enum eps_part part, double dimensions)
{
    (void)part;
    return (double)s->known_inverse_len * dimensions;
}

static double filter_operations(const struct eps_strategy *s, enum eps_part part, double dimensions)
{
    (void)part;
    double reach = (double)s->known_inverse_len, block = (double)s->block;
    return (double)s->n * (EPS__NORMAL_COST + reach * (1 - reach / (2 * block))) * dimensions;
}

static enum eps_status filter_row(struct eps__noise_run *run, const struct eps_context *context, double *out,
                                  struct eps_error *error, size_t row)
{
    const struct eps_strategy *s = run->strategy;
    size_t kept = s->known_inverse_len, d = run->dimensions, local = row % s->block;
    for (size_t first = 0; first < d; first += EPS__WHITE_TILE) {
        size_t len = eps__noise_tile(run, first);
        double *x = out + first, *ring = run->memory + first;
        eps__white_row(&run->white, ring + local % kept * d, row, first, len);
        memset(x, 0, len * sizeof *x);
        for (size_t e = 0; e < kept && e <= local; e++)
            cblas_daxpy((blasint)len, s->known_inverse[e], ring + (local - e) % kept * d, 1, x, 1);
    }
    return eps__strategy_poll(context, error);
}

/* The state consists of rows of z only, so it is refilled by drawing the rows within reach. */
static size_t filter_from(const struct eps_strategy *s, enum eps_part part, double dimensions, size_t row)
{
    size_t local = row % s->block, reach = s->known_inverse_len - 1;
    (void)part;
    (void)dimensions;
    return row - (local < reach ? local : reach);
}

static const struct eps__noise_way filter = {
    .serves = filter_serves,
    .numbers = filter_numbers,
    .operations = filter_operations,
    .row = filter_row,
    .from = filter_from,
};

/* ---------------------------------------------------------------- by the buffers */

static bool buffers_serve(const struct eps_strategy *s)
{
    return s->blt_len > 0 && s->bands > 1; /* toeplitz_measure() merges the stamps of a diagonal C */
}

static double buffers_numbers(const struct eps_strategy *s, enum eps_part part, double dimensions)
{
    (void)part;
    return (double)s->blt_len * dimensions;
}

static double buffers_operations(const struct eps_strategy *s, enum eps_part part, double dimensions)
{
    (void)part;
    return (double)s->n * (EPS__NORMAL_COST + 1 + 3 * (double)s->blt_len) * dimensions;
}

static enum eps_status buffers_row(struct eps__noise_run *run, const struct eps_context *context, double *out,
                                   struct eps_error *error, size_t row)
{
    const struct eps_strategy *s = run->strategy;
    size_t d = run->dimensions;
    const double *decay = s->blt, *scale = s->blt + s->blt_len;
    double start = s->entries[0];
    if (row % s->block == 0)
        memset(run->memory, 0, s->blt_len * d * sizeof *run->memory);
    for (size_t first = 0; first < d; first += EPS__WHITE_TILE) {
        size_t len = eps__noise_tile(run, first);
        double *y = out + first;
        eps__white_row(&run->white, y, row, first, len);
        for (size_t b = 0; b < s->blt_len; b++)
            cblas_daxpy((blasint)len, -scale[b], run->memory + b * d + first, 1, y, 1);
        for (size_t b = 0; b < s->blt_len; b++) {
            double *buffer = run->memory + b * d + first;
            for (size_t i = 0; i < len; i++)
                buffer[i] = decay[b] * buffer[i] + y[i];
        }
        for (size_t i = 0; i < len; i++)
            y[i] /= start;
    }
    return eps__strategy_poll(context, error);
}

static const struct eps__noise_way buffers = {
    .serves = buffers_serve,
    .numbers = buffers_numbers,
    .operations = buffers_operations,
    .row = buffers_row,
    .from = eps__noise_from_block,
};

const struct eps__noise_way *const eps__toeplitz_noise[] = {&buffers, &filter, &eps__noise_by_bands,
                                                            &eps__noise_by_panels, NULL};

/* ---------------------------------------------------------------- for trainers */

void eps__toeplitz_recurrence(const struct eps_strategy *s, struct eps_recurrence *r)
{
    if (s->bands == 1) {
        r->kind = EPS_RECURRENCE_IDENTITY;
        r->divisor = s->entries[0];
    } else if (s->blt_len > 0) {
        r->kind = EPS_RECURRENCE_BLT;
        r->divisor = s->entries[0];
        r->buffers = eps_strategy_blt(s, &r->decay, &r->scale);
    } else if (s->known_inverse_len > 0 && s->known_inverse_len <= s->bands) {
        r->kind = EPS_RECURRENCE_INVERSE;
        r->numbers = s->known_inverse;
        r->len = s->known_inverse_len;
    } else {
        r->kind = EPS_RECURRENCE_TOEPLITZ;
        r->numbers = s->entries;
        r->len = s->bands;
    }
}
