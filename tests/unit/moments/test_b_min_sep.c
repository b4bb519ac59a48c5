/*
 * The moments of b-min-sep sampling, compared with sums over all patterns, with sums over the patterns of several
 * copies, and with other schemes where b-min-sep coincides with one.
 *
 * SPDX-License-Identifier: GPL-3.0-or-later
 */
#include <math.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "lib/accountants/accountant.h"
#include "lib/epsilon.h"
#include "lib/moments/laws/b_min_sep_residual.h"
#include "lib/job/setting.h"
#include "tests/truth/mechanism.h"
#include "tests/unit/draw.h"
#include "tests/unit/solved.h"
#include "tests/unit/test.h"

enum { STEPS_MAX = 9, PATTERNS_MAX = 4000, ORDER_MAX = 4 };

static const uint64_t seed = 20261122;

/* E X^a for 2 <= a <= most; *units: the largest of their errors, in units. */
static void sums_of(eps__quad *raw, double *units, const struct eps__b_min_sep *b_min_sep, unsigned most,
                    enum eps__precision precision)
{
    *units = 0;
    for (unsigned a = 2; a <= most; a++) {
        double own;
        assert_int_equal(eps__b_min_sep_raw(NULL, &raw[a], &own, b_min_sep, a, precision), EPS_OK);
        *units = fmax(*units, own);
    }
}

/* ------------------------------------------------------------ all patterns */

struct patterns {
    size_t len;
    double weight[PATTERNS_MAX];
    unsigned char at[PATTERNS_MAX][STEPS_MAX]; /* how many examples took part */
};

static void add_patterns(struct patterns *all, const struct eps__b_min_sep *b_min_sep, unsigned char *pattern,
                         size_t step, size_t barred, double weight)
{
    size_t n = b_min_sep->banded.len;
    double p = b_min_sep->banded.p;
    if (weight == 0)
        return;
    if (step == n) {
        assert_true(all->len < PATTERNS_MAX);
        memcpy(all->at[all->len], pattern, n);
        all->weight[all->len++] = weight;
        return;
    }
    for (unsigned j = 0; j <= (barred > 0 ? 0 : b_min_sep->examples); j++) {
        double chance = 1;
        for (unsigned i = 0; i < b_min_sep->examples && barred == 0; i++)
            chance *= i < j ? p * (b_min_sep->examples - i) / (i + 1) : 1 - p;
        pattern[step] = (unsigned char)j;
        add_patterns(all, b_min_sep, pattern, step + 1,
                     j > 0        ? b_min_sep->separation - 1
                     : barred > 0 ? barred - 1
                                  : 0,
                     weight * chance);
    }
}

static void make_patterns(struct patterns *all, const struct eps__b_min_sep *b_min_sep)
{
    unsigned char pattern[STEPS_MAX];
    double p = b_min_sep->banded.p, waits = b_min_sep->warm ? 1 / (1 + (double)(b_min_sep->separation - 1) * p) : 1;
    all->len = 0;
    add_patterns(all, b_min_sep, pattern, 0, 0, waits);
    for (size_t r = 1; b_min_sep->warm && r < b_min_sep->separation; r++)
        add_patterns(all, b_min_sep, pattern, 0, r, waits * p);
}

static double banded_entry(const struct eps__banded_gram *banded, size_t i, size_t j)
{
    size_t d = i > j ? i - j : j - i;
    return d < banded->width ? banded->gram[(i > j ? i : j) * banded->width + d] : 0;
}

/* E X^a by all a-tuples of patterns. */
static double enumerate(const struct patterns *all, const struct eps__banded_gram *banded, unsigned a, double *products)
{
    size_t tuple[ORDER_MAX] = {0};
    double sum = 0;
    for (size_t x = 0; x < all->len; x++)
        for (size_t y = 0; y < all->len; y++) {
            double product = 0;
            for (size_t i = 0; i < banded->len; i++)
                for (size_t j = 0; j < banded->len && all->at[x][i] > 0; j++)
                    product += all->at[x][i] * all->at[y][j] * banded_entry(banded, i, j);
            products[x * all->len + y] = exp(product);
        }
    for (bool more = true; more;) {
        double term = 1;
        for (unsigned c = 0; c < a; c++) {
            term *= all->weight[tuple[c]];
            for (unsigned d = 0; d < c; d++)
                term *= products[tuple[c] * all->len + tuple[d]];
        }
        sum += term;
        more = false;
        for (unsigned c = 0; c < a && !more; c++) {
            tuple[c] = (tuple[c] + 1) % all->len;
            more = tuple[c] > 0;
        }
    }
    return sum;
}

