/*
 * Sums over copies whose states hold few participations, compared with the chain that holds all histories: equal where
 * they hold as many as there can be, else a bound that falls.
 *
 * SPDX-License-Identifier: GPL-3.0-or-later
 */
#include <math.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "lib/moments/laws/few.h"
#include "tests/unit/draw.h"
#include "tests/unit/test.h"

enum { STEPS_MAX = 40, WIDTH_MAX = 5 };
static const uint64_t seed = 264575;

/* The Gram matrix of a random banded C >= 0: of rows of their own, or all alike but at the end. */
static struct eps__banded_gram draw_gram(uint64_t *state, size_t n, size_t width, double p, bool toeplitz)
{
    double gram[STEPS_MAX * WIDTH_MAX] = {0}, row[WIDTH_MAX] = {0}, sigma = 0.6 + 1.5 * draw_unit(state);
    struct eps__banded_gram banded;
    for (size_t r = 0; r < n; r++) {
        for (size_t d = 0; d < width && (r == 0 || !toeplitz); d++)
            row[d] = draw_below(state, 6) == 0 ? 0 : draw_unit(state);
        for (size_t e = 0; e < width && e <= r; e++)
            for (size_t d = 0; e + d < width && e + d <= r; d++)
                gram[(r - e) * width + d] += row[e] * row[e + d];
    }
    assert_int_equal(eps__banded_gram_make(&banded, gram, n, width, p, 1e-15, sigma), EPS_OK);
    return banded;
}

static double log_sum(const struct eps__banded_gram *banded, unsigned copies, unsigned held, double times)
{
    eps__quad sum;
    double units;
    assert_int_equal(eps__few_sum(NULL, &sum, &units, banded, copies, held, times), EPS_OK);
    assert_true(!finiteq(sum) || units * (double)EPS__QUAD_ROUNDOFF < 1e-8);
    return (double)logq(sum);
}

static double log_exact(const struct eps__banded_gram *banded, unsigned copies, double times)
{
    struct eps__banded_gram scaled = *banded;
    eps__quad raw;
    double units;
    scaled.times = times;
    assert_int_equal(eps__poisson_raw(NULL, &raw, &units, &scaled, NULL, copies, false), EPS_OK);
    return (double)logq(raw);
}

/* Each copy can take part in each of the last width - 1 steps. */
TEST(few_that_hold_all_are_exact)
{
    uint64_t state = seed;
    for (int trial = 0; trial < 120; trial++) {
        unsigned copies = 2 + (unsigned)trial % 2;
        size_t width = 1 + draw_below(&state, copies == 2 ? WIDTH_MAX : 3), n = width + draw_below(&state, 12);
        double p = 0.01 + 0.9 * draw_unit(&state), times = 1 + 2 * draw_unit(&state);
        struct eps__banded_gram banded = draw_gram(&state, n, width, p, trial % 3 == 0);
        unsigned all = copies * (unsigned)(width - 1);
        double expected = log_exact(&banded, copies, times), found = log_sum(&banded, copies, all > 0 ? all : 1, times);
        if (!(fabs(found - expected) < 1e-9 * (1 + expected)))
            fail_msg("n %zu, width %zu, p %g, %u copies, times %g: %.15g and %.15g", n, width, p, copies, times, found,
                     expected);
        eps__banded_gram_clear(&banded);
    }
}

TEST(fewer_participations_are_a_bound)
{
    uint64_t state = seed + 1;
    double largest = 0;
    for (int trial = 0; trial < 120; trial++) {
        unsigned copies = 2 + (unsigned)trial % 2;
        size_t width = 2 + draw_below(&state, copies == 2 ? WIDTH_MAX - 1 : 2), n = width + draw_below(&state, 12);
        double p = exp(-1 - 5 * draw_unit(&state)), times = 1 + 2 * draw_unit(&state);
        struct eps__banded_gram banded = draw_gram(&state, n, width, p, trial % 3 == 0);
        double exact = log_exact(&banded, copies, times), before = INFINITY;
        for (unsigned held = 1; held <= copies * (width - 1); held++) {
            double found = log_sum(&banded, copies, held, times);
            if (isnan(found)) /* exponents are too large */
                continue;
            assert_true(found >= exact * (1 - 1e-12) - 1e-12);
            assert_true(found <= before + 1e-9);
            before = found;
            largest = fmax(largest, found / exact);
        }
        eps__banded_gram_clear(&banded);
    }
    assert_true(largest > 1.5); /* where too few are held, much is paid */
}

/* Equal steps, of which most are a power: the sum of the same matrix with rows that differ by a rounding error, whose
 * steps are made one by one. */
TEST(a_run_of_equal_steps_is_all_of_them)
{
    uint64_t state = seed + 2;
    for (int trial = 0; trial < 20; trial++) {
        struct eps__banded_gram banded = draw_gram(&state, STEPS_MAX, 3, 0.02 + 0.1 * draw_unit(&state), true);
        double alike = log_sum(&banded, 2, 3, 2);
        for (size_t i = 0; i < banded.len; i += 2)
            banded.gram[i * banded.width] = nextafter(banded.gram[i * banded.width], INFINITY);
        double apart = log_sum(&banded, 2, 3, 2);
        assert_true(fabs(alike - apart) < 1e-8 && alike > 0);
        eps__banded_gram_clear(&banded);
    }
}
