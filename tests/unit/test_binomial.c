/*
 * Binomial probabilities against quadruple precision, and laws that sum to one.
 *
 * SPDX-License-Identifier: GPL-3.0-or-later
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdlib.h>

#include <cmocka.h>

#include <math.h>

#include "lib/numerics/binomial.h"
#include "lib/sampling/law.h"
#include "tests/unit/draw.h"
#include "tests/unit/exact.h"

static const uint64_t seed = 99;

static __float128 exact_log_pmf(uint64_t n, double p, uint64_t k)
{
    __float128 size = n, x = k, rest = size - x;
    return lgammaq(size + 1) - lgammaq(x + 1) - lgammaq(rest + 1) + x * logq(p) + rest * log1pq(-(__float128)p);
}

/* What is not under e^-700 is within the bound of the header, for every n: the worst as a share of it. */
static void probabilities_are_within_their_error(void **unused)
{
    (void)unused;
    uint64_t state = seed;
    double worst = 0, worst_n = 0, worst_p = 0, worst_k = 0;
    for (int c = 0; c < 6000; c++) {
        uint64_t n = (uint64_t)draw_log(&state, 1, c % 2 ? 200 : 0x1p24);
        double p = draw_below(&state, 2) ? draw_unit(&state) : draw_log(&state, 1e-8, 1), mean = (double)n * p;
        double deviation = sqrt(mean * (1 - p));
        double at = draw_below(&state, 3) ? mean + draw_between(&state, -35, 35) * deviation
                                          : draw_between(&state, 0, (double)n);
        uint64_t k = (uint64_t)fmin(fmax(nearbyint(at), 0), (double)n);
        if (!(p > 0 && p < 1))
            continue;
        __float128 exact = exact_log_pmf(n, p, k);
        if (exact < -700)
            continue;
        double bound = 1e-12 + 200 * deviation * 0x1p-53;
        double miss = fabs((double)(eps__binomial_log_pmf(n, p, k) - exact)) / bound;
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
}

static void ends_are_exact(void **unused)
{
    (void)unused;
    assert_true(eps__binomial_log_pmf(10, 0.25, 11) == -INFINITY);
    assert_true(fabs(eps__binomial_log_pmf(10, 0.25, 10) - 10 * log(0.25)) < 1e-14);
    assert_true(fabs(eps__binomial_log_pmf(1000000, 1e-9, 0) + 1e-3 + 5e-13) < 1e-15);
}

/* Every weight within the error that the law claims; what was left out is bounded. */
static void laws_are_within_their_error(void **unused)
{
    (void)unused;
    uint64_t state = seed;
    for (int c = 0; c < 120; c++) {
        uint64_t k = (uint64_t)draw_log(&state, 1, c % 2 ? 60 : 0x1p24);
        double p = c % 3 ? draw_log(&state, 1e-7, 1) : draw_unit(&state), floor = -draw_between(&state, 40, 700);
        struct eps__law law;
        __float128 total = 0;
        if (!(p > 0))
            continue;
        assert_int_equal(eps__binomial_law(&law, k, p, floor), EPS_OK);
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
            assert_true(expq(exact_log_pmf(k, p, next)) <= (side ? law.lost_high : law.lost_low) * (1 + 1e-9));
        }
        eps__law_clear(&law);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(probabilities_are_within_their_error),
        cmocka_unit_test(ends_are_exact),
        cmocka_unit_test(laws_are_within_their_error),
    };
    return cmocka_run_group_tests_name("binomial", tests, NULL, NULL);
}