/* A random Gram matrix of columns with this many bands, that of C. */
static void random_columns(struct eps__b_min_sep *b_min_sep, uint64_t *state, size_t n, size_t bands, double scale)
{
    double columns[STEPS_MAX][STEPS_MAX] = {{0}}, *gram = calloc(n * bands, sizeof *gram);
    assert_non_null(gram);
    for (size_t j = 0; j < n; j++)
        for (size_t i = j; i < n && i < j + bands; i++)
            columns[j][i] = draw_below(state, 4) ? scale * draw_unit(state) : 0;
    for (size_t i = 0; i < n; i++)
        for (size_t d = 0; d < bands && d <= i; d++)
            for (size_t row = 0; row < n; row++)
                gram[i * bands + d] += columns[i][row] * columns[i - d][row];
    double p = b_min_sep->banded.p;
    assert_int_equal(eps__banded_gram_make(&b_min_sep->banded, gram, n, bands, p, 0, 1), EPS_OK);
    free(gram);
}

TEST(sums_are_over_all_patterns)
{
    static struct patterns all;
    double *products = malloc(PATTERNS_MAX * PATTERNS_MAX * sizeof *products / 16);
    uint64_t state = seed;
    size_t wide = 0;
    assert_non_null(products);
    for (int c = 0; c < 150; c++) {
        struct eps__b_min_sep b_min_sep = {
            .separation = 1 + draw_below(&state, 5), .examples = 1, .warm = draw_below(&state, 2)};
        size_t n = 1 + draw_below(&state, STEPS_MAX - 1);
        if (!b_min_sep.warm)
            b_min_sep.examples = 1 + (unsigned)draw_below(&state, 3);
        if (b_min_sep.examples > 1 && n > 5)
            n = 5;
        size_t most = b_min_sep.examples > 1 && b_min_sep.separation < n ? b_min_sep.separation : n;
        b_min_sep.banded.p = draw_below(&state, 5) ? draw_unit(&state) : (double)draw_below(&state, 2);
        random_columns(&b_min_sep, &state, n, 1 + draw_below(&state, most), draw_log(&state, 0.1, 2));
        make_patterns(&all, &b_min_sep);
        double total = 0;
        for (size_t x = 0; x < all.len; x++)
            total += all.weight[x];
        assert_true(fabs(total - 1) < 1e-12);
        bool fits = all.len * all.len <= PATTERNS_MAX * PATTERNS_MAX / 16;
        wide += fits && b_min_sep.banded.width > b_min_sep.separation;
        for (int precision = 0; fits && precision < 3; precision++) {
            eps__quad raw[ORDER_MAX + 1];
            double units, bits = precision == EPS__PRECISION_QUAD   ? 0x1p-113
                                 : precision == EPS__PRECISION_LONG ? 0x1p-64
                                                                    : 0x1p-53;
            unsigned orders = all.len < 12 ? 4 : all.len < 60 ? 3 : 2;
            sums_of(raw, &units, &b_min_sep, orders, (enum eps__precision)precision);
            assert_true(units * 0x1p-113 < 1e6 * bits);
            for (unsigned a = 2; a <= orders; a++) {
                double exact = enumerate(&all, &b_min_sep.banded, a, products);
                if (!(fabs((double)raw[a] - exact) <= 1e-12 * exact))
                    fail_msg("%d: order %u, n %zu, b %zu, width %zu, k %u, warm %d, p %g: %.15g for %.15g", c, a, n,
                             b_min_sep.separation, b_min_sep.banded.width, b_min_sep.examples, b_min_sep.warm,
                             b_min_sep.banded.p, (double)raw[a], exact);
            }
        }
        eps__banded_gram_clear(&b_min_sep.banded);
    }
    assert_true(wide > 20);
    free(products);
}

/* Bounds by groups of two to four copies are above the moments, and near where noise is large; also where copies have
 * histories, as bands exceed the separation or that is 1. */
TEST(groups_are_bounds)
{
    enum { MOST = 8 };
    uint64_t state = seed;
    size_t near = 0;
    for (int trial = 0; trial < 120; trial++) {
        struct eps__b_min_sep b_min_sep = {
            .separation = 1 + draw_below(&state, 4), .examples = 1, .warm = draw_below(&state, 2)};
        size_t n = 1 + draw_below(&state, STEPS_MAX - 1), most = trial % 3 ? b_min_sep.separation : 4;
        bool weak = draw_below(&state, 2);
        if (!b_min_sep.warm && trial % 3)
            b_min_sep.examples = 1 + (unsigned)draw_below(&state, 2);
        b_min_sep.banded.p = 0.3 * draw_unit(&state);
        random_columns(&b_min_sep, &state, n, 1 + draw_below(&state, most < n ? most : n), weak ? 0.1 : 0.7);
        const struct eps__copies copies = eps__b_min_sep_copies(&b_min_sep);
        for (unsigned from = 2; from <= 4; from++) {
            struct eps__ladder ladder = eps__ladder_of(&copies, from, MOST, INFINITY);
            struct eps__orders orders;
            eps__quad raw[MOST + 1];
            double units;
            assert_int_equal(ladder.largest, from);
            assert_int_equal(eps__orders_alloc(&orders, MOST), EPS_OK);
            sums_of(raw, &units, &b_min_sep, MOST, EPS__PRECISION_QUAD);
            for (unsigned a = 2; a <= from; a++)
                eps__orders_set(&orders, a, logq(raw[a]), units, 1);
            assert_int_equal(eps__ladder_climb(NULL, &orders, &copies, &ladder, 1), EPS_OK);
            for (unsigned a = 2; a <= MOST; a++) {
                double exact = (double)logq(raw[a]);
                near += weak && orders.log_upper[a] <= 1.1 * exact + 1e-12;
                if (!(orders.log_upper[a] >= exact) || !(orders.log_lower[a] <= orders.log_upper[a]) ||
                    (weak && !(orders.log_upper[a] <= 1.3 * exact + 1e-12)))
                    fail_msg("%d: order %u by %u, n %zu, b %zu, width %zu, k %u, p %g: %.17g for %.17g", trial, a, from,
                             n, b_min_sep.separation, b_min_sep.banded.width, b_min_sep.examples, b_min_sep.banded.p,
                             orders.log_upper[a], exact);
            }
            eps__orders_clear(&orders);
        }
        eps__banded_gram_clear(&b_min_sep.banded);
    }
    assert_true(near > 900);
}

