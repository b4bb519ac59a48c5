/*
 * The decoders of trees compared with their definitions, written out node by node, and with closed forms at sizes where
 * nothing else is possible.
 *
 * SPDX-License-Identifier: GPL-3.0-or-later
 */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "lib/strategy/strategy.h"
#include "tests/unit/matrices.h"
#include "tests/unit/test.h"

static void assert_near(long double got, long double wanted, long double tolerance)
{
    if (!(fabsl(got - wanted) <= tolerance * fmaxl(1, fabsl(wanted))))
        fail_msg("got %.17Lg, wanted %.17Lg", got, wanted);
}

/* Adds Honaker's estimate from below of the sum of the leaves first .. first + 2^l - 1: each node of the subtree, d
 * levels below its root, with weight 2^-d over the sum of these weights over the levels. */
static void add_estimate(long double *row, const struct matrix *tree, size_t first, size_t l)
{
    long double total = 2 - ldexpl(1, -(int)l);
    for (size_t node = 0; node < tree->rows; node++) {
        size_t from = 0, leaves = 0;
        for (size_t j = tree->columns; j-- > 0;)
            if (*entry(tree, node, j) != 0) {
                from = j;
                leaves++;
            }
        if (from >= first && from + leaves <= first + ((size_t)1 << l))
            row[node] += (long double)leaves / ldexpl(1, (int)l) / total;
    }
}

/* The prefix sum of `count` leaves from the nodes of its binary representation. */
static void prefix_row(long double *row, const struct matrix *tree, size_t count)
{
    size_t first = 0;
    memset(row, 0, tree->rows * sizeof *row);
    for (size_t l = 32; l-- > 0;)
        if (count >> l & 1) {
            add_estimate(row, tree, first, l);
            first += (size_t)1 << l;
        }
}

/* The decoder of prefix sums of a block of m steps: rows of the complete tree's decoder, the last one being the row of
 * least norm without the noise of nodes that have no step. */
static struct matrix online_prefix(size_t m)
{
    struct eps_mechanism whole = mechanism_new(EPS_FAMILY_TREE, m);
    while (whole.n & (whole.n - 1))
        whole.n++;
    struct matrix tree = family_matrix(&whole), b = matrix_new(m, tree.rows), row = matrix_new(1, tree.rows);
    long double least = INFINITY;
    for (size_t t = 0; t + 1 < m; t++)
        prefix_row(entry(&b, t, 0), &tree, t + 1);
    for (size_t count = m; count <= whole.n; count++) {
        long double norm = 0;
        prefix_row(row.at, &tree, count);
        for (size_t node = 0; node < tree.rows; node++) {
            bool used = false;
            for (size_t j = 0; j < m; j++)
                used = used || *entry(&tree, node, j) != 0;
            row.at[node] = used ? row.at[node] : 0;
            norm += row.at[node] * row.at[node];
        }
        if (norm < least * (1 - 1e-15L)) {
            least = norm;
            memcpy(entry(&b, m - 1, 0), row.at, tree.rows * sizeof *row.at);
        }
    }
    matrix_free(&tree);
    matrix_free(&row);
    return b;
}

/* Differences of successive rows, block by block. */
static struct matrix online_noise(size_t m, size_t stamps)
{
    struct matrix b = online_prefix(m), noise = matrix_new(m * stamps, b.columns * stamps);
    for (size_t s = 0; s < stamps; s++)
        for (size_t t = 0; t < m; t++)
            for (size_t j = 0; j < b.columns; j++)
                *entry(&noise, s * m + t, s * b.columns + j) = *entry(&b, t, j) - (t ? *entry(&b, t - 1, j) : 0);
    matrix_free(&b);
    return noise;
}

TEST(decoders_are_their_definitions)
{
    for (size_t m = 1; m <= 33; m += m < 10 ? 1 : m < 17 ? 3 : 16)
        for (size_t stamps = 1; stamps <= 3; stamps++)
            for (int which = 0; which < 8; which++) {
                struct eps_mechanism mechanism = mechanism_new(EPS_FAMILY_TREE, m * stamps);
                mechanism.matrix.stamps = stamps;
                mechanism.matrix.decoder = which >= 4 ? EPS_DECODER_FULL : EPS_DECODER_ONLINE;
                workload_choose(&mechanism, which % 4);
                struct eps_strategy *strategy = strategy_new(&mechanism);
                struct matrix c = family_matrix(&mechanism), noise;
                if (which < 4) {
                    noise = online_noise(m, stamps);
                } else {
                    /* Nodes without a step are rows of zeros, which a left inverse ignores. */
                    noise = matrix_left_inverse(&c);
                }
                check_factorisation(strategy, &mechanism, &c, &noise, 1e-12L);
                eps_strategy_destroy(strategy);
                matrix_free(&c);
                matrix_free(&noise);
            }
}

