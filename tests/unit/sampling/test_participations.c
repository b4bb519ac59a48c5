/*
 * The steps in which one example takes part: drawn in lanes they equal those of each draw alone, and their number has
 * the right mean.
 *
 * SPDX-License-Identifier: GPL-3.0-or-later
 */
#include <math.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "lib/numerics/bound.h"
#include "lib/numerics/quad.h"
#include "lib/sampling/participations.h"
#include "tests/unit/test.h"

enum { DRAWS = 512 };

static void check(struct eps__b_min_sep_steps steps)
{
    eps__b_min_sep_steps_fill(&steps);
    const struct eps__stream stream = {.key = {1, 2}, .chunk = 3};
    size_t most = eps__b_min_sep_steps_most(&steps), len[EPS__LANES], total = 0;
    struct eps__participated *slots = malloc(EPS__LANES * most * sizeof *slots), *alone = malloc(most * sizeof *alone);
    assert_non_null(slots);
    assert_non_null(alone);
    for (uint32_t draw = 0; draw < DRAWS; draw += EPS__LANES) {
        eps__b_min_sep_draw_lanes(slots, most, len, &steps, &stream, draw);
        for (uint32_t lane = 0; lane < EPS__LANES; lane++) {
            size_t expected = eps__b_min_sep_draw(alone, &steps, &stream, draw + lane);
            assert_int_equal(len[lane], expected);
            assert_memory_equal(slots + lane * most, alone, expected * sizeof *alone);
            for (size_t i = 0; i < expected; i++) {
                assert_true(alone[i].step < steps.n && alone[i].examples >= 1);
                assert_true(i == 0 || alone[i].step >= alone[i - 1].step + steps.separation);
            }
            total += expected;
        }
    }
    /* From a warm start the expected number in each step is q/(1 + (b - 1) q), with q that of an example that waits;
     * without a separation, q. */
    double q = -expm1(steps.log_keep), each = q / (1 + (double)(steps.separation - 1) * q);
    double mean = (double)steps.n * each * DRAWS;
    if (steps.separation == 1 || (steps.warm && steps.examples == 1))
        assert_true(fabs((double)total - mean) <= 5 * sqrt(mean) + 1e-9);
    free(slots);
    free(alone);
}

TEST(lanes_are_draws)
{
    const struct eps__b_min_sep_steps cases[] = {
        {.n = 1, .separation = 1, .p = 0.5, .examples = 1},
        {.n = 1024, .separation = 16, .p = 1 / 49.0, .examples = 1},
        {.n = 7200, .separation = 256, .p = 1.25e-4, .examples = 1},
        {.n = 333, .separation = 1, .p = 0.3, .examples = 1},
        {.n = 100, .separation = 7, .p = 0.999, .examples = 1},
        {.n = 100, .separation = 7, .p = 1, .examples = 1},
        {.n = 1000, .separation = 8, .p = 1e-300, .examples = 1},
        {.n = 500, .separation = 9, .p = 0.05, .examples = 1, .warm = true},
        {.n = 5, .separation = 9, .p = 0.4, .examples = 1, .warm = true},
        {.n = 400, .separation = 1, .p = 0.1, .examples = 1, .warm = true},
        {.n = 400, .separation = 3, .p = 1, .examples = 1, .warm = true},
        {.n = 64, .separation = 4, .p = 5e-324, .examples = 1},
        {.n = 64, .separation = 4, .p = 5e-324, .examples = 1, .warm = true},
        {.n = 64, .separation = 4, .p = 5e-324, .examples = 3},
        {.n = 500, .separation = 9, .p = 0.05, .examples = 3},
        {.n = 400, .separation = 1, .p = 0.02, .examples = 4},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        check(cases[i]);
}

/* A26: also where a probability underflows. */
TEST(logs_are_known_to_their_error)
{
    const double ps[] = {1e-20, 1e-9, 0.01, 0.5, 0.999, 1 - 0x1p-53};
    const unsigned examples[] = {1, 2, 7, EPS__TOGETHER_MAX};
    unsigned underflows = 0;
    for (size_t c = 0; c < sizeof ps / sizeof *ps * (sizeof examples / sizeof *examples); c++) {
        struct eps__b_min_sep_steps steps = {.n = 1, .separation = 1, .p = ps[c / 4], .examples = examples[c % 4]};
        eps__b_min_sep_steps_fill(&steps);
        eps__quad ways = 1, log_p = logq(steps.p), log_q = log1pq(-(eps__quad)steps.p);
        for (unsigned j = 1; j <= steps.examples; j++) {
            ways = ways * (steps.examples - j + 1) / j;
            eps__quad size = -(j * log_p + (steps.examples - j) * log_q), exact = logq(ways) - size;
            double off = (double)fabsq(exact - steps.log_pick[j - 1]);
            if (!(off <= EPS__UNIT_ROUNDOFF * (7 * (double)size + 310)))
                fail_msg("p %g, %u of %u: ln is off by %g", steps.p, j, steps.examples, off);
            underflows += steps.pick[j - 1] == 0;
        }
    }
    assert_true(underflows > 40);
}
