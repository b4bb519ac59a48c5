/*
 * Discretised pairs compared with their hockey-stick curves in quadruple precision: the two estimates bracket the curve
 * at every epsilon, for any plan.
 *
 * SPDX-License-Identifier: GPL-3.0-or-later
 */
#include <math.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "lib/numerics/quad.h"
#include "lib/pld/grid/knots.h"
#include "lib/pld/pld.h"
#include "tests/unit/draw.h"
#include "tests/unit/exact.h"
#include "tests/unit/test.h"

static const uint64_t seed = 31337;

/* ------------------------------------------------------------ what is drawn */

/* A plan may be inefficient, but no plan may give a wrong estimate. */
static void draw_plan(uint64_t *state, struct eps__pld_plan *plan, const struct eps__pair *pair)
{
    double tilt = draw_below(state, 3) ? draw_between(state, 0, 20) : 0;
    plan_for(plan, pair, tilt, draw_log(state, 1, 1e6), draw_log(state, 1e-3, 0.3));
    struct exact_power power = {pair, 1};
    double scale = exact_moments(&power, 1, 0).deviation;
    double least = fmax(1e-4 * scale, plan->spacing * 0.1);
    if (draw_below(state, 2))
        plan->spacing = fmax(draw_log(state, 1e-3, 0.1) * scale, least);
    if (draw_below(state, 4) == 0) {
        plan->fine_low = draw_between(state, plan->z_low, plan->z_high);
        plan->fine_high = draw_between(state, plan->fine_low, plan->z_high);
    }
    if (draw_below(state, 4) == 0) {
        plan->fine_low = plan->z_high;
        plan->fine_high = plan->z_low;
    }
    if (draw_below(state, 4) == 0) {
        plan->log_jump = draw_between(state, 1, 60);
        plan->log_boost = draw_between(state, 0, 30);
    }
    if (draw_below(state, 4) == 0)
        plan->log_small = -draw_between(state, 5, 90);
    if (draw_below(state, 4) == 0)
        plan->z_low = fmin(plan->z_low + draw_between(state, 0, 6), plan->fine_low);
    if (draw_below(state, 4) == 0)
        plan->z_high = fmax(plan->z_high - draw_between(state, 0, 3), fmax(plan->fine_high, plan->z_low + 1));
    if (draw_below(state, 4) == 0)
        plan->log_reference += draw_between(state, -9, 9);
}

/* Anywhere: at a knot, beside one, at the ends of the losses, between them, and far outside. */
static double draw_epsilon(uint64_t *state, const struct eps__pld *pld, const struct eps__pair *pair)
{
    size_t i = draw_below(state, pld->len);
    double knot = eps__pld_loss(pld, i), typical = (double)exact_loss(pair, draw_between(state, -6, 12));
    switch (draw_below(state, 6)) {
    case 0:
        return knot;
    case 1:
        return knot + draw_between(state, -1, 1) * pld->spacing;
    case 2:
        return knot + draw_between(state, -1, 1) * 1e-13;
    case 3:
        return eps__pld_loss(pld, draw_below(state, 2) ? 0 : pld->len - 1) + draw_between(state, -2, 2) * pld->spacing;
    default:
        return typical;
    }
}

static void describe(const struct eps__pair *pair, const struct eps__pld_plan *plan)
{
    for (size_t i = 0; i < pair->numerator.len; i++)
        print_error("  P: %.17g at %.17g\n", pair->numerator.weight[i], pair->numerator.shift[i]);
    for (size_t i = 0; i < pair->denominator.len; i++)
        print_error("  Q: %.17g at -%.17g\n", pair->denominator.weight[i], pair->denominator.shift[i]);
    print_error("  plan {%.17g, %.17g, %.17g, %.17g, %.17g, %.17g, %.17g, %.17g, %.17g, %.17g, %.17g}\n", plan->spacing,
                plan->tilt, plan->log_norm, plan->log_jump, plan->log_boost, plan->log_reference, plan->log_small,
                plan->z_low, plan->fine_low, plan->fine_high, plan->z_high);
}