/* ------------------------------------------------------------ other schemes */

/* The Gram matrix of a Toeplitz C with this first column. */
static void toeplitz(struct eps__b_min_sep *b_min_sep, const double *column, size_t bands, size_t n, double sigma)
{
    double *gram = calloc(n * bands, sizeof *gram);
    assert_non_null(gram);
    for (size_t i = 0; i < n; i++)
        for (size_t d = 0; d < bands && d <= i; d++)
            for (size_t r = 0; r + d < bands && i + r < n; r++)
                gram[i * bands + d] += column[r] * column[r + d];
    double p = b_min_sep->banded.p;
    assert_int_equal(eps__banded_gram_make(&b_min_sep->banded, gram, n, bands, p, 0, sigma), EPS_OK);
    free(gram);
}

static void assert_near(eps__quad own, double exact, double tolerance, const char *what, unsigned a)
{
    if (!(fabs((double)own - exact) <= tolerance * fabs(exact)))
        fail_msg("%s, order %u: %.15g for %.15g", what, a, (double)own, exact);
}

/* ------------------------------------------------------------ the residual of a mean */

/* E Y^j by all j-tuples of patterns, straight from the density of y: with v the sum of the patterns less j times a, it
 * is the mean of exp(<C v, y> - sum |C x|^2/2), y with the mean t C a. */
static double enumerate_residual(const struct patterns *all, const struct eps__banded_gram *banded, const double *a,
                                 double t, unsigned j)
{
    size_t tuple[ORDER_MAX] = {0}, n = banded->len;
    double sum = 0;
    for (bool more = true; more;) {
        double v[STEPS_MAX], term = 1, exponent = 0;
        for (size_t i = 0; i < n; i++)
            v[i] = -(double)j * a[i];
        for (unsigned c = 0; c < j; c++) {
            const unsigned char *at = all->at[tuple[c]];
            term *= all->weight[tuple[c]];
            for (size_t i = 0; i < n; i++) {
                v[i] += at[i];
                for (size_t k = 0; k < n; k++)
                    exponent -= 0.5 * at[i] * at[k] * banded_entry(banded, i, k);
            }
        }
        for (size_t i = 0; i < n; i++)
            for (size_t k = 0; k < n; k++)
                exponent += v[i] * (0.5 * v[k] + t * a[k]) * banded_entry(banded, i, k);
        sum += term * exp(exponent);
        more = false;
        for (unsigned c = 0; c < j && !more; c++) {
            tuple[c] = (tuple[c] + 1) % all->len;
            more = tuple[c] > 0;
        }
    }
    return sum;
}

