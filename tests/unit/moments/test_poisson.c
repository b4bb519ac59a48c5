/*
 * Moments of plain Poisson sampling compared with sums over all patterns, and the bounds that renyi computes from them
 * with quadrature: never below the truth, in both directions, and not loose.
 *
 * SPDX-License-Identifier: GPL-3.0-or-later
 */
#include <math.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "lib/moments/laws/poisson.h"
#include "lib/moments/laws/poisson_residual.h"
#include "lib/numerics/bound.h"
#include "tests/truth/mechanism.h"
#include "tests/unit/draw.h"
#include "tests/unit/solved.h"
#include "tests/unit/test.h"

enum { STEPS_MAX = 8, WIDTH_MAX = 4, ORDERS = 24 };
static const uint64_t seed = 141421;

/* The Gram matrix of a random lower-triangular banded C >= 0, in rows of bands. */
static void draw_gram(uint64_t *state, double *gram, size_t n, size_t width)
{
    memset(gram, 0, n * width * sizeof *gram);
    for (size_t r = 0; r < n; r++) {
        double row[WIDTH_MAX];
        for (size_t d = 0; d < width; d++)
            row[d] = draw_below(state, 6) == 0 ? 0 : draw_unit(state);
        for (size_t e = 0; e < width && e <= r; e++)
            for (size_t d = 0; e + d < width && e + d <= r; d++)
                gram[(r - e) * width + d] += row[e] * row[e + d];
    }
}

static double entry_of(const struct eps__banded_gram *banded, size_t i, size_t j)
{
    size_t later = i > j ? i : j, d = i > j ? i - j : j - i;
    return d < banded->width ? banded->gram[later * banded->width + d] : 0;
}

/* E X^2 and E X^3 by all patterns of two and three copies. */
static void enumerate(const struct eps__banded_gram *banded, long double *second, long double *third)
{
    size_t n = banded->len, all = (size_t)1 << n;
    long double *weight = malloc(all * sizeof *weight), *met = malloc(all * all * sizeof *met);
    for (size_t x = 0; x < all; x++) {
        weight[x] = 1;
        for (size_t i = 0; i < n; i++)
            weight[x] *= x >> i & 1 ? (long double)banded->p : 1 - (long double)banded->p;
        for (size_t y = 0; y < all; y++) {
            long double sum = 0;
            for (size_t i = 0; i < n; i++)
                for (size_t j = 0; j < n; j++)
                    if (x >> i & 1 && y >> j & 1)
                        sum += (long double)entry_of(banded, i, j);
            met[x * all + y] = expl(sum);
        }
    }
    *second = *third = 0;
    for (size_t x = 0; x < all; x++)
        for (size_t y = 0; y < all; y++) {
            long double both = weight[x] * weight[y] * met[x * all + y], rest = 0;
            for (size_t z = 0; z < all; z++)
                rest += weight[z] * met[x * all + z] * met[y * all + z];
            *second += both;
            *third += both * rest;
        }
    free(weight);
    free(met);
}

TEST(copies_are_all_patterns)
{
    uint64_t state = seed;
    for (int trial = 0; trial < 60; trial++) {
        size_t n = 1 + draw_below(&state, trial % 10 == 0 ? STEPS_MAX : 6), width = 1 + draw_below(&state, WIDTH_MAX);
        width = width < n ? width : n;
        double gram[STEPS_MAX * WIDTH_MAX], sigma = 0.4 + 2 * draw_unit(&state), units;
        double p = trial % 13 == 12 ? 1 : draw_unit(&state);
        struct eps__banded_gram banded;
        eps__quad raw;
        long double expected[2];
        draw_gram(&state, gram, n, width);
        assert_int_equal(eps__banded_gram_make(&banded, gram, n, width, p, 1e-15, sigma), EPS_OK);
        enumerate(&banded, &expected[0], &expected[1]);
        for (unsigned which = 0; which < 4; which++) {
            unsigned a = 2 + which % 2;
            assert_int_equal(eps__poisson_raw(NULL, &raw, &units, &banded, NULL, a, which < 2), EPS_OK);
            if (!(fabsl((long double)raw / expected[a - 2] - 1) < 1e-15L))
                fail_msg("n = %zu, width = %zu, p = %g, order %u: %.17Lg and %.17Lg", n, width, p, a, (long double)raw,
                         expected[a - 2]);
        }
        eps__banded_gram_clear(&banded);
    }
}

