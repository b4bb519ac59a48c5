/*
 * Compositions in levels of several classes of steps, for any counts: no step is left out or counted twice. Compared
 * with the closed form for Gaussians, and with Laplace inversion for subsampled ones in both directions.
 *
 * SPDX-License-Identifier: GPL-3.0-or-later
 */
#include <math.h>
#include <stdint.h>
#include <stdlib.h>

#include "lib/numerics/normal.h"
#include "lib/pld/compose/composition_internal.h"
#include "tests/unit/draw.h"
#include "tests/unit/exact.h"
#include "tests/unit/test.h"

enum { KINDS_MAX = 6 };

struct drawn {
    struct draw_pair pairs[KINDS_MAX];
    struct exact_power powers[KINDS_MAX];
    size_t len;
};

static void copy_mixture(struct eps__mixture *to, const struct eps__mixture *from)
{
    assert_true(eps__mixture_alloc(to, from->len));
    for (size_t i = 0; i < from->len; i++) {
        to->weight[i] = from->weight[i];
        to->shift[i] = from->shift[i];
    }
    to->whole = from->whole;
    to->missing = from->missing;
}

static struct eps__composition *compose(const struct drawn *drawn, double tolerance)
{
    struct eps__composition *composition = NULL;
    const struct eps__accuracy accuracy = {EPS_SOLVE_DELTA, tolerance, NAN};
    assert_int_equal(eps__composition_create(&composition, NULL, NULL, &accuracy), EPS_OK);
    for (size_t i = 0; i < drawn->len; i++) {
        const struct eps__pair *pair = drawn->powers[i].pair;
        struct eps__branch *branch = calloc(1, sizeof *branch);
        assert_non_null(branch);
        for (int e = 0; e < 2; e++) {
            branch->weight[e] = 1;
            branch->pair[e].weight_error = pair->weight_error;
            copy_mixture(&branch->pair[e].numerator, &pair->numerator);
            copy_mixture(&branch->pair[e].denominator, &pair->denominator);
        }
        assert_int_equal(eps__composition_add(composition, branch, 1, drawn->powers[i].count), EPS_OK);
    }
    return composition;
}

/* Both bounds on ln delta(eps), in a given number of levels. */
static void bounds(double bound[2], const struct eps__composition *c, size_t levels, double eps)
{
    struct eps__saddle saddle;
    eps__aim(&c->steps, eps, NAN, c->accuracy.tolerance, &saddle);
    eps__saddle_snap(&c->steps, &saddle);
    const struct eps__compose_plan plan = {.tilt = saddle.tilt,
                                           .tail_mass = eps__tail_mass(&saddle, c->accuracy.tolerance),
                                           .log_infinity = INFINITY,
                                           .max_len = eps__max_length(c)};
    for (enum eps__estimate e = EPS__UPPER; e <= EPS__LOWER; e++) {
        struct eps__panel panel = {0};
        double spacing = eps__choose_spacing(c, &saddle, e);
        assert_int_equal(eps__compose_levels(c, &panel, levels, e, &saddle, spacing, &plan), EPS_OK);
        bound[e] = eps__panel_log_delta(&panel, eps);
        eps__panel_clear(&panel);
    }
}

/* One step more or less of the smallest class is noticed, with and without exactness, in both bounds. */
static void enclose(const struct drawn *drawn, size_t levels, double eps, double exact, double error, double tolerance)
{
    struct eps__composition *composition = compose(drawn, tolerance);
    double bound[2];
    bounds(bound, composition, levels, eps);
    eps__composition_destroy(composition);
    if (bound[EPS__UPPER] < exact - error || bound[EPS__LOWER] > exact + error ||
        !(bound[EPS__UPPER] - exact < tolerance) || !(exact - bound[EPS__LOWER] < 2 * tolerance))
        fail_msg("%zu classes from %llu steps on, %zu levels, eps %.17g: [%.17g, %.17g], exact %.17g +- %.2g",
                 drawn->len, (unsigned long long)drawn->powers[0].count, levels, eps, bound[EPS__LOWER],
                 bound[EPS__UPPER], exact, error);
}

