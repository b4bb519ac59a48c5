/*
 * The Fourier mechanism compared with its definition: a discrete transform summed term by term, pseudoinverses by
 * elimination, and sensitivities over all patterns and signs.
 *
 * SPDX-License-Identifier: GPL-3.0-or-later
 */
#include <complex.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "lib/strategy/strategy.h"
#include "tests/unit/matrices.h"
#include "tests/unit/test.h"

/* F* Sigma^(1/2) F of 2m x 2m, Sigma the transform of m ones and m zeros: entry (i, j) is the inverse transform of
 * the roots at i - j. */
static struct matrix circulant_root(size_t m)
{
    size_t size = 2 * m;
    struct matrix root = matrix_new(size, size);
    for (size_t k = 0; k < size; k++) {
        long double complex sum = 0;
        for (size_t a = 0; a < m; a++)
            sum += cexpl(-2 * M_PIl * I * (long double)(k * a % size) / (long double)size);
        /* The even frequencies cancel; only rounding is left of them, and its root would not be small. */
        long double complex sigma = k % 2 || k == 0 ? csqrtl(sum) : 0;
        for (size_t i = 0; i < size; i++)
            for (size_t j = 0; j < size; j++)
                *entry(&root, i, j) += creall(sigma * cexpl(2 * M_PIl * I * (long double)(k * (size + i - j) % size) /
                                                            (long double)size)) /
                                       (long double)size;
    }
    return root;
}

/* One block, repeated along the diagonal. */
static struct matrix stamped(const struct matrix *block, size_t stamps)
{
    struct matrix out = matrix_new(block->rows * stamps, block->columns * stamps);
    for (size_t s = 0; s < stamps; s++)
        for (size_t i = 0; i < block->rows; i++)
            for (size_t j = 0; j < block->columns; j++)
                *entry(&out, s * block->rows + i, s * block->columns + j) = *entry(block, i, j);
    return out;
}

static struct matrix encoder_of(size_t m)
{
    struct matrix root = circulant_root(m), c = matrix_new(2 * m, m);
    for (size_t i = 0; i < 2 * m; i++)
        for (size_t j = 0; j < m; j++)
            *entry(&c, i, j) = *entry(&root, i, j);
    matrix_free(&root);
    return c;
}

/* Differences of the rows of P F* Sigma^(1/2) F. */
static struct matrix standard_noise(size_t m)
{
    struct matrix root = circulant_root(m), noise = matrix_new(m, 2 * m);
    for (size_t t = 0; t < m; t++)
        for (size_t j = 0; j < 2 * m; j++)
            *entry(&noise, t, j) = *entry(&root, t, j) - (t ? *entry(&root, t - 1, j) : 0);
    matrix_free(&root);
    return noise;
}

TEST(decoders_are_their_definitions)
{
    static const size_t sizes[] = {1, 2, 3, 4, 7, 12};
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++)
        for (size_t stamps = 1; stamps <= 3; stamps++)
            for (int which = 0; which < 16; which++) {
                size_t m = sizes[i];
                struct eps_mechanism mechanism = mechanism_new(EPS_FAMILY_FOURIER, m * stamps);
                bool standard = which / 4 % 2, scaled = which / 8;
                mechanism.matrix.stamps = stamps;
                mechanism.matrix.decoder = standard ? EPS_DECODER_STANDARD : EPS_DECODER_OPTIMAL;
                if (scaled)
                    mechanism.matrix.normalization = EPS_NORMALIZATION_MAX_COLUMN;
                workload_choose(&mechanism, which % 4);
                struct eps_strategy *strategy = strategy_new(&mechanism);
                struct matrix block = encoder_of(m);
                struct matrix inverse = standard ? standard_noise(m) : matrix_left_inverse(&block);
                long double norm = 0;
                for (size_t j = 0; j < 2 * m; j++)
                    norm += *entry(&block, j, 0) * *entry(&block, j, 0);
                for (size_t j = 0; scaled && j < 2 * m * m; j++) {
                    block.at[j] /= sqrtl(norm);
                    inverse.at[j] *= sqrtl(norm);
                }
                struct matrix c = stamped(&block, stamps), noise = stamped(&inverse, stamps);
                check_factorisation(strategy, &mechanism, &c, &noise, 1e-12L);
                assert_false(eps__strategy_lower_triangular(strategy));
                eps_strategy_destroy(strategy);
                matrix_free(&block);
                matrix_free(&inverse);
                matrix_free(&c);
                matrix_free(&noise);
            }
}

