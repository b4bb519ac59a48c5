/*
 * The closed form of one step's profile compared with quadruple precision: the two estimates contain it and are close,
 * for shifts and probabilities of every scale, at losses from 0 to beyond the last.
 *
 * SPDX-License-Identifier: GPL-3.0-or-later
 */
#include <math.h>
#include <stdint.h>
#include <stdlib.h>

#include "lib/numerics/normal.h"
#include "lib/pld/pairs/single.h"
#include "tests/unit/draw.h"
#include "tests/unit/exact.h"
#include "tests/unit/patience.h"
#include "tests/unit/test.h"

enum { ATOMS_MAX = 6, CASES = 1500 };
static const uint64_t seed = 1618;

struct drawn {
    double weight[2][ATOMS_MAX], shift[2][ATOMS_MAX];
};

/* A law with an atom at 0, which may have most of the weight; the weights add up to 1 exactly. */
static struct eps__mixture draw_law(uint64_t *state, struct drawn *drawn, int side, double scale, double p)
{
    size_t len = 1 + draw_below(state, ATOMS_MAX);
    double left = 1;
    drawn->shift[side][0] = 0;
    for (size_t i = 1; i < len; i++) {
        double share = i + 1 == len && draw_below(state, 3) == 0 ? left : p * draw_unit(state) / (double)len;
        share = ceil(fmin(share, left) * 0x1p52) * 0x1p-52; /* the remainder is then exact */
        drawn->weight[side][i] = share;
        drawn->shift[side][i] = scale * (0.1 + draw_unit(state));
        left -= share;
    }
    drawn->weight[side][0] = left;
    size_t first = left > 0 ? 0 : 1;
    return (struct eps__mixture){
        .weight = drawn->weight[side] + first, .shift = drawn->shift[side] + first, .len = len - first, .whole = true};
}

/* P2. */
TEST(the_estimates_enclose_the_profile)
{
    uint64_t state = seed;
    double widest = 0;
    int checked = 0;
    for (int c = 0; c < CASES; c++) {
        struct drawn drawn;
        struct eps__branch branch = {.weight = {1, 1}};
        double scale = draw_log(&state, 1e-6, c % 3 ? 5 : 60), p = draw_log(&state, 1e-12, 1);
        struct eps__pair *pair = &branch.pair[0];
        pair->numerator = draw_law(&state, &drawn, 0, scale, p);
        pair->denominator = draw_law(&state, &drawn, 1, scale, c % 4 ? p : 1);
        pair->weight_error = 2 * EPS__UNIT_ROUNDOFF;
        branch.pair[1] = branch.pair[0];
        assert_true(eps__single_serves(&branch, 1));
        double largest = fmin(eps__pair_ceiling(pair), scale * (scale + 8));
        double eps = c % 7 == 0 ? 0 : largest * draw_log(&state, 1e-9, 1.1);
        __float128 exact = exact_delta(pair, eps);
        double upper = exp(eps__single_log_delta(&branch, 1, EPS__UPPER, eps)),
               lower = exp(eps__single_log_delta(&branch, 1, EPS__LOWER, eps));
        __float128 slack = exact * 1e-24 + 1e-300;
        if (!((__float128)lower <= exact + slack && exact - slack <= (__float128)upper))
            fail_msg("case %d: %.17g not in [%.17g, %.17g], eps %g", c, (double)exact, lower, upper, eps);
        if (exact < (__float128)1e-290)
            continue;
        checked++;
        double width = (upper - lower) / upper;
        widest = fmax(widest, width);
        if (!(width < 1e-6))
            fail_msg("case %d: [%.17g, %.17g] for %.17g, eps %g, scale %g, p %g", c, lower, upper, (double)exact, eps,
                     scale, p);
    }
    print_message("# widest enclosure, relative: %.3g, of %d, seed %llu\n", widest, checked, (unsigned long long)seed);
    assert_true(checked > CASES / 2);
}

/* P2: weights whose error is as large as the pair claims. Where the loss is nearly flat, the best z is uncertain, and
 * much of P may lie in between. */
