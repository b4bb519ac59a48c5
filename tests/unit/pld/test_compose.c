/*
 * Compositions compared with brute force: Laplace inversion for random mixtures, closed forms for Gaussians. Panels are
 * valid at every epsilon.
 *
 * SPDX-License-Identifier: GPL-3.0-or-later
 */
#include <math.h>
#include <stdint.h>
#include <stdlib.h>

#include "lib/numerics/normal.h"
#include "lib/pld/pld.h"
#include "tests/unit/draw.h"
#include "tests/unit/exact.h"
#include "tests/unit/test.h"

enum { PAIRS_MAX = 4 };
static const uint64_t seed = 4711;

/* ------------------------------------------------------------ composing by hand */

static enum eps_status compose(struct eps__panel *panel, const struct exact_power *powers, size_t len, double eps,
                               double fraction, double tail_mass, enum eps__estimate estimate)
{
    struct eps__pld built[PAIRS_MAX];
    struct eps__pld_power composed[PAIRS_MAX];
    struct exact_saddle saddle = exact_saddle(powers, len, eps);
    double total = 0, spacing = INFINITY;
    struct eps__pld_plan plans[PAIRS_MAX];
    for (size_t i = 0; i < len; i++)
        total += (double)powers[i].count;
    for (size_t i = 0; i < len; i++) {
        plan_for(&plans[i], powers[i].pair, saddle.tilt, total, fraction);
        spacing = fmin(spacing, plans[i].spacing);
    }
    for (size_t i = 0; i < len; i++) {
        plans[i].spacing = spacing;
        assert_int_equal(build_pair(&built[i], powers[i].pair, &plans[i], estimate), EPS_OK);
        composed[i] = (struct eps__pld_power){&built[i], powers[i].count};
    }
    const struct eps__compose_plan plan = {
        .tilt = saddle.tilt, .tail_mass = tail_mass, .log_infinity = INFINITY, .max_len = (size_t)1 << 21};
    enum eps_status status = eps__compose(NULL, panel, composed, len, &plan);
    for (size_t i = 0; i < len; i++)
        eps__pld_clear(&built[i]);
    return status;
}

/* ------------------------------------------------------------ tests */

TEST(the_reference_is_right)
{
    uint64_t state = seed;
    int converged = 0;
    for (int c = 0; c < 40; c++) {
        struct draw_pair drawn;
        draw_pair(&state, &drawn, (enum draw_kind)draw_below(&state, DRAW_KINDS), 1e-2, 4);
        double eps = (double)exact_loss(&drawn.pair, draw_between(&state, -1, 5));
        struct exact_power one = {&drawn.pair, 1};
        struct exact_answer answer = exact_composition(&one, 1, eps);
        if (!(answer.error < 1e-6))
            continue;
        double exact = (double)logq(exact_delta(&drawn.pair, eps));
        if (!(fabs(answer.log_delta - exact) <= answer.error))
            fail_msg("case %d: %.17g, exact %.17g, claimed %.3g", c, answer.log_delta, exact, answer.error);
        converged++;
    }
    for (int c = 0; c < 30; c++) {
        struct draw_pair drawn;
        double mu = draw_log(&state, 1e-3, 3);
        uint64_t count = (uint64_t)draw_log(&state, 1, fmin(1e5, 2500 / (mu * mu))); /* the closed form's range */
        subsampled_pair(&drawn, 1, mu, false);
        __float128 all = mu * sqrtq((__float128)count);
        double eps = (double)(all * all / 2 + all * draw_between(&state, -1, 9));
        struct exact_power power = {&drawn.pair, count};
        struct exact_answer answer = exact_composition(&power, 1, eps);
        double exact = (double)logq(exact_gaussian_delta(all, eps));
        if (!(answer.error < 1e-6 && fabs(answer.log_delta - exact) <= answer.error))
            fail_msg("%llu of mu %.17g: %.17g, exact %.17g, claimed %.3g", (unsigned long long)count, mu,
                     answer.log_delta, exact, answer.error);
    }
    print_message("# %d of 40 single mixtures inverted, seed %llu\n", converged, (unsigned long long)seed);
    assert_true(converged >= 15);
}

