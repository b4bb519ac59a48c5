/*
 * Lanes of random numbers: every variant that this machine can run gives the bits of the plain loops written here and
 * of Random123's Philox; normals and uniforms have their laws; e^x and ln x are as close to quadruple precision as
 * claimed.
 *
 * SPDX-License-Identifier: GPL-3.0-or-later
 */
#include <float.h>
#include <math.h>
#include <Random123/philox.h>
#include <sleef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "lib/numerics/lanes/lanes_variant.h"
#include "tests/unit/draw.h"
#include "tests/unit/exact.h"
#include "tests/unit/test.h"

enum { ROWS = 300, COUNT = ROWS * EPS__LANES };
static const uint64_t seed = 42;

static double *room(size_t len)
{
    double *made = malloc(len * sizeof *made);
    assert_non_null(made);
    return made;
}

static void assert_bits(const char *what, const char *name, const double *found, const double *expected, size_t len)
{
    for (size_t i = 0; i < len; i++)
        if (memcmp(found + i, expected + i, sizeof *found) != 0)
            fail_msg("%s by %s: number %zu is %.17g, not %.17g", what, name, i, found[i], expected[i]);
}

static void assert_near(double found, double expected, double apart)
{
    if (!(fabs(found - expected) <= apart))
        fail_msg("%.17g, not %.17g within %.3g", found, expected, apart);
}

#define FOR_VARIANTS(variant)            \
    for (size_t at_ = 0; at_ < 8; at_++) \
        for (const struct eps__lanes_variant *variant = eps__lanes_variant(at_); variant; variant = NULL)

/* ------------------------------------------------------------ the numbers */

static double uniform_of(const uint32_t half[2])
{
    return (double)((uint64_t)half[1] << 32 | half[0]);
}

/* Box-Muller as in lib/numerics/lanes/lanes.h, from Random123's own words. */
static void plain_normals(double *out, const struct eps__stream *stream, uint32_t draw, size_t first, size_t rows)
{
    for (size_t i = 0; i < rows; i += 2)
        for (uint32_t lane = 0; lane < EPS__LANES; lane++) {
            philox4x32_ctr_t at = {
                {(uint32_t)((first + i) / 2), draw + lane, (uint32_t)stream->chunk, (uint32_t)(stream->chunk >> 32)}};
            philox4x32_key_t key = {{stream->key[0], stream->key[1]}};
            philox4x32_ctr_t bits = philox4x32(at, key);
            double u = ((double)(((uint64_t)bits.v[1] << 32 | bits.v[0]) >> 1) + 0.5) * 0x1p-63;
            double turn = (double)(((uint64_t)bits.v[3] << 32 | bits.v[2]) >> 11) * 0x1p-52;
            Sleef_double_2 circle = Sleef_cinz_sincospid1_u35purec(turn);
            double radius = sqrt(-2 * Sleef_cinz_logd1_u10purec(u));
            out[i * EPS__LANES + lane] = radius * circle.y;
            out[(i + 1) * EPS__LANES + lane] = radius * circle.x;
        }
}

TEST(normals_are_those_of_random123)
{
    double *found = room(COUNT), *expected = room(COUNT);
    uint64_t random = seed;
    FOR_VARIANTS(variant)
    for (int i = 0; i < 40; i++) {
        struct eps__stream stream;
        stream.key[0] = (uint32_t)draw_below(&random, 1ull << 32);
        stream.key[1] = (uint32_t)draw_below(&random, 1ull << 32);
        stream.chunk = draw_below(&random, 1ull << 62);
        uint32_t draw = (uint32_t)draw_below(&random, 1 << 20) * EPS__LANES;
        size_t first = 2 * draw_below(&random, i % 2 ? 100 : 0x7fffff00), rows = 2 * draw_below(&random, ROWS / 2 + 1);
        plain_normals(expected, &stream, draw, first, rows);
        variant->normals(found, &stream, draw, first, rows);
        assert_bits("normals", variant->name, found, expected, rows * EPS__LANES);
    }
    free(found);
    free(expected);
}