/* With stamps, a prefix sum adds the last row of every earlier block. */
TEST(stamps_repeat_the_last_row)
{
    enum { M = 11, STAMPS = 3 };
    struct eps_mechanism mechanism = mechanism_new(EPS_FAMILY_TREE, M * STAMPS);
    mechanism.matrix.stamps = STAMPS;
    struct eps_strategy *strategy = strategy_new(&mechanism);
    struct matrix got = part_matrix(strategy, EPS_PART_DECODER), b = online_prefix(M);
    for (size_t t = 0; t < got.rows; t++)
        for (size_t j = 0; j < got.columns; j++) {
            size_t block = j / b.columns;
            long double wanted = block > t / M   ? 0
                                 : block < t / M ? *entry(&b, M - 1, j % b.columns)
                                                 : *entry(&b, t % M, j % b.columns);
            assert_near(*entry(&got, t, j), wanted, 1e-14L);
        }
    matrix_free(&got);
    matrix_free(&b);
    eps_strategy_destroy(strategy);
}

/* Scaling C up scales its decoders down; the id includes the decoder. */
TEST(scale_and_id)
{
    struct eps_mechanism mechanism = mechanism_new(EPS_FAMILY_TREE, 13), other;
    mechanism.matrix.normalization = EPS_NORMALIZATION_MAX_COLUMN;
    mechanism.matrix.decoder = EPS_DECODER_FULL;
    workload_choose(&mechanism, 2);
    other = mechanism;
    other.matrix.decoder = EPS_DECODER_ONLINE;
    struct eps_strategy *full = strategy_new(&mechanism), *online = strategy_new(&other);
    struct matrix c = family_matrix(&mechanism), noise = matrix_left_inverse(&c);
    for (size_t i = 0; i < c.rows * c.columns; i++) {
        c.at[i] /= sqrtl(5);
        noise.at[i] *= sqrtl(5);
    }
    check_factorisation(full, &mechanism, &c, &noise, 1e-12L);
    assert_string_not_equal(eps_strategy_id(full), eps_strategy_id(online));
    assert_true(eps__strategy_lower_triangular(full) && eps__strategy_lower_triangular(online));
    matrix_free(&c);
    matrix_free(&noise);
    eps_strategy_destroy(full);
    eps_strategy_destroy(online);
}

/* 2^18 steps: an online prefix sum adds 2^l / (2^(l+1) - 1) for each node of its binary representation; at the last
 * step both decoders have the whole tree, and the pseudoinverse is no better there than the root's estimate. */
TEST(many_steps_are_fast)
{
    size_t n = (size_t)1 << 18;
    double *online = malloc(n * sizeof *online), *full = malloc(n * sizeof *full), *list = malloc(n * sizeof *list);
    double *ones = malloc(n * sizeof *ones);
    assert_true(online && full && list && ones);
    struct eps_mechanism mechanism = mechanism_new(EPS_FAMILY_TREE, n);
    for (int decoder = 0; decoder < 2; decoder++) {
        mechanism.matrix.decoder = decoder ? EPS_DECODER_FULL : EPS_DECODER_ONLINE;
        struct eps_strategy *strategy = strategy_new(&mechanism);
        assert_int_equal(eps_strategy_variance(NULL, strategy, decoder ? full : online, NULL), EPS_OK);
        eps_strategy_destroy(strategy);
    }
    for (size_t t = 0; t < n; t++) {
        long double sum = 0;
        for (size_t l = 0; (t + 1) >> l; l++)
            if ((t + 1) >> l & 1)
                sum += ldexpl(1, (int)l) / (ldexpl(2, (int)l) - 1);
        assert_near(online[t], sum, 1e-10L);
        if (!(full[t] <= online[t] * (1 + 1e-9)))
            fail_msg("step %zu: full %.17g, online %.17g", t, full[t], online[t]);
        ones[t] = 1;
    }
    assert_near(full[n - 1], online[n - 1], 1e-10L);
    /* The same workload as a list of coefficients takes the other code path. */
    mechanism.workload = (struct eps_workload){.type = EPS_WORKLOAD_TOEPLITZ, .coefficients = ones};
    mechanism.workload.coefficients_len = n;
    struct eps_strategy *strategy = strategy_new(&mechanism);
    assert_int_equal(eps_strategy_variance(NULL, strategy, list, NULL), EPS_OK);
    for (size_t t = 0; t < n; t++)
        assert_near(list[t], full[t], 1e-9L);
    eps_strategy_destroy(strategy);
    free(online);
    free(full);
    free(list);
    free(ones);
}