/* ------------------------------------------------------------ the residual of a mean */

/* E Y^j by all j-tuples of patterns, straight from the density of y: with v the sum of the patterns less j times a, it
 * is the mean of exp(<C v, y> - sum |C x|^2/2), y with the mean t C a. */
static double enumerate_residual(const struct eps__banded_gram *banded, const double *a, double t, unsigned j)
{
    size_t n = banded->len, all = (size_t)1 << (n * j);
    double sum = 0;
    for (size_t x = 0; x < all; x++) {
        double v[STEPS_MAX], weight = 1, exponent = 0;
        for (size_t i = 0; i < n; i++)
            v[i] = -(double)j * a[i];
        for (size_t c = 0; c < j; c++)
            for (size_t i = 0; i < n; i++) {
                bool takes = x >> (c * n + i) & 1;
                v[i] += takes;
                weight *= takes ? banded->p : 1 - banded->p;
                for (size_t k = 0; takes && k < n; k++)
                    exponent -= x >> (c * n + k) & 1 ? 0.5 * entry_of(banded, i, k) : 0;
            }
        for (size_t i = 0; i < n; i++)
            for (size_t k = 0; k < n; k++)
                exponent += v[i] * (0.5 * v[k] + t * a[k]) * entry_of(banded, i, k);
        sum += weight * exp(exponent);
    }
    return sum;
}

TEST(residuals_are_over_all_patterns)
{
    uint64_t state = seed;
    size_t known = 0;
    for (int trial = 0; trial < 120; trial++) {
        size_t n = 1 + draw_below(&state, 5), width = 1 + draw_below(&state, 3);
        width = width < n ? width : n;
        double gram[STEPS_MAX * WIDTH_MAX], *a = malloc(n * sizeof *a), kept[STEPS_MAX];
        double p = draw_log(&state, 0.01, 0.9), t = 6 * (2 * draw_unit(&state) - 1);
        bool alike = trial % 3 == 0; /* equal steps, which a power replaces */
        struct eps__banded_gram banded;
        struct eps__mean mean;
        struct eps__residual_moments residual;
        draw_gram(&state, gram, n, width);
        for (size_t i = 0; i < n * width && alike; i++)
            gram[i] = i % width == 0 ? 0.3 : i % width <= i / width ? 0.1 : 0;
        assert_int_equal(eps__banded_gram_make(&banded, gram, n, width, p, 1e-15, 0.7 + 2 * draw_unit(&state)), EPS_OK);
        for (size_t i = 0; i < n; i++)
            a[i] = kept[i] = alike ? p : draw_below(&state, 4) ? draw_unit(&state) : 0;
        assert_int_equal(eps__mean_make(&mean, &banded, a), EPS_OK);
        const struct eps__residual_sums sums = eps__poisson_residual_sums(&banded, &mean, 3);
        assert_int_equal(sums.most, 3);
        assert_int_equal(eps__residual_moments_of(NULL, &residual, &sums, &mean, t), EPS_OK);
        if (residual.laws.len > 0 && residual.laws.items[0].len == 3) {
            const struct eps__moments *moments = &residual.laws.items[0];
            double first = enumerate_residual(&banded, kept, t, 1);
            double second = enumerate_residual(&banded, kept, t, 2) / (first * first);
            double third = enumerate_residual(&banded, kept, t, 3) / (first * first * first);
            assert_true(residual.log_mean.lower <= log(first) + 1e-12 && residual.log_mean.upper >= log(first) - 1e-12);
            assert_true(residual.log_mean.upper - residual.log_mean.lower < 1e-13 * (1 + fabs(log(first))));
            if (!(fabs((double)moments->central[2] + 1 - second) <= 1e-11 * second) ||
                !(fabs((double)(moments->central[3] + 3 * moments->central[2]) + 1 - third) <= 1e-11 * third))
                fail_msg("n %zu, width %zu, p %g, t %g: %.15g and %.15g for %.15g and %.15g", n, width, p, t,
                         (double)moments->central[2], (double)moments->central[3], second - 1, third);
            known++;
        }
        eps__laws_clear(&residual.laws);
        eps__mean_clear(&mean);
        eps__banded_gram_clear(&banded);
    }
    assert_true(known > 60);
}

