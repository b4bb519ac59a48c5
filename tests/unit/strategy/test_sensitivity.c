/*
 * Sensitivities compared with exhaustive enumeration of patterns and signs, and with random unit vectors where
 * contributions are vectors.
 *
 * SPDX-License-Identifier: GPL-3.0-or-later
 */
#include <float.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "lib/strategy/sensitivity/sensitivity.h"
#include "tests/unit/matrices.h"
#include "tests/unit/test.h"

enum { MAX_N = 24 };

/* ---- brute force ---- */

/* The maximum over the patterns of one job, with the pair sums given. */
struct search {
    const struct matrix *x; /* C'C */
    size_t k, b;
    bool fixed, signs; /* signs: contributions +1 and -1; else all +1 */
    long double best;
};

static long double quadratic(const struct matrix *x, const size_t *steps, size_t count, unsigned signs)
{
    long double sum = 0;
    for (size_t i = 0; i < count; i++)
        for (size_t j = 0; j < count; j++)
            sum += (((signs >> i) ^ (signs >> j)) & 1 ? -1 : 1) * *entry(x, steps[i], steps[j]);
    return sum;
}

static void visit(struct search *search, size_t *steps, size_t count)
{
    unsigned last = search->signs && count > 1 ? 1u << (count - 1) : 1;
    for (unsigned signs = 0; signs < last; signs++)
        search->best = fmaxl(search->best, quadratic(search->x, steps, count, signs));
    if (count == search->k)
        return;
    size_t n = search->x->columns, first = count ? steps[count - 1] + search->b : 0;
    for (size_t next = first; next < n; next++) {
        steps[count] = next;
        visit(search, steps, count + 1);
        if (search->fixed && count)
            break;
    }
}

/* Every pattern of at most k steps, b apart. A sub-pattern is never worse with free signs, nor where X >= 0. */
static long double enumerate(const struct matrix *x, const struct eps_mechanism *m, bool signs)
{
    size_t steps[MAX_N];
    struct search search = {
        x, m->sampling.epochs, m->sampling.separation, m->sampling.schema == EPS_SCHEMA_FIXED_ORDER, signs, 0};
    visit(&search, steps, 0);
    return search.best;
}

static struct eps_sensitivity sensitivity_of(const struct eps_mechanism *m)
{
    struct eps_sensitivity sensitivity = {0};
    struct eps_error error = {0};
    struct eps_strategy *strategy = strategy_new(m);
    if (eps__strategy_sensitivity(NULL, &sensitivity, &error, strategy, m) != EPS_OK)
        fail_msg("%s: %s", error.pointer, error.message);
    eps_strategy_destroy(strategy);
    assert_true(sensitivity.lower <= sensitivity.value);
    assert_true(sensitivity.value > 0);
    return sensitivity;
}

/* An exact rule: the enumerated maximum lies between the two bounds, which are close. */
static void assert_exact(const struct eps_sensitivity *s, long double square)
{
    assert_true(s->exact);
    long double root = sqrtl(square);
    if (!(root <= s->value * (1 + 4 * LDBL_EPSILON) && root >= s->lower * (1 - 4 * LDBL_EPSILON)))
        fail_msg("%s: %.20Lg is outside [%.17g, %.17g]", s->rule, root, s->lower, s->value);
    assert_true(s->value - s->lower <= 1e-9 * s->value);
}

static void assert_bound(const struct eps_sensitivity *s, long double square, double factor)
{
    if (!(sqrtl(square) <= s->value * (1 + 4 * LDBL_EPSILON)))
        fail_msg("%s: the bound %.17g is under %.20Lg", s->rule, s->value, sqrtl(square));
    if (!(s->value <= factor * (double)sqrtl(square)))
        fail_msg("%s: the bound %.17g is far over %.20Lg", s->rule, s->value, sqrtl(square));
}

/* ---- tests ---- */

