/*
 * toeplitz: a lower-triangular Toeplitz matrix given by its first column.
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
    if (!matrix->coefficients || !matrix->coefficients_len || matrix->coefficients_len > s->block)
        return eps__error(error, EPS_INVALID, "/matrix/coefficients",
                          "must hold between 1 and %zu numbers (the steps of one stamp)", s->block);
    double *copy = malloc(matrix->coefficients_len * sizeof *copy);
    if (!copy)
        return eps__strategy_no_memory(error);
    memcpy(copy, matrix->coefficients, matrix->coefficients_len * sizeof *copy);
    eps__toeplitz_steal(s, copy, matrix->coefficients_len);
    return EPS_OK;
}

static size_t bands(const struct eps_matrix *matrix, size_t block)
{
    size_t len = matrix->coefficients_len;

    (void)block;
    while (len > 0 && matrix->coefficients && matrix->coefficients[len - 1] == 0.0)
        len--;
    return len;
}

static void check(struct eps__check *check, const struct eps_matrix *matrix)
{
    eps__check_first_column(check, "/matrix/coefficients", matrix->coefficients, matrix->coefficients_len,
                            check->block);
}

static const char *source(const struct eps_matrix *matrix)
{
    (void)matrix;
    return "/matrix/coefficients";
}

static void forecast(struct eps__forecast *c, const struct eps_mechanism *mechanism)
{
    const struct eps_matrix *matrix = &mechanism->matrix;

    c->bands = (double)matrix->coefficients_len;
    for (size_t i = 0; matrix->coefficients && i < matrix->coefficients_len; i++)
        if (matrix->coefficients[i] < 0)
            c->nonnegative = false;
}

const struct eps__family eps__family_toeplitz = {
    .family = EPS_FAMILY_TOEPLITZ,
    .name = "toeplitz",
    .bands = bands,
    .check = check,
    .build = build,
    .source = source,
    .forecast = forecast,
};

struct eps_matrix eps__matrix_of_column(const double *column, size_t len)
{
    struct eps_matrix matrix = eps__matrix_default();
    matrix.family = eps__family_toeplitz.family;
    matrix.coefficients = column;
    matrix.coefficients_len = len;
    return matrix;
}