TEST(residuals_are_over_all_patterns)
{
    static const double column[] = {0.8, 0.5, 0.3, 0.25};
    static struct patterns all;
    uint64_t state = seed;
    size_t known = 0, wide = 0;
    for (int c = 0; c < 60; c++) {
        struct eps__b_min_sep b_min_sep = {.separation = 2 + draw_below(&state, 3), .examples = 1, .warm = c % 2};
        size_t n = 3 + draw_below(&state, 4);
        if (!b_min_sep.warm)
            b_min_sep.examples = 1 + (unsigned)draw_below(&state, 2);
        size_t bands = 1 + draw_below(&state, b_min_sep.examples > 1 ? 2 : n < 4 ? n : 4);
        b_min_sep.banded.p = 0.05 + 0.9 * draw_unit(&state);
        if (c % 4 < 2)
            random_columns(&b_min_sep, &state, n, bands, draw_log(&state, 0.1, 1));
        else
            toeplitz(&b_min_sep, column, bands, n, draw_log(&state, 1, 4));
        make_patterns(&all, &b_min_sep);
        double *a = malloc(n * sizeof *a), kept[STEPS_MAX], t = 6 * (2 * draw_unit(&state) - 1);
        for (size_t i = 0; i < n; i++)
            a[i] = kept[i] = draw_below(&state, 4) ? draw_unit(&state) : 0;
        struct eps__mean mean;
        struct eps__residual_moments residual;
        assert_int_equal(eps__mean_make(&mean, &b_min_sep.banded, a), EPS_OK);
        const struct eps__residual_sums sums = eps__b_min_sep_residual_sums(&b_min_sep, mean.changes, 1e6, 3);
        assert_int_equal(eps__residual_moments_of(NULL, &residual, &sums, &mean, t), EPS_OK);
        double first = enumerate_residual(&all, &b_min_sep.banded, kept, t, 1);
        if (residual.laws.len > 0 && residual.laws.items[0].len >= 2) {
            const struct eps__moments *moments = &residual.laws.items[0];
            double second = enumerate_residual(&all, &b_min_sep.banded, kept, t, 2) / (first * first);
            assert_true(residual.log_mean.lower <= log(first) + 1e-12 && residual.log_mean.upper >= log(first) - 1e-12);
            assert_true(residual.log_mean.upper - residual.log_mean.lower < 1e-13 * (1 + fabs(log(first))));
            assert_near(moments->central[2] + 1, second, 1e-11, "residual", 2);
            if (moments->len >= 3 && all.len < 60) {
                double third = enumerate_residual(&all, &b_min_sep.banded, kept, t, 3) / (first * first * first);
                assert_near(moments->central[3] + 3 * moments->central[2] + 1, third, 1e-11, "residual", 3);
                known++;
                wide += bands > b_min_sep.separation;
            }
        }
        eps__laws_clear(&residual.laws);
        eps__mean_clear(&mean);
        eps__banded_gram_clear(&b_min_sep.banded);
    }
    assert_true(known > 30 && wide > 5);
}

/* b = 1: the steps are independent. */
TEST(without_separation_it_is_poisson)
{
    const double column[] = {1};
    struct eps__b_min_sep b_min_sep = {.separation = 1, .examples = 1};
    eps__quad raw[9];
    double units;
    for (int warm = 0; warm < 2; warm++) {
        b_min_sep.warm = warm;
        b_min_sep.banded.p = 0.03;
        toeplitz(&b_min_sep, column, 1, 200, 1.2);
        sums_of(raw, &units, &b_min_sep, 8, EPS__PRECISION_QUAD);
        for (unsigned a = 2; a <= 8; a++) {
            double once = 0, p = b_min_sep.banded.p;
            for (unsigned k = 0; k <= a; k++)
                once += exp(lgamma(a + 1) - lgamma(k + 1) - lgamma(a - k + 1) + k * log(p) + (a - k) * log1p(-p) +
                            k * (k - 1.0) / 2 / 1.44);
            assert_near(raw[a], pow(once, 200), 1e-11, "poisson", a);
        }
        eps__banded_gram_clear(&b_min_sep.banded);
    }
    const double columns[] = {1, 0.6, 0.4};
    eps__quad plain[9];
    toeplitz(&b_min_sep, columns, 3, 200, 1.2);
    sums_of(raw, &units, &b_min_sep, 4, EPS__PRECISION_QUAD);
    for (unsigned a = 2; a <= 4; a++) {
        assert_int_equal(eps__poisson_raw(NULL, &plain[a], &units, &b_min_sep.banded, NULL, a, true), EPS_OK);
        assert_true(plain[a] == raw[a]);
    }
    eps__banded_gram_clear(&b_min_sep.banded);
}

/* p = 1 and a warm start: one of b bins, the same in every epoch. */
TEST(certain_draws_are_bins)
{
    const double column[] = {1, 0.6, 0.3};
    struct eps__b_min_sep b_min_sep = {.separation = 7, .examples = 1, .warm = true, .banded.p = 1};
    eps__quad raw[4];
    double units, gram[7][7] = {{0}}, second = 0, third = 0;
    toeplitz(&b_min_sep, column, 3, 30, 2); /* 4 epochs and two steps */
    for (size_t i = 0; i < 30; i++)
        for (size_t j = 0; j < 30; j++)
            gram[i % 7][j % 7] += banded_entry(&b_min_sep.banded, i, j);
    for (size_t i = 0; i < 7; i++)
        for (size_t j = 0; j < 7; j++) {
            second += exp(gram[i][j]) / 49;
            for (size_t k = 0; k < 7; k++)
                third += exp(gram[i][j] + gram[j][k] + gram[i][k]) / 343;
        }
    sums_of(raw, &units, &b_min_sep, 3, EPS__PRECISION_LONG);
    assert_near(raw[2], second, 1e-12, "bins", 2);
    assert_near(raw[3], third, 1e-12, "bins", 3);
    eps__banded_gram_clear(&b_min_sep.banded);
}