/* One band: steps are independent, and E X^a is a product of closed forms, to the claimed units. */
TEST(one_band_is_a_product)
{
    enum { N = 40 };
    uint64_t state = seed;
    for (int trial = 0; trial < 12; trial++) {
        double gram[N], units, p = trial % 3 == 0 ? 0.01 : draw_unit(&state);
        struct eps__banded_gram banded;
        for (size_t i = 0; i < N; i++)
            gram[i] = trial % 2 && i > 0 ? gram[i - 1] : draw_unit(&state);
        assert_int_equal(eps__banded_gram_make(&banded, gram, N, 1, p, 0, 1.5), EPS_OK);
        for (unsigned a = 2; a <= ORDERS; a++) {
            eps__quad product = 1, raw, again;
            for (size_t i = 0; i < N; i++) {
                eps__quad sum = 0, ways = 1;
                for (unsigned k = 0; k <= a; k++) {
                    eps__quad term = ways * expq((eps__quad)banded.gram[i] * (k * (k - 1.0) / 2));
                    for (unsigned j = 0; j < a; j++)
                        term *= j < k ? (eps__quad)p : 1 - (eps__quad)p;
                    sum += term;
                    ways = ways * (a - k) / (k + 1);
                }
                product *= sum;
            }
            assert_int_equal(eps__poisson_raw(NULL, &raw, &units, &banded, NULL, a, true), EPS_OK);
            double off = (double)(fabsq(raw / product - 1) / EPS__QUAD_ROUNDOFF);
            if (!(off <= units + N * (4.0 * a + 20)))
                fail_msg("order %u is off by %g units of %g", a, off, units);
            assert_int_equal(eps__poisson_raw(NULL, &again, &units, &banded, NULL, a, false), EPS_OK);
            off = (double)(fabsq(again / product - 1) / EPS__QUAD_ROUNDOFF);
            if (!(off <= units && units < 0x1p49 * N * 100))
                fail_msg("order %u by long doubles is off by %g units of %g", a, off, units);
        }
        eps__banded_gram_clear(&banded);
    }
}

/* ln E X^2 over many steps by ordered pairs of histories, in long double. */
static long double second_by_pairs(const struct eps__banded_gram *banded)
{
    enum { MOST = 1 << (WIDTH_MAX - 1) };
    size_t width = banded->width, all = (size_t)1 << (width - 1);
    long double state[MOST * MOST] = {1}, p = banded->p, log_scale = 0;
    for (size_t i = 0; i < banded->len; i++) {
        long double next[MOST * MOST] = {0}, most = 0;
        for (size_t x = 0; x < all; x++)
            for (size_t y = 0; y < all; y++)
                for (int s = 0; s < 2; s++)
                    for (int t = 0; t < 2; t++) {
                        long double met = s && t ? (long double)entry_of(banded, i, i) : 0;
                        for (size_t d = 1; d < width && d <= i; d++)
                            met += (long double)entry_of(banded, i, i - d) *
                                   ((s && y >> (d - 1) & 1) + (t && x >> (d - 1) & 1));
                        next[((x << 1 | (size_t)s) & (all - 1)) * all + ((y << 1 | (size_t)t) & (all - 1))] +=
                            state[x * all + y] * (s ? p : 1 - p) * (t ? p : 1 - p) * expl(met);
                    }
        for (size_t s = 0; s < all * all; s++)
            most = fmaxl(most, next[s]);
        for (size_t s = 0; s < all * all; s++)
            state[s] = next[s] / most;
        log_scale += logl(most);
    }
    long double sum = 0;
    for (size_t s = 0; s < all * all; s++)
        sum += state[s];
    return logl(sum) + log_scale;
}

/* Skipped steps are counted in the error like the others. */
TEST(errors_are_counted)
{
    enum { N = 5000 };
    double *gram = malloc(N * sizeof *gram), units;
    struct eps__banded_gram banded;
    eps__quad raw;
    for (size_t i = 0; i < N; i++)
        gram[i] = 1;
    assert_int_equal(eps__banded_gram_make(&banded, gram, N, 1, 0.25, 0, 3), EPS_OK);
    assert_int_equal(banded.changes, 1);
    for (int exact = 0; exact < 2; exact++) {
        assert_int_equal(eps__poisson_raw(NULL, &raw, &units, &banded, NULL, 2, exact), EPS_OK);
        double square = (double)(raw / expq(N * log1pq((eps__quad)0.0625 * expm1q(banded.gram[0]))) - 1);
        double unit = exact ? 1 : 0x1p49;
        assert_true(units >= (exact ? 10.0 : 4.0) * unit * N &&
                    units <= 1e3 * unit * N); /* no step rounds less, but few round more */
        assert_true(fabs(square) <= units * (double)EPS__QUAD_ROUNDOFF);
    }
    eps__banded_gram_clear(&banded);
    free(gram);
}