/* Vector contributions lie between signs and pi/2 times signs (on the square). */
TEST(sensitivity_bounds_every_pattern)
{
    for (size_t m = 1; m <= 10; m += 3)
        for (size_t stamps = 1; stamps * m <= 10; stamps++) {
            size_t n = m * stamps;
            struct matrix block = encoder_of(m), c = stamped(&block, stamps), gram = matrix_gram(&c);
            struct eps_mechanism mechanism = mechanism_new(EPS_FAMILY_FOURIER, n);
            mechanism.matrix.stamps = stamps;
            struct eps_strategy *strategy = strategy_new(&mechanism);
            for (size_t b = 1; b <= n; b++)
                for (size_t k = 1; (k - 1) * b < n; k++)
                    for (int schema = 0; schema < 2; schema++) {
                        struct eps_sensitivity s;
                        mechanism.sampling.epochs = k;
                        mechanism.sampling.separation = b;
                        mechanism.sampling.schema = schema ? EPS_SCHEMA_MIN_SEPARATION : EPS_SCHEMA_FIXED_ORDER;
                        assert_int_equal(eps__strategy_sensitivity(NULL, &s, NULL, strategy, &mechanism), EPS_OK);
                        double signs = sqrt((double)pattern_square(&gram, &mechanism, true));
                        if (s.value < signs * (1 - 1e-14))
                            fail_msg("n %zu k %zu b %zu: %.17g under %.17g", n, k, b, s.value, signs);
                        if (schema == 0)
                            assert_true(s.value <= signs * sqrt(M_PI_2) * (1 + 1e-9));
                        else
                            assert_true(s.value <= 3 * signs);
                        if (k == 1 || (schema == 0 && k == 2))
                            assert_true(s.exact && fabs(s.value - signs) <= 1e-12 * signs);
                    }
            eps_strategy_destroy(strategy);
            matrix_free(&block);
            matrix_free(&c);
            matrix_free(&gram);
        }
}

/* Patterns too long for their Gram matrix: |C| instead of C, compared with the columns themselves. */
TEST(long_patterns_are_bounded)
{
    enum { LONG = 4500 };
    for (size_t stamps = 1; stamps <= 2; stamps++) {
        struct eps_mechanism mechanism = mechanism_new(EPS_FAMILY_FOURIER, LONG * stamps);
        mechanism.matrix.stamps = stamps;
        mechanism.sampling.epochs = 4200;
        mechanism.sampling.separation = 1;
        struct eps_strategy *strategy = strategy_new(&mechanism);
        struct eps_sensitivity s;
        assert_int_equal(eps__strategy_sensitivity(NULL, &s, NULL, strategy, &mechanism), EPS_OK);
        assert_string_equal(s.rule, "absolute_entries");
        double *column = malloc(2 * LONG * sizeof *column), *row = malloc(LONG * stamps * sizeof *row);
        assert_true(column && row);
        for (size_t i = 0; i < 2 * LONG; i++) {
            assert_int_equal(eps_strategy_row(strategy, row, NULL, EPS_PART_ENCODER, i), EPS_OK);
            column[i] = fabs(row[0]);
        }
        long double sum = 0, window = 0;
        for (size_t i = 0; i < 4200; i++)
            window += column[2 * LONG - 1 - i];
        for (size_t u = 0; u < 2 * LONG; u++) {
            window += column[u] - column[(u + 2 * LONG - 4200) % (2 * LONG)];
            sum += window * window;
        }
        /* All 4200 steps in one block; a pattern over two blocks has less. */
        assert_true(fabsl(s.value - sqrtl(sum)) <= 1e-12L * s.value);
        eps_strategy_destroy(strategy);
        free(column);
        free(row);
    }
}