/* Both precisions agree within their claimed rounding errors, also where there are so many steps that they converge. */
TEST(converged_steps_are_powers)
{
    const double column[] = {1, 0.5, 0.375, 0.3125};
    static const size_t separations[] = {6, 4, 2}; /* in the last one, two participations share rows */
    for (int c = 0; c < 6; c++) {
        struct eps__b_min_sep b_min_sep = {.separation = separations[c % 3], .examples = 1, .warm = c / 3};
        double long_units, quad_units, expected[4] = {0};
        eps__quad rough[4], fine[4], few[2][4];
        /* ln E X^a grows by the same amount with each further step */
        for (int half = 0; half < 2; half++) {
            b_min_sep.banded.p = 0.05;
            toeplitz(&b_min_sep, column, 4, half ? 400 : 360, 1.3);
            sums_of(few[half], &quad_units, &b_min_sep, 3, EPS__PRECISION_QUAD);
            /* Where no two rows are equal every step is computed. */
            for (size_t i = 1; i < b_min_sep.banded.len; i += 2)
                b_min_sep.banded.gram[i * 4] = nextafter(b_min_sep.banded.gram[i * 4], INFINITY);
            sums_of(fine, &quad_units, &b_min_sep, 3, EPS__PRECISION_QUAD);
            for (unsigned a = 2; a <= 3; a++)
                assert_near(logq(fine[a]), (double)logq(few[half][a]), 1e-12, "each step", a);
            eps__banded_gram_clear(&b_min_sep.banded);
        }
        b_min_sep.banded.p = 0.05;
        toeplitz(&b_min_sep, column, 4, 4000, 1.3);
        sums_of(rough, &long_units, &b_min_sep, 3, EPS__PRECISION_LONG);
        sums_of(fine, &quad_units, &b_min_sep, 3, EPS__PRECISION_QUAD);
        for (unsigned a = 2; a <= 3; a++) {
            expected[a] = (double)(logq(few[1][a]) + 90 * logq(few[1][a] / few[0][a]));
            assert_near(logq(fine[a]), expected[a], 1e-13, "further steps", a);
            assert_true(fabsq(rough[a] - fine[a]) <= (long_units + quad_units) * EPS__QUAD_ROUNDOFF * fine[a]);
        }
        assert_true(quad_units * 0x1p-113 < 1e-27 && long_units * 0x1p-113 < 1e-12);
        eps__banded_gram_clear(&b_min_sep.banded);
    }
}

/* The probability of waiting, compared with all patterns; and that from which the steady state starts. */
TEST(waiting_is_counted)
{
    static struct patterns all;
    uint64_t state = seed + 1;
    for (int c = 0; c < 60; c++) {
        struct eps__b_min_sep b_min_sep = {
            .separation = 1 + draw_below(&state, 5), .examples = 1, .warm = draw_below(&state, 2)};
        size_t n = 1 + draw_below(&state, 6);
        double waits[STEPS_MAX], means[STEPS_MAX] = {0}, p = b_min_sep.banded.p = draw_between(&state, 0.01, 0.99);
        if (!b_min_sep.warm)
            b_min_sep.examples = 1 + (unsigned)draw_below(&state, 2);
        random_columns(&b_min_sep, &state, n, 1, 1);
        make_patterns(&all, &b_min_sep);
        for (size_t x = 0; x < all.len; x++)
            for (size_t i = 0; i < n; i++)
                means[i] += all.weight[x] * all.at[x][i];
        double error = eps__b_min_sep_waits(&b_min_sep, p, waits);
        assert_true(error < 1e-12);
        for (size_t i = 0; i < n; i++) {
            double mean = waits[i] * b_min_sep.examples * p;
            assert_true(fabs(mean - means[i]) <= 1e-12 * mean);
            if (b_min_sep.warm)
                assert_true(fabs(waits[i] - 1 / (1 + (double)(b_min_sep.separation - 1) * p)) < 1e-13);
        }
        eps__banded_gram_clear(&b_min_sep.banded);
    }
}

/* What is too costly is not begun. */
TEST(what_does_not_fit_is_infinite)
{
    struct eps__b_min_sep b_min_sep = {
        .separation = 300, .examples = 1, .banded = {.len = 10000, .width = 300, .p = 1e-3}};
    double numbers;
    assert_true(isfinite(eps__b_min_sep_operations(&b_min_sep, 2, &numbers)));
    assert_true(isfinite(eps__b_min_sep_operations(&b_min_sep, 3, &numbers)));
    assert_true(isinf(eps__b_min_sep_operations(&b_min_sep, 6, &numbers)));
    /* a drawing of four copies would be rarer than e^-2500 */
    b_min_sep =
        (struct eps__b_min_sep){.separation = 4, .examples = 1, .banded = {.len = 100, .width = 2, .p = 1e-300}};
    assert_true(isfinite(eps__b_min_sep_operations(&b_min_sep, 3, &numbers)));
    assert_true(isinf(eps__b_min_sep_operations(&b_min_sep, 4, &numbers)));
    /* a history of two copies with two participations each would be */
    b_min_sep =
        (struct eps__b_min_sep){.separation = 2, .examples = 1, .banded = {.len = 100, .width = 3, .p = 1e-300}};
    assert_true(isinf(eps__b_min_sep_operations(&b_min_sep, 2, &numbers)));
    b_min_sep.banded.p = 1e-200;
    assert_true(isfinite(eps__b_min_sep_operations(&b_min_sep, 2, &numbers)));
}

