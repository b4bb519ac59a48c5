/*
 * The optimal factorisation at small n, where everything can be checked independently: the reported loss compared with
 * that of C, decomposed in long double, with its sensitivity by enumerating patterns; its lower bound with every
 * feasible matrix that random search finds; the dual's gradients with differences; the gap, closed, for every workload,
 * objective and constraint, with disjoint and with overlapping patterns; the constraints themselves; progress and
 * cancellation.
 *
 * SPDX-License-Identifier: GPL-3.0-or-later
 */
#include <math.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "lib/strategy/decoder.h"
#include "lib/strategy/making.h"
#include "lib/strategy/optimise/optimal.h"
#include "lib/strategy/sensitivity/sensitivity.h"
#include "tests/unit/matrices.h"
#include "tests/unit/test.h"

struct setting {
    size_t n, epochs, separation;
    int workload; /* as workload_choose() */
    bool nonnegative, max_squared;
    double gap;
};

static const struct setting settings[] = {
    {1, 1, 1, 0, true, false, 1e-6},    {2, 1, 2, 0, true, false, 1e-8},    {6, 3, 2, 0, true, false, 1e-6},
    {6, 3, 2, 1, true, false, 1e-6},    {6, 3, 2, 1, false, false, 1e-6},   {24, 1, 24, 0, true, true, 1e-4},
    {24, 1, 1, 3, false, false, 1e-5},  {24, 4, 6, 0, true, true, 1e-3},    {24, 4, 6, 2, true, false, 1e-4},
    {24, 4, 6, 3, false, false, 1e-4},  {25, 4, 7, 0, true, false, 1e-4},   {26, 4, 6, 0, false, false, 1e-4},
    {30, 3, 4, 1, false, false, 1e-3},  {30, 2, 5, 0, true, true, 1e-3},    {20, 20, 1, 0, true, false, 1e-4},
    {30, 3, 10, 2, false, false, 1e-5}, {24, 24, 1, 1, false, false, 1e-3},
};

enum { SETTINGS = sizeof settings / sizeof *settings };

static struct eps_mechanism mechanism_of(const struct setting *setting)
{
    struct eps_mechanism m = mechanism_new(EPS_FAMILY_OPTIMAL, setting->n);
    if (setting->workload)
        workload_choose(&m, setting->workload);
    /* The shared list of coefficients has its own length. */
    if (m.workload.coefficients_len > setting->n)
        m.workload.coefficients_len = setting->n;
    m.matrix.epochs = setting->epochs;
    m.matrix.separation = setting->separation;
    m.matrix.nonnegative = setting->nonnegative;
    m.matrix.objective = setting->max_squared ? EPS_OBJECTIVE_MAX_SQUARED : EPS_OBJECTIVE_MEAN_SQUARED;
    m.matrix.gap = setting->gap;
    return m;
}

/* The largest sum of |X_ij| over a pattern, by enumeration. */
static long double fullest_pattern(const struct matrix *x, size_t epochs, size_t separation)
{
    long double fullest = 0;
    size_t n = x->rows;
    for (size_t s = 0; s < n; s++) {
        long double sum = 0;
        for (size_t c = 0, i = s; c < epochs && i < n; c++, i += separation)
            for (size_t d = 0, j = s; d < epochs && j < n; d++, j += separation)
                sum += fabsl(*entry(x, i, j));
        fullest = fmaxl(fullest, sum);
    }
    return fullest;
}

/* The loss of C, sensitivity included, and X = C'C. */
static long double loss_of(const struct matrix *c, const struct eps_mechanism *m, struct matrix *x)
{
    struct matrix a = workload_matrix(m), inverse = matrix_inverse(c), b = matrix_product(&a, &inverse);
    long double total = 0, largest = 0;
    for (size_t t = 0; t < m->n; t++) {
        long double square = 0;
        for (size_t j = 0; j < m->n; j++)
            square += *entry(&b, t, j) * *entry(&b, t, j);
        total += square;
        largest = fmaxl(largest, square);
    }
    *x = matrix_gram(c);
    matrix_free(&a);
    matrix_free(&inverse);
    matrix_free(&b);
    return fullest_pattern(x, m->matrix.epochs, m->matrix.separation) *
           (m->matrix.objective == EPS_OBJECTIVE_MAX_SQUARED ? largest : total / (long double)m->n);
}

