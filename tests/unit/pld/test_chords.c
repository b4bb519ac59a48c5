/*
 * Chords (lib/pld/known/chords.c) compared with curves that have a formula: with imprecise points, with queries in any
 * order, and with the number of points that a grid of queries has.
 *
 * SPDX-License-Identifier: GPL-3.0-or-later
 */
#include <math.h>
#include <stdint.h>
#include <stdlib.h>

#include "lib/numerics/normal.h"
#include "lib/pld/known/chords.h"
#include "tests/unit/draw.h"
#include "tests/unit/test.h"

/* A Gaussian's curve, or, for p > 0, that of randomised response, (p - a (1 - p))_+, which ends. A bound is off by a
 * random part of `off` times the tolerance. Counts the queries. */
struct known {
    struct eps__curve base;
    double shift, p, off;
    uint64_t state;
    size_t asked;
};

static double exactly(const struct known *known, double eps)
{
    double error;
    return known->p > 0 ? log(fmax(known->p - exp(eps) * (1 - known->p), 0))
                        : eps__gaussian_log_delta(known->shift, eps, &error);
}

static enum eps_status known_log_delta(struct eps__curve *curve, bool reversed, enum eps__estimate estimate, double eps,
                                       double tolerance, double *log_delta)
{
    struct known *known = (struct known *)curve;
    double off = known->off * tolerance * draw_unit(&known->state);
    (void)reversed;
    known->asked++;
    *log_delta = fmin(exactly(known, eps) + (estimate == EPS__UPPER ? off : -off), 0);
    return EPS_OK;
}

static enum eps_status known_guess(struct eps__curve *curve, bool reversed, double log_delta, double *eps)
{
    (void)curve;
    (void)reversed;
    (void)log_delta;
    *eps = 1;
    return EPS_OK;
}

static void known_destroy(struct eps__curve *curve)
{
    (void)curve;
}

static const struct eps__curve_class known_class = {known_log_delta, known_guess, known_destroy};

/* The bounds at eps enclose the curve, and the upper one is within the tolerance and the error of the points. */
static void check_at(struct eps__curve *chords, const struct known *known, double eps, double tolerance)
{
    double bound[2], exact = exactly(known, eps);
    for (enum eps__estimate estimate = EPS__UPPER; estimate <= EPS__LOWER; estimate++)
        assert_int_equal(chords->class->log_delta(chords, false, estimate, eps, tolerance, &bound[estimate]), EPS_OK);
    double rounding = isinf(exact) ? 0 : 4e-16 * (1 + fabs(exact));
    double wide = (known->off + (tolerance > 1e-2 ? 4 : 2)) * tolerance;
    if (!(bound[EPS__UPPER] >= exact - rounding && bound[EPS__LOWER] <= exact + rounding))
        fail_msg("shift %g, p %g, off %g, eps %.17g: [%.17g, %.17g], exactly %.17g", known->shift, known->p, known->off,
                 eps, bound[EPS__LOWER], bound[EPS__UPPER], exact);
    if (!(bound[EPS__UPPER] <= exact + wide) && exact > -700)
        fail_msg("shift %g, p %g, off %g, eps %.17g: %.17g, exactly %.17g, by more than %g", known->shift, known->p,
                 known->off, eps, bound[EPS__UPPER], exact, wide);
}

TEST(chords_enclose_the_curve)
{
    const double shifts[] = {0.01, 0.7, 5}, offs[] = {0, 1, 6}, tolerances[] = {2e-2, 2e-3, 1e-5};
    uint64_t state = 4711;
    for (int i = 0; i < 3; i++)
        for (int j = 0; j < 3; j++)
            for (int k = 0; k < 3; k++) {
                struct known known = {.base = {&known_class}, .shift = shifts[i], .off = offs[j], .state = 99};
                struct eps__curve *chords = eps__curve_chords(&known.base);
                assert_non_null(chords);
                double most = shifts[i] * (shifts[i] / 2 + 12);
                for (int m = 0; m < 400; m++) /* here and there, then along it */
                    check_at(chords, &known, m < 200 ? draw_between(&state, 0, most) : most * (m - 200) / 200,
                             tolerances[draw_below(&state, (uint64_t)k + 1)]);
                chords->class->destroy(chords);
            }
}

/* A curve that ends has a corner, and no logarithm beyond. */
TEST(a_curve_may_end)
{
    uint64_t state = 12;
    for (int j = 0; j < 2; j++) {
        struct known known = {.base = {&known_class}, .p = 0.9, .off = j, .state = 5};
        struct eps__curve *chords = eps__curve_chords(&known.base);
        for (int m = 0; m < 600; m++)
            check_at(chords, &known, m < 300 ? draw_between(&state, 0, 4) : m / 150.0, 1e-3);
        chords->class->destroy(chords);
    }
}

/* Far fewer points than queries, for those of a grid; and no further ones when the queries are repeated. */
TEST(few_points_are_asked)
{
    struct known known = {.base = {&known_class}, .shift = 0.7, .state = 1};
    struct eps__curve *chords = eps__curve_chords(&known.base);
    for (int m = 0; m < 20000; m++)
        check_at(chords, &known, m * 4e-4, 1e-2);
    size_t asked = known.asked;
    assert_true(asked < 2000); /* two bounds of each */
    for (int m = 0; m < 20000; m++)
        check_at(chords, &known, m * 3.9e-4, 1e-2);
    assert_true(known.asked <= asked + 100);
    chords->class->destroy(chords);
}

/* An epsilon that is NaN, infinite or negative gets the bounds that always hold, and evaluates nothing. */
TEST(what_is_no_loss_is_not_asked)
{
    const double epsilons[] = {NAN, INFINITY, -1};
    struct known known = {.base = {&known_class}, .shift = 0.7, .state = 1};
    struct eps__curve *chords = eps__curve_chords(&known.base);
    for (int i = 0; i < 3; i++) {
        double bound[2];
        for (enum eps__estimate estimate = EPS__UPPER; estimate <= EPS__LOWER; estimate++)
            assert_int_equal(chords->class->log_delta(chords, false, estimate, epsilons[i], 1e-3, &bound[estimate]),
                             EPS_OK);
        assert_true(bound[EPS__UPPER] == 0 && bound[EPS__LOWER] == -INFINITY);
    }
    assert_int_equal(known.asked, 0);
    chords->class->destroy(chords);
}

TEST(without_a_curve_there_are_none)
{
    assert_null(eps__curve_chords(NULL));
}