/* The panel of each estimate, evaluated at its centre, beside it, and far outside its window. */
static size_t check(uint64_t *state, const struct exact_power *powers, size_t len, double eps, double fraction,
                    size_t c, double *width)
{
    struct eps__panel panel[2];
    size_t wrong = 0;
    double tail_mass = draw_log(state, 1e-25, 1e-3);
    for (enum eps__estimate e = EPS__UPPER; e <= EPS__LOWER; e++) {
        enum eps_status status = compose(&panel[e], powers, len, eps, fraction, tail_mass, e);
        if (status == EPS_TOO_COSTLY) { /* heavy tails, and almost no tail mass allowed */
            if (e == EPS__LOWER)
                eps__panel_clear(&panel[EPS__UPPER]);
            return 0;
        }
        assert_int_equal(status, EPS_OK);
    }
    double window = (double)panel[EPS__UPPER].len * panel[EPS__UPPER].spacing;
    for (int q = 0; q < 7; q++) {
        const double asked[7] = {eps,
                                 eps + draw_between(state, -0.1, 0.1) * window,
                                 eps + draw_between(state, -0.4, 0.4) * window,
                                 panel[EPS__UPPER].start - draw_between(state, 0, 0.5) * window,
                                 panel[EPS__UPPER].start + window + draw_between(state, 0, 0.2) * window,
                                 panel[EPS__LOWER].start + draw_between(state, -1, 1) * panel[EPS__LOWER].spacing,
                                 panel[EPS__LOWER].start + window + draw_between(state, -3, 1) * panel[0].spacing};
        struct exact_answer exact = exact_composition(powers, len, asked[q]);
        double upper = eps__panel_log_delta(&panel[EPS__UPPER], asked[q]);
        double lower = eps__panel_log_delta(&panel[EPS__LOWER], asked[q]);
        if (isnan(upper) || isnan(lower) || upper < lower) {
            print_error("case %zu, query %d, eps %.17g: upper %.17g, lower %.17g\n", c, q, asked[q], upper, lower);
            wrong++;
        }
        if (!(exact.error < 1e-4))
            continue;
        if (upper < exact.log_delta - exact.error || lower > exact.log_delta + exact.error) {
            print_error("case %zu, query %d, eps %.17g: [%.17g, %.17g], exact %.17g +- %.2g (tail mass %.3g)\n", c, q,
                        asked[q], lower, upper, exact.log_delta, exact.error, tail_mass);
            wrong++;
        }
        if (q == 0)
            *width = upper - lower;
    }
    eps__panel_clear(&panel[EPS__UPPER]);
    eps__panel_clear(&panel[EPS__LOWER]);
    return wrong;
}

TEST(random_mixtures_are_bracketed)
{
    uint64_t state = seed;
    size_t wrong = 0, narrow = 0, cases = 20;
    for (size_t c = 0; c < cases; c++) {
        struct draw_pair drawn[PAIRS_MAX];
        struct exact_power powers[PAIRS_MAX];
        size_t len = 1 + draw_below(&state, c % 2 ? PAIRS_MAX : 2);
        double mean = 0, width = INFINITY;
        for (size_t i = 0; i < len; i++) {
            draw_pair(&state, &drawn[i], (enum draw_kind)draw_below(&state, DRAW_KINDS), 1e-3, 2);
            powers[i] =
                (struct exact_power){&drawn[i].pair, len > 2 ? 1 + draw_below(&state, 2) : 1 + draw_below(&state, 6)};
        }
        struct exact_saddle plain = exact_moments(powers, len, 0);
        mean = plain.mean + draw_between(&state, -1, 6) * plain.deviation;
        wrong += check(&state, powers, len, mean, draw_log(&state, 5e-3, 0.2), c, &width);
        narrow += width < 0.3;
    }
    print_message("# %zu of %zu brackets narrower than 0.3 in ln delta, seed %llu\n", narrow, cases,
                  (unsigned long long)seed);
    if (wrong > 0)
        fail_msg("%zu bounds are wrong", wrong);
    assert_true(narrow > cases / 2);
}