static void assert_constraints(const struct matrix *x, const struct setting *setting)
{
    long double largest = 0;
    for (size_t i = 0; i < setting->n; i++)
        largest = fmaxl(largest, *entry(x, i, i));
    for (size_t i = 0; i < setting->n; i++) {
        for (size_t j = 0; j < i; j++) {
            bool one = (i - j) % setting->separation == 0 && (i - j) / setting->separation < setting->epochs;
            if (one || setting->nonnegative)
                assert_true(*entry(x, i, j) >= -1e-13L * largest);
        }
    }
}

TEST(gaps_close_and_losses_are_true)
{
    for (size_t i = 0; i < SETTINGS; i++) {
        struct eps_mechanism m = mechanism_of(&settings[i]);
        struct eps_strategy *strategy = strategy_new(&m);
        struct matrix c = part_matrix(strategy, EPS_PART_ENCODER), x;
        double gap = eps_strategy_optimality_gap(strategy);
        if (!(gap > 0 && gap <= settings[i].gap))
            fail_msg("setting %zu: gap %g of %g after %zu iterations", i, gap, settings[i].gap,
                     eps_strategy_iterations(strategy));
        assert_true(eps_strategy_iterations(strategy) > 0);
        assert_true(eps__strategy_lower_triangular(strategy));
        long double loss = loss_of(&c, &m, &x);
        assert_constraints(&x, &settings[i]);
        /* The same problem to a finer gap: never better than the first one's bound allows. */
        struct setting finer = settings[i];
        finer.gap /= 3;
        struct eps_mechanism again = mechanism_of(&finer);
        struct eps_strategy *other = strategy_new(&again);
        struct matrix c2 = part_matrix(other, EPS_PART_ENCODER), x2;
        long double better = loss_of(&c2, &again, &x2);
        assert_true(better >= loss / (1 + (long double)gap) * (1 - 1e-12L));
        assert_true(loss >= better / (1 + (long double)eps_strategy_optimality_gap(other)) * (1 - 1e-12L));
        matrix_free(&c);
        matrix_free(&x);
        matrix_free(&c2);
        matrix_free(&x2);
        eps_strategy_destroy(strategy);
        eps_strategy_destroy(other);
    }
}

/* Where the search ends early for lack of precision, the reported gap still holds. */
TEST(a_gap_not_reached_is_still_proven)
{
    struct setting setting = {40, 4, 10, 2, true, true, 1e-4}, rough = setting;
    rough.gap = 0.05;
    struct eps_mechanism m = mechanism_of(&setting), other = mechanism_of(&rough);
    struct eps_strategy *strategy = strategy_new(&m), *second = strategy_new(&other);
    struct matrix c = part_matrix(strategy, EPS_PART_ENCODER), x, c2 = part_matrix(second, EPS_PART_ENCODER), x2;
    long double loss = loss_of(&c, &m, &x), loss2 = loss_of(&c2, &other, &x2);
    double gap = eps_strategy_optimality_gap(strategy), gap2 = eps_strategy_optimality_gap(second);
    assert_true(gap > 0 && gap <= 0.05 && gap2 > 0 && gap2 <= 0.05);
    assert_true(loss2 >= loss / (1 + (long double)gap) * (1 - 1e-12L));
    assert_true(loss >= loss2 / (1 + (long double)gap2) * (1 - 1e-12L));
    matrix_free(&c);
    matrix_free(&x);
    matrix_free(&c2);
    matrix_free(&x2);
    eps_strategy_destroy(strategy);
    eps_strategy_destroy(second);
}