TEST(the_examples_of_the_papers)
{
    /* More than b patterns when n > k b: the fourth one contains the large entry. */
    double diagonal[36] = {0};
    for (size_t i = 0; i < 6; i++)
        diagonal[i * 7] = i == 5 ? 3 : 1;
    struct eps_mechanism m = mechanism_new(EPS_FAMILY_DENSE, 6);
    m.matrix.rows = diagonal;
    m.matrix.rows_n = 6;
    m.sampling.epochs = 2;
    m.sampling.separation = 2;
    struct eps_sensitivity s = sensitivity_of(&m);
    assert_exact(&s, 10);

    /* X = I/4 with -1/8 off the diagonal (MEMF H.2): 1.125, where the three rules of the paper give 1.5, 1.125 and
     * 1.571. */
    double x[9], upper = 0.25 + 0.125;
    for (size_t i = 0; i < 9; i++)
        x[i] = i % 4 ? -0.125 : 0.25;
    struct eps__square square;
    assert_true(eps__gram_square(&square, x, 3, 0));
    assert_true(square.exact);
    assert_true(square.value.upper >= 1.125 && square.value.upper < 1.125 * (1 + 1e-10));
    assert_true(square.value.lower <= 1.125);
    struct eps__interval semidefinite;
    assert_true(eps__semidefinite_square(&semidefinite, x, 3));
    assert_true(semidefinite.upper >= 3 * upper && semidefinite.upper <= 3 * upper * (1 + 1e-10));
}

TEST(plain_cases_are_exact_to_the_last_bit)
{
    struct eps_mechanism m = mechanism_new(EPS_FAMILY_IDENTITY, 1000000);
    struct eps_sensitivity s = sensitivity_of(&m);
    assert_true(s.value == 1 && s.lower == 1 && s.exact);
    assert_string_equal(s.rule, "column_norm");
    m.sampling.epochs = 16;
    m.sampling.separation = 100;
    s = sensitivity_of(&m);
    assert_true(s.value == 4 && s.lower == 4 && s.exact);
    assert_string_equal(s.rule, "banded_columns");
    m.adjacency = EPS_ADJACENCY_REPLACE_ONE;
    s = sensitivity_of(&m);
    assert_true(s.value == 8);
    m.adjacency = EPS_ADJACENCY_ZERO_OUT;
    m.sampling.schema = EPS_SCHEMA_MIN_SEPARATION;
    s = sensitivity_of(&m);
    assert_true(s.value == 4);
    /* No sampling: every step, 3 examples each. */
    m.sampling.scheme = EPS_SCHEME_POISSON;
    m.sampling.examples_per_user = 3;
    s = sensitivity_of(&m);
    assert_true(s.value == 3000);
    m = mechanism_new(EPS_FAMILY_TREE, 8);
    s = sensitivity_of(&m);
    assert_true(s.value == 2);
}

/* Random entries >= 0, some zero, lower triangular. */
static void random_nonnegative(double *rows, size_t m, unsigned long long *state)
{
    for (size_t i = 0; i < m; i++)
        for (size_t j = 0; j < m; j++) {
            double x = scatter(state);
            rows[i * m + j] = j <= i ? fmax(x + (i == j), 0) : 0;
        }
}

TEST(nonnegative_strategies_are_exact)
{
    unsigned long long state = 7;
    double coefficients[MAX_N], rows[MAX_N * MAX_N];
    for (int trial = 0; trial < 600; trial++) {
        size_t block = 1 + (size_t)trial % 7, stamps = 1 + (size_t)trial / 7 % 3, n = block * stamps;
        static const enum eps_family families[] = {EPS_FAMILY_TOEPLITZ, EPS_FAMILY_DENSE, EPS_FAMILY_TREE,
                                                   EPS_FAMILY_SQUARE_ROOT};
        struct eps_mechanism m = mechanism_new(families[trial % 4], n);
        for (size_t i = 0; i < block; i++)
            coefficients[i] = fabs(scatter(&state));
        random_nonnegative(rows, block, &state);
        m.matrix.stamps = stamps;
        m.matrix.coefficients = coefficients;
        m.matrix.coefficients_len = block;
        m.matrix.rows = rows;
        m.matrix.rows_n = block;
        struct matrix c = family_matrix(&m), x = matrix_gram(&c);
        for (size_t b = 1; b <= n; b++)
            for (size_t k = 1; (k - 1) * b < n; k++) {
                m.sampling.epochs = k;
                m.sampling.separation = b;
                struct eps_sensitivity s = sensitivity_of(&m);
                if (enumerate(&x, &m, false) > 0)
                    assert_exact(&s, enumerate(&x, &m, false));
            }
        matrix_free(&c);
        matrix_free(&x);
    }
}