/* The known answers of Random123: kat_vectors, philox4x32 10. */
TEST(philox_gives_the_known_answers)
{
    const struct eps__stream zero = {.key = {0, 0}, .chunk = 0},
                             pi = {.key = {0xa4093822, 0x299f31d0}, .chunk = 0x0370734413198a2e};
    const uint32_t of_zero[4] = {0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8};
    const uint32_t of_pi[4] = {0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1};
    double radius = sqrt(-2 * log(uniform_of(of_zero) * 0x1p-64));
    double angle = uniform_of(of_zero + 2) * 0x1p-63 * M_PI;
    FOR_VARIANTS(variant)
    {
        double normals[2 * EPS__LANES];
        variant->normals(normals, &zero, 0, 0, 2);
        assert_near(normals[0], radius * cos(angle), 1e-14);
        assert_near(normals[EPS__LANES], radius * sin(angle), 1e-14);
    }
    for (uint32_t i = 0; i < 2; i++) /* 0x85a308d3 has the bit that marks uniforms */
        assert_near(eps__uniform(&pi, 0x85a308d3, 2 * (size_t)0x243f6a88 + i), uniform_of(of_pi + 2 * i) * 0x1p-64,
                    0x1p-53);
}

/* The largest distance between the empirical law of n sorted numbers and their true law. */
static double kolmogorov(const double *law_at, size_t n)
{
    double most = 0;
    for (size_t i = 0; i < n; i++)
        most = fmax(most, fmax((double)(i + 1) / (double)n - law_at[i], law_at[i] - (double)i / (double)n));
    return most * sqrt((double)n);
}

static int ascending(const void *a, const void *b)
{
    return (*(const double *)a > *(const double *)b) - (*(const double *)a < *(const double *)b);
}

TEST(normals_are_normal)
{
    enum { DRAWS = 64, EACH = 256 };
    size_t len = (size_t)DRAWS * EACH * EPS__LANES;
    double *z = room(len), power[5] = {0}, touch[3] = {0}, n = (double)len;
    struct eps__stream stream = {.key = {7, 8}, .chunk = 9};
    for (uint32_t i = 0; i < DRAWS; i++)
        eps__normals(z + (size_t)i * EACH * EPS__LANES, &stream, i * EPS__LANES, 0, EACH);
    for (size_t i = 0; i < len; i++) {
        assert_true(fabs(z[i]) < EPS__NORMAL_MOST);
        for (int j = 1; j <= 4; j++)
            power[j] += pow(z[i], j) / n;
    }
    /* neighbours: the next lane, the other number of a pair, the squares of a pair */
    for (size_t i = 0; i + 2 * EPS__LANES <= len; i++) {
        touch[0] += z[i] * z[i + 1] / n;
        touch[1] += z[i] * z[i + EPS__LANES] / n;
        touch[2] += (z[i] * z[i] - 1) * (z[i + EPS__LANES] * z[i + EPS__LANES] - 1) / n;
    }
    assert_near(power[1], 0, 5 / sqrt(n));
    assert_near(power[2], 1, 5 * sqrt(2 / n));
    assert_near(power[3], 0, 5 * sqrt(15 / n));
    assert_near(power[4], 3, 5 * sqrt(96 / n));
    assert_near(touch[0], 0, 5 / sqrt(n));
    assert_near(touch[1], 0, 5 / sqrt(n));
    assert_near(touch[2], 0, 10 / sqrt(n));
    qsort(z, len, sizeof *z, ascending);
    for (size_t i = 0; i < len; i++)
        z[i] = erfc(-z[i] * M_SQRT1_2) / 2;
    double apart = kolmogorov(z, len);
    assert_true(apart > 0.2 && apart < 2.2); /* each is exceeded with probability 1e-4 or less */
    free(z);
}