TEST(a_crossing_that_is_not_known_is_counted)
{
    uint64_t state = seed;
    int checked = 0;
    for (int c = 0; c < 2000; c++) {
        double p = draw_log(&state, 1e-3, 0.5), shift = draw_log(&state, 0.3, 6), error = draw_log(&state, 1e-10, 1e-4);
        double off = error * (1 - 1e-6) * (1 - p) * draw_between(&state, -1, 1); /* of both weights, relative */
        double told[] = {1 - p, p}, true_weight[] = {told[0] * (1 + off), 1 - told[0] * (1 + off)};
        double shifts[] = {0, shift}, one[] = {1}, zero[] = {0};
        struct eps__branch branch = {.weight = {1, 1}};
        struct eps__pair *pair = &branch.pair[0], exact_pair;
        struct eps__mixture plain = {.weight = one, .shift = zero, .len = 1, .whole = true};
        *pair = (struct eps__pair){.numerator = plain,
                                   .denominator = {.weight = told, .shift = shifts, .len = 2, .whole = true},
                                   .weight_error = error / p};
        exact_pair = *pair;
        exact_pair.denominator.weight = true_weight;
        branch.pair[1] = branch.pair[0];
        double ceiling = -log(true_weight[0]), eps = ceiling - error * draw_log(&state, 1e-3, 1e3);
        if (!(eps > 0))
            continue;
        checked++;
        __float128 exact = exact_delta(&exact_pair, eps);
        double upper = exp(eps__single_log_delta(&branch, 1, EPS__UPPER, eps));
        double lower = exp(eps__single_log_delta(&branch, 1, EPS__LOWER, eps));
        if (!((__float128)lower <= exact && exact <= (__float128)upper))
            fail_msg("case %d: %.17g not in [%.17g, %.17g]: p %g, shift %g, error %g, eps %.17g", c, (double)exact,
                     lower, upper, p, shift, error, eps);
    }
    assert_true(checked > 1000);
}

/* N5. */
TEST(masses_of_intervals_do_not_cancel)
{
    uint64_t state = seed;
    for (int c = 0; c < 20000; c++) {
        double left = draw_between(&state, -40, c % 2 ? 40 : 5), width = draw_log(&state, c % 3 ? 1e-12 : 1e-250, 60),
               error;
        __float128 from = left, to = from + (__float128)width;
        if (from + to < 0) {
            __float128 reflected = -from;
            from = -to;
            to = reflected;
        }
        __float128 mass = exact_normal_tail(from) - exact_normal_tail(to);
        if (width < 1e-6) { /* the midpoint's density, to width^2 */
            __float128 middle = (from + to) / 2;
            mass = expq(-middle * middle / 2) * (__float128)width /
                   sqrtq(2 * (__float128)3.14159265358979323846264338327950288L) *
                   (1 + (__float128)width * (__float128)width / 24 * (middle * middle - 1));
        }
        double found = eps__normal_log_mass(left, width, &error), miss = fabs((double)(found - logq(mass)));
        if (!(miss <= error && error <= 1e-9))
            fail_msg("%.17g + %.17g: off by %.3g, claimed %.3g", left, width, miss, error);
    }
}

/* NaN bounds nothing, and the search for it ends. */
TEST(no_number_has_no_profile)
{
    double one = 1, zero = 0;
    const double shifts[] = {1, 1e160, 1.7e308, INFINITY, NAN}, epsilons[] = {0, 1e300, INFINITY, NAN};
    for (size_t i = 0; i < sizeof shifts / sizeof *shifts; i++)
        for (size_t j = 0; j < sizeof epsilons / sizeof *epsilons; j++) {
            double shift = shifts[i];
            struct eps__pair pair = {.numerator = {.weight = &one, .shift = &shift, .len = 1, .whole = true},
                                     .denominator = {.weight = &one, .shift = &zero, .len = 1, .whole = true}};
            struct eps__branch branch = {.weight = {1, 1}, .pair = {pair, pair}};
            patience_begin("shift", i * 10 + j, 20);
            double upper = eps__single_log_delta(&branch, 1, EPS__UPPER, epsilons[j]);
            double lower = eps__single_log_delta(&branch, 1, EPS__LOWER, epsilons[j]);
            assert_true(upper <= 0 && lower <= upper);
            if (isnan(shift) || isnan(epsilons[j]))
                assert_true(upper == 0 && isinf(lower));
        }
    patience_end();
}