TEST(signed_strategies_are_bounded)
{
    unsigned long long state = 11;
    double coefficients[MAX_N], rows[MAX_N * MAX_N];
    for (int trial = 0; trial < 60; trial++) {
        size_t block = 2 + (size_t)trial % 6, stamps = 1 + (size_t)trial / 6 % 2, n = block * stamps;
        struct eps_mechanism m = mechanism_new(trial % 2 ? EPS_FAMILY_TOEPLITZ : EPS_FAMILY_DENSE, n);
        for (size_t i = 0; i < MAX_N; i++)
            coefficients[i] = scatter(&state);
        for (size_t i = 0; i < block * block; i++)
            rows[i] = scatter(&state);
        m.matrix.stamps = stamps;
        m.matrix.coefficients = coefficients;
        m.matrix.coefficients_len = block;
        m.matrix.rows = rows;
        m.matrix.rows_n = block;
        struct matrix c = family_matrix(&m), x = matrix_gram(&c);
        for (size_t b = 1; b <= n; b++)
            for (size_t k = 1; (k - 1) * b < n; k++) {
                m.sampling.epochs = k;
                m.sampling.separation = b;
                struct eps_sensitivity s = sensitivity_of(&m);
                /* Vectors gain at most the square root of pi/2 over signs. */
                assert_bound(&s, enumerate(&x, &m, true), sqrt(M_PI_2) * (1 + 1e-9));
                if (k <= 2)
                    assert_exact(&s, enumerate(&x, &m, true));
            }
        matrix_free(&c);
        matrix_free(&x);
    }
}

TEST(min_separation_is_exact_or_bounded)
{
    unsigned long long state = 13;
    double coefficients[MAX_N], rows[MAX_N * MAX_N];
    size_t exact = 0, bounded = 0;
    for (int trial = 0; trial < 120; trial++) {
        size_t block = 3 + (size_t)trial % 3, stamps = 1 + (size_t)trial / 12 % 2, n = block * stamps;
        static const enum eps_family families[] = {EPS_FAMILY_TOEPLITZ, EPS_FAMILY_DENSE, EPS_FAMILY_TREE,
                                                   EPS_FAMILY_SQUARE_ROOT};
        struct eps_mechanism m = mechanism_new(families[trial % 4], n);
        size_t bands = 1 + (size_t)trial / 4 % 3;
        for (size_t i = 0; i < block; i++)
            coefficients[i] = i < bands ? scatter(&state) : 0;
        for (size_t i = 0; i < block * block; i++)
            rows[i] = i / block >= i % block && i / block - i % block < bands ? scatter(&state) : 0;
        m.matrix.stamps = stamps;
        m.matrix.bands = bands;
        m.matrix.coefficients = coefficients;
        m.matrix.coefficients_len = block;
        m.matrix.rows = rows;
        m.matrix.rows_n = block;
        m.sampling.schema = EPS_SCHEMA_MIN_SEPARATION;
        struct matrix c = family_matrix(&m), x = matrix_gram(&c);
        for (size_t b = 1; b <= n; b++)
            for (size_t k = 1; (k - 1) * b < n && k <= 6; k++) {
                m.sampling.epochs = k;
                m.sampling.separation = b;
                struct eps_sensitivity s = sensitivity_of(&m);
                long double truth = enumerate(&x, &m, true);
                if (s.exact)
                    assert_exact(&s, truth);
                else
                    assert_bound(&s, truth, 2);
                exact += s.exact;
                bounded += !s.exact;
                if (m.matrix.family == EPS_FAMILY_SQUARE_ROOT && stamps == 1)
                    assert_true(s.exact);
            }
        matrix_free(&c);
        matrix_free(&x);
    }
    assert_true(exact > 100 && bounded > 100);
}

