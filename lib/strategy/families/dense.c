/*
 * dense: any square matrix given by its rows, lower triangular or not.
 *
 * SPDX-License-Identifier: GPL-3.0-or-later
 */
#include <stdlib.h>
#include <string.h>

#include "lib/strategy/failures.h"
#include "lib/strategy/families/family.h"
#include "lib/strategy/kinds/kinds.h"

static enum eps_status build(const struct eps_context *context, struct eps_strategy *s, struct eps_error *error,
                             const struct eps_mechanism *mechanism)
{
    (void)context;
    const struct eps_matrix *matrix = &mechanism->matrix;
    size_t m = s->block;
    if (!matrix->rows || matrix->rows_n != m)
        return eps__error(error, EPS_INVALID, "/matrix/rows", "must hold %zu rows (the steps of one stamp)", m);
    s->entries = malloc(m * m * sizeof *s->entries);
    if (!s->entries)
        return eps__strategy_no_memory(error);
    memcpy(s->entries, matrix->rows, m * m * sizeof *s->entries);
    s->entries_len = m * m;
    s->kind = &eps__strategy_dense;
    s->block_rows = m;
    return EPS_OK;
}

/* The distance of the farthest nonzero entry below the diagonal, plus one; n if there is one above the diagonal. */
static size_t measured_bands(const double *rows, size_t n)
{
    size_t bands = 0;

    for (size_t i = 0; i < n; i++) {
        for (size_t j = 0; j < n; j++) {
            if (rows[i * n + j] == 0.0)
                continue;
            if (j > i)
                return n;
            if (i - j + 1 > bands)
                bands = i - j + 1;
        }
    }
    return bands;
}

static size_t bands(const struct eps_matrix *matrix, size_t block)
{
    (void)block;
    return matrix->rows ? measured_bands(matrix->rows, matrix->rows_n) : 0;
}

static void check(struct eps__check *check, const struct eps_matrix *matrix)
{
    if (matrix->rows_n == 0 || !matrix->rows)
        eps__check_fail(check, "/matrix/rows", "is required: the rows of C");
    else if (check->block > 0 && matrix->rows_n != check->block)
        eps__check_fail(check, "/matrix/rows", "has %zu rows, but C has n/stamps = %zu", matrix->rows_n, check->block);
    else
        eps__check_matrix_entries(check, "/matrix/rows", matrix->rows, matrix->rows_n * matrix->rows_n, matrix->rows_n);
}

static const char *source(const struct eps_matrix *matrix)
{
    (void)matrix;
    return "/matrix/rows";
}

static void forecast(struct eps__forecast *c, const struct eps_mechanism *mechanism)
{
    const struct eps_matrix *matrix = &mechanism->matrix;

    c->kind = &eps__strategy_dense;
    c->bands = c->block;
    for (size_t i = 0; matrix->rows && i < matrix->rows_n * matrix->rows_n; i++)
        if (matrix->rows[i] < 0)
            c->nonnegative = false;
}

const struct eps__family eps__family_dense = {
    .family = EPS_FAMILY_DENSE,
    .name = "dense",
    .bands = bands,
    .check = check,
    .build = build,
    .source = source,
    .forecast = forecast,
};