/* F2: entries of U = L L' that are not 0 while their rounded sums are, in either order of summation. */
TEST(a_cancelled_zero_is_not_exact)
{
    enum { N = 4 };
    struct eps_mechanism m = mechanism_new(EPS_FAMILY_OPTIMAL, N);
    struct eps__workload workload;
    assert_int_equal(eps__workload_init(&workload, NULL, &m), EPS_OK);
    for (int constraint = 0; constraint < 2; constraint++) {
        struct eps__optimal o = {
            .workload = &workload, .n = N, .epochs = 1, .separation = N, .starts = N, .nonnegative = constraint};
        struct eps__optimal_point p;
        assert_true(eps__optimal_point_init(&p, &o));
        double a = 1 + 0x1p-30, b = 1 + 0x1p-29; /* a a - b = 2^-60 */
        const double l[N][N] = {{1, 0, 0, 0}, {a, b, 1, 0}, {a, -1, 1, 0}, {-1, b, a, a}};
        __float128 exact = 0;
        memcpy(p.lower, l, sizeof l);
        for (size_t s = 0; s < N; s++) {
            __float128 square = 0;
            for (size_t c = 0; c < N; c++)
                square += (__float128)l[s][c] * l[s][c];
            p.sums[s] = (double)square * (1 + 0x1p-50); /* nothing exceeds on the diagonal */
        }
        for (size_t i = 0; i < N; i++)
            for (size_t j = 0; j < i; j++) {
                __float128 sum = 0;
                for (size_t c = 0; c < N; c++)
                    sum += (__float128)l[i][c] * l[j][c];
                exact += 2 * (sum > 0 ? sum : constraint ? 0 : -sum);
            }
        assert_true(eps__optimal_excess(&o, &p) >= (double)exact);
        /* One pair alone, whose sum rounds to 0. */
        for (int order = 0; order < 2; order++) {
            const double pair[N][N] = {{1, 0, 0, 0},
                                       {0, order ? a : b, order ? b : a, 0},
                                       {0, order ? a : -1, order ? -1 : a, 0},
                                       {0, 0, 0, 1}};
            memcpy(p.lower, pair, sizeof pair);
            for (size_t s = 0; s < N; s++)
                p.sums[s] = 4;
            double excess = eps__optimal_excess(&o, &p);
            assert_true(excess >= 2 * 0x1p-60 && excess <= 1e-12);
        }
        /* No products at all: exactly 0. */
        memset(p.lower, 0, N * N * sizeof *p.lower);
        for (size_t s = 0; s < N; s++)
            p.lower[s * (N + 1)] = 1;
        assert_true(eps__optimal_excess(&o, &p) <= 1e-260);
        eps__optimal_point_clear(&p);
    }
    eps__workload_clear(&workload);
}

/* F2: for no X = a a' that meets the constraints does U give more than the pattern sums and the counted excess. */
TEST(what_u_has_above_the_sums_is_counted)
{
    enum { N = 5 };
    unsigned long long state = 11;
    struct eps_mechanism m = mechanism_new(EPS_FAMILY_OPTIMAL, N);
    struct eps__workload workload;
    assert_int_equal(eps__workload_init(&workload, NULL, &m), EPS_OK);
    double closest = INFINITY;
    for (int trial = 0; trial < 2000; trial++) {
        struct eps__participation parts = {
            .epochs = 1 + (size_t)trial % 3, .separation = 1 + (size_t)trial / 3 % 3, .fixed = true};
        struct eps__optimal o = {.workload = &workload,
                                 .n = N,
                                 .epochs = parts.epochs,
                                 .separation = parts.separation,
                                 .starts = eps__participation_starts(&parts, N),
                                 .nonnegative = trial % 2};
        o.overlapping = o.starts > o.separation;
        struct eps__optimal_point p;
        assert_true(eps__optimal_point_init(&p, &o));
        double most = 0, size = trial % 5 ? 0.3 : 1.5;
        for (size_t i = 0; i < N; i++)
            for (size_t j = 0; j <= i; j++)
                p.lower[i * N + j] = i == j ? 1 : trial % 7 ? size * scatter(&state) : 0;
        for (size_t s = 0; s < o.starts; s++)
            most += p.sums[s] = 1 + 0.2 * scatter(&state);
        most += eps__optimal_excess(&o, &p);
        for (int draw = 0; draw < 60; draw++) {
            double a[N];
            long double fullest = 0, taken = 0;
            bool one_sign = o.nonnegative;
            for (size_t i = 0; i < N; i++)
                a[i] = draw % 3 && scatter(&state) > 0 ? 0 : draw % 2 ? 1 : fabs(scatter(&state));
            for (size_t i = 0; i < N && !one_sign;
                 i++) /* one sign a residue class, so that X_ij >= 0 inside patterns */
                a[i] *= draw >> i % o.separation & 1 ? -1 : 1;
            for (size_t s = 0; s < o.starts; s++) {
                long double sum = 0;
                for (size_t c = 0, i = s; c < o.epochs && i < N; c++, i += o.separation)
                    sum += fabsl((long double)a[i]);
                fullest = fmaxl(fullest, sum);
            }
            for (size_t j = 0; j < N && fullest > 0; j++) {
                long double sum = 0;
                for (size_t i = j; i < N; i++)
                    sum += p.lower[i * N + j] * a[i] / fullest;
                taken += sum * sum;
            }
            if (!(taken <= (long double)most))
                fail_msg("trial %d: X takes %.17Lg of U, %.17g counted", trial, taken, most);
            closest = fmin(closest, (double)(most - taken));
        }
        eps__optimal_point_clear(&p);
    }
    assert_true(closest < 1e-10); /* and some X attains it */
    eps__workload_clear(&workload);
}