/* The result by long doubles differs by no more than the counted error, which is not excessive; for few and many steps,
 * alike or not. */
TEST(long_doubles_know_their_error)
{
    uint64_t state = seed;
    const size_t n = 60;
    double *gram = malloc(n * WIDTH_MAX * sizeof *gram), most = 0;
    for (int trial = 0; trial < 16; trial++) {
        size_t width = 1 + (size_t)trial % WIDTH_MAX;
        double sigma = 0.8 + 3 * draw_unit(&state), p = trial % 3 ? 0.01 : draw_unit(&state), units, own;
        struct eps__banded_gram banded;
        eps__quad exact, raw;
        draw_gram(&state, gram, n, width);
        for (size_t i = 1; trial % 2 && i < n; i++)
            memcpy(gram + i * width, gram, width * sizeof *gram);
        for (size_t i = 0; trial % 2 && i < n; i++) /* dominated by the diagonal */
            gram[i * width] += 8;
        assert_int_equal(eps__banded_gram_make(&banded, gram, n, width, p, 0, sigma), EPS_OK);
        for (unsigned a = 2; a <= 5; a++) {
            assert_int_equal(eps__poisson_raw(NULL, &exact, &own, &banded, NULL, a, true), EPS_OK);
            assert_int_equal(eps__poisson_raw(NULL, &raw, &units, &banded, NULL, a, false), EPS_OK);
            double off = (double)(fabsq(raw / exact - 1) / EPS__QUAD_ROUNDOFF);
            if (!finiteq(exact) || !(off <= units + own))
                fail_msg("trial %d, order %u: off by %g units of %g", trial, a, off, units);
            assert_true(units >= 0x1p49 * (2 * (double)width + 6) * (double)n && units <= 0x1p49 * 200 * (double)n);
            most = fmax(most, off / units);
        }
        eps__banded_gram_clear(&banded);
    }
    print_message("by long doubles off by up to %.3f of what is counted\n", most);
    assert_true(most > 1e-3);
    free(gram);
}

/* Central moments of one band equal those of independent steps within the claimed error, and that error is small. */
TEST(central_moments_know_their_error)
{
    enum { LEN = 5 };
    eps__quad raw[LEN + 1] = {1, 1}, square = (eps__quad)1 / 3;
    double units[LEN + 1] = {0}, narrow[LEN + 1] = {0};
    struct eps__moments wide, known;
    for (int j = 2; j <= LEN; j++) {
        raw[j] = expq(square * j * (j - 1) / 2); /* lognormal */
        units[j] = j == LEN ? 0x1p60 : 4;
        narrow[j] = 4;
    }
    assert_int_equal(eps__moments_alloc(&wide, LEN), EPS_OK);
    assert_int_equal(eps__moments_alloc(&known, LEN), EPS_OK);
    eps__moments_centre_each(&wide, raw, units);
    eps__moments_centre_each(&known, raw, narrow);
    for (int j = 2; j < LEN; j++)
        assert_true(wide.error[j] == known.error[j]);
    eps__quad more = wide.error[LEN] - known.error[LEN], told = 0x1p60 * EPS__QUAD_ROUNDOFF * raw[LEN];
    assert_true(more >= 0.99 * told && more <= 1.02 * told);
    eps__moments_clear(&wide);
    eps__moments_clear(&known);
}

