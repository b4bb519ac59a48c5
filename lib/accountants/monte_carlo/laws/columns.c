/*
 * See columns.h.
 *
 * SPDX-License-Identifier: GPL-3.0-or-later
 */
#include "lib/accountants/monte_carlo/laws/columns.h"

#include <assert.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "lib/numerics/bound.h"
#include "lib/numerics/sum.h"

enum {
    TILE = 64,
    WIDE = 96 /* columns of more rows use an FFT; it was measured to be faster from there on */
};

/* Divides the entries by sigma and sets half, longest, and reach (to the largest entry). */
static void scale_columns(struct eps__mc_columns *columns, double sigma)
{
    size_t n = columns->n, width = columns->width;
    for (size_t i = 0; i < (columns->stride ? n : 1); i++)
        for (size_t d = 0; d < width; d++)
            columns->entries[i * columns->stride + d] /= sigma;
    double most = 0;
    for (size_t i = 0; i < n; i++) {
        struct eps__sum square = {0}, sum = {0};
        for (size_t d = 0; d < width && i + d < n; d++) {
            double entry = columns->entries[i * columns->stride + d];
            eps__sum_add(&square, entry * entry);
            eps__sum_add(&sum, entry);
            most = fmax(most, entry);
        }
        columns->half[i] = 0.5 * eps__sum_value(&square);
        columns->longest = fmax(columns->longest, eps__raise(eps__sum_value(&sum), 4));
    }
    columns->reach = most;
}

/* Whether products use an FFT. */
static bool transformed(size_t width, bool alike)
{
    return alike && width > WIDE;
}

enum eps_status eps__mc_columns_make(struct eps__mc_columns *columns, const struct eps__setting *setting, double sigma,
                                     size_t separation, unsigned examples)
{
    size_t n = setting->job->mechanism.n, width = eps_strategy_bands(setting->strategy);
    struct eps__blocks blocks = eps__strategy_blocks(setting->strategy);
    bool alike = blocks.shape == EPS__SHAPE_TOEPLITZ && blocks.stamps == 1;
    size_t rest = width <= TILE ? TILE : (width + TILE - 1) / TILE * TILE;
    *columns = (struct eps__mc_columns){.n = n, .width = width, .stride = alike ? 0 : width, .tile = rest};
    columns->entries = calloc(alike ? width : n * width, sizeof *columns->entries);
    columns->half = malloc(n * sizeof *columns->half);
    double *row = malloc(width * sizeof *row);
    enum eps_status status = columns->entries && columns->half && row ? EPS_OK : EPS_NO_MEMORY;
    for (size_t r = alike ? n - 1 : 0; status == EPS_OK && r < n; r++) {
        status = eps_strategy_band_row(setting->strategy, row, NULL, r); /* row[d] = C[r, r - d] */
        for (size_t d = 0; status == EPS_OK && d < width && d <= r; d++)
            columns->entries[(r - d) * columns->stride + d] = row[d];
    }
    free(row);
    if (status != EPS_OK) {
        eps__mc_columns_clear(columns);
        return status;
    }
    scale_columns(columns, sigma);
    if (transformed(width, alike)) {
        if (eps__spectrum_make(&columns->spectrum, columns->entries, width, 2 * width) != EPS_OK) {
            eps__mc_columns_clear(columns);
            return EPS_NO_MEMORY;
        }
        columns->tile = (columns->spectrum.len - width) / 2 * 2;
    }
    columns->meet = (width - 1) / separation + 1;
    columns->reach = eps__raise(EPS__NORMAL_MOST + (double)columns->meet * examples * columns->reach, 8);
    return EPS_OK;
}

void eps__mc_columns_clear(struct eps__mc_columns *columns)
{
    free(columns->entries);
    free(columns->half);
    free(columns->drift);
    eps__spectrum_clear(&columns->spectrum);
    *columns = (struct eps__mc_columns){0};
}