/* The loss of C = c for prefix sums, sensitivity included, in quadruple precision. */
static __float128 prefix_loss(const __float128 *c, const struct eps__optimal *o)
{
    size_t n = o->n;
    __float128 *row = calloc(3 * n * n, sizeof *row), *inverse = row + n * n, *gram = inverse + n * n;
    assert_non_null(row);
    __float128 largest = 0, total = 0, fullest = 0;
    for (size_t j = 0; j < n; j++)
        for (size_t i = j; i < n; i++) {
            __float128 sum = i == j;
            for (size_t l = j; l < i; l++)
                sum -= c[i * n + l] * inverse[l * n + j];
            inverse[i * n + j] = sum / c[i * n + i];
        }
    for (size_t t = 0; t < n; t++) {
        __float128 square = 0;
        for (size_t j = 0; j <= t; j++) {
            row[j] += inverse[t * n + j]; /* A = sums of all rows so far */
            square += row[j] * row[j];
        }
        total += square;
        largest = square > largest ? square : largest;
    }
    for (size_t i = 0; i < n; i++)
        for (size_t j = 0; j < n; j++)
            for (size_t r = 0; r < n; r++)
                gram[i * n + j] += c[r * n + i] * c[r * n + j];
    for (size_t s = 0; s < o->starts; s++) {
        __float128 sum = 0;
        for (size_t x = 0, i = s; x < o->epochs && i < n; x++, i += o->separation)
            for (size_t y = 0, j = s; y < o->epochs && j < n; y++, j += o->separation)
                sum += gram[i * n + j] < 0 ? -gram[i * n + j] : gram[i * n + j];
        fullest = sum > fullest ? sum : fullest;
    }
    free(row);
    return fullest * (o->max_squared ? largest : total / (__float128)n);
}

/* F3: for ill-conditioned matrices, as they are and with every entry off by as much as divisions may cause. */
TEST(losses_hold_for_ill_conditioned_c)
{
    enum { N = 20 };
    unsigned long long state = 5;
    struct eps_mechanism m = mechanism_new(EPS_FAMILY_OPTIMAL, N);
    struct eps__workload workload;
    assert_int_equal(eps__workload_init(&workload, NULL, &m), EPS_OK);
    size_t finite = 0;
    for (int trial = 0; trial < 60; trial++) {
        struct eps__optimal o = {.workload = &workload,
                                 .n = N,
                                 .epochs = trial % 2 ? 4 : 1,
                                 .separation = trial % 2 ? 5 : N,
                                 .starts = trial % 2 ? 5 : N,
                                 .nonnegative = true,
                                 .max_squared = trial % 3};
        struct eps__optimal_point p;
        double c[N * N] = {1}, loss, size = 0.1 + 0.02 * trial;
        __float128 exact[N * N];
        assert_true(eps__optimal_point_init(&p, &o));
        /* B C = A with B = 1 - N: C grows as (1 + size)^n, and A C^-1 = B does not. */
        for (size_t i = 0; i < N; i++)
            for (size_t l = 0; l < i; l++) {
                double entry = size * (1 + 0.5 * scatter(&state));
                for (size_t j = 0; j <= l; j++)
                    c[i * N + j] += entry * c[l * N + j];
                if (l + 1 == i)
                    for (size_t j = 0; j <= i; j++)
                        c[i * N + j] += 1;
            }
        assert_true(eps__optimal_loss_upper(&o, &p, c, &loss));
        eps__optimal_point_clear(&p);
        if (isinf(loss)) /* too close to singular */
            continue;
        finite++;
        const double most = EPS__DIVISORS_MAX * 0x1p-53;
        for (int divided = 0; divided < 5; divided++) {
            for (size_t i = 0; i < N * N; i++)
                exact[i] = c[i] * (1 + (__float128)(divided ? most * (scatter(&state) < 0 ? -1 : 1) : 0));
            __float128 truth = prefix_loss(exact, &o);
            if (!(truth <= loss))
                fail_msg("trial %d: a loss of %.17g above the bound %.17g by %.3g", trial, (double)truth, loss,
                         (double)(truth / loss - 1));
            assert_true(loss <= truth * (1 + 1e-4L));
        }
    }
    assert_true(finite > 50);
    eps__workload_clear(&workload);
}

/* F3, where only rounding is left of the gap: the loss of the entries as they are returned, with any scaling, compared
 * with the least loss, (1 + sqrt 5)^2/8 for two steps (the golden ratio squared, halved). */