/* Steps that are skipped once the chain has converged would have given the same. */
TEST(converged_chains_are_powers)
{
    enum { N = 400 };
    static const double columns[][WIDTH_MAX] = {{1, 0.5}, {1, 0.9, 0.8}, {0.3, 1, 2}, {1, 0.5, 0.375, 0.3125}};
    static const size_t widths[] = {2, 3, 3, 4};
    double *gram = malloc(N * WIDTH_MAX * sizeof *gram);
    for (size_t trial = 0; trial < 8; trial++) {
        size_t width = widths[trial / 2], block = trial % 2 ? 100 : N;
        double p = trial % 2 ? 0.01 : 0.3, units;
        struct eps__banded_gram banded;
        eps__quad raw;
        memset(gram, 0, N * WIDTH_MAX * sizeof *gram);
        for (size_t r = 0; r < N; r++)
            for (size_t e = 0; e < width && e <= r % block; e++)
                for (size_t d = 0; e + d < width && e + d <= r % block; d++)
                    gram[(r - e) * width + d] += columns[trial / 2][e] * columns[trial / 2][e + d];
        assert_int_equal(eps__banded_gram_make(&banded, gram, N, width, p, 1e-15, 1 + 0.2 * (double)trial), EPS_OK);
        assert_true(banded.changes < N / 4);
        long double expected = second_by_pairs(&banded);
        for (int exact = 0; exact < 2; exact++) {
            assert_int_equal(eps__poisson_raw(NULL, &raw, &units, &banded, NULL, 2, exact), EPS_OK);
            if (!(fabsl((long double)logq(raw) / expected - 1) < 1e-14L))
                fail_msg("trial %zu: %.17Lg and %.17Lg", trial, (long double)logq(raw), expected);
        }
        eps__banded_gram_clear(&banded);
    }
    free(gram);
}

/* The matrix is at least the given one, and the difference is diagonally dominant. */
TEST(the_matrix_dominates)
{
    uint64_t state = seed;
    const double error = 1e-13;
    for (int trial = 0; trial < 200; trial++) {
        size_t n = 4 + draw_below(&state, STEPS_MAX - 3), width = 1 + draw_below(&state, WIDTH_MAX);
        double gram[STEPS_MAX * WIDTH_MAX], sigma = exp(6 * draw_unit(&state) - 3);
        struct eps__banded_gram banded;
        draw_gram(&state, gram, n, width);
        assert_int_equal(eps__banded_gram_make(&banded, gram, n, width, 0.1, error, sigma), EPS_OK);
        eps__quad square = (eps__quad)sigma * sigma;
        for (size_t i = 0; i < n; i++) {
            eps__quad beside = 0, own = banded.gram[i * width] - (1 + (eps__quad)error) * gram[i * width] / square;
            for (size_t j = 0; j < n; j++) {
                size_t later = i > j ? i : j, d = i > j ? i - j : j - i;
                if (j == i || d >= width)
                    continue;
                eps__quad told = gram[later * width + d] / square, used = banded.gram[later * width + d];
                assert_true(used >= told * (1 + (eps__quad)error) + (eps__quad)1e-300 / square);
                beside += used - told * (1 - (eps__quad)error);
            }
            assert_true(own >= beside);
        }
        eps__banded_gram_clear(&banded);
    }
}

/* ------------------------------------------------------------ renyi */

static struct eps_job toeplitz_job(size_t n, double p, const double *column, size_t len)
{
    struct eps_job job;
    eps_job_init(&job);
    job.mechanism.n = n;
    job.mechanism.matrix.family = EPS_FAMILY_TOEPLITZ;
    job.mechanism.matrix.normalization = EPS_NORMALIZATION_NONE;
    job.mechanism.matrix.coefficients = column;
    job.mechanism.matrix.coefficients_len = len;
    job.mechanism.sampling.scheme = EPS_SCHEME_POISSON;
    job.mechanism.sampling.p = p;
    job.query.accountant.method = EPS_ACCOUNTANT_RENYI;
    job.query.accountant.max_order = 12; /* quicker */
    eps_job_defaults(&job);
    return job;
}