double eps__mc_columns_error(const struct eps__mc_columns *columns, unsigned examples)
{
    double k = examples, most = 0;
    for (size_t i = 0; i < columns->n; i++)
        most = fmax(most, columns->half[i]);
    double size = k * columns->longest * columns->reach + k * k * most;
    /* products by FFT (N8); an addition for each participation beyond nine in a row (A25) */
    double units = columns->spectrum.len > 0 ? eps__spectrum_units(&columns->spectrum) : 0;
    units += fmax((double)columns->meet - 9, 0);
    return eps__raise((units + (double)(columns->width + 20)) * EPS__UNIT_ROUNDOFF * size, 16);
}

double eps__mc_columns_operations(size_t width, bool alike)
{
    return transformed(width, alike) ? 11 * log2((double)width) : (double)width;
}

/* By FFT, y and its scratch space need less than 4 widths each, besides the products of a tile. The spectrum is shared
 * by all lanes and is counted as a fraction of one. */
double eps__mc_columns_rows(size_t width, bool alike)
{
    return transformed(width, alike) ? 12 * (double)width : 2 * ((double)width + TILE);
}

size_t eps__mc_columns_scratch(const struct eps__mc_columns *columns)
{
    size_t len = columns->spectrum.len;
    return (len > 0 ? 2 * len : columns->tile + columns->width + 1) * EPS__LANES;
}

/* Adds to one lane the rows of h x that are in the tile. */
static void add_steps(double *y, const struct eps__mc_columns *columns, struct eps__mc_steps *steps, uint32_t lane,
                      size_t from, size_t end)
{
    const struct eps__participated *slots = steps->slots + lane * steps->most;
    size_t len = steps->len[lane], width = columns->width;
    while (len > 0 && slots[len - 1].step >= end)
        len--;
    steps->len[lane] = len;
    while (len > 0 && slots[len - 1].step + width > from) {
        size_t step = slots[--len].step;
        double count = slots[len].examples;
        const double *entries = columns->entries + step * columns->stride;
        for (size_t r = step > from ? step : from; r < end && r < step + width; r++)
            y[(r - from) * EPS__LANES + lane] += count * entries[r - step];
    }
}

void eps__mc_columns_tile(double *y, const struct eps__mc_columns *columns, const struct eps__stream *stream,
                          uint32_t first, struct eps__mc_steps *steps, size_t from, size_t end)
{
    size_t rows = end - from, before = columns->width - 1;
    assert(from < end && from % columns->tile == 0 && (end == columns->n || rows == columns->tile));
    size_t most = columns->spectrum.len > 0 ? columns->spectrum.len : rows + before + 1;
    if (end == columns->n) /* rows from n on are 0 */
        memset(y + rows * EPS__LANES, 0, (most - rows) * EPS__LANES * sizeof *y);
    else
        memmove(y + rows * EPS__LANES, y, before * EPS__LANES * sizeof *y);
    /* Normals come in pairs. If rows is odd, which happens only at the end, row n is reset to 0. */
    eps__normals(y, stream, first, from, rows + rows % 2);
    if (rows % 2)
        memset(y + rows * EPS__LANES, 0, EPS__LANES * sizeof *y);
    if (columns->drift)
        for (size_t r = 0; r < rows; r++)
            for (size_t lane = 0; lane < EPS__LANES; lane++)
                y[r * EPS__LANES + lane] += columns->drift[from + r];
    for (uint32_t lane = 0; lane < EPS__LANES; lane++)
        add_steps(y, columns, steps, lane, from, end);
}

void eps__mc_columns_correlate(double *out, double *y, const struct eps__mc_columns *columns, size_t from, size_t end)
{
    const struct eps__spectrum *spectrum = &columns->spectrum;
    if (spectrum->len > 0)
        eps__correlate_by_spectrum(out, y, spectrum, end - from, y + spectrum->len * EPS__LANES);
    else
        eps__correlate_lanes(out, y, columns->entries + from * columns->stride, columns->stride, columns->width,
                             end - from);
}
