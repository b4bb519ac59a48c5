/*
 * Tail bounds on a weighted Bernoulli sum plus a normal, compared with enumeration of all outcomes: every bound holds,
 * and the tilted one, which serves large matrices, is never far off.
 *
 * SPDX-License-Identifier: GPL-3.0-or-later
 */
#include <math.h>
#include <stdint.h>
#include <stdlib.h>

#include "lib/numerics/normal.h"
#include "lib/sampling/weighted_bernoulli.h"
#include "tests/unit/draw.h"
#include "tests/unit/exact.h"
#include "tests/unit/test.h"

static bool near(double a, double b, double error)
{
    return fabs(a - b) <= error;
}

enum { TERMS = 12, CASES = 60 };

/* ln Pr[S + tau Z > at] over all subsets. */
static double exact_log_tail(const double *weight, size_t len, double p, double tau, double at)
{
    double total = 0;
    for (size_t set = 0; set < (size_t)1 << len; set++) {
        double probability = 1, sum = 0;
        for (size_t k = 0; k < len; k++) {
            probability *= set >> k & 1 ? p : 1 - p;
            sum += set >> k & 1 ? weight[k] : 0;
        }
        total += probability * exp(eps__log_normal_tail((at - sum) / tau));
    }
    return log(total);
}

static double exact_quantile(const double *weight, size_t len, double p, double tau, double log_eta, double high)
{
    double low = -10 * tau;
    for (int i = 0; i < 40; i++) {
        double middle = 0.5 * (low + high);
        *(exact_log_tail(weight, len, p, tau, middle) > log_eta ? &low : &high) = middle;
    }
    return high;
}

TEST(all_are_bounds)
{
    uint64_t seed = 271828;
    double worst[3] = {0, 0, 0};
    for (int c = 0; c < CASES; c++) {
        double weight[TERMS], p = draw_log(&seed, 1e-3, 1), tau = draw_log(&seed, 0.1, 30);
        double log_eta = -draw_log(&seed, 1, 200);
        size_t len = 1 + draw_below(&seed, TERMS);
        for (size_t k = 0; k < len; k++)
            weight[k] = c % 3 ? draw_unit(&seed) : 0.25 * (double)(1 + draw_below(&seed, 4));
        struct eps__weights weights = {.weight = weight, .len = len, .p = p};
        const double bounds[3] = {eps__tail_tilted(&weights, tau, log_eta, NULL),
                                  eps__tail_largest(&weights, tau, log_eta),
                                  eps__tail_convolved(&weights, tau, log_eta)};
        for (int b = 0; b < 3; b++) {
            double slack = log_eta - exact_log_tail(weight, len, p, tau, bounds[b]);
            assert_true(slack >= -1e-11 * (1 + fabs(log_eta)));
        }
        double quantile = exact_quantile(weight, len, p, tau, log_eta, bounds[0]);
        assert_true(fmin(fmin(bounds[0], bounds[1]), bounds[2]) <= 1.05 * quantile);
        if (tau >= 1 && log_eta < -5) /* no weight is larger than the noise: the case of large matrices */
            for (int b = 0; b < 3; b++)
                worst[b] = fmax(worst[b], bounds[b] / quantile - 1);
        /* Multiples of the grid's spacing are not rounded at all. */
        if (c % 3 == 0)
            assert_true(log_eta - exact_log_tail(weight, len, p, tau, bounds[2]) < 1e-2 * (1 + fabs(log_eta)));
    }
    print_message("# at most over the exact quantile, relative: tilted %.3f, largest weights %.3f, convolved %.3f\n",
                  worst[0], worst[1], worst[2]);
    assert_true(worst[0] < 0.05);
}

/* S1: relative errors, also where p is far below e^-exponent, and sums of thousands of such terms. */
TEST(moments_keep_their_digits)
{
    uint64_t seed = 31337;
    int checked = 0;
    for (int c = 0; c < 4000; c++) {
        double p = c % 3 ? draw_log(&seed, 1e-300, 1) : draw_unit(&seed), exponent = draw_log(&seed, 1e-6, 2000);
        if (c % 8 == 0) { /* e^exponent overflows, and p e^exponent is about 1 */
            p = draw_log(&seed, 1e-310, 1e-304);
            exponent = fmax(-log(p) + draw_between(&seed, -8, 8), 700);
        }
        if (!(p > 0))
            continue;
        checked++;
        __float128 exact = log1pq((__float128)p * expm1q(exponent));
        double miss = fabs((double)(eps__bernoulli_log_moment(p, exponent) / exact - 1));
        if (!(miss <= (8 + 4 * exponent) * EPS__UNIT_ROUNDOFF))
            fail_msg("p %.17g, exponent %.17g: off by %.3g", p, exponent, miss);
    }
    assert_true(checked > 3000);
    double weight[5000];
    for (size_t k = 0; k < 5000; k++)
        weight[k] = 30 + (double)(k % 7);
    struct eps__weights weights = {.weight = weight, .len = 5000, .p = 1e-40};
    __float128 exact = 0;
    for (size_t k = 0; k < 5000; k++)
        exact += log1pq((__float128)1e-40 * expm1q(weight[k]));
    double found = eps__weights_log_moment(&weights, 1);
    assert_true(found >= exact && found <= exact * (1 + 1e-10));
}

TEST(counts_are_repetitions)
{
    const double weight[] = {1, 0.5, 0.25}, count[] = {1, 2, 3}, flat[] = {1, 0.5, 0.5, 0.25, 0.25, 0.25};
    struct eps__weights grouped = {.weight = weight, .count = count, .len = 3, .p = 0.2},
                        single = {.weight = flat, .len = 6, .p = 0.2};
    assert_true(near(eps__weights_log_moment(&grouped, 1.5), eps__weights_log_moment(&single, 1.5), 1e-13));
    assert_true(near(eps__tail_tilted(&grouped, 1, -20, NULL), eps__tail_tilted(&single, 1, -20, NULL), 1e-12));
    assert_true(near(eps__tail_largest(&grouped, 1, -20), eps__tail_largest(&single, 1, -20), 1e-12));
    assert_true(near(eps__tail_convolved(&grouped, 1, -20), eps__tail_convolved(&single, 1, -20), 1e-4));
}

TEST(a_constant_costs_nothing)
{
    const double weight[] = {0.7, 0.1};
    struct eps__weights weights = {.weight = weight, .len = 2, .p = 1};
    for (double log_eta = -1; log_eta > -500; log_eta *= 2) {
        double gaussian = eps__tail_gaussian(2, log_eta);
        assert_true(eps__log_normal_tail(gaussian / 2) <= log_eta);
        assert_true(eps__log_normal_tail(gaussian / 2 - 1e-9) > log_eta);
        assert_true(near(eps__tail_largest(&weights, 2, log_eta), gaussian + 0.8, 1e-9));
        double tilted = eps__tail_tilted(&weights, 2, log_eta, NULL);
        assert_true(tilted >= gaussian + 0.8 - 1e-9 && tilted < gaussian + 0.81);
    }
}
