/*
 * The moments of b-min-sep sampling: beside sums over all patterns, over those of several copies, and beside other
 * schemes where it is one of them.
 *
 * SPDX-License-Identifier: GPL-3.0-or-later
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include <math.h>

#include "lib/moments/b_min_sep.h"
#include "tests/unit/draw.h"

enum { STEPS_MAX = 9, PATTERNS_MAX = 4000, ORDER_MAX = 4 };

static const uint64_t seed = 20261122;

/* ------------------------------------------------------------ all patterns */

struct patterns {
    size_t len;
    double weight[PATTERNS_MAX];
    unsigned char at[PATTERNS_MAX][STEPS_MAX]; /* how many examples took part */
};

static void add_patterns(struct patterns *all, const struct eps__spaced *spaced, unsigned char *pattern, size_t step,
                         size_t barred, double weight)
{
    size_t n = spaced->coins.len;
    double p = spaced->coins.p;
    if (weight == 0)
        return;
    if (step == n) {
        assert_true(all->len < PATTERNS_MAX);
        memcpy(all->at[all->len], pattern, n);
        all->weight[all->len++] = weight;
        return;
    }
    for (unsigned j = 0; j <= (barred > 0 ? 0 : spaced->examples); j++) {
        double chance = 1;
        for (unsigned i = 0; i < spaced->examples && barred == 0; i++)
            chance *= i < j ? p * (spaced->examples - i) / (i + 1) : 1 - p;
        pattern[step] = (unsigned char)j;
        add_patterns(all, spaced, pattern, step + 1,
                     j > 0        ? spaced->separation - 1
                     : barred > 0 ? barred - 1
                                  : 0,
                     weight * chance);
    }
}

static void make_patterns(struct patterns *all, const struct eps__spaced *spaced)
{
    unsigned char pattern[STEPS_MAX];
    double p = spaced->coins.p, waits = spaced->warm ? 1 / (1 + (double)(spaced->separation - 1) * p) : 1;
    all->len = 0;
    add_patterns(all, spaced, pattern, 0, 0, waits);
    for (size_t r = 1; spaced->warm && r < spaced->separation; r++)
        add_patterns(all, spaced, pattern, 0, r, waits * p);
}

static double entry(const struct eps__coins *coins, size_t i, size_t j)
{
    size_t d = i > j ? i - j : j - i;
    return d < coins->width ? coins->gram[(i > j ? i : j) * coins->width + d] : 0;
}

/* E X^a by all a-tuples of patterns. */
static double enumerate(const struct patterns *all, const struct eps__coins *coins, unsigned a, double *products)
{
    size_t tuple[ORDER_MAX] = {0};
    double sum = 0;
    for (size_t x = 0; x < all->len; x++)
        for (size_t y = 0; y < all->len; y++) {
            double product = 0;
            for (size_t i = 0; i < coins->len; i++)
                for (size_t j = 0; j < coins->len && all->at[x][i] > 0; j++)
                    product += all->at[x][i] * all->at[y][j] * entry(coins, i, j);
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

/* A random Gram matrix of columns with so many bands, that of C's. */
static void random_columns(struct eps__spaced *spaced, uint64_t *state, size_t n, size_t bands, double scale)
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
    double p = spaced->coins.p;
    assert_int_equal(eps__coins_make(&spaced->coins, gram, n, bands, p, 0, 1), EPS_OK);
    free(gram);
}

static void sums_are_over_all_patterns(void **unused)
{
    (void)unused;
    static struct patterns all;
    double *products = malloc(PATTERNS_MAX * PATTERNS_MAX * sizeof *products / 16);
    uint64_t state = seed;
    assert_non_null(products);
    for (int c = 0; c < 150; c++) {
        struct eps__spaced spaced = {
            .separation = 1 + draw_below(&state, 5), .examples = 1, .warm = draw_below(&state, 2)};
        size_t n = 1 + draw_below(&state, STEPS_MAX - 1), most = spaced.separation < n ? spaced.separation : n;
        if (!spaced.warm)
            spaced.examples = 1 + (unsigned)draw_below(&state, 3);
        if (spaced.examples > 1 && n > 5)
            n = 5;
        most = most < n ? most : n;
        spaced.coins.p = draw_below(&state, 5) ? draw_unit(&state) : (double)draw_below(&state, 2);
        random_columns(&spaced, &state, n, 1 + draw_below(&state, most), draw_log(&state, 0.1, 2));
        make_patterns(&all, &spaced);
        double total = 0;
        for (size_t x = 0; x < all.len; x++)
            total += all.weight[x];
        assert_true(fabs(total - 1) < 1e-12);
        if (all.len * all.len > PATTERNS_MAX * PATTERNS_MAX / 16)
            continue;
        for (int precision = 0; precision < 2; precision++) {
            eps__quad raw[ORDER_MAX + 1];
            double units, bits = precision == EPS__SPACED_QUAD ? 0x1p-113 : 0x1p-64;
            unsigned orders = all.len < 12 ? 4 : all.len < 60 ? 3 : 2;
            assert_int_equal(eps__spaced_raw(NULL, raw, &units, &spaced, orders, (enum eps__spaced_precision)precision),
                             EPS_OK);
            assert_true(units * 0x1p-113 < 1e6 * bits);
            for (unsigned a = 2; a <= orders; a++) {
                double exact = enumerate(&all, &spaced.coins, a, products);
                if (!(fabs((double)raw[a] - exact) <= 1e-12 * exact))
                    fail_msg("%d: order %u, n %zu, b %zu, width %zu, k %u, warm %d, p %g: %.15g for %.15g", c, a, n,
                             spaced.separation, spaced.coins.width, spaced.examples, spaced.warm, spaced.coins.p,
                             (double)raw[a], exact);
            }
        }
        eps__coins_clear(&spaced.coins);
    }
    free(products);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(sums_are_over_all_patterns),
    };
    return cmocka_run_group_tests_name("b_min_sep", tests, NULL, NULL);
}