TEST(many_subsampled_gaussians_are_bracketed)
{
    uint64_t state = seed + 1;
    size_t wrong = 0;
    for (size_t c = 0; c < 12; c++) {
        struct draw_pair drawn[2];
        struct exact_power powers[2];
        double width;
        size_t len = 1 + c % 2;
        for (size_t i = 0; i < len; i++) {
            subsampled_pair(&drawn[i], draw_log(&state, 1e-3, 1), draw_log(&state, 0.2, 2), c % 4 > 1);
            powers[i] = (struct exact_power){&drawn[i].pair, (uint64_t)draw_log(&state, 10, 3000)};
        }
        struct exact_saddle plain = exact_moments(powers, len, 0);
        double eps = plain.mean + draw_between(&state, 0, 8) * plain.deviation;
        wrong += check(&state, powers, len, eps, 0.1, c, &width);
    }
    if (wrong > 0)
        fail_msg("%zu bounds are wrong", wrong);
}

/* Compared with the closed form, n up to 1e5 and delta down to 1e-30; strictly, apart from the closed form's own
 * error. */
TEST(gaussians_compose_to_one)
{
    uint64_t state = seed + 2;
    static const uint64_t counts[] = {2, 10, 1000, 2052, 100000};
    for (size_t c = 0; c < 20; c++) {
        uint64_t count = counts[c % 5];
        size_t len = 1 + c % 3;
        struct draw_pair drawn[PAIRS_MAX];
        struct exact_power powers[PAIRS_MAX];
        double square = 0, log_delta = c < 5 ? -69.07 : -draw_between(&state, 2, 69), error;
        for (size_t i = 0; i < len; i++) {
            double mu = draw_log(&state, 0.3, 4) / sqrt((double)count);
            subsampled_pair(&drawn[i], 1, mu, false);
            powers[i] = (struct exact_power){&drawn[i].pair, count - i};
            square += (double)(count - i) * mu * mu;
        }
        double mu = sqrt(square), low = 0, high = 1000;
        while (high - low > 1e-3)
            *(eps__gaussian_log_delta(mu, 0.5 * (low + high), &error) > log_delta ? &low : &high) = 0.5 * (low + high);
        double closed = eps__gaussian_log_delta(mu, high, &error), bound[2];
        for (enum eps__estimate e = EPS__UPPER; e <= EPS__LOWER; e++) {
            struct eps__panel panel;
            assert_int_equal(compose(&panel, powers, len, high, 0.02, 1e-9, e), EPS_OK);
            bound[e] = eps__panel_log_delta(&panel, high);
            for (int i = -3; i <= 3; i++) { /* away from its centre */
                double eps = high + 0.7 * i * mu, other_error, other = eps__gaussian_log_delta(mu, eps, &other_error);
                double found = eps__panel_log_delta(&panel, eps);
                other_error += 1e-11 * (1 + fabs(other)); /* the sum of squares was rounded */
                if (e == EPS__UPPER ? found < other - other_error : found > other + other_error)
                    fail_msg("%llu of total mu %.17g, %s at eps %.17g: %.17g, exact %.17g", (unsigned long long)count,
                             mu, e == EPS__UPPER ? "upper" : "lower", eps, found, other);
            }
            eps__panel_clear(&panel);
        }
        if (!(bound[EPS__UPPER] - bound[EPS__LOWER] < 0.02))
            fail_msg("%llu of total mu %.17g: [%.17g, %.17g] around %.17g is wide", (unsigned long long)count, mu,
                     bound[EPS__LOWER], bound[EPS__UPPER], closed);
    }
}