/* Positive where the estimate is on the wrong side of the curve: the relative violation. */
static double violation(const struct eps__pld *pld, __float128 exact, double eps)
{
    double log_delta = eps__pld_log_delta(pld, eps);
    if (isnan(log_delta))
        return INFINITY;
    __float128 bound = isinf(log_delta) ? 0 : expq(log_delta);
    if (exact == 0)
        return pld->estimate == EPS__LOWER && bound > 0 ? INFINITY : 0;
    __float128 over = bound / exact - 1;
    return (double)(pld->estimate == EPS__UPPER ? -over : over);
}

static size_t check_bracket(uint64_t *state, const struct draw_pair *drawn, const struct eps__pld_plan *plan,
                            size_t queries, const char *kind, size_t c, double *worst)
{
    size_t wrong = 0;
    for (enum eps__estimate estimate = EPS__UPPER; estimate <= EPS__LOWER; estimate++) {
        struct eps__pld pld;
        enum eps_status status = build_pair(&pld, &drawn->pair, plan, estimate);
        if (status != EPS_OK) {
            print_error("case %zu (%s): no PLD, status %d\n", c, kind, (int)status);
            describe(&drawn->pair, plan);
            return 1;
        }
        double miss = -1, where = 0;
        __float128 total = pld.infinity;
        bool negative = !(pld.infinity >= 0), unordered = false;
        for (size_t i = 0; i < pld.len; i++) {
            negative |= !(pld.mass[i] >= 0);
            unordered |= i > 0 && pld.index[i] <= pld.index[i - 1];
            total += pld.mass[i];
        }
        for (size_t q = 0; q < queries; q++) {
            double eps = draw_epsilon(state, &pld, &drawn->pair), found;
            found = violation(&pld, exact_delta(&drawn->pair, eps), eps);
            if (found > miss) {
                miss = found;
                where = eps;
            }
        }
        bool total_wrong = estimate == EPS__UPPER ? total < 1 : total > 1;
        if (negative || unordered || total_wrong || miss > 0) {
            wrong++;
            print_error("case %zu (%s), %s: negative %d, unordered %d, total - 1 = %.3g, on the wrong side by %.3g "
                        "(relative) at eps %.17g\n",
                        c, kind, estimate == EPS__UPPER ? "upper" : "lower", negative, unordered, (double)(total - 1),
                        miss, where);
            describe(&drawn->pair, plan);
        }
        *worst = fmax(*worst, miss);
        eps__pld_clear(&pld);
    }
    return wrong;
}

/* ------------------------------------------------------------ tests */

TEST(the_estimates_bracket_the_curve)
{
    static const char *const names[DRAW_KINDS] = {"remove", "add", "replace", "any", "gaussian"};
    enum { CASES = 300 };
    uint64_t state = seed;
    size_t wrong = 0;
    double worst = -INFINITY;
    for (size_t c = 0; c < CASES; c++) {
        struct draw_pair drawn;
        struct eps__pld_plan plan;
        enum draw_kind kind = (enum draw_kind)draw_below(&state, DRAW_KINDS);
        draw_pair(&state, &drawn, kind, 1e-6, draw_below(&state, 4) ? 3 : 8);
        draw_plan(&state, &plan, &drawn.pair);
        wrong += check_bracket(&state, &drawn, &plan, 14, names[kind], c, &worst);
    }
    print_message("# %d pairs, seed %llu: least distance to the curve %.3g, relative\n", CASES,
                  (unsigned long long)seed, -worst);
    if (wrong > 0)
        fail_msg("%zu estimates are wrong", wrong);
}

/* Poisson sampling with realistic sizes: p down to 1e-7, shifts down to 1e-3. */
TEST(subsampled_gaussians_are_bracketed)
{
    uint64_t state = seed;
    size_t wrong = 0;
    double worst = -INFINITY;
    for (size_t c = 0; c < 80; c++) {
        struct draw_pair drawn;
        struct eps__pld_plan plan;
        subsampled_pair(&drawn, draw_log(&state, 1e-7, 1), draw_log(&state, 1e-3, 8), c % 2);
        plan_for(&plan, &drawn.pair, c % 3 ? draw_between(&state, 0, 20) : 0, 1000, draw_log(&state, 1e-3, 0.5));
        wrong += check_bracket(&state, &drawn, &plan, 12, c % 2 ? "add" : "remove", c, &worst);
    }
    if (wrong > 0)
        fail_msg("%zu estimates are wrong", wrong);
}