TEST(the_gap_holds_for_c_as_returned)
{
    const long double least = (1 + sqrtl(5)) * (1 + sqrtl(5)) / 8;
    struct setting setting = {2, 1, 2, 0, true, false, 1e-14};
    struct eps_mechanism m = mechanism_of(&setting);
    for (int scale = 0; scale < 3; scale++) {
        m.matrix.normalization = (enum eps_normalization)scale;
        struct eps_strategy *strategy = strategy_new(&m);
        double gap = eps_strategy_optimality_gap(strategy);
        for (int divisions = 0; divisions < 20; divisions++) {
            struct matrix c = part_matrix(strategy, EPS_PART_ENCODER), x;
            long double loss = loss_of(&c, &m, &x);
            assert_true(loss <= least * (1 + (long double)gap) && loss >= least * (1 - 1e-18L));
            matrix_free(&c);
            matrix_free(&x);
            assert_int_equal(eps__strategy_divide(strategy, NULL, 0.7 + 0.037 * divisions), EPS_OK);
        }
        assert_true(gap < 1e-12);
        eps_strategy_destroy(strategy);
    }
}

/* The gap is reached where patterns overlap, however much the workload's singular values differ. */
TEST(overlapping_patterns_reach_their_gap)
{
    static const struct setting cases[] = {
        {48, 6, 4, 0, true, true, 1e-3},   {48, 6, 4, 1, true, false, 1e-3}, {48, 6, 4, 1, false, true, 1e-3},
        {40, 12, 2, 0, false, true, 1e-3}, {40, 5, 4, 2, true, true, 1e-2},  {40, 20, 1, 0, true, false, 1e-3},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct eps_mechanism m = mechanism_of(&cases[i]);
        struct eps_strategy *strategy = strategy_new(&m);
        struct matrix c = part_matrix(strategy, EPS_PART_ENCODER), x;
        double gap = eps_strategy_optimality_gap(strategy);
        loss_of(&c, &m, &x);
        assert_constraints(&x, &cases[i]);
        if (!(gap > 0 && gap <= cases[i].gap))
            fail_msg("case %zu: gap %g of %g after %zu iterations", i, gap, cases[i].gap,
                     eps_strategy_iterations(strategy));
        matrix_free(&c);
        matrix_free(&x);
        eps_strategy_destroy(strategy);
    }
}

/* A finer gap never gives a worse C, also where double precision ends above it; a hint then says so. */
TEST(a_finer_gap_is_no_worse)
{
    static const double gaps[] = {1e-1, 1e-2, 1e-3, 1e-5};
    long double before = INFINITY;
    for (size_t i = 0; i < sizeof gaps / sizeof *gaps; i++) {
        struct setting setting = {48, 4, 12, 0, true, true, gaps[i]};
        struct eps_mechanism m = mechanism_of(&setting);
        m.workload = (struct eps_workload){.type = EPS_WORKLOAD_MOMENTUM, .momentum = 0.95, .decay = 1};
        struct eps_strategy *strategy = strategy_new(&m);
        struct matrix c = part_matrix(strategy, EPS_PART_ENCODER), x;
        long double loss = loss_of(&c, &m, &x);
        double gap = eps_strategy_optimality_gap(strategy);
        char hint[256];
        assert_true(loss <= before * (1 + 1e-12L));
        assert_true(gap <= fmax(gaps[i], 1e-2));
        assert_int_equal(eps__strategy_hint(hint, sizeof hint, strategy, &m, true, 0), gap > gaps[i]);
        assert_true(gap <= gaps[i] || strstr(hint, "matrix.gap requests"));
        assert_false(eps__strategy_hint(hint, sizeof hint, strategy, &m, true, 1));
        before = loss;
        matrix_free(&c);
        matrix_free(&x);
        eps_strategy_destroy(strategy);
    }
}

/* Estimates follow the number of evaluations of a search within a factor of 5, for every parameter. */
TEST(costs_follow_the_evaluations)
{
    static const struct setting cases[] = {
        {64, 4, 16, 0, true, false, 1e-2}, {64, 4, 16, 0, true, true, 1e-2},  {64, 8, 4, 0, true, false, 1e-2},
        {64, 8, 4, 0, true, true, 1e-2},   {64, 4, 16, 1, true, false, 1e-3}, {64, 8, 4, 1, true, false, 1e-2},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct eps_mechanism m = mechanism_of(&cases[i]);
        struct eps_strategy *strategy = strategy_new(&m);
        double operations, bytes, taken = (double)eps_strategy_iterations(strategy);
        eps__strategy_cost(&m, &operations, &bytes);
        double predicted = operations / (17.0 / 8 * 64 * 64 * 64);
        if (!(predicted < 5 * taken && taken < 5 * predicted))
            fail_msg("case %zu: %.0f evaluations predicted, %.0f taken", i, predicted, taken);
        eps_strategy_destroy(strategy);
    }
}

