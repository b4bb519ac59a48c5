/*
 * The slow reference: the definitions, transcribed.
 *
 * SPDX-License-Identifier: GPL-3.0-or-later
 */
#include "tests/unit/matrices.h"

#include <math.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "lib/strategy/strategy.h"
#include "tests/unit/test.h"

struct matrix matrix_new(size_t rows, size_t columns)
{
    struct matrix m = {rows, columns, calloc(rows * columns, sizeof *m.at)};
    assert_non_null(m.at);
    return m;
}

void matrix_free(struct matrix *m)
{
    free(m->at);
    m->at = NULL;
}

struct matrix matrix_product(const struct matrix *a, const struct matrix *b)
{
    struct matrix m = matrix_new(a->rows, b->columns);
    for (size_t i = 0; i < m.rows; i++)
        for (size_t j = 0; j < m.columns; j++)
            for (size_t l = 0; l < a->columns; l++)
                *entry(&m, i, j) += *entry(a, i, l) * *entry(b, l, j);
    return m;
}

struct matrix matrix_gram(const struct matrix *a)
{
    struct matrix m = matrix_new(a->columns, a->columns);
    for (size_t i = 0; i < m.rows; i++)
        for (size_t j = 0; j < m.columns; j++)
            for (size_t l = 0; l < a->rows; l++)
                *entry(&m, i, j) += *entry(a, l, i) * *entry(a, l, j);
    return m;
}

struct matrix matrix_inverse(const struct matrix *a)
{
    size_t n = a->rows;
    struct matrix w = matrix_new(n, 2 * n), inverse = matrix_new(n, n);
    for (size_t i = 0; i < n; i++) {
        memcpy(entry(&w, i, 0), entry(a, i, 0), n * sizeof *w.at);
        *entry(&w, i, n + i) = 1;
    }
    for (size_t c = 0; c < n; c++) {
        size_t pivot = c;
        for (size_t i = c + 1; i < n; i++)
            if (fabsl(*entry(&w, i, c)) > fabsl(*entry(&w, pivot, c)))
                pivot = i;
        if (*entry(&w, pivot, c) == 0) {
            matrix_free(&w);
            matrix_free(&inverse);
            return inverse;
        }
        for (size_t j = 0; j < 2 * n; j++) {
            long double swap = *entry(&w, c, j);
            *entry(&w, c, j) = *entry(&w, pivot, j);
            *entry(&w, pivot, j) = swap;
        }
        for (size_t i = 0; i < n; i++) {
            long double factor = *entry(&w, i, c) / *entry(&w, c, c);
            for (size_t j = 0; j < 2 * n && i != c; j++)
                *entry(&w, i, j) -= factor * *entry(&w, c, j);
        }
    }
    for (size_t i = 0; i < n; i++)
        for (size_t j = 0; j < n; j++)
            *entry(&inverse, i, j) = *entry(&w, i, n + j) / *entry(&w, i, i);
    matrix_free(&w);
    return inverse;
}

struct matrix workload_matrix(const struct eps_mechanism *mechanism)
{
    const struct eps_workload *w = &mechanism->workload;
    size_t n = mechanism->n;
    struct matrix a = matrix_new(n, n);
    for (size_t t = 0; t < n; t++) {
        for (size_t j = 0; j <= t; j++) {
            if (w->type == EPS_WORKLOAD_PREFIX_SUM)
                *entry(&a, t, j) = 1;
            if (w->type == EPS_WORKLOAD_TOEPLITZ && t - j < w->coefficients_len)
                *entry(&a, t, j) = w->coefficients[t - j];
            for (size_t s = j; w->type == EPS_WORKLOAD_MOMENTUM && s <= t; s++) {
                long double start = (long double)w->cooldown_from * (long double)n, eta = 1;
                if (w->cooldown && (long double)s > start)
                    eta = 1 - (1 - (long double)w->cooldown_to) * ((long double)s - start) / ((long double)n - start);
                long double power = powl(w->decay, (long double)(t - s)) * powl(w->momentum, (long double)(s - j));
                *entry(&a, t, j) += eta * power;
            }
        }
    }
    return a;
}

/* The nodes under one subtree in post-order: children first. */
static size_t tree_rows(struct matrix *c, size_t row, size_t first, size_t leaves)
{
    if (leaves > 1) {
        row = tree_rows(c, row, first, leaves / 2);
        row = tree_rows(c, row, first + leaves / 2, leaves / 2);
    }
    for (size_t j = first; j < first + leaves && j < c->columns; j++)
        *entry(c, row, j) = 1;
    return row + 1;
}