/* The row bound beyond what k allows: the search for the multiplier loses nothing against a plain maximum. */
TEST(the_row_bound_is_the_best_separated_sum)
{
    unsigned long long state = 17;
    double rows[12 * 12];
    for (int trial = 0; trial < 40; trial++) {
        for (size_t i = 0; i < 144; i++)
            rows[i] = i / 12 >= i % 12 ? scatter(&state) : 0;
        struct eps_mechanism m = mechanism_new(EPS_FAMILY_DENSE, 12);
        m.matrix.rows = rows;
        m.matrix.rows_n = 12;
        m.sampling.schema = EPS_SCHEMA_MIN_SEPARATION;
        m.sampling.epochs = 2 + (size_t)trial % 4;
        m.sampling.separation = 1 + (size_t)trial % 3;
        struct matrix c = family_matrix(&m), x = matrix_gram(&c), y = matrix_new(12, 12), z = matrix_new(12, 12);
        struct eps_mechanism others = m;
        /* v_i: the best pattern of the others, each with an orthogonal column of its own. */
        for (size_t i = 0; i < 12; i++) {
            others.sampling.epochs = m.sampling.epochs - 1;
            memset(y.at, 0, 144 * sizeof *y.at);
            for (size_t j = 0; j < 12; j++)
                if (j >= i + m.sampling.separation || i >= j + m.sampling.separation)
                    *entry(&y, j, j) = fabsl(*entry(&x, i, j));
            *entry(&z, i, i) = *entry(&x, i, i) + enumerate(&y, &others, false);
        }
        long double wanted = sqrtl(enumerate(&z, &m, false));
        struct eps_sensitivity s = sensitivity_of(&m);
        assert_string_equal(s.rule, "row_bound");
        assert_true(s.value >= wanted * (1 - 4 * LDBL_EPSILON) && s.value <= wanted * (1 + 1e-9L));
        matrix_free(&c);
        matrix_free(&x);
        matrix_free(&y);
        matrix_free(&z);
    }
}

/* The largest eigenvalue by power iteration: a lower bound, close. */
static double power_iteration(const double *x, size_t k)
{
    double v[64], w[64], value = 0;
    for (size_t i = 0; i < k; i++)
        v[i] = 1 + 0.1 * (double)i;
    for (int step = 0; step < 2000; step++) {
        double norm = 0;
        for (size_t i = 0; i < k; i++) {
            w[i] = 0;
            for (size_t j = 0; j < k; j++)
                w[i] += x[i * k + j] * v[j];
            norm += w[i] * w[i];
        }
        value = sqrt(norm);
        for (size_t i = 0; i < k; i++)
            v[i] = w[i] / value;
    }
    return value;
}

/* The sum of x_ij <g_i, g_j> for random unit vectors, improved by a few exact coordinate steps. */
static double random_assignment(const double *x, size_t k, unsigned long long *state)
{
    double g[16][16], h[16], value = 0;
    size_t dimension = 1 + (size_t)(fabs(scatter(state)) * (double)k);
    for (size_t i = 0; i < k; i++) {
        double norm = 0;
        for (size_t r = 0; r < dimension; r++) {
            g[i][r] = scatter(state);
            norm += g[i][r] * g[i][r];
        }
        for (size_t r = 0; r < dimension; r++)
            g[i][r] /= sqrt(norm);
    }
    for (size_t step = 0; step < 3 * k; step++) {
        size_t i = step % k;
        double norm = 0;
        for (size_t r = 0; r < dimension; r++) {
            h[r] = 0;
            for (size_t j = 0; j < k; j++)
                h[r] += j == i ? 0 : x[i * k + j] * g[j][r];
            norm += h[r] * h[r];
        }
        for (size_t r = 0; r < dimension && norm > 0; r++)
            g[i][r] = h[r] / sqrt(norm);
    }
    for (size_t i = 0; i < k; i++)
        for (size_t j = 0; j < k; j++)
            for (size_t r = 0; r < dimension; r++)
                value += x[i * k + j] * g[i][r] * g[j][r];
    return value;
}

static void random_gram(double *x, size_t k, size_t rank, unsigned long long *state)
{
    double c[16][16];
    for (size_t r = 0; r < rank; r++)
        for (size_t i = 0; i < k; i++)
            c[r][i] = scatter(state);
    for (size_t i = 0; i < k; i++)
        for (size_t j = 0; j < k; j++) {
            x[i * k + j] = 0;
            for (size_t r = 0; r < rank; r++)
                x[i * k + j] += c[r][i] * c[r][j];
        }
}