TEST(delta_is_never_under_the_truth)
{
    static const double columns[][3] = {{1, 0, 0}, {1, 0.5, 0}, {1, 0.5, 0.375}, {0.2, 1, 0.7}};
    static const double epsilons[] = {0, 0.05, 0.5, 2}, sigmas[] = {0.35, 0.8, 2};
    const struct effort effort = {.samples = 2000, .quadrature_most = 3, .seed = seed, .floor = 1e-12L, .width = 1e-4L};
    double loosest[EPS_DIRECTIONS] = {0}, logs[EPS_DIRECTIONS] = {0};
    size_t asked[EPS_DIRECTIONS] = {0};
    uint64_t state = seed;
    for (size_t trial = 0; trial < 24; trial++) {
        size_t n = 1 + trial % 3, bands = 1 + draw_below(&state, n);
        double p = trial % 2 ? 0.05 + 0.9 * draw_unit(&state) : 0.01, eps = epsilons[draw_below(&state, 4)];
        double sigma = sigmas[trial % 9 / 3], found[EPS_DIRECTIONS];
        struct eps_job job = toeplitz_job(n, p, columns[draw_below(&state, 4)], bands);
        struct truth truth = truth_open(&job.mechanism);
        solved_deltas(found, job, sigma, eps);
        for (enum eps_direction direction = 0; direction < EPS_DIRECTIONS; direction++) {
            struct enclosure delta = truth_delta(&truth, direction, eps, sigma, &effort);
            if (!(found[direction] >= (double)delta.lower))
                fail_msg("n = %zu, %zu bands, p = %g, sigma = %g, eps = %g, direction %d: %g, but %Lg", n, bands, p,
                         sigma, eps, (int)direction, found[direction], delta.lower);
            if (delta.lower > 1e-6L) {
                double ratio = found[direction] / (double)delta.lower;
                loosest[direction] = fmax(loosest[direction], ratio);
                logs[direction] += log(ratio);
                asked[direction]++;
            }
        }
        truth_close(&truth);
    }
    for (enum eps_direction direction = 0; direction < EPS_DIRECTIONS; direction++) {
        assert_true(asked[direction] >= 8);
        print_message("direction %d: over the truth by %.3f, at most %.3f\n", (int)direction,
                      exp(logs[direction] / (double)asked[direction]), loosest[direction]);
        assert_true(exp(logs[direction] / (double)asked[direction]) < 2.5 && loosest[direction] < 20);
    }
}

/* Independent steps, for which pld is exact: never below it in either direction, and for add at most the geometric mean
 * of untilted draws. */
TEST(rarer_draws_are_below)
{
    static const double one = 1;
    const size_t n = 200;
    for (int trial = 0; trial < 6; trial++) {
        double p = trial % 2 ? 0.02 : 0.01, sigma = trial < 2 ? 0.5 : trial < 4 ? 0.75 : 1, eps = trial % 2 ? 3 : 1.5;
        double found[EPS_DIRECTIONS], exact[EPS_DIRECTIONS];
        struct eps_job job = toeplitz_job(n, p, &one, 1);
        solved_deltas(found, job, sigma, eps);
        job.query.accountant.method = EPS_ACCOUNTANT_PLD;
        job.query.accountant.max_order = 0;
        solved_deltas(exact, job, sigma, eps);
        double m = (double)n * p / (2 * sigma * sigma), s = p * sqrt((double)n) / sigma;
        double geometric = (double)truth_gaussian(s, eps - m + s * s / 2);
        for (enum eps_direction direction = 0; direction < EPS_DIRECTIONS; direction++)
            if (!(found[direction] >= exact[direction] * (1 - 1e-9)))
                fail_msg("p = %g, sigma = %g, eps = %g, direction %d: %g, but %g", p, sigma, eps, (int)direction,
                         found[direction], exact[direction]);
        if (trial < 2 && !(found[EPS_ADD] < 0.97 * geometric))
            fail_msg("p = %g, sigma = %g, eps = %g: %g, %g", p, sigma, eps, found[EPS_ADD], geometric);
    }
}

/* Probabilities near 0 and near 1, entries of very different size, very little noise and very much of it. */
TEST(extremes_are_sound)
{
    static const double columns[][3] = {{1, 1e-6, 0}, {1e-6, 1, 0}, {1, 1, 1}, {1e-9, 1e-3, 1}};
    static const double banded[] = {1e-7, 0.999999, 1}, sigmas[] = {0.3, 3}, epsilons[] = {0, 0.7};
    const struct effort effort = {.samples = 2000, .quadrature_most = 2, .seed = seed, .floor = 1e-12L, .width = 1e-4L};
    double loosest = 0;
    for (size_t trial = 0; trial < 24; trial++) {
        size_t which = trial % 4;
        double p = banded[trial / 4 % 3], sigma = sigmas[trial / 12 % 2], eps = epsilons[trial % 2],
               found[EPS_DIRECTIONS];
        struct eps_job job = toeplitz_job(2, p, columns[which] + (which == 3), 2);
        struct truth truth = truth_open(&job.mechanism);
        solved_deltas(found, job, sigma, eps);
        for (enum eps_direction direction = 0; direction < EPS_DIRECTIONS; direction++) {
            struct enclosure delta = truth_delta(&truth, direction, eps, sigma, &effort);
            if (!(found[direction] >= (double)delta.lower))
                fail_msg("columns %zu, p = %g, sigma = %g, eps = %g, direction %d: %g, but %Lg", which, p, sigma, eps,
                         (int)direction, found[direction], delta.lower);
            if (delta.lower > 1e-6L)
                loosest = fmax(loosest, found[direction] / (double)delta.lower);
        }
        truth_close(&truth);
    }
    print_message("over the truth by at most %.3f\n", loosest);
    assert_true(loosest >= 1 && loosest < 3);
}

