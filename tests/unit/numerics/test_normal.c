/*
 * The normal distribution and the Gaussian profile compared with quadruple precision: within the claimed errors.
 *
 * SPDX-License-Identifier: GPL-3.0-or-later
 */
#include <math.h>
#include <stdint.h>
#include <stdlib.h>

#include "lib/numerics/normal.h"
#include "lib/numerics/normal_tails.h"
#include "tests/unit/draw.h"
#include "tests/unit/exact.h"
#include "tests/unit/patience.h"
#include "tests/unit/test.h"

enum { CASES = 20000 };
static const uint64_t seed = 7;

/* N1. */
TEST(mills_ratio_is_within_its_error)
{
    uint64_t state = seed;
    double worst = 0;
    for (int c = 0; c < CASES; c++) {
        double x = c % 2 ? draw_between(&state, -37, 14) : draw_between(&state, -5, 120);
        x = c % 4 ? x : draw_between(&state, 4, 5); /* below the range of the continued fraction */
        x = c ? x : 4.976812087328129;
        x = c == 1 ? -22.631977163069653 : x; /* y and y^2 are rounded by nearly a unit, both in the same direction */
        __float128 z = x, density = expq(-z * z / 2) / sqrtq(2 * (__float128)3.14159265358979323846264338327950288L);
        double miss = fabs((double)(eps__mills(x) * density / exact_normal_tail(z) - 1));
        worst = fmax(worst, miss);
        if (!(miss <= EPS__MILLS_ERROR + (x < 0 ? 2 * x * x * EPS__UNIT_ROUNDOFF : 0)))
            fail_msg("mills(%.17g) is off by %.3g", x, miss);
    }
    print_message("# largest relative error of Mills' ratio %.3g, seed %llu\n", worst, (unsigned long long)seed);
}

TEST(log_tails_are_within_their_error)
{
    uint64_t state = seed;
    for (int c = 0; c < CASES; c++) {
        double x = c % 2 ? draw_between(&state, -10, 10) : draw_between(&state, -140, 140);
        double miss = fabs((double)(eps__log_normal_tail(x) - logq(exact_normal_tail(x))));
        if (!(miss <= EPS__MILLS_ERROR + 2 * x * x * EPS__UNIT_ROUNDOFF))
            fail_msg("log_normal_tail(%.17g) is off by %.3g", x, miss);
    }
    assert_true(eps__log_normal_tail(INFINITY) == -INFINITY);
    assert_true(eps__log_normal_tail(-INFINITY) == 0);
}

/* N10. Also at the ends of what the table covers, and that lanes do not mix. */
TEST(tails_side_by_side_are_within_their_error)
{
    uint64_t state = seed + 1;
    struct eps__normal_tails tails;
    eps__normal_tails_make(&tails);
    for (int c = 0; c < CASES; c++) {
        double x[EPS__LANES], log_factor[EPS__LANES], found[EPS__LANES];
        for (int lane = 0; lane < EPS__LANES; lane++) {
            x[lane] = c % 3 ? draw_between(&state, -10, 25) : draw_between(&state, -140, 36);
            log_factor[lane] = draw_between(&state, -30, 30);
        }
        x[c % EPS__LANES] = c % 2 ? 20 : draw_between(&state, -0.1, 0.1);
        if (c % 7 == 0)
            x[3] = (double)(c % 641) / 32;
        eps__normal_tails(&tails, found, log_factor, x);
        for (int lane = 0; lane < EPS__LANES; lane++) {
            double miss = fabs((double)(found[lane] / (expq(log_factor[lane]) * exact_normal_tail(x[lane])) - 1));
            double units = 64 + 4 * fabs(log_factor[lane]) + 4 * x[lane] * x[lane];
            if (!(miss <= units * EPS__UNIT_ROUNDOFF))
                fail_msg("the tail at %.17g is off by %.3g", x[lane], miss);
        }
    }
    double ends[EPS__LANES] = {INFINITY, -INFINITY, NAN}, none[EPS__LANES] = {0}, found[EPS__LANES];
    eps__normal_tails(&tails, found, none, ends);
    assert_true(found[0] == 0 && found[1] == 1 && isnan(found[2]) && found[3] == 0.5);
}