/* Numbers computed by others, and a closed form (2 steps: the golden ratio squared, halved). */
TEST(known_optima)
{
    static const struct {
        size_t n;
        double mean;
    } single[] = {{2, 1.3090169943749475}, {16, 2.854084800749}, {64, 4.409397203944}};
    for (size_t i = 0; i < 3; i++) {
        struct setting setting = {single[i].n, 1, single[i].n, 0, true, false, 1e-6};
        struct eps_mechanism m = mechanism_of(&setting);
        struct eps_strategy *strategy = strategy_new(&m);
        struct matrix c = part_matrix(strategy, EPS_PART_ENCODER), x;
        double loss = (double)loss_of(&c, &m, &x);
        assert_true(loss >= single[i].mean * (1 - 1e-11) && loss <= single[i].mean * (1 + 1e-6));
        matrix_free(&c);
        matrix_free(&x);
        eps_strategy_destroy(strategy);
    }
}

/* No feasible matrix may beat the certified bound: identities, square roots and random ones, for small n. */
TEST(nothing_beats_the_bound)
{
    unsigned long long state = 7;
    for (size_t i = 0; i < SETTINGS; i++) {
        struct eps_mechanism m = mechanism_of(&settings[i]);
        size_t n = settings[i].n;
        struct eps_strategy *strategy = strategy_new(&m);
        struct matrix c = part_matrix(strategy, EPS_PART_ENCODER), x, trial = matrix_new(n, n), y;
        long double bound = loss_of(&c, &m, &x) / (1 + (long double)eps_strategy_optimality_gap(strategy));
        for (int kind = 0; kind < 40; kind++) {
            long double size = kind % 3 == 0 ? 1e-3L : 1e-2L;
            for (size_t r = 0; r < n; r++)
                for (size_t j = 0; j < n; j++) {
                    long double base = kind % 2 ? (r == j) : *entry(&c, r, j);
                    *entry(&trial, r, j) = base + (j <= r ? size * scatter(&state) * *entry(&c, j, j) : 0);
                }
            long double loss = loss_of(&trial, &m, &y);
            bool feasible = true;
            for (size_t r = 0; r < n; r++)
                for (size_t j = 0; j < r; j++)
                    feasible = feasible && (*entry(&y, r, j) >= 0 || !settings[i].nonnegative);
            /* Sums of absolute values bound the sensitivity for any signs; nonnegative only where it is requested. */
            if (feasible && !(loss >= bound * (1 - 1e-12L)))
                fail_msg("setting %zu: a loss of %Lg under the bound %Lg", i, loss, bound);
            matrix_free(&y);
        }
        matrix_free(&c);
        matrix_free(&x);
        matrix_free(&trial);
        eps_strategy_destroy(strategy);
    }
}

static void check_gradient(struct eps__optimal_model *m, double *x, unsigned long long *state)
{
    size_t size = m->size;
    double *gradient = malloc(size * sizeof *gradient), *scale = malloc(size * sizeof *scale),
           *moved = malloc(size * sizeof *moved);
    assert_non_null(gradient);
    assert_non_null(scale);
    assert_non_null(moved);
    assert_true(eps__optimal_value(m, x) > -INFINITY);
    assert_true(eps__optimal_gradient(m, gradient, scale, x));
    for (int trial = 0; trial < 8; trial++) {
        double slope = 0, h = 1e-4, value[2], *direction = malloc(size * sizeof *direction);
        assert_non_null(direction);
        for (size_t i = 0; i < size; i++) {
            direction[i] = scatter(state) * (x[i] != 0 || trial % 2 ? 1 : 0) * 0.1;
            slope += direction[i] * gradient[i];
            assert_true(scale[i] > 0);
        }
        for (int side = 0; side < 2; side++) {
            for (size_t i = 0; i < size; i++)
                moved[i] = x[i] + (side ? h : -h) * direction[i];
            value[side] = eps__optimal_value(m, moved);
        }
        double difference = (value[1] - value[0]) / (2 * h);
        if (!(fabs(difference - slope) <= 1e-5 * (fabs(slope) + 1)))
            fail_msg("slope %.12g, difference %.12g", slope, difference);
        free(direction);
    }
    free(gradient);
    free(scale);
    free(moved);
}

