/*
 * Basic composition (lib/training/basic.c) of Gaussians, compared with the best split on a fine grid and with their
 * composition.
 *
 * SPDX-License-Identifier: GPL-3.0-or-later
 */
#include <math.h>
#include <stdint.h>
#include <stdlib.h>

#include "lib/numerics/normal.h"
#include "lib/training/basic.h"
#include "tests/unit/test.h"

/* A Gaussian's curve; its guesses are wrong by a factor. */
struct gaussian {
    struct eps__curve base;
    double shift, wrong;
};

static double gaussian_at(double shift, double eps)
{
    double error;
    return eps__gaussian_log_delta(shift, eps, &error);
}

static enum eps_status gaussian_log_delta(struct eps__curve *curve, bool reversed, enum eps__estimate estimate,
                                          double eps, double tolerance, double *log_delta)
{
    const struct gaussian *own = (const struct gaussian *)curve;
    (void)reversed;
    (void)tolerance;
    assert_int_equal(estimate, EPS__UPPER);
    assert_true(eps >= 0);
    *log_delta = gaussian_at(own->shift, eps);
    return EPS_OK;
}

static enum eps_status gaussian_guess(struct eps__curve *curve, bool reversed, double log_delta, double *eps)
{
    const struct gaussian *own = (const struct gaussian *)curve;
    double low = 0, high = own->shift * (own->shift + 40);
    (void)reversed;
    for (int i = 0; i < 50; i++) {
        double middle = 0.5 * (low + high);
        *(gaussian_at(own->shift, middle) > log_delta ? &low : &high) = middle;
    }
    *eps = own->wrong * high;
    return EPS_OK;
}

static void destroy(struct eps__curve *curve)
{
    (void)curve;
}

static const struct eps__curve_class gaussian_class = {gaussian_log_delta, gaussian_guess, destroy};

/* The least sum of two deltas over all splits. */
static double least(double one, uint64_t count, double other, double eps)
{
    double found = INFINITY;
    for (int i = 0; i <= 20000; i++) {
        double part = eps * i / 20000;
        found = fmin(found, exp(log((double)count) + gaussian_at(one, part / (double)count)) +
                                exp(gaussian_at(other, eps - part)));
    }
    return log(found);
}

TEST(the_split_is_about_the_best)
{
    const double shifts[][2] = {{0.5, 0.5}, {1, 0.02}, {0.3, 2}, {0.01, 3}}, epsilons[] = {0.5, 3, 12};
    const uint64_t counts[] = {1, 7, 1, 100};
    for (int i = 0; i < 4; i++)
        for (int k = 0; k < 3; k++) {
            struct gaussian curves[] = {{{&gaussian_class}, shifts[i][0], 1}, {{&gaussian_class}, shifts[i][1], 1}};
            const struct eps__run runs[] = {{&curves[0].base, counts[i]}, {&curves[1].base, 1}};
            double found, best = least(shifts[i][0], counts[i], shifts[i][1], epsilons[k]);
            double shift = sqrt((double)counts[i] * shifts[i][0] * shifts[i][0] + shifts[i][1] * shifts[i][1]);
            assert_int_equal(eps__basic_log_delta(runs, 2, epsilons[k], 1e-3, &found), EPS_OK);
            assert_true(found >= gaussian_at(shift, epsilons[k]));
            assert_true(found >= fmin(best, 0) - 1e-3); /* the best split on the grid is not quite the best */
            assert_true(best > -2 || found <= best + 0.1);
        }
}

/* For one run it is the run's own curve; wrong guesses cost precision and prove nothing. */
TEST(whatever_is_guessed)
{
    struct gaussian curves[] = {{{&gaussian_class}, 0.6, 1}, {{&gaussian_class}, 0.3, 1}};
    const struct eps__run runs[] = {{&curves[0].base, 1}, {&curves[1].base, 3}};
    const double wrong[] = {1, 5, 0.2, 0, NAN, INFINITY};
    double found;
    assert_int_equal(eps__basic_log_delta(runs, 1, 2, 1e-3, &found), EPS_OK);
    assert_true(fabs(found - gaussian_at(0.6, 2)) < 1e-9);
    for (int i = 0; i < 6; i++) {
        curves[1].wrong = wrong[i];
        assert_int_equal(eps__basic_log_delta(runs, 2, 4, 1e-3, &found), EPS_OK);
        assert_true(found >= gaussian_at(sqrt(0.36 + 0.27), 4) && found <= 0);
    }
    assert_int_equal(eps__basic_log_delta(runs, 2, 0, 1e-3, &found), EPS_OK);
    assert_true(found >= gaussian_at(sqrt(0.36 + 0.27), 0) && found <= 0);
}

/* The epsilons of many runs add up to at most the requested one, which is asserted, however they are rounded. */
TEST(many_runs_are_rounded_down)
{
    enum { RUNS = 256 };
    struct gaussian curves[RUNS];
    struct eps__run runs[RUNS];
    for (size_t i = 0; i < RUNS; i++) {
        curves[i] = (struct gaussian){{&gaussian_class}, 0.1 + 0.3 * sin((double)i * (double)i), 1};
        curves[i].shift = fabs(curves[i].shift) + 1e-3;
        runs[i] = (struct eps__run){&curves[i].base, 1 + i % 5};
    }
    for (int k = 1; k < 40; k += 19) {
        double found;
        assert_int_equal(eps__basic_log_delta(runs, RUNS, 7.3 * k, 1e-3, &found), EPS_OK);
        assert_true(found <= 0);
    }
}