static double error_at(const struct eps__pair *pair, struct eps__pld_plan plan, double spacing,
                       enum eps__estimate estimate, double eps)
{
    struct eps__pld pld;
    plan.spacing = spacing;
    plan.log_reference = -1e3; /* every cell one spacing wide */
    assert_int_equal(build_pair(&pld, pair, &plan, estimate), EPS_OK);
    double error = (double)(expq(eps__pld_log_delta(&pld, eps)) / exact_delta(pair, eps) - 1);
    eps__pld_clear(&pld);
    return fabs(error);
}

/* With two octaves of the spacing the error falls about sixteen times. It is averaged over several epsilons, as it is
 * least at a knot; the position of the knots relative to a floor or ceiling leaves some variation. */
TEST(the_error_falls_with_the_square_of_the_spacing)
{
    static const struct {
        double p, shift;
    } cases[] = {{1, 1}, {1, 0.2}, {0.3, 1}, {0.1, 2}, {0.01, 0.7}, {0.5, 3}};
    size_t smooth = 0;
    for (size_t c = 0; c < sizeof cases / sizeof *cases; c++) {
        for (int add = 0; add < 2; add++) {
            struct draw_pair drawn;
            struct eps__pld_plan plan;
            subsampled_pair(&drawn, cases[c].p, cases[c].shift, add);
            plan_for(&plan, &drawn.pair, 0, 1, 0.02);
            for (enum eps__estimate estimate = EPS__UPPER; estimate <= EPS__LOWER; estimate++) {
                double wide = 0, narrow = 0;
                for (int i = 0; i < 8; i++) {
                    double eps = (double)exact_loss(&drawn.pair, 0.3137 + 0.21317 * i);
                    wide += error_at(&drawn.pair, plan, plan.spacing, estimate, eps);
                    narrow += error_at(&drawn.pair, plan, plan.spacing / 4, estimate, eps);
                }
                print_message("# p %g, shift %g, %s, %s: error %.3g, at a quarter of the spacing %.1f times less\n",
                              cases[c].p, cases[c].shift, add ? "add" : "remove",
                              estimate == EPS__UPPER ? "upper" : "lower", wide / 8, wide / narrow);
                if (wide / 8 < 0.01) { /* else the grid is too wide for the losses near a ceiling */
                    assert_true(wide / narrow > 7 && wide / narrow < 40);
                    smooth++;
                }
            }
        }
    }
    assert_true(smooth >= 14);
}

/* Weights whose error is as large as the pair claims, and probability that the pair leaves out. */
TEST(wrong_weights_and_lost_mass_are_counted)
{
    uint64_t state = seed;
    for (int c = 0; c < 60; c++) {
        struct draw_pair drawn, told;
        struct eps__pld_plan plan;
        uint64_t copy = state;
        draw_pair(&state, &drawn, c % 2 ? DRAW_ANY : DRAW_REMOVE, 1e-4, 3);
        draw_pair(&copy, &told, c % 2 ? DRAW_ANY : DRAW_REMOVE, 1e-4, 3);
        double error = draw_log(&state, 1e-13, 1e-6), lost = c % 3 ? draw_log(&state, 1e-12, 1e-4) : 0;
        for (size_t i = 0; i < told.pair.numerator.len; i++)
            told.pair.numerator.weight[i] /= 1 + (1 - 1e-6) * error * draw_between(&state, -1, 1);
        for (size_t i = 0; i < told.pair.denominator.len; i++)
            told.pair.denominator.weight[i] /= 1 + (1 - 1e-6) * error * draw_between(&state, -1, 1);
        told.pair.weight_error = error;
        plan_for(&plan, &told.pair, 0, 1, 0.05);
        for (enum eps__estimate estimate = EPS__UPPER; estimate <= EPS__LOWER; estimate++) {
            struct eps__pld pld;
            told.pair.lost = lost;
            assert_int_equal(build_pair(&pld, &told.pair, &plan, estimate), EPS_OK);
            for (int q = 0; q < 10; q++) {
                double eps = draw_epsilon(&state, &pld, &drawn.pair);
                __float128 exact = exact_delta(&drawn.pair, eps) + (estimate == EPS__UPPER ? lost : 0);
                double miss = violation(&pld, exact, eps);
                if (miss > 0)
                    describe(&told.pair, &plan);
                if (miss > 0)
                    fail_msg("case %d, %s: weights off by %.3g, lost %.3g: on the wrong side by %.3g at %.17g", c,
                             estimate == EPS__UPPER ? "upper" : "lower", error, lost, miss, eps);
            }
            eps__pld_clear(&pld);
        }
    }
}

