/*
 * Binomial probabilities against quadruple precision, and laws that sum to one.
 *
 * SPDX-License-Identifier: GPL-3.0-or-later
 */
#include <math.h>
#include <stdint.h>
#include <stdlib.h>

#include "lib/numerics/binomial.h"
#include "lib/sampling/law.h"
#include "tests/unit/draw.h"
#include "tests/unit/exact.h"
#include "tests/unit/test.h"

static const uint64_t seed = 99;

static __float128 exact_log_pmf(uint64_t n, double p, uint64_t k)
{
    __float128 size = n, x = k, rest = size - x;
    return lgammaq(size + 1) - lgammaq(x + 1) - lgammaq(rest + 1) + x * logq(p) + rest * log1pq(-(__float128)p);
}

/* The reference cancels, which its tolerance covers: for n = 2^20 to 20 digits of the difference. */
TEST(stirlings_errors_are_those_of_the_gamma_function)
{
    for (double n = 1; n <= 0x1p20; n = n < 3000 ? n + 1 : floor(n * 1.1)) {
        __float128 x = n, own = eps__stirling_error_quad(x);
        __float128 reference = lgammaq(x + 1) - (x + 0.5) * logq(x) + x - logq(eps__two_pi_quad()) / 2;
        assert_true(fabsq(own - reference) <= 4 * x * logq(x + 2) * 0x1p-112);
        assert_true(own > 0 && own < 1 / (12 * x) && own > 1 / (12 * x + 1)); /* Robbins 1955 */
    }
}

/* N2: probabilities above e^-750 are within the bound of the header, for every n; reports the worst as a share of
 * it. */
TEST(probabilities_are_within_their_error)
{
    uint64_t state = seed;
    double worst = 0, worst_n = 0, worst_p = 0, worst_k = 0;
    int checked = 0;
    for (int c = 0; c < 6000; c++) {
        uint64_t n = (uint64_t)draw_log(&state, 1, c % 2 ? 200 : 0x1p24);
        double p = draw_below(&state, 2) ? draw_unit(&state) : draw_log(&state, 1e-8, 1), mean = (double)n * p;
        double deviation = sqrt(mean * (1 - p));
        double at = draw_below(&state, 3) ? mean + draw_between(&state, -38, 38) * deviation
                    : c % 5               ? draw_between(&state, 0, (double)n)
                                          : mean * draw_log(&state, 0.3, 3);
        uint64_t k = (uint64_t)fmin(fmax(nearbyint(at), 0), (double)n);
        if (!(p > 0 && p < 1))
            continue;
        __float128 exact = exact_log_pmf(n, p, k);
        if (exact < -2199)
            continue;
        double own = eps__binomial_log_pmf(n, p, k), miss = fabs((double)(own - exact));
        checked++;
        if (exact > -870)
            assert_true(miss <= 2 * eps__binomial_error(n, p, 0));
        miss /= eps__binomial_error(n, p, own);
        if (miss > worst) {
            worst = miss;
            worst_n = (double)n;
            worst_p = p;
            worst_k = (double)k;
        }
    }
    print_message("# largest error of ln pmf over its bound %.3g, at n %.17g, p %.17g, k %.17g, seed %llu\n", worst,
                  worst_n, worst_p, worst_k, (unsigned long long)seed);
    assert_true(worst <= 1);
    assert_true(checked > 3000);
}

/* N3: above the tail, and not far above it beyond the mode; with ratios near 1, and where a probability underflows. */
TEST(tails_are_bounded_closely)
{
    uint64_t state = seed;
    int checked = 0;
    for (int c = 0; c < 400; c++) {
        uint64_t n = (uint64_t)draw_log(&state, 1, c % 4 ? 3000 : 0x1p22);
        double p = c % 3 ? draw_log(&state, 1e-7, 1) : draw_unit(&state), mean = ((double)n + 1) * p;
        double deviation = sqrt(mean * (1 - p)) + 1e-3;
        bool up = c % 2;
        double from = c % 5 ? mean + (up ? 1 : -1) * draw_log(&state, 1e-2, 60) * deviation : (up ? (double)n : 0);
        if (!(from >= 0 && from <= (double)n) || !(p > 0 && p < 1))
            continue;
        uint64_t k = (uint64_t)(up ? ceil(from) : floor(from));
        if (k > n)
            continue;
        checked++;
        __float128 first = exact_log_pmf(n, p, k), total = 0;
        for (uint64_t x = k;; x += up ? 1 : (uint64_t)-1) {
            __float128 term = expq(exact_log_pmf(n, p, x) - first);
            total += term;
            if (x == (up ? n : 0) || term < 1e-6 * total)
                break;
        }
        double exact = (double)(first + logq(total)), found = eps__binomial_log_tail(n, p, k, up);
        if (!(found >= exact && found <= exact + M_LN2 + 1e-12 * fabs(exact)))
            fail_msg("n %llu, p %.17g, k %llu, %s: %.17g is no close bound on %.17g", (unsigned long long)n, p,
                     (unsigned long long)k, up ? "up" : "down", found, exact);
    }
    assert_true(checked > 150);
    assert_true(eps__binomial_log_tail(10, 0.25, 11, true) == -INFINITY);
    assert_true(eps__binomial_log_tail(10, 0.5, 1, true) >= log1p(-0x1p-10));
}

