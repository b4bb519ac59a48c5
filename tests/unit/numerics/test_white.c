/*
 * White noise: it is Box-Muller's function of ChaCha20's words, whichever part of a row is requested and in whatever
 * order, and it is Gaussian: moments, tails, the whole law, and independence of neighbours, rows, tiles and keys. Keys
 * are fixed: a correct generator passes each bound with probability 1 - 1e-5 or more, and these keys do pass.
 *
 * SPDX-License-Identifier: GPL-3.0-or-later
 */
#include <math.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "lib/numerics/lanes/lanes.h"
#include "lib/numerics/random/white.h"
#include "tests/unit/test.h"

static const struct eps__white unit = {.key = {1, 2, 3, 4, 5, 6, 7, 8}, .sigma = 1};

static void assert_near(double got, double wanted, double tolerance)
{
    if (!(fabs(got - wanted) <= tolerance))
        fail_msg("got %.17g, wanted %.17g within %.3g", got, wanted, tolerance);
}

static double *room(size_t len)
{
    double *x = malloc(len * sizeof *x);
    assert_non_null(x);
    return x;
}

/* A whole tile in long double, word by word. */
static size_t plain_tile(double *out, const struct eps__white *white, uint64_t row, uint64_t tile)
{
    struct eps__chacha chacha;
    size_t small = 0;
    eps__chacha_init(&chacha, white->key, row << 28 | tile);
    for (size_t i = 0; i < EPS__WHITE_TILE; i += 2 * EPS__LANES) {
        long double radius[EPS__LANES];
        for (size_t lane = 0; lane < EPS__LANES; lane++) {
            uint64_t bits = eps__chacha_bits(&chacha);
            long double u = ldexp((double)bits, -64); /* 53 bits of each */
            if (bits < (uint64_t)1 << 53) {
                u += ldexpl((long double)(eps__chacha_bits(&chacha) | 1), -128);
                small++;
            }
            radius[lane] = sqrtl(-2 * logl(u));
        }
        for (size_t lane = 0; lane < EPS__LANES; lane++) {
            long double turn = ldexpl((long double)(eps__chacha_bits(&chacha) >> 11), -52) * acosl(-1);
            out[i + lane] = (double)(white->sigma * radius[lane] * cosl(turn));
            out[i + EPS__LANES + lane] = (double)(white->sigma * radius[lane] * sinl(turn));
        }
    }
    return small;
}

TEST(it_is_what_box_and_muller_make_of_the_stream)
{
    const struct eps__white white = {.key = {9, 9}, .sigma = 2.5};
    double found[EPS__WHITE_TILE], wanted[EPS__WHITE_TILE];
    size_t small = 0;
    for (uint64_t tile = 0; tile < 5; tile++) {
        uint64_t row = tile % 2 ? 3 : ((uint64_t)1 << 36) - 1;
        eps__white_row(&white, found, row, tile * EPS__WHITE_TILE, EPS__WHITE_TILE);
        small += plain_tile(wanted, &white, row, tile);
        for (size_t i = 0; i < EPS__WHITE_TILE; i++) { /* off by a few units of rounding of the radius */
            size_t other = i ^ EPS__LANES;
            assert_near(found[i], wanted[i], 0x1p-50 * hypot(wanted[i], wanted[other]));
        }
    }
    assert_true(small > 0); /* uniforms of 128 bits were among them */
}

/* The same numbers, whichever part of a row is requested, and whenever. */
TEST(any_part_is_the_same_at_any_time)
{
    const size_t len = 3 * EPS__WHITE_TILE + 77;
    double *whole = room(len), *part = room(len), other;
    eps__white_row(&unit, whole, 5, 0, len);
    for (size_t count = 1; count < len - 2 * EPS__WHITE_TILE; count = count * 3 + 1) {
        eps__white_row(&unit, part, 5, 2 * EPS__WHITE_TILE, count);
        assert_memory_equal(part, whole + 2 * EPS__WHITE_TILE, count * sizeof *part);
    }
    eps__white_row(&unit, part, 5, 0, len);
    assert_memory_equal(part, whole, len * sizeof *part);
    const struct eps__white another = {.key = {1, 2, 3, 4, 5, 6, 7, 9}, .sigma = 1};
    eps__white_row(&another, &other, 5, 0, 1);
    assert_true(other != whole[0]);
    eps__white_row(&unit, &other, 6, 0, 1);
    assert_true(other != whole[0]);
    const struct eps__white none = {.key = {1}, .sigma = 0};
    eps__white_row(&none, part, 0, 0, 3);
    assert_true(part[0] == 0 && part[1] == 0 && part[2] == 0);
    free(whole);
    free(part);
}

