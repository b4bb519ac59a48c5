/*
 * MEMF (Choquette-Choo et al. 2023), table 1: the rows of trees and of the Fourier mechanism, to the two digits
 * printed. 20 epochs of 100 steps, prefix sums; loss = sens^2 ||B||_F^2. The paper takes contributions of +1 for
 * trees, which is the sensitivity there, and its theorem 2.1 for the Fourier rows: k times the largest eigenvalue of
 * a pattern's Gram matrix. Ours is never more than that.
 *
 * SPDX-License-Identifier: GPL-3.0-or-later
 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "lib/numerics/linear/linalg.h"
#include "lib/strategy/strategy.h"
#include "tests/unit/test.h"

enum { N = 2000, EPOCHS = 20, SEPARATION = 100 };

static const struct {
    enum eps_family family;
    enum eps_decoder decoder;
    size_t stamps;
    const char *printed;
} rows[] = {
    {EPS_FAMILY_TREE, EPS_DECODER_ONLINE, 1, "5.8e+06"},
    {EPS_FAMILY_TREE, EPS_DECODER_ONLINE, 2, "3.3e+06"},
    {EPS_FAMILY_TREE, EPS_DECODER_ONLINE, 5, "2.1e+06"},
    {EPS_FAMILY_TREE, EPS_DECODER_ONLINE, 10, "2.0e+06"},
    {EPS_FAMILY_TREE, EPS_DECODER_ONLINE, 20, "2.1e+06"},
    {EPS_FAMILY_TREE, EPS_DECODER_FULL, 1, "2.4e+06"},
    {EPS_FAMILY_TREE, EPS_DECODER_FULL, 2, "1.6e+06"},
    {EPS_FAMILY_TREE, EPS_DECODER_FULL, 5, "1.2e+06"},
    {EPS_FAMILY_TREE, EPS_DECODER_FULL, 10, "1.4e+06"},
    {EPS_FAMILY_TREE, EPS_DECODER_FULL, 20, "1.8e+06"},
    {EPS_FAMILY_FOURIER, EPS_DECODER_STANDARD, 1, "2.3e+06"},
    {EPS_FAMILY_FOURIER, EPS_DECODER_STANDARD, 2, "1.8e+06"},
    {EPS_FAMILY_FOURIER, EPS_DECODER_STANDARD, 5, "1.6e+06"},
    {EPS_FAMILY_FOURIER, EPS_DECODER_STANDARD, 10, "1.9e+06"},
    {EPS_FAMILY_FOURIER, EPS_DECODER_STANDARD, 20, "2.5e+06"},
    {EPS_FAMILY_FOURIER, EPS_DECODER_OPTIMAL, 1, "2.2e+06"},
    {EPS_FAMILY_FOURIER, EPS_DECODER_OPTIMAL, 2, "1.5e+06"},
    {EPS_FAMILY_FOURIER, EPS_DECODER_OPTIMAL, 5, "1.1e+06"},
    {EPS_FAMILY_FOURIER, EPS_DECODER_OPTIMAL, 10, "1.2e+06"},
    {EPS_FAMILY_FOURIER, EPS_DECODER_OPTIMAL, 20, "1.7e+06"},
};

/* k lambda_max of the first pattern: all patterns have k / stamps steps in each block, and the same matrix there. */
static double theorem_2_1(const struct eps_strategy *strategy, size_t stamps)
{
    size_t m = N / stamps, k = EPOCHS / stamps;
    double *row = malloc(N * sizeof *row), *gram = calloc(k * k, sizeof *gram), values[EPOCHS];
    assert_true(row && gram);
    for (size_t i = 0; i < 2 * m; i++) {
        assert_int_equal(eps_strategy_row(strategy, row, NULL, EPS_PART_ENCODER, i), EPS_OK);
        for (size_t a = 0; a < k; a++)
            for (size_t b = 0; b < k; b++)
                gram[a * k + b] += row[a * SEPARATION] * row[b * SEPARATION];
    }
    assert_true(eps__symmetric_eigenvalues(values, gram, k));
    free(row);
    free(gram);
    return EPOCHS * values[k - 1];
}

TEST(losses_are_those_of_table_1)
{
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct eps_mechanism mechanism = {
            .n = N,
            .matrix = {.family = rows[i].family,
                       .normalization = EPS_NORMALIZATION_NONE,
                       .stamps = rows[i].stamps,
                       .decoder = rows[i].decoder},
            .workload = {.type = EPS_WORKLOAD_PREFIX_SUM, .decay = 1},
            .sampling = {.scheme = EPS_SCHEME_NONE, .epochs = EPOCHS, .separation = SEPARATION, .examples_per_user = 1},
        };
        struct eps_strategy *strategy = NULL;
        struct eps_sensitivity sensitivity;
        struct eps_error error = {0};
        double mean, max, last;
        char loss[32];
        if (eps_strategy_create(NULL, &strategy, &error, &mechanism) != EPS_OK)
            fail_msg("%s: %s", error.pointer, error.message);
        assert_int_equal(eps__strategy_sensitivity(NULL, &sensitivity, NULL, strategy, &mechanism), EPS_OK);
        assert_int_equal(eps__strategy_error(NULL, strategy, &mechanism, &mean, &max, &last), EPS_OK);
        double square = sensitivity.value * sensitivity.value;
        if (rows[i].family == EPS_FAMILY_FOURIER) {
            double theirs = theorem_2_1(strategy, rows[i].stamps);
            print_message("# ours by %s: %.4g\n", sensitivity.rule, square * mean * N);
            assert_true(square <= theirs * (1 + 1e-9));
            square = theirs;
        } else {
            assert_true(sensitivity.exact);
        }
        snprintf(loss, sizeof loss, "%.1e", square * mean * N);
        print_message("# %s, %s, x%zu: %.4g, printed %s\n", eps_family_name(rows[i].family),
                      eps_decoder_name(rows[i].decoder), rows[i].stamps, square * mean * N, rows[i].printed);
        assert_string_equal(loss, rows[i].printed);
        eps_strategy_destroy(strategy);
    }
}