/* Atoms that would underflow are left out and counted: no weight has fewer digits than claimed. */
TEST(laws_do_not_underflow)
{
    const struct {
        uint64_t k;
        double p;
    } cases[] = {{45, 0.9999999339843307}, {45, 1e-12}, {1, 1e-320}, {48, 1e-7}, {1000, 1 - 1e-9}, {64, 1e-30}};
    for (size_t c = 0; c < sizeof cases / sizeof *cases; c++) {
        struct eps__law law;
        uint64_t k = cases[c].k;
        double p = cases[c].p;
        assert_int_equal(eps__binomial_law(&law, k, p, -10000), EPS_OK);
        for (size_t i = 0; i < law.len; i++) {
            double miss = fabs((double)(law.weight[i] / expq(exact_log_pmf(k, p, law.first + i)) - 1));
            assert_true(law.weight[i] >= 1e-290 && miss <= law.weight_error);
        }
        assert_true((law.lost_low > 0) == (law.first > 0) && (law.lost_high > 0) == (law.first + law.len - 1 < k));
        if (law.first > 0)
            assert_true(log(law.lost_low) >= exact_log_pmf(k, p, law.first - 1) && law.lost_low < 1e-280);
        if (law.lost_high > 0)
            assert_true(log(law.lost_high) >= exact_log_pmf(k, p, law.first + law.len) && law.lost_high < 1e-280);
        eps__law_clear(&law);
    }
}

TEST(ends_are_exact)
{
    assert_true(eps__binomial_log_pmf(10, 0.25, 11) == -INFINITY);
    assert_true(fabs(eps__binomial_log_pmf(10, 0.25, 10) - 10 * log(0.25)) < 1e-14);
    assert_true(fabs(eps__binomial_log_pmf(1000000, 1e-9, 0) + 1e-3 + 5e-13) < 1e-15);
}

/* Every weight is within the error that the law claims; the mass that was left out is bounded. */
TEST(laws_are_within_their_error)
{
    uint64_t state = seed;
    int checked = 0;
    for (int c = 0; c < 120; c++) {
        uint64_t k = (uint64_t)draw_log(&state, 1, c % 2 ? 60 : 0x1p24);
        double p = c % 3 ? draw_log(&state, 1e-7, 1) : draw_unit(&state), floor = -draw_between(&state, 40, 700);
        struct eps__law law;
        __float128 total = 0;
        if (!(p > 0))
            continue;
        assert_int_equal(eps__binomial_law(&law, k, p, floor), EPS_OK);
        checked += law.len > 0;
        size_t stride = 1 + law.len / 200;
        for (size_t i = 0; i < law.len; i += stride) {
            double miss = fabs((double)(law.weight[i] / expq(exact_log_pmf(k, p, law.first + i)) - 1));
            if (!(miss <= law.weight_error))
                fail_msg("k %llu, p %.17g, atom %llu: off by %.3g, claimed %.3g", (unsigned long long)k, p,
                         (unsigned long long)(law.first + i), miss, law.weight_error);
        }
        for (size_t i = 0; i < law.len; i++)
            total += law.weight[i];
        assert_true(fabs((double)(1 - total)) <= law.weight_error + law.lost_low + law.lost_high + 1e-30);
        for (int side = 0; side < 2; side++) {
            uint64_t next = side ? law.first + law.len : law.first - 1;
            if (side ? next > k : law.first == 0)
                continue;
            assert_true(expq(exact_log_pmf(k, p, next)) <= (side ? law.lost_high : law.lost_low));
        }
        eps__law_clear(&law);
    }
    assert_true(checked > 100);
}