TEST(quantiles_invert_tails)
{
    uint64_t state = seed;
    for (int c = 0; c < CASES; c++) {
        double x = c % 2 ? draw_between(&state, -8, 10) : draw_between(&state, 0, 140);
        /* Near x = -8 the logarithm itself has few digits of x. */
        double log_tail = eps__log_normal_tail(x), digits = x > -4 ? 1e-11 : 1e-1;
        double found = eps__normal_tail_quantile(log_tail);
        if (!(fabs(found - x) <= digits * (1 + fabs(x))))
            fail_msg("the quantile of %.17g is %.17g, not %.17g", log_tail, found, x);
    }
}

TEST(the_gaussian_profile_is_within_its_error)
{
    uint64_t state = seed;
    double widest = 0;
    for (int c = 0; c < 2 * CASES; c++) {
        double mu = draw_log(&state, 1e-5, 60),
               u = c % 3 ? draw_between(&state, -3, 12) : draw_between(&state, -20, 80);
        double eps = c % 5 ? mu * (u + 0.5 * mu) : 0, error;
        if (eps < 0 && c % 7)
            eps = -eps;
        __float128 exact = exact_gaussian_delta(mu, eps);
        double found = eps__gaussian_log_delta(mu, eps, &error);
        double miss = fabs((double)(found - logq(exact)));
        if (!(miss <= error))
            fail_msg("mu %.17g, eps %.17g: off by %.3g, claimed %.3g", mu, eps, miss, error);
        if (eps >= 0)
            widest = fmax(widest, error / (1 + fabs(found)));
    }
    print_message("# widest error claimed, over 1 + |ln delta|: %.3g, seed %llu\n", widest, (unsigned long long)seed);
    assert_true(widest < 1e-9);
}

/* Epsilons far below 0, which a lower end of a bound may need: 1 - e^eps and no NaN, with the error of both ways
 * counted. */
TEST(the_gaussian_profile_of_negative_epsilons)
{
    uint64_t state = seed;
    for (int c = 0; c < CASES; c++) {
        double mu = draw_log(&state, 1e-5, c % 2 ? 60 : 1e12), u = -draw_log(&state, 1, 1e12), error;
        double eps = mu * (u + 0.5 * mu), found = eps__gaussian_log_delta(mu, eps, &error);
        assert_true(found <= 0 && error >= 0 && error < INFINITY);
        if (eps >= 0 || mu > 60)
            continue;
        double miss = fabs((double)(found - logq(exact_gaussian_delta(mu, eps))));
        if (!(miss <= error && error < 1e-6))
            fail_msg("mu %.17g, eps %.17g: off by %.3g, claimed %.3g", mu, eps, miss, error);
    }
    double error, found = eps__gaussian_log_delta(0.877656, -41.9226, &error);
    assert_true(fabs(found + exp(-41.9226)) <= error && error < 1e-14);
}

/* NaN has no delta: the call returns and reports it. Far out the profile is within its error, too. */
TEST(the_gaussian_profile_ends)
{
    const double edges[] = {0, 5e-324, 1e-300, 1e-160, 1e-9, 0.5, 1, 1e9, 1e160, 1e300, 1.7e308, INFINITY, NAN};
    enum { EDGES = sizeof edges / sizeof *edges };
    for (size_t i = 1; i < EDGES; i++)
        for (size_t j = 0; j < EDGES; j++) {
            double error, found;
            patience_begin("edge", i * EDGES + j, 20);
            found = eps__gaussian_log_delta(edges[i], edges[j], &error);
            assert_true(!(found + error < -INFINITY));
            if (isnan(edges[i]) || isnan(edges[j]))
                assert_true(isnan(found) && isinf(error));
            else if (isfinite(edges[j]) && edges[i] > 1e9 * fmax(1, sqrt(edges[j])))
                assert_true(found <= 0 && found >= -error && error < 1e-300);
        }
    patience_end();
    assert_true(isnan(eps__normal_tail_quantile(NAN)));
}