/* A power of a power, the outer one on a coarser grid: still bounds on the whole. */
TEST(two_levels_are_bracketed)
{
    uint64_t state = seed + 3;
    size_t wrong = 0, judged = 0;
    for (size_t c = 0; c < 8; c++) {
        struct draw_pair drawn;
        if (c % 2)
            draw_pair(&state, &drawn, (enum draw_kind)draw_below(&state, DRAW_KINDS), 1e-3, 2);
        else
            subsampled_pair(&drawn, draw_log(&state, 1e-3, 1), draw_log(&state, 0.2, 2), c % 4 > 1);
        uint64_t inner = (uint64_t)draw_log(&state, 2, 60), outer = (uint64_t)draw_log(&state, 1, 40);
        const struct exact_power whole = {&drawn.pair, inner * outer};
        struct exact_saddle plain = exact_moments(&whole, 1, 0);
        double eps = plain.mean + draw_between(&state, 0, 7) * plain.deviation, bound[2], width[2];
        const double asked[3] = {eps, eps + draw_between(&state, -2, 2) * plain.deviation,
                                 plain.mean - plain.deviation};
        struct exact_saddle saddle = exact_saddle(&whole, 1, eps);
        size_t coarser = 1 + draw_below(&state, 6);
        struct eps__pld_plan how;
        plan_for(&how, &drawn.pair, saddle.tilt, (double)whole.count, draw_log(&state, 0.02, 0.2));
        const struct eps__compose_plan plan = {.tilt = saddle.tilt,
                                               .tail_mass = draw_log(&state, 1e-18, 1e-9),
                                               .log_infinity = -draw_between(&state, 40, 90),
                                               .max_len = (size_t)1 << 21};
        struct exact_answer exact[3];
        for (int q = 0; q < 3; q++)
            exact[q] = exact_composition(&whole, 1, asked[q]);
        for (enum eps__estimate e = EPS__UPPER; e <= EPS__LOWER; e++) {
            struct eps__pld step = {0}, block = {0};
            struct eps__panel panel = {0};
            enum eps_status status = build_pair(&step, &drawn.pair, &how, e);
            if (status == EPS_OK)
                status = eps__pld_compose(NULL, &block, &(struct eps__pld_power){&step, inner}, 1, coarser, &plan);
            const struct eps__pld_power power = {&block, outer};
            if (status == EPS_OK)
                status = eps__compose(NULL, &panel, &power, 1, &plan);
            for (int q = 0; q < 3 && status == EPS_OK; q++) {
                double found = eps__panel_log_delta(&panel, asked[q]), sign = e == EPS__UPPER ? 1 : -1;
                if (q == 0)
                    bound[e] = found;
                judged += exact[q].error < 1e-4;
                if (!(exact[q].error < 1e-4) || sign * (found - exact[q].log_delta) >= -exact[q].error)
                    continue;
                print_error("case %zu, query %d, %llu x %llu, coarser %zu, %s: %.17g, exact %.17g +- %.2g\n", c, q,
                            (unsigned long long)inner, (unsigned long long)outer, coarser,
                            e == EPS__UPPER ? "upper" : "lower", found, exact[q].log_delta, exact[q].error);
                wrong++;
            }
            if (status != EPS_OK)
                assert_int_equal(status, EPS_TOO_COSTLY);
            width[e] = status == EPS_OK ? fabs(bound[e] - exact[0].log_delta) : NAN;
            eps__pld_clear(&step);
            eps__pld_clear(&block);
            eps__panel_clear(&panel);
        }
        print_message("# %llu x %llu, coarser %zu, ln delta %.1f: %.2g above, %.2g below\n", (unsigned long long)inner,
                      (unsigned long long)outer, coarser, exact[0].log_delta, width[EPS__UPPER], width[EPS__LOWER]);
    }
    if (wrong > 0)
        fail_msg("%zu bounds are wrong", wrong);
    assert_true(judged > 20);
}

