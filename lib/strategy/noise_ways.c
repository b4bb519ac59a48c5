/*
 * The two ways to draw C^+ z that work for every kind of block.
 *
 * By bands: C x = z is solved by forward substitution, which needs the last bands - 1 rows of x. With few bands no way
 * keeps less.
 *
 * By panels: as many rows of C^+ as fit beside their results are multiplied with z, of which a block of rows is
 * generated at a time for a tile of coordinates. z is generated once per panel; the product costs more than that.
 *
 * SPDX-License-Identifier: GPL-3.0-or-later
 */
#include <cblas.h>
#include <string.h>

#include "lib/strategy/failures.h"
#include "lib/strategy/noise.h"

const struct eps__noise_way *const eps__noise_of_square[] = {&eps__noise_by_bands, &eps__noise_by_panels, NULL};
const struct eps__noise_way *const eps__noise_of_any[] = {&eps__noise_by_panels, NULL};

size_t eps__noise_from_block(const struct eps_strategy *s, enum eps_part part, double dimensions, size_t row)
{
    (void)part;
    (void)dimensions;
    return row - row % s->block;
}

/* ---------------------------------------------------------------- by bands */

static bool bands_serve(const struct eps_strategy *s)
{
    return s->lower && s->kind->band_row;
}

/* The ring of rows, and a row of C. */
static double bands_numbers(const struct eps_strategy *s, enum eps_part part, double dimensions)
{
    (void)part;
    return (double)(s->bands - 1) * dimensions + (double)s->bands;
}

static double bands_operations(const struct eps_strategy *s, enum eps_part part, double dimensions)
{
    (void)part;
    double reach = (double)(s->bands - 1), block = (double)s->block, mean = reach * (1 - reach / (2 * block));
    return (double)s->n * (EPS__NORMAL_COST + 1 + mean) * dimensions;
}

static enum eps_status bands_row(struct eps__noise_run *run, const struct eps_context *context, double *out,
                                 struct eps_error *error, size_t row)
{
    const struct eps_strategy *s = run->strategy;
    size_t kept = s->bands - 1, d = run->dimensions, local = row % s->block;
    double *ring = run->memory, *c = ring + kept * d;
    s->kind->band_row(s, c, local);
    for (size_t first = 0; first < d; first += EPS__WHITE_TILE) {
        size_t len = eps__noise_tile(run, first);
        double *x = out + first, divisor = c[0];
        eps__white_row(&run->white, x, row, first, len);
        for (size_t e = 1; e <= kept && e <= local; e++)
            cblas_daxpy((blasint)len, -c[e], ring + (local - e) % kept * d + first, 1, x, 1);
        for (size_t i = 0; i < len; i++)
            x[i] /= divisor;
        if (kept)
            memcpy(ring + local % kept * d + first, x, len * sizeof *x);
    }
    return eps__strategy_poll(context, error);
}

/* A row depends on all rows before it, unless C is diagonal. */
static size_t bands_from(const struct eps_strategy *s, enum eps_part part, double dimensions, size_t row)
{
    return s->bands == 1 ? row : eps__noise_from_block(s, part, dimensions, row);
}

const struct eps__noise_way eps__noise_by_bands = {
    .serves = bands_serve,
    .numbers = bands_numbers,
    .operations = bands_operations,
    .row = bands_row,
    .from = bands_from,
};

/* ---------------------------------------------------------------- by panels */

enum { PANEL_NUMBERS = 1 << 23, DEPTH = 128, PANEL_ROWS_MAX = 256 }; /* DEPTH: rows of z in one product */

/* One block of C^+, or the whole of B. */
struct panel {
    size_t block, width; /* rows and columns */
    size_t rows;         /* of a panel */
    bool lower;          /* zero right of the diagonal */
};

static struct panel panel_of(const struct eps_strategy *s, enum eps_part part, double dimensions)
{
    bool whole = part == EPS_PART_DECODER;
    struct panel p = {whole ? s->n : s->block, whole ? eps_strategy_rows(s) : s->block_rows, 1,
                      s->lower && s->block_rows == s->block};
    double most = PANEL_NUMBERS / (dimensions + (double)p.width);
    most = most < PANEL_ROWS_MAX ? most : PANEL_ROWS_MAX;
    p.rows = most < 1 ? 1 : (size_t)most < p.block ? (size_t)most : p.block;
    return p;
}

static bool panels_serve(const struct eps_strategy *s)
{
    (void)s;
    return true;
}