/* Copies that are drawn twice within the bands are rarer than the least double, and count where they share much. */
TEST(rare_histories_stay_in_range)
{
    static const double column[] = {1, 0.9, 0.9, 0.9, 0.9};
    struct eps__b_min_sep b_min_sep = {.separation = 2, .examples = 1, .banded.p = 1e-60};
    eps__quad fine[4], rough[4];
    double fine_units, rough_units;
    toeplitz(&b_min_sep, column, 5, 12, 0.12);
    sums_of(fine, &fine_units, &b_min_sep, 3, EPS__PRECISION_QUAD);
    sums_of(rough, &rough_units, &b_min_sep, 3, EPS__PRECISION_DOUBLE);
    for (unsigned a = 2; a <= 3; a++) {
        assert_true(fine[a] > 2);
        assert_true(fabsq(rough[a] - fine[a]) <= (fine_units + rough_units) * EPS__QUAD_ROUNDOFF * fine[a]);
    }
    eps__banded_gram_clear(&b_min_sep.banded);
}

/* ------------------------------------------------------------ renyi */

static struct eps_job b_min_sep_job(size_t n, double p, size_t separation, const double *column, size_t len)
{
    struct eps_job job;
    eps_job_init(&job);
    job.mechanism.n = n;
    job.mechanism.matrix.family = EPS_FAMILY_TOEPLITZ;
    job.mechanism.matrix.normalization = EPS_NORMALIZATION_NONE;
    job.mechanism.matrix.coefficients = column;
    job.mechanism.matrix.coefficients_len = len;
    job.mechanism.sampling.scheme = EPS_SCHEME_B_MIN_SEP;
    job.mechanism.sampling.p = p;
    job.mechanism.sampling.separation = separation;
    job.query.accountant.method = EPS_ACCOUNTANT_RENYI;
    job.query.accountant.max_order = 12; /* quicker */
    eps_job_defaults(&job);
    return job;
}