TEST(the_semidefinite_bound_is_a_bound_and_the_best)
{
    unsigned long long state = 19;
    double x[256];
    size_t exact = 0, trials = 200;
    for (size_t trial = 0; trial < trials; trial++) {
        size_t k = 3 + trial % 12, steps[16];
        random_gram(x, k, 1 + trial % 16 % (k + 1), &state);
        struct eps__interval bound;
        struct eps__square best;
        assert_true(eps__semidefinite_square(&bound, x, k));
        assert_true(eps__gram_square(&best, x, k, 0));
        struct matrix gram = matrix_new(k, k);
        double absolute = 0, tolerance = 1e-9 * bound.upper;
        for (size_t i = 0; i < k * k; i++) {
            gram.at[i] = x[i];
            absolute += fabs(x[i]);
            steps[i % k] = i % k;
        }
        long double signs = 0;
        for (unsigned u = 0; u < 1u << (k - 1); u++)
            signs = fmaxl(signs, quadratic(&gram, steps, k, u));
        assert_true(bound.upper >= signs && best.value.upper >= signs);
        for (int i = 0; i < 20; i++)
            assert_true(random_assignment(x, k, &state) <= best.value.upper * (1 + 1e-14));
        assert_true(bound.lower <= bound.upper);
        assert_true(bound.upper <= absolute + tolerance);
        assert_true(bound.upper <= (double)k * power_iteration(x, k) * (1 + 1e-6));
        assert_true(bound.upper <= M_PI_2 * (double)signs + tolerance);
        assert_true(best.value.upper <= bound.upper);
        exact += best.exact;
        matrix_free(&gram);
    }
    assert_true(exact > trials * 9 / 10);
}

/* X = (1 + c) I - c 1 1' with c = 1/(k-1): unit vectors with sum 0 are best, and give k (1 + c). */
TEST(the_semidefinite_bound_of_the_simplex)
{
    for (size_t k = 3; k <= 48; k += 5) {
        double *x = malloc(k * k * sizeof *x), c = 1 / (double)(k - 1), wanted = (double)k * (1 + c);
        assert_non_null(x);
        for (size_t i = 0; i < k * k; i++)
            x[i] = i % (k + 1) ? -c : 1;
        struct eps__square square;
        assert_true(eps__gram_square(&square, x, k, 0));
        assert_true(square.exact);
        assert_true(square.value.upper >= wanted * (1 - 1e-15) && square.value.upper <= wanted * (1 + 1e-9));
        free(x);
    }
}

/* Multipliers that are too low are shifted until they are proven; the shift is the deficit. */
TEST(multipliers_are_certified)
{
    double x[16], d[4] = {0}, work[16], values[4];
    for (size_t i = 0; i < 16; i++)
        x[i] = i % 5 ? 0.5 : 1;
    double bound = eps__semidefinite_certify(x, d, 4, work, values);
    assert_true(bound >= 10 && bound < 10.001);
    for (size_t i = 0; i < 4; i++)
        d[i] = 2.5;
    bound = eps__semidefinite_certify(x, d, 4, work, values);
    assert_true(bound >= 10 && bound < 10 * (1 + 1e-12));
}