/* Independent steps compared with pld, which knows their law to its tolerance: down to deltas far below the reach of
 * quadrature. */
TEST(tails_are_sound)
{
    static const double one = 1, banded[] = {1e-4, 0.3, 0.999}, sigmas[] = {0.3, 1, 5}, epsilons[] = {0.2, 1.5, 8};
    for (size_t trial = 0; trial < 27; trial++) {
        double found[EPS_DIRECTIONS], exact[EPS_DIRECTIONS], p = banded[trial % 3], sigma = sigmas[trial / 3 % 3];
        struct eps_job job = toeplitz_job(3, p, &one, 1);
        solved_deltas(found, job, sigma, epsilons[trial / 9]);
        job.query.accountant.method = EPS_ACCOUNTANT_PLD;
        job.query.accountant.max_order = 0;
        solved_deltas(exact, job, sigma, epsilons[trial / 9]);
        for (enum eps_direction direction = 0; direction < EPS_DIRECTIONS; direction++)
            if (!(found[direction] >= exact[direction] * (1 - 2e-3)))
                fail_msg("p = %g, sigma = %g, eps = %g, direction %d: %g, but %g", p, sigma, epsilons[trial / 9],
                         (int)direction, found[direction], exact[direction]);
    }
}

/* Whatever sums over few participations are feasible: a job is declined, or has a finite estimate and an answer. */
TEST(many_bands_are_served_at_a_finite_cost)
{
    unsigned served = 0;
    for (size_t bands = 8; bands <= 40; bands += 8)
        for (double p = 1e-4; p < 0.1; p *= 6) {
            double operations = INFINITY, bytes, found[EPS_DIRECTIONS];
            struct eps_error error;
            struct eps_job job = job_of("{'n':1024,'matrix':{'family':'square_root','bands':%zu},'sampling':{'scheme':"
                                        "'poisson','p':%.17g},'accountant':{'method':'renyi','max_order':2},"
                                        "'noise_multiplier':4,'epsilon':1}",
                                        bands, p);
            if (eps_job_serves(NULL, &error, &job, &operations, &bytes) == EPS_UNSUPPORTED)
                continue;
            served++;
            assert_true(operations > 0 && operations < 1e12);
            solved_deltas(found, job, 4, 1);
            assert_true(found[EPS_REMOVE] > 0 && found[EPS_REMOVE] < 1);
        }
    assert_true(served >= 10);
}

TEST(what_nobody_derived_is_declined)
{
    static const double negative[] = {1, -0.5};
    double column[60] = {1, 0.5};
    struct eps_job job = toeplitz_job(100, 0.1, column, 2);
    job.mechanism.adjacency = EPS_ADJACENCY_REPLACE_ONE;
    assert_declined(job, "/adjacency");
    job = toeplitz_job(100, 0.1, column, 2);
    job.mechanism.sampling.examples_per_user = 2;
    assert_declined(job, "/sampling/examples_per_user");
    eps_job_init(&job);
    job.mechanism.n = 8;
    job.mechanism.sampling.scheme = EPS_SCHEME_POISSON;
    job.mechanism.sampling.p = 0.1;
    job.mechanism.sampling.last_iterate = true;
    job.query.accountant.method = EPS_ACCOUNTANT_RENYI;
    eps_job_defaults(&job);
    assert_declined(job, "/sampling/last_iterate");
    job = toeplitz_job(100, 0.1, negative, 2);
    assert_declined(job, "/matrix");
    for (size_t k = 2; k < 60; k++)
        column[k] = 0.2;
    job = toeplitz_job(100, 0.1, column, 60);
    assert_declined(job, "/matrix/bands");
}