/* At generic points, in both sets of coordinates. */
TEST(gradients_are_slopes)
{
    unsigned long long state = 3;
    for (int which = 0; which < 16; which++) {
        size_t n = 14, epochs = which & 4 ? 2 : 3, separation = which & 8 ? 5 : 3; /* (3,3) and (2,3) overlap */
        struct eps_mechanism mechanism = mechanism_new(EPS_FAMILY_OPTIMAL, n);
        struct eps__workload workload;
        workload_choose(&mechanism, 1);
        assert_int_equal(eps__workload_init(&workload, NULL, &mechanism), EPS_OK);
        struct eps__participation participation = {.epochs = epochs, .separation = separation, .fixed = true};
        struct eps__optimal o = {.workload = &workload,
                                 .n = n,
                                 .epochs = epochs,
                                 .separation = separation,
                                 .starts = eps__participation_starts(&participation, n),
                                 .nonnegative = which & 1,
                                 .max_squared = which & 2};
        o.overlapping = o.starts > separation;
        struct eps__optimal_model factors, entries;
        assert_true(eps__optimal_model_init(&factors, &o, EPS__OPTIMAL_FACTORS, 0.01, NULL));
        assert_true(eps__optimal_model_init(&entries, &o, EPS__OPTIMAL_ENTRIES, 0.01, NULL));
        double *x = calloc(factors.size, sizeof *x), *y = calloc(entries.size, sizeof *y);
        assert_non_null(x);
        assert_non_null(y);
        eps__optimal_model_start(&factors, x);
        for (size_t i = 0; i < factors.size; i++)
            x[i] += 0.3 * scatter(&state);
        check_gradient(&factors, x, &state);
        assert_true(eps__optimal_value(&factors, x) > -INFINITY);
        memcpy(entries.point.lower, factors.point.lower, n * n * sizeof *x);
        memcpy(entries.point.weights, factors.point.weights, n * sizeof *x);
        eps__optimal_model_continue(&entries, y, &factors, x, 0.1);
        for (size_t i = entries.positive + o.starts; i < entries.size; i++)
            y[i] += 1e-3 * fabs(scatter(&state));
        check_gradient(&entries, y, &state);
        /* With ln det U, and ln w, again, from this starting point and the other one. */
        entries.floor = 0;
        entries.mu = 0.7;
        entries.guarded = false;
        check_gradient(&entries, y, &state);
        eps__optimal_model_identity(&entries, y);
        for (size_t i = 0; i < entries.size; i++)
            y[i] += 1e-2 * fabs(scatter(&state));
        entries.guarded = false;
        check_gradient(&entries, y, &state);
        eps__optimal_model_clear(&factors);
        eps__optimal_model_clear(&entries);
        eps__workload_clear(&workload);
        free(x);
        free(y);
    }
}

/* Signs on patterns, by enumeration: u'Xu <= 1 for all, and the dual closes. */
TEST(scalar_contributions)
{
    struct eps_mechanism m = mechanism_new(EPS_FAMILY_OPTIMAL, 6);
    struct eps__workload workload;
    double c[36], loss, bound;
    workload_choose(&m, 1);
    assert_int_equal(eps__workload_init(&workload, NULL, &m), EPS_OK);
    assert_true(eps__optimal_scalar(c, &loss, &bound, &workload, 3, 2));
    assert_true(loss >= bound && loss <= bound * (1 + 1e-7));
    double most = 0;
    for (int s = 0; s < 2; s++) {
        for (int mask = 0; mask < 8; mask++) {
            double square = 0;
            for (int row = 0; row < 6; row++) {
                double sum = 0;
                for (int i = 0; i < 3; i++)
                    sum += (mask >> i & 1 ? -1 : 1) * c[row * 6 + s + 2 * i];
                square += sum * sum;
            }
            most = fmax(most, square);
        }
    }
    assert_true(fabs(most - 1) <= 1e-6);
    assert_false(eps__optimal_scalar(c, &loss, &bound, &workload, 20, 1));
    eps__workload_clear(&workload);
}

static void assert_refused(struct eps_mechanism *m, const char *pointer)
{
    struct eps_strategy *strategy = NULL;
    struct eps_error error = {0};
    assert_int_equal(eps_strategy_create(NULL, &strategy, &error, m), EPS_INVALID);
    assert_string_equal(error.pointer, pointer);
    assert_null(strategy);
}

TEST(what_does_not_fit_is_refused)
{
    static const double zero[] = {0, 1};
    struct setting setting = {12, 3, 4, 0, true, false, 1e-3};
    struct eps_mechanism m = mechanism_of(&setting);
    m.matrix.separation = 6;
    assert_refused(&m, "/matrix/separation");
    m.matrix.epochs = 13;
    assert_refused(&m, "/matrix/epochs");
    m = mechanism_of(&setting);
    m.workload =
        (struct eps_workload){.type = EPS_WORKLOAD_TOEPLITZ, .decay = 1, .coefficients = zero, .coefficients_len = 2};
    assert_refused(&m, "/workload/coefficients/0");
    m = mechanism_of(&setting);
    m.n = 4097;
    assert_refused(&m, "/n");
}