static struct matrix one_block(const struct eps_mechanism *mechanism, size_t m)
{
    const struct eps_matrix *matrix = &mechanism->matrix;
    size_t leaves = 1;
    while (leaves < m)
        leaves *= 2;
    struct matrix c = matrix_new(matrix->family == EPS_FAMILY_TREE ? 2 * leaves - 1 : m, m);
    struct eps_mechanism unstamped = *mechanism;
    unstamped.n = m;
    struct matrix a = workload_matrix(&unstamped);
    long double *root = calloc(m, sizeof *root);
    assert_non_null(root);
    root[0] = sqrtl(*entry(&a, 0, 0));
    for (size_t t = 1; t < m; t++) {
        root[t] = *entry(&a, t, 0);
        for (size_t i = 1; i < t; i++)
            root[t] -= root[i] * root[t - i];
        root[t] /= 2 * root[0];
    }
    for (size_t i = 0; i < m; i++) {
        for (size_t j = 0; j < m; j++) {
            size_t lag = i - j;
            if (matrix->family == EPS_FAMILY_IDENTITY)
                *entry(&c, i, j) = i == j;
            else if (matrix->family == EPS_FAMILY_DENSE)
                *entry(&c, i, j) = matrix->rows[i * m + j];
            else if (matrix->family == EPS_FAMILY_TOEPLITZ && i >= j && lag < matrix->coefficients_len)
                *entry(&c, i, j) = matrix->coefficients[lag];
            else if (matrix->family == EPS_FAMILY_SQUARE_ROOT && i >= j && (!matrix->bands || lag < matrix->bands))
                *entry(&c, i, j) = root[lag];
        }
    }
    if (matrix->family == EPS_FAMILY_TREE)
        tree_rows(&c, 0, 0, leaves);
    free(root);
    matrix_free(&a);
    return c;
}

struct matrix family_matrix(const struct eps_mechanism *mechanism)
{
    size_t stamps = mechanism->matrix.stamps, m = mechanism->n / stamps;
    struct matrix block = one_block(mechanism, m), c = matrix_new(stamps * block.rows, mechanism->n);
    for (size_t s = 0; s < stamps; s++)
        for (size_t i = 0; i < block.rows; i++)
            memcpy(entry(&c, s * block.rows + i, s * m), entry(&block, i, 0), m * sizeof *c.at);
    matrix_free(&block);
    return c;
}

struct matrix part_matrix(const struct eps_strategy *strategy, enum eps_part part)
{
    size_t rows, columns;
    assert_int_equal(eps_strategy_shape(strategy, NULL, part, &rows, &columns), EPS_OK);
    struct matrix m = matrix_new(rows, columns);
    double *row = malloc(columns * sizeof *row);
    assert_non_null(row);
    for (size_t i = 0; i < rows; i++) {
        assert_int_equal(eps_strategy_row(strategy, row, NULL, part, i), EPS_OK);
        for (size_t j = 0; j < columns; j++)
            *entry(&m, i, j) = row[j];
    }
    free(row);
    return m;
}

struct eps_mechanism mechanism_new(enum eps_family family, size_t n)
{
    return (struct eps_mechanism){
        .n = n,
        .epochs = NAN,
        .matrix = {.family = family, .normalization = EPS_NORMALIZATION_NONE, .stamps = 1},
        .workload = {.type = EPS_WORKLOAD_PREFIX_SUM, .decay = 1},
        .sampling = {.scheme = EPS_SCHEME_NONE, .epochs = 1, .separation = n, .examples_per_user = 1},
    };
}

struct eps_strategy *strategy_new(const struct eps_mechanism *mechanism)
{
    struct eps_strategy *strategy = NULL;
    struct eps_error error = {0};
    if (eps_strategy_create(NULL, &strategy, &error, mechanism) != EPS_OK)
        fail_msg("%s: %s", error.pointer, error.message);
    return strategy;
}

void workload_choose(struct eps_mechanism *mechanism, int which)
{
    static const double weights[] = {1.5, 0.75, -0.25, 0.5, 0, 0.125};
    struct eps_workload *w = &mechanism->workload;
    *w = (struct eps_workload){.type = EPS_WORKLOAD_PREFIX_SUM, .decay = 1};
    if (which == 1 || which == 2)
        *w = (struct eps_workload){.type = EPS_WORKLOAD_MOMENTUM, .momentum = 0.9, .decay = 0.95};
    if (which == 2) {
        w->cooldown = true;
        w->cooldown_from = 0.4;
        w->cooldown_to = 0.05;
    }
    if (which == 3) {
        w->type = EPS_WORKLOAD_TOEPLITZ;
        w->coefficients = weights;
        w->coefficients_len = mechanism->n < 6 ? mechanism->n : 6;
    }
}

struct matrix matrix_left_inverse(const struct matrix *a)
{
    struct matrix gram = matrix_gram(a), inverse = matrix_inverse(&gram), out = matrix_new(a->columns, a->rows);
    assert_non_null(inverse.at);
    for (size_t i = 0; i < out.rows; i++)
        for (size_t j = 0; j < out.columns; j++)
            for (size_t l = 0; l < out.rows; l++)
                *entry(&out, i, j) += *entry(&inverse, i, l) * *entry(a, j, l);
    matrix_free(&gram);
    matrix_free(&inverse);
    return out;
}

static void check_near(long double got, long double wanted, long double tolerance, const char *what, size_t index)
{
    if (!(fabsl(got - wanted) <= tolerance * fmaxl(1, fabsl(wanted))))
        fail_msg("%s %zu: got %.17Lg, wanted %.17Lg", what, index, got, wanted);
}