/* The same mechanism divided into powers in other ways. */
TEST(powers_add_up)
{
    struct draw_pair drawn;
    subsampled_pair(&drawn, 0.05, 1, false);
    const struct exact_power whole = {&drawn.pair, 60};
    const struct exact_power parts[] = {{&drawn.pair, 1}, {&drawn.pair, 20}, {&drawn.pair, 39}};
    for (enum eps__estimate e = EPS__UPPER; e <= EPS__LOWER; e++) {
        struct eps__panel one, three;
        assert_int_equal(compose(&one, &whole, 1, 3, 0.05, 1e-9, e), EPS_OK);
        assert_int_equal(compose(&three, parts, 3, 3, 0.05, 1e-9, e), EPS_OK);
        assert_true(fabs(eps__panel_log_delta(&one, 3) - eps__panel_log_delta(&three, 3)) < 1e-9);
        eps__panel_clear(&one);
        eps__panel_clear(&three);
    }
}

/* A rare loss far away from the others, which a coarse copy merges with its neighbour, calls for a small exponent: at
 * that of the copy, the window would be 70 times as long. */
TEST(a_rare_loss_does_not_lengthen_the_window)
{
    enum { KNOTS = 1002, NEAR = 500, FAR = 21300, COUNT = 1000 };
    int64_t index[KNOTS];
    double mass[KNOTS], total = 0;
    for (int i = 0; i < KNOTS; i++) {
        index[i] = i < KNOTS - 1 ? i - NEAR : FAR;
        mass[i] = i < KNOTS - 1 ? exp(-5e-5 * (double)(index[i] * index[i])) : 0;
        total += mass[i];
    }
    for (int i = 0; i < KNOTS; i++)
        mass[i] = i < KNOTS - 1 ? mass[i] / total : 1e-20;
    struct eps__pld pld = {.spacing = 1e-3, .index = index, .mass = mass, .len = KNOTS};
    const struct eps__pld_power power = {&pld, COUNT};
    const struct eps__compose_plan plan = {.tail_mass = 1e-12, .log_infinity = INFINITY, .max_len = 1 << 22};
    for (enum eps__estimate e = EPS__UPPER; e <= EPS__LOWER; e++) {
        struct eps__panel panel;
        pld.estimate = e;
        assert_int_equal(eps__compose(NULL, &panel, &power, 1, &plan), EPS_OK);
        assert_true(panel.len > 40000 && panel.len < 60000);
        eps__panel_clear(&panel);
    }
}

/* P6: half of this distribution is gone and most of the rest may be wrapped: the truth may be a tenth at the loss. */
TEST(what_may_be_too_much_counts_of_what_is_left)
{
    int64_t index[] = {10};
    for (int c = 0; c < 20; c++) {
        double left = 0.1 + 0.045 * c, wrapped = 0.05 + 0.045 * c * 0.9, tilt = c % 3;
        double mass[] = {left};
        struct eps__pld pld = {.estimate = EPS__LOWER,
                               .spacing = 0.1,
                               .index = index,
                               .mass = mass,
                               .len = 1,
                               .tilt = tilt,
                               .log_scale = 0,
                               .excess = wrapped};
        for (uint64_t count = 1; count <= 8; count++) {
            const struct eps__pld_power power = {&pld, count};
            const struct eps__compose_plan plan = {
                .tilt = tilt, .tail_mass = 1e-12, .log_infinity = INFINITY, .max_len = 1 << 16};
            struct eps__panel panel;
            assert_int_equal(eps__compose(NULL, &panel, &power, 1, &plan), EPS_OK);
            for (double eps = 0; eps < (double)count; eps += 0.25) {
                double sum = (double)count * 1.0; /* every loss is 1 */
                double truth = (double)count * (log(left - wrapped) - tilt) + log(-expm1(eps - sum));
                double found = eps__panel_log_delta(&panel, eps);
                if (found > truth + 1e-9)
                    fail_msg("%g of which %g may be wrapped, %llu times, eps %g: %.17g, truth %.17g", left, wrapped,
                             (unsigned long long)count, eps, found, truth);
            }
            eps__panel_clear(&panel);
        }
    }
}