TEST(sampled_schemes_take_their_worst_pattern)
{
    static const double coefficients[] = {1, 0.5, 0.25}, negative[] = {1, -0.5};
    struct eps_mechanism m = mechanism_new(EPS_FAMILY_TOEPLITZ, 12), every = m;
    m.matrix.coefficients = coefficients;
    m.matrix.coefficients_len = 3;
    struct matrix c = family_matrix(&m), x = matrix_gram(&c);
    m.sampling = (struct eps_sampling){.scheme = EPS_SCHEME_CYCLIC_POISSON, .p = 0.5, .groups = 2};
    every.sampling.epochs = 6;
    every.sampling.separation = 2;
    struct eps_sensitivity s = sensitivity_of(&m);
    assert_exact(&s, enumerate(&x, &every, false));
    m.sampling = (struct eps_sampling){.scheme = EPS_SCHEME_BALLS_IN_BINS, .bins = 2};
    s = sensitivity_of(&m);
    assert_exact(&s, enumerate(&x, &every, false));
    m.sampling = (struct eps_sampling){.scheme = EPS_SCHEME_B_MIN_SEP, .p = 0.5, .separation = 2};
    every.sampling.schema = EPS_SCHEMA_MIN_SEPARATION;
    s = sensitivity_of(&m);
    assert_exact(&s, enumerate(&x, &every, false));
    matrix_free(&c);
    matrix_free(&x);
    m.sampling = (struct eps_sampling){.scheme = EPS_SCHEME_POISSON, .p = 0.5, .truncation = true};
    struct eps_strategy *strategy = strategy_new(&m);
    struct eps_error error;
    /* a truncated batch: one more example may replace another; else the batch is drawn alike */
    static const double most[EPS_ADJACENCY_COUNT] = {
        [EPS_ADJACENCY_ZERO_OUT] = 1, [EPS_ADJACENCY_ADD_REMOVE] = 2, [EPS_ADJACENCY_REPLACE_ONE] = 2};
    m.sampling.truncation = false;
    double plain = sensitivity_of(&m).value;
    m.sampling.truncation = true;
    for (int adjacency = 0; adjacency < EPS_ADJACENCY_COUNT; adjacency++) {
        m.adjacency = (enum eps_adjacency)adjacency;
        assert_true(fabs(sensitivity_of(&m).value - most[adjacency] * plain) < 1e-12 * plain);
    }
    m.adjacency = EPS_ADJACENCY_ZERO_OUT;
    eps_strategy_destroy(strategy);
    m.matrix.coefficients = negative;
    m.matrix.coefficients_len = 2;
    m.sampling.truncation = false;
    strategy = strategy_new(&m);
    assert_int_equal(eps__strategy_sensitivity(NULL, &s, &error, strategy, &m), EPS_UNSUPPORTED);
    assert_string_equal(error.pointer, "/matrix");
    eps_strategy_destroy(strategy);
}

/* At n = 2^20 the windows are compared with plain sums in long double. */
TEST(long_streams_have_proven_sensitivities)
{
    size_t n = (size_t)1 << 20;
    double *c = malloc(n * sizeof *c);
    assert_non_null(c);
    struct eps_mechanism m = mechanism_new(EPS_FAMILY_SQUARE_ROOT, n);
    struct eps_strategy *strategy = strategy_new(&m);
    assert_int_equal(eps_strategy_coefficients(strategy, c, NULL, EPS_PART_ENCODER, n), EPS_OK);
    eps_strategy_destroy(strategy);
    static const size_t epochs[] = {2, 7, 64};
    for (size_t e = 0; e < 3; e++) {
        size_t k = epochs[e], b = n / k / 2;
        m.sampling.epochs = k;
        m.sampling.separation = b;
        long double sum = 0;
        for (size_t u = 0; u < n; u++) {
            long double v = 0;
            for (size_t i = 0; i < k && i * b <= u; i++)
                v += c[u - i * b];
            sum += v * v;
        }
        struct eps_sensitivity s = sensitivity_of(&m);
        assert_exact(&s, sum);
        assert_true(s.value - s.lower <= 1e-14 * s.value);
        m.sampling.schema = EPS_SCHEMA_MIN_SEPARATION;
        s = sensitivity_of(&m);
        assert_exact(&s, sum);
        assert_string_equal(s.rule, "decreasing_toeplitz");
        m.sampling.schema = EPS_SCHEMA_FIXED_ORDER;
    }
    free(c);
}

/* Patterns longer than any Gram matrix: |C| instead of C. */
TEST(very_long_signed_patterns_are_bounded)
{
    static const double coefficients[] = {1, -0.5};
    struct eps_mechanism m = mechanism_new(EPS_FAMILY_TOEPLITZ, 10000);
    m.matrix.coefficients = coefficients;
    m.matrix.coefficients_len = 2;
    m.sampling.epochs = 10000;
    m.sampling.separation = 1;
    struct eps_sensitivity s = sensitivity_of(&m);
    assert_string_equal(s.rule, "absolute_entries");
    assert_false(s.exact);
    assert_true(fabs(s.value - sqrt(1 + 9999 * 2.25)) < 1e-9);
}

static struct eps_mechanism shuffled_mechanism(enum eps_family family, size_t n, size_t epochs, size_t separation)
{
    struct eps_mechanism m = mechanism_new(family, n);
    m.sampling.schema = EPS_SCHEMA_SHUFFLED;
    m.sampling.epochs = epochs;
    m.sampling.separation = separation;
    return m;
}