TEST(uniforms_are_uniform)
{
    enum { DRAWS = 256, EACH = 256 };
    double *u = room(DRAWS * EACH);
    struct eps__stream stream = {.key = {7, 8}, .chunk = 9};
    for (uint32_t i = 0; i < DRAWS; i++)
        for (size_t j = 0; j < EACH; j++) {
            double x = u[i * EACH + j] = eps__uniform(&stream, i, j);
            assert_true(x > 0 && x < 1 && ldexp(x, 54) == rint(ldexp(x, 54)));
        }
    FOR_VARIANTS(variant)
    {
        double row[EACH * EPS__LANES];
        for (uint32_t i = 0; i < DRAWS; i += EPS__LANES) {
            variant->uniforms(row, &stream, i, 0, EACH);
            for (uint32_t lane = 0; lane < EPS__LANES; lane++)
                for (size_t j = 0; j < EACH; j++)
                    assert_bits("uniform", variant->name, row + j * EPS__LANES + lane, u + (i + lane) * EACH + j, 1);
        }
    }
    qsort(u, DRAWS * EACH, sizeof *u, ascending);
    for (size_t i = 0; i + 1 < DRAWS * EACH; i++)
        assert_true(u[i] < u[i + 1]); /* 2^16 of 2^53: a counter used twice would show */
    double apart = kolmogorov(u, DRAWS * EACH);
    assert_true(apart > 0.2 && apart < 2.2);
    free(u);
}

/* ------------------------------------------------------------ e^x and ln x */

/* In units of the last place of the result. */
static double units_off(double found, __float128 exact)
{
    __float128 off = exact > found ? exact - found : found - exact;
    return (double)(off / ldexp(1, ilogb(found) - (DBL_MANT_DIG - 1)));
}

static void fill_wide(double *x, uint64_t *random, bool positive)
{
    static const double edge[] = {0,
                                  1,
                                  -1,
                                  0x1p-1022,
                                  0x1p-1074,
                                  DBL_MAX,
                                  -DBL_MAX,
                                  INFINITY,
                                  -INFINITY,
                                  745,
                                  -745,
                                  710,
                                  -710,
                                  709.7,
                                  -708.3,
                                  0.5,
                                  M_LN2,
                                  0x1.fffffffffffffp-1,
                                  1 + DBL_EPSILON};
    for (size_t i = 0; i < COUNT; i++) {
        int scale = (int)draw_below(random, positive ? 2000 : 70) - (positive ? 1000 : 60);
        x[i] = ldexp(0.5 + draw_unit(random), scale) * (positive || draw_below(random, 2) ? 1 : -1);
        if (!positive && scale > 9)
            x[i] = fmod(x[i], 760);
    }
    for (size_t i = 0; i < sizeof edge / sizeof *edge; i++)
        x[100 + i] = positive ? fabs(edge[i]) : edge[i];
}

TEST(powers_and_logarithms_are_near_and_the_same_everywhere)
{
    double *x = room(COUNT), *found = room(COUNT), *expected = room(COUNT), worst = 0;
    uint64_t random = seed;
    for (int logarithm = 0; logarithm < 2; logarithm++)
        for (int round = 0; round < 5; round++) {
            fill_wide(x, &random, logarithm);
            for (size_t i = 0; i < COUNT; i++) {
                expected[i] = logarithm ? Sleef_cinz_logd1_u10purec(x[i]) : Sleef_cinz_expd1_u10purec(x[i]);
                if (isfinite(x[i]) && isnormal(expected[i]))
                    worst = fmax(worst, units_off(expected[i], logarithm ? logq(x[i]) : expq(x[i])));
            }
            FOR_VARIANTS(variant)
            {
                memcpy(found, x, COUNT * sizeof *x);
                (logarithm ? variant->log : variant->exp)(found, ROWS);
                assert_bits(logarithm ? "ln" : "exp", variant->name, found, expected, COUNT);
            }
        }
    assert_true(worst > 0.5 && worst <= 1);
    free(x);
    free(found);
    free(expected);
}

/* ------------------------------------------------------------ loops */