/* delta(eps) of `count` losses of 0 or `high`, the latter with probability p: binomial, in quadruple precision. */
static __float128 two_atoms_delta(double p, double high, uint64_t count, double eps)
{
    __float128 total = 0, log_choose = 0;
    for (uint64_t k = 0; k <= count; k++) {
        __float128 over = (__float128)high * k - eps;
        if (over > 0)
            total -= expq(log_choose + k * logq(p) + (count - k) * log1pq(-(__float128)p)) * expm1q(-over);
        log_choose += logq((__float128)(count - k) / (k + 1));
    }
    return total;
}

/* A loss so rare that the window leaves it out: it often wraps around to a place below epsilon, where it counts
 * nothing. The part beyond the window is added, once. */
TEST(what_lies_beyond_the_window_is_added)
{
    uint64_t state = seed + 5;
    size_t outside = 0;
    for (int c = 0; c < 200; c++) {
        int64_t index[] = {0, 100 + (int64_t)draw_below(&state, 900)};
        double p = draw_log(&state, 1e-12, 1e-4), high = 0.1 * (double)index[1];
        double tilt = c % 2 ? draw_between(&state, 0, -log(p) / high) : 0;
        double mass[] = {1 - p, p * exp(tilt * high)};
        uint64_t count = 1 + draw_below(&state, 6);
        const struct eps__pld pld = {
            .estimate = EPS__UPPER, .spacing = 0.1, .index = index, .mass = mass, .len = 2, .tilt = tilt};
        const struct eps__pld_power power = {&pld, count};
        const double rare = (double)count * mass[1] / (mass[0] + mass[1]);
        const struct eps__compose_plan plan = {.tilt = tilt,
                                               .tail_mass = rare * draw_log(&state, 1, 1e3),
                                               .log_infinity = INFINITY,
                                               .max_len = (size_t)1 << 16};
        struct eps__panel panel;
        if (!(plan.tail_mass < 0.5))
            continue;
        assert_int_equal(eps__compose(NULL, &panel, &power, 1, &plan), EPS_OK);
        outside += panel.start + (double)panel.len * panel.spacing < high;
        for (double eps = 0.05; eps < 1.2 * high; eps += 0.07 * high) {
            double found = exp(eps__panel_log_delta(&panel, eps)), truth = (double)two_atoms_delta(p, high, count, eps);
            double added = 3 * plan.tail_mass + (double)panel.len * panel.rounding;
            double most = truth * (1 + 1e-9) + added * exp(panel.log_scale - tilt * eps);
            if (!(found >= truth * (1 - 1e-12) && found <= most)) /* apart from the masses' own rounding */
                fail_msg("case %d: delta(%g) is %.17g, bounded by %.17g, which may be %.17g", c, eps, truth, found,
                         most);
        }
        eps__panel_clear(&panel);
    }
    print_message("# %zu windows left the rare loss out, seed %llu\n", outside, (unsigned long long)seed + 5);
    assert_true(outside > 50);
}

static __float128 larger(__float128 a, __float128 b)
{
    return a > b ? a : b;
}

/* P5: compared with quadruple precision, where the offset, the tilt and the scale cancel; the error is not
 * excessive. */
