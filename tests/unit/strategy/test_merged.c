/*
 * The merged matrix compared with the columns of C added up one by one, and its Gram matrix with a long double product.
 *
 * SPDX-License-Identifier: GPL-3.0-or-later
 */
#include <math.h>
#include <stddef.h>
#include <stdlib.h>

#include "lib/strategy/merged.h"
#include "tests/unit/matrices.h"
#include "tests/unit/test.h"

/* M from the rows of the public interface. */
static struct matrix merged_matrix(const struct eps_strategy *strategy, size_t bins)
{
    struct matrix c = part_matrix(strategy, EPS_PART_ENCODER), m = matrix_new(c.rows, bins);
    for (size_t i = 0; i < c.rows; i++)
        for (size_t j = 0; j < c.columns; j++)
            *entry(&m, i, j % bins) += *entry(&c, i, j);
    matrix_free(&c);
    return m;
}

static void near(long double expected, double found, double error)
{
    assert_true(fabsl(found - expected) <= error * expected + 1e-300L);
}

static void agrees(const struct eps_mechanism *mechanism, size_t bins)
{
    struct eps_strategy *strategy = strategy_new(mechanism);
    struct matrix m = merged_matrix(strategy, bins), g = matrix_gram(&m);
    double *row = malloc(bins * sizeof *row), *scratch = malloc(mechanism->n * sizeof *scratch),
           *gram = malloc(bins * bins * sizeof *gram), error;
    assert_true(row && scratch && gram);
    for (size_t i = 0; i < m.rows; i++) {
        eps__merged_row(strategy, row, bins, i, scratch);
        for (size_t j = 0; j < bins; j++)
            near(*entry(&m, i, j), row[j], eps__merged_error(strategy, bins));
    }
    assert_int_equal(eps__merged_gram(NULL, gram, &error, strategy, bins), EPS_OK);
    assert_true(error < 1e-12);
    for (size_t i = 0; i < bins; i++)
        for (size_t j = 0; j < bins; j++)
            near(*entry(&g, i, j), gram[i * bins + j], error);
    free(row);
    free(scratch);
    free(gram);
    matrix_free(&m);
    matrix_free(&g);
    eps_strategy_destroy(strategy);
}

/* Every divisor of n as the number of bins, so that there are fewer bands than bins, as many, and more. */
static void all_bins(const struct eps_mechanism *mechanism)
{
    for (size_t bins = 1; bins <= mechanism->n; bins++)
        if (mechanism->n % bins == 0)
            agrees(mechanism, bins);
}

TEST(every_column_is_in_one_bin)
{
    static const enum eps_family families[] = {EPS_FAMILY_IDENTITY, EPS_FAMILY_SQUARE_ROOT, EPS_FAMILY_TREE,
                                               EPS_FAMILY_INVERSE_SQUARE_ROOT};
    for (size_t f = 0; f < sizeof families / sizeof *families; f++) {
        struct eps_mechanism mechanism = mechanism_new(families[f], 24);
        if (families[f] == EPS_FAMILY_INVERSE_SQUARE_ROOT)
            mechanism.matrix.bands = 3;
        all_bins(&mechanism);
        mechanism.matrix.stamps = 3;
        all_bins(&mechanism);
    }
}

TEST(bands_may_be_fewer_than_bins)
{
    struct eps_mechanism mechanism = mechanism_new(EPS_FAMILY_SQUARE_ROOT, 192);
    mechanism.matrix.bands = 5;
    all_bins(&mechanism);
    mechanism.matrix.stamps = 4;
    all_bins(&mechanism);
}

TEST(given_entries_of_very_different_scale)
{
    double rows[6 * 6] = {0};
    for (size_t i = 0; i < 6; i++)
        for (size_t j = 0; j <= i; j++)
            rows[i * 6 + j] = j == 2 ? 0 : exp2(37.0 * (double)((i * 5 + j * 3) % 7) - 111);
    struct eps_mechanism mechanism = mechanism_new(EPS_FAMILY_DENSE, 6);
    mechanism.matrix.rows = rows;
    mechanism.matrix.rows_n = 6;
    all_bins(&mechanism);
}