TEST(correlations_are_those_of_the_plain_loop)
{
    enum { MOST = 70 };
    double *y = room((ROWS + MOST) * EPS__LANES), *column = room(ROWS * MOST), *found = room(COUNT),
           *expected = room(COUNT);
    uint64_t random = seed;
    for (size_t i = 0; i < (ROWS + MOST) * EPS__LANES; i++)
        y[i] = 4 * draw_unit(&random) - 2;
    for (size_t i = 0; i < ROWS * MOST; i++)
        column[i] = draw_unit(&random);
    for (size_t width = 1; width <= MOST; width++) {
        size_t rows = draw_below(&random, 40) + (width % 10 == 0 ? 200 : 0), stride = width % 2 ? 0 : MOST;
        for (size_t i = 0; i < rows * EPS__LANES; i++) {
            expected[i] = 0;
            for (size_t d = 0; d < width; d++)
                expected[i] = fma(column[i / EPS__LANES * stride + d], y[i + d * EPS__LANES], expected[i]);
        }
        FOR_VARIANTS(variant)
        {
            variant->correlate(found, y, column, stride, width, rows);
            assert_bits("correlation", variant->name, found, expected, rows * EPS__LANES);
        }
    }
    free(y);
    free(column);
    free(found);
    free(expected);
}

TEST(mixtures_are_those_of_the_plain_loop)
{
    double *x = room(COUNT), *found = room(COUNT), *expected = room(COUNT), half[ROWS], log_pick[5];
    uint64_t random = seed;
    for (unsigned terms = 1; terms <= 5; terms++) {
        for (size_t i = 0; i < COUNT; i++)
            x[i] = 40 * draw_unit(&random) - 20;
        for (size_t i = 0; i < ROWS; i++)
            half[i] = draw_unit(&random);
        for (size_t j = 0; j < 5; j++)
            log_pick[j] = -30 * draw_unit(&random);
        for (size_t i = 0; i < COUNT; i++) {
            expected[i] = 0;
            for (unsigned j = 1; j <= terms; j++) {
                double square = (double)j * j * half[i / EPS__LANES];
                expected[i] += Sleef_cinz_expd1_u10purec((j * x[i] - square) + log_pick[j - 1]);
            }
        }
        FOR_VARIANTS(variant)
        {
            memcpy(found, x, COUNT * sizeof *x);
            variant->mixture(found, half, log_pick, terms, ROWS);
            assert_bits("mixture", variant->name, found, expected, COUNT);
        }
    }
    free(x);
    free(found);
    free(expected);
}

/* One of the two draws that share a complex number is 0, or all numbers are equal, or neither; columns of any width. */
TEST(correlations_by_fft_are_within_their_bound)
{
    enum { LEN_MOST = 1024 };
    double *y = room(LEN_MOST * EPS__LANES), *work = room(LEN_MOST * EPS__LANES), *found = room(LEN_MOST * EPS__LANES),
           *expected = room(LEN_MOST * EPS__LANES), column[LEN_MOST];
    uint64_t random = seed;
    double nearest = INFINITY;
    for (size_t len = 4, round = 0; len <= LEN_MOST; round++, len *= round % 3 == 0 ? 2 : 1) {
        size_t width = 1 + draw_below(&random, len), rows = len - width + 1;
        double sum = 0;
        for (size_t d = 0; d < width; d++)
            sum += column[d] = round % 3 == 0 ? 1 : draw_unit(&random) / (double)(d + 1);
        for (size_t i = 0; i < len * EPS__LANES; i++)
            y[i] = round % 3 == 0
                       ? 1
                       : (2 * draw_unit(&random) - 1) * (i % EPS__LANES < round % 2 * EPS__LANES / 2 ? 0 : 1);
        struct eps__spectrum spectrum;
        assert_int_equal(eps__spectrum_make(&spectrum, column, width, len), EPS_OK);
        assert_int_equal(spectrum.len, len);
        eps__lanes_base.by_spectrum(expected, y, &spectrum, rows, work);
        double bound = eps__spectrum_units(&spectrum) * 0x1p-53 * sum;
        for (size_t i = 0; i < rows * EPS__LANES; i++) {
            __float128 exact = 0;
            for (size_t d = 0; d < width; d++)
                exact += (__float128)column[d] * y[i + d * EPS__LANES];
            double off = fabs((double)(exact - expected[i]));
            if (!(off <= bound))
                fail_msg("%zu of %zu rows: off by %.3g, claimed %.3g", len, width, off, bound);
            nearest = fmin(nearest, bound / fmax(off, 0x1p-1000));
        }
        FOR_VARIANTS(variant)
        {
            for (size_t i = 0; i < len * EPS__LANES; i++)
                work[i] = NAN;
            variant->by_spectrum(found, y, &spectrum, rows, work);
            assert_bits("by FFT", variant->name, found, expected, rows * EPS__LANES);
        }
        eps__spectrum_clear(&spectrum);
    }
    assert_true(nearest < 100); /* nor is it excessive */
    free(y);
    free(work);
    free(found);
    free(expected);
}