TEST(log_moments_know_their_error)
{
    uint64_t state = seed + 5;
    enum { LEN = 200 };
    double widest = 0;
    for (int c = 0; c < 400; c++) {
        int64_t index[LEN];
        double mass[LEN];
        int64_t at = -(int64_t)draw_below(&state, 1000000);
        for (size_t i = 0; i < LEN; i++) {
            index[i] = at;
            at += c % 2 ? 1 : 1 + (int64_t)draw_below(&state, 50);
            mass[i] = draw_log(&state, 1e-12, 1);
        }
        struct eps__pld pld = {.estimate = EPS__UPPER,
                               .spacing = draw_log(&state, 1e-6, 1e-1),
                               .offset = draw_between(&state, -1e4, 1e4),
                               .index = index,
                               .mass = mass,
                               .len = LEN,
                               .tilt = draw_log(&state, 1e-3, 1e3),
                               .log_scale = draw_between(&state, -500, 500)};
        double tilt = draw_log(&state, 1e-3, 1e3), error, found = eps__pld_log_moment(&pld, tilt, &error);
        __float128 exponent = (__float128)tilt - pld.tilt, largest = -1e300, total = 0;
        for (size_t i = 0; i < LEN; i++)
            largest = larger(largest, exponent * ((__float128)pld.offset + index[i] * (__float128)pld.spacing));
        for (size_t i = 0; i < LEN; i++)
            total += mass[i] * expq(exponent * ((__float128)pld.offset + index[i] * (__float128)pld.spacing) - largest);
        double off = fabs((double)(largest + logq(total) + pld.log_scale - found));
        if (!(off <= error))
            fail_msg("case %d: off by %.3g, %.3g claimed", c, off, error);
        widest = fmax(widest, error / (1 + fabs(found) + fabs((double)exponent) * 2e4));
    }
    assert_true(widest < 1e-12);
}

/* P5: knots from -k to k, all of the mass at the lowest, and a scale that makes the sum 1: an exponent that is large
 * at both ends and nowhere else. The exponent, k spacings, their product and each factor are all rounded by nearly a
 * unit. */
TEST(exponents_that_cancel_are_rounded_all_the_same)
{
    enum { K = 9, LEN = 2 * K + 1 };
    const double tilt = 1.0004432599882391, spacing = 32.006765323457813;
    int64_t index[LEN];
    double mass[LEN] = {exp(2 * K * tilt * spacing)}, error;
    for (int i = 0; i < LEN; i++)
        index[i] = i - K;
    const struct eps__pld pld = {
        .estimate = EPS__UPPER, .spacing = spacing, .index = index, .mass = mass, .len = LEN, .tilt = 0.999 * 0x1p-53};
    __float128 exact = -((__float128)tilt - pld.tilt) * K * (__float128)spacing + logq(mass[0]);
    double off = fabs((double)(eps__pld_log_moment(&pld, tilt, &error) - exact));
    if (!(off <= error && error <= 1e-12))
        fail_msg("off by %.3g, %.3g claimed", off, error);
    assert_true(off > 1e-13); /* nearly as much as possible */
}

static bool always(void *user)
{
    (void)user;
    return true;
}

TEST(cost_and_cancellation_are_statuses)
{
    struct draw_pair drawn;
    struct eps__pld_plan plan;
    struct eps__pld pld;
    struct eps__panel panel;
    subsampled_pair(&drawn, 0.1, 1, false);
    plan_for(&plan, &drawn.pair, 1, 100, 0.01);
    assert_int_equal(build_pair(&pld, &drawn.pair, &plan, EPS__UPPER), EPS_OK);
    const struct eps__pld_power power = {&pld, 100};
    const struct eps__compose_plan small = {1, 1e-9, INFINITY, 64, false}, large = {1, 1e-9, INFINITY, 1 << 20, true};
    const struct eps_context canceled = {.canceled = always}, expired = {.expired = always};
    assert_int_equal(eps__compose(NULL, &panel, &power, 1, &small), EPS_TOO_COSTLY);
    assert_int_equal(eps__compose(&canceled, &panel, &power, 1, &large), EPS_CANCELED);
    assert_int_equal(eps__compose(&expired, &panel, &power, 1, &large), EPS_TIMEOUT);
    eps__pld_clear(&pld);
}