static int ascending(const void *a, const void *b)
{
    return (*(const double *)a > *(const double *)b) - (*(const double *)a < *(const double *)b);
}

/* The statistics of Kolmogorov-Smirnov, and of Anderson-Darling, which weights the tails, for n sorted standard
 * normals. */
static void distances(const double *z, size_t n, double *kolmogorov, double *anderson)
{
    double most = 0, sum = 0, count = (double)n;
    for (size_t i = 0; i < n; i++) {
        double below = erfc(-z[i] * M_SQRT1_2) / 2, above = erfc(z[n - 1 - i] * M_SQRT1_2) / 2;
        most = fmax(most, fmax((double)(i + 1) / count - below, below - (double)i / count));
        sum += (2 * (double)i + 1) / count * (log(below) + log(above));
    }
    *kolmogorov = most * sqrt(count);
    *anderson = -count - sum;
}

TEST(it_is_gaussian)
{
    enum { ROWS = 16 };
    const size_t each = (size_t)1 << 16, len = ROWS * each;
    double *z = room(len), n = (double)len, power[7] = {0}, kolmogorov, anderson;
    for (size_t row = 0; row < ROWS; row++)
        eps__white_row(&unit, z + row * each, row, 0, each);
    for (size_t i = 0; i < len; i++) {
        double x = z[i];
        for (int j = 1; j <= 6; j++, x *= z[i])
            power[j] += x / n;
    }
    const double moment[7] = {1, 0, 1, 0, 3, 0, 15}, square[7] = {1, 1, 3, 15, 105, 945, 10395};
    for (int j = 1; j <= 6; j++)
        assert_near(power[j], moment[j], 5 * sqrt((square[j] - moment[j] * moment[j]) / n));
    qsort(z, len, sizeof *z, ascending);
    distances(z, len, &kolmogorov, &anderson);
    assert_true(kolmogorov > 0.2 && kolmogorov < 2.5); /* beyond with probability 7.5e-6 */
    assert_true(anderson < 10);                        /* 1.1e-5 (Marsaglia 2004) */
    free(z);
}

/* How many of 16 million lie beyond each threshold, on either side. */
TEST(its_tails_are_right)
{
    const size_t each = (size_t)1 << 18, rows = 64;
    double *z = room(each), n = (double)(each * rows), beyond[12] = {0}, most = 0;
    for (size_t row = 0; row < rows; row++) {
        eps__white_row(&unit, z, 1000 + row, 0, each);
        for (size_t i = 0; i < each; i++) {
            most = fmax(most, fabs(z[i]));
            for (int k = 0; k < 12 && fabs(z[i]) >= k / 2.0; k++)
                beyond[k]++;
        }
    }
    for (int k = 0; k < 12; k++) {
        double p = erfc(k / 2.0 * M_SQRT1_2), mean = n * p;
        assert_near(beyond[k], mean, 5 * sqrt(mean * (1 - p)) + 5); /* the last count has Poisson's law */
    }
    assert_true(most > 4.9 && most < 7.2); /* missed with probability 1e-7, 1e-5 */
    free(z);
}

/* The mean product of numbers that should be independent, and of their squares. */
static void assert_strangers(const double *a, const double *b, size_t len)
{
    double product = 0, squares = 0, n = (double)len;
    for (size_t i = 0; i < len; i++) {
        product += a[i] * b[i] / n;
        squares += (a[i] * a[i] - 1) * (b[i] * b[i] - 1) / n;
    }
    assert_near(product, 0, 5 / sqrt(n));
    assert_near(squares, 0, 10 / sqrt(n));
}

TEST(neighbours_rows_tiles_and_keys_have_nothing_in_common)
{
    const size_t len = 32 * EPS__WHITE_TILE;
    const struct eps__white another = {.key = {1, 2, 3, 4, 5, 6, 7, 8, [31] = 1}, .sigma = 1};
    double *z = room(len + EPS__WHITE_TILE), *next = room(len);
    eps__white_row(&unit, z, 7, 0, len + EPS__WHITE_TILE);
    assert_strangers(z, z + 1, len);
    assert_strangers(z, z + EPS__LANES, len); /* the other of a pair */
    assert_strangers(z, z + EPS__WHITE_TILE, len);
    eps__white_row(&unit, next, 8, 0, len);
    assert_strangers(z, next, len);
    eps__white_row(&another, next, 7, 0, len);
    assert_strangers(z, next, len);
    free(z);
    free(next);
}