TEST(coins_are_those_of_the_plain_loop)
{
    enum { MOST = 32 };
    static double after[MOST * EPS__LANES], now[MOST * EPS__LANES], expected[MOST * EPS__LANES];
    double own[EPS__LANES], weight[MOST];
    uint64_t state = 271828;
    for (int trial = 0; trial < 40; trial++) {
        size_t states = (size_t)2 << trial % 5;
        double keep = draw_unit(&state);
        for (size_t i = 0; i < states * EPS__LANES; i++)
            after[i] = draw_between(&state, 0.1, 3);
        for (size_t lane = 0; lane < EPS__LANES; lane++)
            own[lane] = draw_between(&state, 0.1, 3);
        for (size_t s = 0; s < states; s++)
            weight[s] = draw_unit(&state);
        for (size_t s = 0; s < states; s++)
            for (size_t lane = 0; lane < EPS__LANES; lane++) {
                size_t none = 2 * s % states * EPS__LANES + lane;
                double left = keep * after[none], term = own[lane] * after[none + EPS__LANES];
                expected[s * EPS__LANES + lane] = left + weight[s] * term;
            }
        for (size_t i = 0; eps__lanes_variant(i); i++) {
            memset(now, 0, sizeof now);
            eps__lanes_variant(i)->coins(now, after, weight, states, keep, own);
            for (size_t row = 0; row < states; row++)
                assert_bits("coins", eps__lanes_variant(i)->name, now + row * EPS__LANES, expected + row * EPS__LANES,
                            EPS__LANES);
        }
    }
}

TEST(moves_are_those_of_the_plain_loop)
{
    enum { MOST = 40 };
    static double after[MOST * EPS__LANES], now[MOST * EPS__LANES], expected[MOST * EPS__LANES];
    double own[EPS__LANES], weight[MOST], range[2 * EPS__LANES];
    uint32_t none[MOST], taken[MOST];
    uint64_t state = 141421;
    for (int trial = 0; trial < 40; trial++) {
        const struct eps__lanes_moves moves = {none, taken, weight, 1 + draw_below(&state, MOST), draw_unit(&state)};
        double ends[2 * EPS__LANES];
        for (size_t i = 0; i < MOST * EPS__LANES; i++)
            after[i] = draw_between(&state, 0.1, 3);
        for (size_t lane = 0; lane < EPS__LANES; lane++) {
            own[lane] = draw_between(&state, 0.1, 3);
            ends[lane] = INFINITY;
            ends[EPS__LANES + lane] = 0;
        }
        for (size_t s = 0; s < moves.states; s++) {
            weight[s] = draw_unit(&state);
            none[s] = (uint32_t)draw_below(&state, MOST);
            taken[s] = (uint32_t)draw_below(&state, MOST);
            for (size_t lane = 0; lane < EPS__LANES; lane++) {
                double left = moves.keep * after[none[s] * EPS__LANES + lane];
                double term = own[lane] * after[taken[s] * EPS__LANES + lane], value = left + weight[s] * term;
                expected[s * EPS__LANES + lane] = value;
                ends[lane] = fmin(ends[lane], value);
                ends[EPS__LANES + lane] = fmax(ends[EPS__LANES + lane], value);
            }
        }
        for (size_t i = 0; eps__lanes_variant(i); i++) {
            const char *name = eps__lanes_variant(i)->name;
            memset(now, 0, sizeof now);
            eps__lanes_variant(i)->moves(now, after, &moves, own, range);
            for (size_t s = 0; s < moves.states; s++)
                assert_bits("moves", name, now + s * EPS__LANES, expected + s * EPS__LANES, EPS__LANES);
            assert_bits("least", name, range, ends, EPS__LANES);
            assert_bits("most", name, range + EPS__LANES, ends + EPS__LANES, EPS__LANES);
        }
    }
}