/* With stamps, each block is the optimum for its own number of steps. */
TEST(stamps_repeat_the_block)
{
    struct setting setting = {12, 3, 4, 0, true, false, 1e-4};
    struct eps_mechanism m = mechanism_of(&setting);
    struct eps_strategy *block = strategy_new(&m);
    m.n = 36;
    m.matrix.stamps = 3;
    struct eps_strategy *whole = strategy_new(&m);
    double a[36], b[36];
    for (size_t row = 0; row < 36; row++) {
        assert_int_equal(eps_strategy_row(whole, a, NULL, EPS_PART_ENCODER, row), EPS_OK);
        assert_int_equal(eps_strategy_row(block, b, NULL, EPS_PART_ENCODER, row % 12), EPS_OK);
        for (size_t j = 0; j < 36; j++)
            assert_true(a[j] == (j / 12 == row / 12 ? b[j % 12] : 0));
    }
    eps_strategy_destroy(block);
    eps_strategy_destroy(whole);
}

struct watcher {
    double last;
    size_t calls, polls, cancel_after;
};

static void watch(void *user, double fraction, const char *stage, double remaining)
{
    struct watcher *w = user;
    (void)remaining;
    assert_string_equal(stage, "optimise");
    assert_true(fraction >= w->last && fraction <= 1);
    w->last = fraction;
    w->calls++;
}

static bool canceled(void *user)
{
    struct watcher *w = user;
    return ++w->polls > w->cancel_after;
}

TEST(progress_rises_and_cancels)
{
    struct setting setting = {40, 4, 10, 1, true, false, 1e-4};
    struct eps_mechanism m = mechanism_of(&setting);
    struct watcher w = {.cancel_after = 1000000};
    struct eps_context context = {.user = &w, .progress = watch, .canceled = canceled};
    struct eps_strategy *strategy = NULL;
    struct eps_error error;
    assert_int_equal(eps_strategy_create(&context, &strategy, &error, &m), EPS_OK);
    eps_strategy_destroy(strategy);
    assert_true(w.calls > 0 && w.last > 0);
    size_t polls = w.polls;
    assert_true(polls > 10);
    for (size_t after = 0; after < polls; after += 1 + polls / 50) {
        strategy = NULL;
        w = (struct watcher){.cancel_after = after};
        assert_int_equal(eps_strategy_create(&context, &strategy, &error, &m), EPS_CANCELED);
        assert_null(strategy);
    }
}

/* At a size of several blocks an evaluation of the dual, and the proof, can be stopped at any block: only a small part
 * of the work lies between two polls. */
TEST(long_steps_are_left)
{
    struct setting setting = {700, 4, 175, 0, false, false, 0.1};
    struct eps_mechanism m = mechanism_of(&setting);
    struct watcher w = {.cancel_after = SIZE_MAX};
    struct eps_context context = {.user = &w, .canceled = canceled};
    struct eps_strategy *strategy = NULL;
    struct eps_error error;
    assert_int_equal(eps_strategy_create(&context, &strategy, &error, &m), EPS_OK);
    size_t polls = w.polls, evaluations = eps_strategy_iterations(strategy);
    assert_true(evaluations <= 10 && polls >= 40 * (evaluations + 1));
    const double *inverse;
    w = (struct watcher){.cancel_after = 2};
    assert_int_equal(eps__strategy_inverse(&context, &inverse, &error, strategy), EPS_CANCELED);
    assert_null(inverse);
    assert_int_equal(w.polls, 3);
    assert_int_equal(eps__strategy_inverse(NULL, &inverse, &error, strategy), EPS_OK);
    assert_non_null(inverse);
    eps_strategy_destroy(strategy);
    /* Early, in the middle, and in the proof, which comes last. */
    size_t after[] = {8, polls / 3, polls - 40, polls - 4};
    for (size_t i = 0; i < sizeof after / sizeof *after; i++) {
        strategy = NULL;
        w = (struct watcher){.cancel_after = after[i]};
        assert_int_equal(eps_strategy_create(&context, &strategy, &error, &m), EPS_CANCELED);
        assert_string_equal(error.message, "canceled");
        assert_int_equal(w.polls, after[i] + 1);
        assert_null(strategy);
    }
}