/* The panel, its results, a tile of z, and one row from the kind. */
static double panels_numbers(const struct eps_strategy *s, enum eps_part part, double dimensions)
{
    struct panel p = panel_of(s, part, dimensions);
    return (double)p.rows * ((double)p.width + dimensions) + DEPTH * EPS__WHITE_TILE + (double)eps_strategy_rows(s);
}

static double panels_operations(const struct eps_strategy *s, enum eps_part part, double dimensions)
{
    struct panel p = panel_of(s, part, dimensions);
    double mean = (double)p.width * (p.lower ? 0.5 : 1), normals = EPS__NORMAL_COST / (double)p.rows;
    return (double)s->n * mean * (dimensions * (normals + EPS__PANEL_COST) + 20);
}

/* The memory of a run, divided up. */
struct panel_memory {
    double *panel, *results, *z, *scratch; /* rows x width; rows x dimensions; a tile of z; one row */
};

static struct panel_memory memory_of(const struct eps__noise_run *run, const struct panel *p)
{
    double *results = run->memory + p->rows * p->width, *z = results + p->rows * run->dimensions;
    return (struct panel_memory){run->memory, results, z, z + (size_t)DEPTH * EPS__WHITE_TILE};
}

/* Copies `rows` rows from `row` on, restricted to their block: `width` numbers each. */
static enum eps_status panel_rows(struct eps__noise_run *run, struct eps_error *error, const struct panel *p,
                                  size_t row, size_t rows)
{
    const struct eps_strategy *s = run->strategy;
    double *panel = memory_of(run, p).panel, *scratch = memory_of(run, p).scratch;
    size_t first = row / p->block * p->width;
    for (size_t i = 0; i < rows; i++) {
        enum eps_status status = run->part == EPS_PART_DECODER
                                     ? s->kind->decoder_row(s, scratch, error, run->inverse, row + i)
                                     : s->kind->noise_row(s, scratch, error, run->inverse, row + i);
        if (status != EPS_OK)
            return status;
        memcpy(panel + i * p->width, scratch + first, p->width * sizeof *panel);
    }
    return EPS_OK;
}

static enum eps_status panel_product(struct eps__noise_run *run, const struct eps_context *context,
                                     struct eps_error *error, const struct panel *p, size_t row, size_t rows)
{
    const struct panel_memory memory = memory_of(run, p);
    size_t d = run->dimensions, width = p->lower ? row % p->block + rows : p->width, above = row / p->block * p->width;
    for (size_t first = 0; first < d; first += EPS__WHITE_TILE) {
        size_t len = eps__noise_tile(run, first);
        for (size_t k = 0; k < width; k += DEPTH) {
            size_t depth = width - k < DEPTH ? width - k : DEPTH;
            enum eps_status status = eps__strategy_poll(context, error);
            if (status != EPS_OK)
                return status;
            for (size_t i = 0; i < depth; i++)
                eps__white_row(&run->white, memory.z + i * len, above + k + i, first, len);
            cblas_dgemm(CblasRowMajor, CblasNoTrans, CblasNoTrans, (blasint)rows, (blasint)len, (blasint)depth, 1,
                        memory.panel + k, (blasint)p->width, memory.z, (blasint)len, k > 0, memory.results + first,
                        (blasint)d);
        }
    }
    return EPS_OK;
}

static enum eps_status panels_row(struct eps__noise_run *run, const struct eps_context *context, double *out,
                                  struct eps_error *error, size_t row)
{
    size_t d = run->dimensions;
    struct panel p = panel_of(run->strategy, run->part, (double)d);
    size_t local = row % p.block, at = local % p.rows, rows = p.block - local < p.rows ? p.block - local : p.rows;
    enum eps_status status = EPS_OK;
    if (at == 0)
        status = panel_rows(run, error, &p, row, rows);
    if (status == EPS_OK && at == 0)
        status = panel_product(run, context, error, &p, row, rows);
    if (status == EPS_OK)
        memcpy(out, memory_of(run, &p).results + at * d, d * sizeof *out);
    return status;
}

/* The first row of the panel: the product then has the same shape, and so the same bits. */
static size_t panels_from(const struct eps_strategy *s, enum eps_part part, double dimensions, size_t row)
{
    struct panel p = panel_of(s, part, dimensions);
    return row - row % p.block % p.rows;
}

const struct eps__noise_way eps__noise_by_panels = {
    .serves = panels_serve,
    .numbers = panels_numbers,
    .operations = panels_operations,
    .row = panels_row,
    .from = panels_from,
};