/* A loss that hardly rises where P still has mass, and a wide grid: the last cell of the lower curve. */
TEST(a_nearly_bounded_loss_is_bracketed)
{
    double weight[] = {0.9375, 0.0625}, shift[] = {0.001, 0}, without_weight[] = {0.984375, 0.015625},
           without_shift[] = {2.875, 0};
    const struct eps__pair pair = {.numerator = {.weight = weight, .shift = shift, .len = 2},
                                   .denominator = {.weight = without_weight, .shift = without_shift, .len = 2}};
    struct eps__pld_plan plan;
    plan_for(&plan, &pair, 0, 1, 0.05);
    for (enum eps__estimate estimate = EPS__UPPER; estimate <= EPS__LOWER; estimate++) {
        struct eps__pld pld;
        assert_int_equal(build_pair(&pld, &pair, &plan, estimate), EPS_OK);
        double last = eps__pld_loss(&pld, pld.len - 1);
        for (int i = 0; i < 200; i++) {
            double eps = last - 0.01 * i * plan.spacing, miss = violation(&pld, exact_delta(&pair, eps), eps);
            if (miss > 0)
                fail_msg("%s: delta(%.17g) = %.6g, exact %.6g", estimate == EPS__UPPER ? "upper" : "lower", eps,
                         exp(eps__pld_log_delta(&pld, eps)), (double)exact_delta(&pair, eps));
        }
        eps__pld_clear(&pld);
    }
}

/* sum_i w_i Pr[left < Z + a_i <= right], from the side on which tails are small. */
static __float128 exact_mass(const struct eps__mixture *mixture, double left, double right)
{
    __float128 total = 0;
    for (size_t i = 0; i < mixture->len; i++) {
        __float128 from = (__float128)left - mixture->shift[i], to = (__float128)right - mixture->shift[i];
        bool negative = from + to < 0;
        __float128 near = isinf(negative ? right : left) ? 0 : exact_normal_tail(negative ? -to : from),
                   far = isinf(negative ? left : right) ? 0 : exact_normal_tail(negative ? -from : to);
        total += mixture->weight[i] * (near - far);
    }
    return total;
}

/* Intervals so narrow that tails cancel, wide ones, and half-lines: a mass and its rounding, both bounds. */
TEST(masses_are_bounded_from_both_sides)
{
    uint64_t state = seed + 1;
    double widest = 0;
    for (int c = 0; c < 4000; c++) {
        struct draw_pair drawn;
        draw_pair(&state, &drawn, c % 2 ? DRAW_ANY : DRAW_REMOVE, 1e-9, 5);
        double left = draw_between(&state, -12, 15), width = draw_log(&state, 1e-12, 30), right = left + width,
               bound[2];
        if (c % 10 == 0)
            right = INFINITY;
        if (c % 10 == 1)
            left = -INFINITY;
        __float128 exact = exact_mass(&drawn.pair.numerator, left, right);
        eps__pair_log_mass(&drawn.pair, left, right, &bound[EPS__LOWER], &bound[EPS__UPPER]);
        if (!(expq(bound[EPS__LOWER]) <= exact && exact <= expq(bound[EPS__UPPER])))
            fail_msg("case %d: the mass of (%.17g, %.17g] is %.17g, not in [%.17g, %.17g]", c, left, right,
                     (double)exact, exp(bound[EPS__LOWER]), exp(bound[EPS__UPPER]));
        if (right - left > 0.5)
            widest = fmax(widest, bound[EPS__UPPER] - bound[EPS__LOWER]);
    }
    print_message("# widest enclosure of a wide interval's mass, relative: %.3g, seed %llu\n", widest,
                  (unsigned long long)seed + 1);
    assert_true(widest < 1e-11);
}