/* 2^15 steps: the standard decoder has the same variance everywhere; the closed solution of the Toeplitz system solves
 * it (its variance is a A C^+ C = A), and is never worse. */
TEST(many_steps_are_fast)
{
    size_t n = (size_t)1 << 15;
    double *standard = malloc(n * sizeof *standard), *optimal = malloc(n * sizeof *optimal);
    double *row = malloc(2 * n * sizeof *row), *kernel = malloc(2 * n * sizeof *kernel);
    assert_true(standard && optimal && row && kernel);
    struct eps_mechanism mechanism = mechanism_new(EPS_FAMILY_FOURIER, n);
    mechanism.matrix.normalization = EPS_NORMALIZATION_MAX_COLUMN;
    mechanism.matrix.decoder = EPS_DECODER_STANDARD;
    struct eps_strategy *strategy = strategy_new(&mechanism);
    assert_int_equal(eps_strategy_variance(NULL, strategy, standard, NULL), EPS_OK);
    eps_strategy_destroy(strategy);
    mechanism.matrix.decoder = EPS_DECODER_OPTIMAL;
    strategy = strategy_new(&mechanism);
    assert_int_equal(eps_strategy_variance(NULL, strategy, optimal, NULL), EPS_OK);
    for (size_t t = 0; t < n; t++)
        assert_true(fabs(standard[t] - standard[0]) <= 1e-10 * standard[0] && optimal[t] <= standard[t] * (1 + 1e-10));
    size_t middle = n / 3;
    long double norm = 0, own = 0, next = 0;
    assert_int_equal(eps_strategy_row(strategy, row, NULL, EPS_PART_DECODER, middle), EPS_OK);
    for (size_t i = 0; i < 2 * n; i++)
        norm += (long double)row[i] * row[i];
    assert_true(fabsl(norm - optimal[middle]) <= 1e-10L * norm);
    /* B C at the last step of the prefix and at the one after it: columns are the kernel, shifted. */
    double *c = malloc(n * sizeof *c);
    assert_non_null(c);
    assert_int_equal(eps_strategy_row(strategy, c, NULL, EPS_PART_ENCODER, n - 1), EPS_OK);
    for (size_t j = 0; j < n; j++)
        kernel[n - 1 - j] = c[j];
    assert_int_equal(eps_strategy_row(strategy, c, NULL, EPS_PART_ENCODER, 2 * n - 1), EPS_OK);
    for (size_t j = 0; j < n; j++)
        kernel[2 * n - 1 - j] = c[j];
    for (size_t i = 0; i < 2 * n; i++) {
        own += (long double)row[i] * kernel[(i + 2 * n - middle) % (2 * n)];
        next += (long double)row[i] * kernel[(i + 2 * n - middle - 1) % (2 * n)];
    }
    assert_true(fabsl(own - 1) <= 1e-10L && fabsl(next) <= 1e-10L);
    eps_strategy_destroy(strategy);
    free(standard);
    free(optimal);
    free(row);
    free(kernel);
    free(c);
}

TEST(the_decoder_is_in_the_id)
{
    struct eps_mechanism mechanism = mechanism_new(EPS_FAMILY_FOURIER, 9);
    mechanism.matrix.decoder = EPS_DECODER_STANDARD;
    struct eps_strategy *standard = strategy_new(&mechanism);
    mechanism.matrix.decoder = EPS_DECODER_OPTIMAL;
    struct eps_strategy *optimal = strategy_new(&mechanism), *none = NULL;
    assert_string_not_equal(eps_strategy_id(standard), eps_strategy_id(optimal));
    eps_strategy_destroy(standard);
    eps_strategy_destroy(optimal);
    struct eps_error error = {0};
    mechanism.sampling.scheme = EPS_SCHEME_POISSON;
    assert_int_equal(eps_strategy_create(NULL, &none, &error, &mechanism), EPS_INVALID);
    assert_string_equal(error.pointer, "/matrix/family");
}