/* Every pattern by enumeration, for strategies of every shape; the bound that follows from distances alone is looser,
 * but no lower. */
TEST(once_in_every_epoch)
{
    static const enum eps_family families[] = {EPS_FAMILY_IDENTITY, EPS_FAMILY_SQUARE_ROOT, EPS_FAMILY_TREE,
                                               EPS_FAMILY_INVERSE_SQUARE_ROOT, EPS_FAMILY_FOURIER};
    static const size_t epochs[] = {1, 2, 3, 4, 12}, lengths[] = {12, 6, 3, 2, 1};
    for (size_t f = 0; f < sizeof families / sizeof *families; f++)
        for (size_t e = 0; e < 5; e++)
            for (size_t stamps = 1; stamps <= 3; stamps += 2) {
                struct eps_mechanism m = shuffled_mechanism(families[f], 12, epochs[e], lengths[e]);
                m.matrix.bands = families[f] == EPS_FAMILY_INVERSE_SQUARE_ROOT ? 3 : m.matrix.bands;
                m.matrix.stamps = families[f] == EPS_FAMILY_FOURIER ? 1 : stamps;
                struct eps_strategy *strategy = strategy_new(&m);
                struct matrix c = part_matrix(strategy, EPS_PART_ENCODER), gram = matrix_gram(&c);
                long double square = pattern_square(&gram, &m, true);
                struct eps_sensitivity s = sensitivity_of(&m);
                assert_bound(&s, square, 1.35);
                if (s.exact)
                    assert_exact(&s, square);
                matrix_free(&c);
                matrix_free(&gram);
                eps_strategy_destroy(strategy);
            }
    /* the best column of each epoch, where none overlap: the fourth step is in no epoch */
    double diagonal[16] = {[0] = 2, [5] = 1, [10] = 3, [15] = 9};
    struct eps_mechanism m = shuffled_mechanism(EPS_FAMILY_DENSE, 4, 3, 1);
    m.matrix.rows = diagonal;
    m.matrix.rows_n = 4;
    struct eps_sensitivity s = sensitivity_of(&m);
    assert_exact(&s, 14);
    m = shuffled_mechanism(EPS_FAMILY_IDENTITY, 1 << 20, 1024, 1024);
    s = sensitivity_of(&m);
    assert_true(s.exact && s.value == 32 && s.lower == 32);
}

/* Long Toeplitz matrices use distances: at least the Gram matrix's value for short ones, and at least that of a pattern
 * found by hand. */
TEST(long_epochs_go_by_distances)
{
    struct eps_mechanism m = shuffled_mechanism(EPS_FAMILY_SQUARE_ROOT, 1200000, 4, 300000);
    m.matrix.bands = 64;
    struct eps_sensitivity s = sensitivity_of(&m);
    assert_string_equal(s.rule, "toeplitz_epochs");
    double c[64], norm = 0, next = 0;
    c[0] = 1;
    for (size_t i = 1; i < 64; i++)
        c[i] = c[i - 1] * ((double)i - 0.5) / (double)i;
    for (size_t i = 0; i < 64; i++) {
        norm += c[i] * c[i];
        next += i > 0 ? c[i] * c[i - 1] : 0;
    }
    /* two pairs of neighbours; the bound allows every step one */
    assert_bound(&s, 4 * norm + 4 * next, 1 + 1e-12);
    m.sampling.epochs = 3;
    s = sensitivity_of(&m);
    assert_bound(&s, 3 * norm + 2 * next, sqrt((3 * norm + 3 * next) / (3 * norm + 2 * next)) * (1 + 1e-12));
    /* short epochs: many overlap with each other; the first step of each */
    m.sampling.epochs = 600000;
    m.sampling.separation = 2;
    s = sensitivity_of(&m);
    assert_string_equal(s.rule, "toeplitz_epochs");
    long double square = 0, even = 0, odd = 0;
    for (size_t i = 0; i < 64; i++) {
        *(i % 2 ? &odd : &even) += c[i];
        if (i < 62)
            square += i % 2 ? odd * odd : even * even;
    }
    assert_bound(&s, square + 599969 * (even * even + odd * odd), 1.1);
}