/* An epsilon above every loss needs no delta; one below every loss gives 1 - e^eps. */
TEST(a_bounded_loss_has_exact_ends)
{
    struct draw_pair drawn;
    struct eps__pld_plan plan;
    subsampled_pair(&drawn, 0.1, 1.5, true);
    double ceiling = -log(0.9);
    assert_true(fabs(eps__pair_ceiling(&drawn.pair) - ceiling) < 1e-15);
    plan_for(&plan, &drawn.pair, 0, 1, 0.05);
    for (enum eps__estimate estimate = EPS__UPPER; estimate <= EPS__LOWER; estimate++) {
        struct eps__pld pld;
        assert_int_equal(build_pair(&pld, &drawn.pair, &plan, estimate), EPS_OK);
        assert_true(pld.infinity < 1e-300);
        if (estimate == EPS__LOWER)
            assert_true(eps__pld_log_delta(&pld, ceiling) == -INFINITY);
        else
            assert_true(eps__pld_log_delta(&pld, ceiling + plan.spacing * 1.01) < -690);
        assert_true(fabs(exp(eps__pld_log_delta(&pld, -30)) - 1) < 1e-6);
        eps__pld_clear(&pld);
    }
}

/* No cell at all: every branch ends where it begins. */
/* P11: sharing a negative mass leaves masses that are at most those of exact arithmetic. */
TEST(shares_of_a_negative_mass_are_rounded_down)
{
    uint64_t state = seed;
    for (int c = 0; c < 20000; c++) {
        double tilt = c % 3 ? draw_log(&state, 1e-3, 60) : 0, spacing = draw_log(&state, 1e-6, 1);
        int64_t index[] = {0, 1 + (int64_t)draw_below(&state, 9), 0};
        index[2] = index[1] + 1 + (int64_t)draw_below(&state, 9);
        double mass[] = {draw_log(&state, 1e-9, 1), -draw_log(&state, 1e-9, 1), draw_log(&state, 1e-9, 1)};
        __float128 t = tilt, below = (__float128)index[1] * spacing,
                   above = (__float128)(index[2] - index[1]) * spacing, moved = mass[1];
        __float128 both = expm1q(-above - below);
        __float128 left = mass[0] + moved * expm1q(-above) / both * expq(-(t + 1) * below);
        __float128 right = mass[2] + moved * expm1q(-below) / both * expq(t * above);
        assert_int_equal(eps__knots_make_convex(spacing, tilt, index, mass, 3), 2);
        assert_true(mass[0] <= left && (double)left - mass[0] <= 1e-10 * (fabs((double)left) + 1));
        assert_true(mass[1] <= right && (double)right - mass[1] <= 1e-10 * (fabs((double)right) + 1));
    }
}

TEST(a_plan_without_a_range_is_refused)
{
    struct draw_pair drawn;
    struct eps__pld_plan plan;
    uint64_t state = seed;
    draw_pair(&state, &drawn, DRAW_GAUSSIAN, 1e-3, 3);
    plan_for(&plan, &drawn.pair, 1, 1e6, 0.1);
    plan.z_low = plan.fine_low = plan.fine_high = plan.z_high;
    for (enum eps__estimate estimate = EPS__UPPER; estimate <= EPS__LOWER; estimate++) {
        struct eps__pld pld = {0};
        assert_int_equal(build_pair(&pld, &drawn.pair, &plan, estimate), EPS_TOO_COSTLY);
        assert_null(pld.index);
    }
}