/* By quadrature over all patterns. */
TEST(delta_is_never_under_the_truth)
{
    static const double columns[][3] = {{1, 0, 0}, {1, 0.5, 0}, {1, 0.5, 0.375}, {0.2, 1, 0.7}};
    static const double epsilons[] = {0, 0.05, 0.5, 2}, sigmas[] = {0.35, 0.8, 2};
    const struct effort effort = {.samples = 2000, .quadrature_most = 3, .seed = seed, .floor = 1e-12L, .width = 1e-4L};
    double loosest[EPS_DIRECTIONS] = {0}, logs[EPS_DIRECTIONS] = {0};
    size_t asked[EPS_DIRECTIONS] = {0};
    uint64_t state = seed;
    for (size_t trial = 0; trial < 32; trial++) {
        size_t n = 1 + trial % 3, bands = 1 + draw_below(&state, n), separation = bands + draw_below(&state, 3);
        if (trial % 4 != 1 && trial % 8 < 4) /* bands beyond the separation */
            separation = 1 + draw_below(&state, bands);
        double p = trial % 2 ? 0.05 + 0.9 * draw_unit(&state) : 0.01, eps = epsilons[draw_below(&state, 4)];
        double sigma = sigmas[trial % 9 / 3], found[EPS_DIRECTIONS];
        struct eps_job job = b_min_sep_job(n, p, separation, columns[draw_below(&state, 4)], bands);
        job.mechanism.sampling.warm_start = trial % 4 / 2;
        if (trial % 4 == 1) /* several examples */
            job.mechanism.sampling.examples_per_user = 1 + draw_below(&state, 3);
        struct truth truth = truth_open(&job.mechanism);
        solved_deltas(found, job, sigma, eps);
        for (enum eps_direction direction = 0; direction < EPS_DIRECTIONS; direction++) {
            struct enclosure delta = truth_delta(&truth, direction, eps, sigma, &effort);
            if (!(found[direction] >= (double)delta.lower))
                fail_msg("n %zu, b %zu, %zu bands, k %zu, warm %d, p %g, sigma %g, eps %g, direction %d: %g, but %Lg",
                         n, separation, bands, job.mechanism.sampling.examples_per_user,
                         job.mechanism.sampling.warm_start, p, sigma, eps, (int)direction, found[direction],
                         delta.lower);
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
        assert_true(asked[direction] >= 12);
        print_message("direction %d: over the truth by %.3f, at most %.3f\n", (int)direction,
                      exp(logs[direction] / (double)asked[direction]), loosest[direction]);
        assert_true(exp(logs[direction] / (double)asked[direction]) < 2 && loosest[direction] < 8);
    }
}

/* An example that is almost surely drawn whenever it waits: the geometric mean is nearly the law. */
TEST(two_draws_of_one_example_share_rows)
{
    static const double column[] = {1, 0, 1};
    const struct effort effort = {.samples = 2000, .quadrature_most = 3, .seed = seed, .floor = 1e-12L, .width = 1e-4L};
    for (int trial = 0; trial < 4; trial++) {
        struct eps_job job = b_min_sep_job(3, trial % 2 ? 0.97 : 0.99, 2, column, 3);
        double found[EPS_DIRECTIONS], eps = trial / 2 ? 1 : 0.3;
        job.mechanism.sampling.warm_start = false;
        struct truth truth = truth_open(&job.mechanism);
        solved_deltas(found, job, 2, eps);
        struct enclosure delta = truth_delta(&truth, EPS_ADD, eps, 2, &effort);
        if (!(found[EPS_ADD] >= (double)delta.lower && found[EPS_ADD] < 1.2 * (double)delta.upper))
            fail_msg("p %g, eps %g: %g, but %Lg", job.mechanism.sampling.p, eps, found[EPS_ADD], delta.lower);
        truth_close(&truth);
    }
}

/* Orders that take long are computed while they pay. */
TEST(orders_are_raised_while_they_pay)
{
    double sigma[2];
    for (int i = 0; i < 2; i++)
        sigma[i] = answered(job_of("{'n': 64, 'matrix': {'family': 'square_root', 'bands': 16},"
                                   " 'sampling': {'scheme': 'b_min_sep', 'p': 0.01, 'separation': 16},"
                                   " 'epsilon': 1, 'delta': 1e-6, 'accountant': {'method': 'renyi', 'max_order': %d}}",
                                   i ? 8 : 5))
                       .of[EPS_REMOVE];
    assert_true(sigma[1] < 0.65 * sigma[0]);
}

/* What was asked for before, which raised the orders further, does not change an answer. */
TEST(answers_do_not_depend_on_earlier_questions)
{
    static const double epsilons[2][2] = {{1, 0.01}, {0.01, 1}};
    const struct eps__accuracy accuracy = {EPS_SOLVE_DELTA, 1e-3, NAN};
    const struct eps__accountant *renyi = eps__accountant_find(EPS_ACCOUNTANT_RENYI);
    double found[2][2];
    for (int first = 0; first < 2; first++) {
        struct eps_job job = job_of("{'n': 64, 'matrix': {'family': 'square_root', 'bands': 16},"
                                    " 'sampling': {'scheme': 'b_min_sep', 'p': 0.01, 'separation': 16},"
                                    " 'epsilon': 1, 'noise_multiplier': 1.5,"
                                    " 'accountant': {'method': 'renyi', 'max_order': 8}}");
        struct eps__setting setting;
        struct eps__profile *profile = NULL;
        struct eps_error error = {0};
        assert_int_equal(eps__setting_open(&setting, &error, NULL, &job), EPS_OK);
        assert_int_equal(renyi->open(&setting, 1.5, &accuracy, &profile, &error), EPS_OK);
        for (int i = 0; i < 2; i++)
            assert_int_equal(profile->class->log_delta(profile, EPS_REMOVE, EPS__UPPER, epsilons[first][i],
                                                       &found[first][first == i ? 0 : 1], &error),
                             EPS_OK);
        profile->class->destroy(profile);
        eps__setting_close(&setting);
    }
    assert_true(found[0][0] == found[1][0] && found[0][1] == found[1][1]);
}

/* By renyi's own law of b-min-sep sampling, where a plainer sampling with the same law would be used instead. */
static void deltas_as_asked(double found[EPS_DIRECTIONS], const struct eps_job *job, double sigma, double eps)
{
    const struct eps__accuracy accuracy = {EPS_SOLVE_DELTA, 1e-3, NAN};
    const struct eps__accountant *renyi = eps__accountant_find(EPS_ACCOUNTANT_RENYI);
    struct eps_job asked = *job;
    struct eps__setting setting;
    struct eps__profile *profile = NULL;
    struct eps_error error = {0};
    asked.query.epsilon = eps;
    asked.query.noise_multiplier = sigma;
    assert_int_equal(eps__setting_open(&setting, &error, NULL, &asked), EPS_OK);
    assert_non_null(setting.plainer);
    eps__setting_as_asked(&setting);
    assert_int_equal(renyi->open(&setting, sigma, &accuracy, &profile, &error), EPS_OK);
    for (enum eps_direction d = 0; d < EPS_DIRECTIONS; d++) {
        assert_int_equal(profile->class->log_delta(profile, d, EPS__UPPER, eps, &found[d], &error), EPS_OK);
        found[d] = exp(found[d]);
    }
    profile->class->destroy(profile);
    eps__setting_close(&setting);
}

/* b = 1: never below pld of Poisson sampling, as close as renyi is there, and for add at most the geometric mean of
 * untilted draws. */
TEST(rarer_draws_are_below)
{
    static const double one = 1;
    const size_t n = 200;
    for (int trial = 0; trial < 6; trial++) {
        double p = trial % 2 ? 0.02 : 0.01, sigma = trial < 2 ? 0.5 : trial < 4 ? 0.75 : 1, eps = trial % 2 ? 3 : 1.5;
        double found[EPS_DIRECTIONS], poisson[EPS_DIRECTIONS], exact[EPS_DIRECTIONS];
        struct eps_job job = b_min_sep_job(n, p, 1, &one, 1);
        deltas_as_asked(found, &job, sigma, eps);
        job.mechanism.sampling.scheme = EPS_SCHEME_POISSON;
        job.mechanism.sampling.separation = 0;
        solved_deltas(poisson, job, sigma, eps);
        job.query.accountant.method = EPS_ACCOUNTANT_PLD;
        job.query.accountant.max_order = 0;
        solved_deltas(exact, job, sigma, eps);
        double m = (double)n * p / (2 * sigma * sigma), s = p * sqrt((double)n) / sigma;
        double geometric = (double)truth_gaussian(s, eps - m + s * s / 2);
        for (enum eps_direction direction = 0; direction < EPS_DIRECTIONS; direction++)
            if (!(found[direction] >= exact[direction] * (1 - 1e-9) && found[direction] < 1.01 * poisson[direction]))
                fail_msg("p = %g, sigma = %g, eps = %g, direction %d: %g, but %g; poisson %g", p, sigma, eps,
                         (int)direction, found[direction], exact[direction], poisson[direction]);
        if (trial < 2 && !(found[EPS_ADD] < 0.97 * geometric))
            fail_msg("p = %g, sigma = %g, eps = %g: %g, %g", p, sigma, eps, found[EPS_ADD], geometric);
    }
}

/* p = 1, a warm start, whole epochs: no better answers than for balls in bins, where the shared part is split off. */
TEST(certain_draws_are_answered_as_bins)
{
    static const double column[] = {1, 0.6, 0.3};
    double b_min_sep[EPS_DIRECTIONS], bins[EPS_DIRECTIONS];
    for (int trial = 0; trial < 4; trial++) {
        struct eps_job job = b_min_sep_job(35, 1, 7, column, 3);
        double sigma = trial % 2 ? 1 : 4, eps = trial / 2 ? 2 : 0.3;
        job.query.accountant.max_order = 3;
        job.mechanism.sampling.warm_start = true;
        deltas_as_asked(b_min_sep, &job, sigma, eps);
        job.mechanism.sampling = (struct eps_sampling){
            .scheme = EPS_SCHEME_BALLS_IN_BINS, .p = NAN, .bins = 7, .examples_per_user = 1, .warm_start = true};
        solved_deltas(bins, job, sigma, eps);
        for (enum eps_direction direction = 0; direction < EPS_DIRECTIONS; direction++)
            assert_true(bins[direction] <= b_min_sep[direction] * (1 + 1e-6) &&
                        b_min_sep[direction] <= 20 * bins[direction]);
    }
}

TEST(what_nobody_derived_is_declined)
{
    static const double column[] = {1, 0.5, 0.2}, negative[] = {1, -0.5};
    struct eps_job job = b_min_sep_job(100, 0.1, 3, column, 3);
    job.mechanism.adjacency = EPS_ADJACENCY_REPLACE_ONE;
    assert_declined(job, "/adjacency");
    job = b_min_sep_job(100, 0.1, 3, column, 3);
    job.query.accountant.bandwidth = 2;
    assert_declined(job, "/accountant/bandwidth");
    job = b_min_sep_job(100, 0.1, 2, column, 3);
    job.mechanism.sampling.examples_per_user = 2;
    job.mechanism.sampling.warm_start = false;
    assert_declined(job, "/sampling/separation");
    double many[65]; /* more than the bits of a history */
    for (size_t i = 0; i < sizeof many / sizeof *many; i++)
        many[i] = 1;
    job = b_min_sep_job(100, 0.1, 64, many, 65);
    assert_declined(job, "/sampling/separation");
    job = b_min_sep_job(100, 0.1, 3, negative, 2);
    assert_declined(job, "/matrix");
    job = b_min_sep_job(8, 0.1, 8, column, 3);
    job.mechanism.matrix = (struct eps_matrix){
        .family = EPS_FAMILY_TREE, .stamps = 1, .decoder = EPS_DECODER_FULL, .normalization = EPS_NORMALIZATION_NONE};
    assert_declined(job, "/matrix");
    job = b_min_sep_job(1, 0.1, 1, column, 1); /* more examples than 32 bits can count */
    job.mechanism.sampling.examples_per_user = ((size_t)1 << 32) + 1;
    job.mechanism.sampling.warm_start = false;
    assert_declined(job, "/sampling/separation");
}