static void draw_counts(uint64_t *state, struct drawn *drawn)
{
    static const uint64_t awkward[] = {64, 67, 97, 113, 128, 131, 211, 389};
    for (size_t i = 0; i < drawn->len; i++)
        drawn->powers[i].count = i % 3 == 2 ? 1 + draw_below(state, 6) : awkward[draw_below(state, 8)];
}

TEST(gaussians_in_levels)
{
    uint64_t state = 161803;
    for (size_t c = 0; c < 60; c++) {
        struct drawn drawn = {.len = 1 + c % KINDS_MAX};
        double square = 0, low = 0, high = 1000, error;
        draw_counts(&state, &drawn);
        for (size_t i = 0; i < drawn.len; i++) {
            double shift = draw_log(&state, 0.5, 2) * 0.1;
            subsampled_pair(&drawn.pairs[i], 1, shift, false);
            drawn.powers[i].pair = &drawn.pairs[i].pair;
            square += (double)drawn.powers[i].count * shift * shift;
        }
        double mu = sqrt(square), log_delta = -draw_between(&state, 2, 40);
        while (high - low > 1e-3)
            *(eps__gaussian_log_delta(mu, 0.5 * (low + high), &error) > log_delta ? &low : &high) = 0.5 * (low + high);
        double closed = eps__gaussian_log_delta(mu, high, &error);
        error += 1e-11 * (1 + fabs(closed)); /* the sum of squares was rounded */
        enclose(&drawn, 2 + c % 2, high, closed, error, 2e-3);
    }
}

TEST(subsampled_gaussians_in_levels)
{
    uint64_t state = 141421;
    size_t judged = 0;
    for (size_t c = 0; c < 24; c++) {
        struct drawn drawn = {.len = 1 + c % 3};
        draw_counts(&state, &drawn);
        for (size_t i = 0; i < drawn.len; i++) {
            drawn.powers[i].count *= c % 2 ? 40 : 1; /* three levels are for many steps */
            subsampled_pair(&drawn.pairs[i], draw_log(&state, 0.02, 0.3), draw_log(&state, 0.3, 1), c % 4 > 1);
            drawn.powers[i].pair = &drawn.pairs[i].pair;
        }
        struct exact_saddle plain = exact_moments(drawn.powers, drawn.len, 0);
        double eps = plain.mean + draw_between(&state, 0, 6) * plain.deviation;
        struct exact_answer exact = exact_composition(drawn.powers, drawn.len, eps);
        if (!(exact.error < 1e-4))
            continue;
        judged++;
        enclose(&drawn, 2 + c % 2, eps, exact.log_delta, exact.error, 5e-3);
    }
    print_message("# %zu judged\n", judged);
    assert_true(judged >= 12);
}

/* The number of levels follows from the cost: many steps have several; a few steps, and steps with little spread, have
 * one. */
TEST(levels_are_chosen)
{
    struct drawn drawn = {.len = 1};
    subsampled_pair(&drawn.pairs[0], 0.01, 0.5, false);
    for (size_t i = 0; i < 3; i++) {
        static const uint64_t counts[] = {40, 2000, 4000000};
        drawn.powers[0] = (struct exact_power){&drawn.pairs[0].pair, counts[i]};
        struct eps__composition *composition = compose(&drawn, 1e-3);
        struct eps__saddle saddle;
        double eps = eps__composition_guess(composition, -14);
        eps__aim(&composition->steps, eps, NAN, 1e-3, &saddle);
        double spacing = eps__choose_spacing(composition, &saddle, EPS__UPPER);
        assert_int_equal(eps__levels(composition, &saddle, spacing), i + 1);
        assert_int_equal(eps__levels(composition, &saddle, 1e3 * spacing), 1);
        eps__composition_destroy(composition);
    }
}