static void check_part(const struct eps_strategy *strategy, enum eps_part part, const struct matrix *wanted,
                       long double tolerance)
{
    struct matrix got = part_matrix(strategy, part);
    assert_int_equal(got.rows, wanted->rows);
    assert_int_equal(got.columns, wanted->columns);
    for (size_t i = 0; i < got.rows * got.columns; i++)
        check_near(got.at[i], wanted->at[i], tolerance, eps_part_name(part), i);
    matrix_free(&got);
}

/* The encoder again by its bands, if it has any. */
static void check_bands(const struct eps_strategy *strategy, const struct matrix *encoder)
{
    size_t bands = eps_strategy_bands(strategy), n = eps_strategy_columns(strategy);
    double *band = malloc(bands * sizeof *band), *row = malloc(n * sizeof *row);
    struct eps_error error = {0};
    assert_true(band && row);
    bool lower = encoder->rows == n && bands > 1; /* trees of one leaf are square, too */
    for (size_t i = 0; i < encoder->rows && lower; i++)
        for (size_t j = i + 1; j < n; j++)
            lower = lower && *entry(encoder, i, j) == 0;
    if (!lower && bands > 1)
        assert_int_equal(eps_strategy_band_row(strategy, band, &error, 0), EPS_UNSUPPORTED);
    for (size_t i = 0; i < n && lower; i++) {
        assert_int_equal(eps_strategy_band_row(strategy, band, &error, i), EPS_OK);
        assert_int_equal(eps_strategy_row(strategy, row, &error, EPS_PART_ENCODER, i), EPS_OK);
        for (size_t d = 0; d < bands; d++)
            assert_true(band[d] == (d <= i ? row[i - d] : 0));
        for (size_t j = 0; j + bands <= i; j++)
            assert_true(row[j] == 0);
    }
    if (lower)
        assert_int_equal(eps_strategy_band_row(strategy, band, &error, n), EPS_INVALID);
    free(band);
    free(row);
}

void check_factorisation(const struct eps_strategy *strategy, const struct eps_mechanism *mechanism,
                         const struct matrix *encoder, const struct matrix *noise, long double tolerance)
{
    size_t n = mechanism->n;
    struct matrix a = workload_matrix(mechanism), b = matrix_product(&a, noise);
    double mean, max, last, *variance = malloc(n * sizeof *variance);
    long double norm = 0, sum = 0, largest = 0;
    assert_non_null(variance);
    check_part(strategy, EPS_PART_ENCODER, encoder, tolerance);
    check_bands(strategy, encoder);
    check_part(strategy, EPS_PART_NOISE, noise, tolerance);
    check_part(strategy, EPS_PART_DECODER, &b, tolerance);
    assert_int_equal(eps_strategy_variance(NULL, strategy, variance, NULL), EPS_OK);
    assert_int_equal(eps__strategy_error(NULL, strategy, mechanism, &mean, &max, &last), EPS_OK);
    for (size_t t = 0; t < n; t++) {
        norm = 0;
        for (size_t j = 0; j < b.columns; j++)
            norm += *entry(&b, t, j) * *entry(&b, t, j);
        check_near(variance[t], norm, tolerance, "variance", t);
        sum += norm;
        largest = fmaxl(largest, norm);
    }
    check_near(mean, sum / (long double)n, tolerance, "mean", 0);
    check_near(max, largest, tolerance, "max", 0);
    check_near(last, norm, tolerance, "last", 0);
    matrix_free(&a);
    matrix_free(&b);
    free(variance);
}

long double pattern_square(const struct matrix *gram, const struct eps_mechanism *mechanism, bool signs)
{
    size_t n = gram->rows, k = mechanism->sampling.epochs, b = mechanism->sampling.separation;
    bool fixed = mechanism->sampling.schema == EPS_SCHEMA_FIXED_ORDER,
         shuffled = mechanism->sampling.schema == EPS_SCHEMA_SHUFFLED;
    long double best = 0;
    for (size_t set = 1; set < (size_t)1 << n; set++) {
        size_t steps[32], count = 0;
        bool allowed = true;
        for (size_t j = 0; j < n; j++)
            if (set >> j & 1)
                steps[count++] = j;
        for (size_t i = 0; shuffled && i < count; i++)
            allowed = allowed && steps[i] / b < k && (i == 0 || steps[i] / b != steps[i - 1] / b);
        for (size_t i = 0; !shuffled && i + 1 < count; i++)
            allowed = allowed && (fixed ? steps[i + 1] - steps[i] == b : steps[i + 1] - steps[i] >= b);
        for (size_t sign = 0; allowed && count <= k && sign < (signs ? (size_t)1 << (count - 1) : 1); sign++) {
            long double square = 0;
            for (size_t i = 0; i < count; i++)
                for (size_t j = 0; j < count; j++)
                    square += ((sign >> i ^ sign >> j) & 1 ? -1 : 1) * *entry(gram, steps[i], steps[j]);
            best = fmaxl(best, square);
        }
    }
    return best;
}

double scatter(unsigned long long *state)
{
    *state = *state * 6364136223846793005u + 1442695040888963407u;
    return (double)(int64_t)(*state ^ (*state >> 31)) * 0x1p-63;
}