/* The recursion without a ring, with all of f. Returns where it stops. */
static size_t plain_recursion(double *f, size_t separation, const double *factor, double keep, size_t from, size_t end)
{
    for (size_t i = end; i-- > from;) {
        bool within = true;
        for (size_t lane = 0; lane < EPS__LANES; lane++) {
            double value = keep * f[(i + 1) * EPS__LANES + lane] +
                           factor[(i - from) * EPS__LANES + lane] * f[(i + separation) * EPS__LANES + lane];
            within &= value >= 0x1p-600 && value <= 0x1p300;
            f[i * EPS__LANES + lane] = value;
        }
        if (!within)
            return i;
    }
    return SIZE_MAX;
}

TEST(recursions_are_those_of_the_plain_loop)
{
    enum { MOST = 40 };
    double *f = room((ROWS + MOST) * EPS__LANES), *factor = room(COUNT), *ring = room(MOST * EPS__LANES);
    uint64_t random = seed;
    size_t stopped = 0;
    for (size_t round = 0; round < 200; round++) {
        size_t separation = 1 + draw_below(&random, MOST), from = draw_below(&random, ROWS / 2);
        size_t end = from + draw_below(&random, ROWS / 2 + 1);
        double keep = round % 3 == 0 ? 0x1p-40 * draw_unit(&random) : draw_unit(&random);
        double size = round % 5 == 0 ? 0x1p40 : round % 3 == 0 ? 0x1p-40 : 1;
        for (size_t i = 0; i < COUNT; i++)
            factor[i] = size * draw_unit(&random);
        if (round % 7 == 0)
            factor[draw_below(&random, COUNT)] = round % 2 ? NAN : INFINITY;
        for (size_t i = 0; i < separation * EPS__LANES; i++)
            f[end * EPS__LANES + i] = 0.5 + draw_unit(&random);
        double *begin = room(MOST * EPS__LANES);
        for (size_t i = end; i < end + separation; i++)
            memcpy(begin + i % separation * EPS__LANES, f + i * EPS__LANES, EPS__LANES * sizeof *f);
        size_t expected = plain_recursion(f, separation, factor, keep, from, end);
        stopped += expected != SIZE_MAX;
        FOR_VARIANTS(variant)
        {
            memcpy(ring, begin, separation * EPS__LANES * sizeof *f);
            size_t found = variant->recur(ring, separation, factor, keep, from, end),
                   at = found == SIZE_MAX ? from : found;
            assert_int_equal(found, expected);
            for (size_t i = at; i < at + separation; i++)
                for (size_t lane = 0; lane < EPS__LANES; lane++) {
                    const double *now = ring + i % separation * EPS__LANES + lane;
                    if (!isnan(*now))
                        assert_bits("recursion", variant->name, now, f + i * EPS__LANES + lane, 1);
                }
        }
        free(begin);
    }
    assert_true(stopped > 20 && stopped < 180);
    free(f);
    free(factor);
    free(ring);
}

/* The widest variant that this machine supports is used. */
TEST(the_variants_are_those_of_the_machine)
{
    size_t len = 0;
    while (eps__lanes_variant(len))
        len++;
    assert_in_range(len, 1, 3);
    assert_string_equal(eps__lanes_variant(len - 1)->name, "base");
    assert_null(eps__lanes_variant(len));
#if defined __x86_64__
    if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma"))
        assert_true(len >= 2);
#endif
}
