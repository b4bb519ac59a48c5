/*
 * The named bounds compared with quadruple precision, from subnormal numbers to the largest; and NaN, which bounds
 * nothing.
 *
 * SPDX-License-Identifier: GPL-3.0-or-later
 */
#include <float.h>
#include <math.h>
#include <stdint.h>
#include <stdlib.h>

#include "lib/numerics/bound.h"
#include "lib/numerics/lanes/lanes.h"
#include "lib/numerics/sum.h"
#include "tests/unit/draw.h"
#include "tests/unit/exact.h"
#include "tests/unit/test.h"

enum { DRAWS = 200000 };

static const double u = EPS__UNIT_ROUNDOFF;

/* A number of any size and either sign, often with few bits. */
static double draw_number(uint64_t *state)
{
    double size = ldexp(1 + draw_unit(state), (int)draw_below(state, 1200) - 600);
    if (draw_below(state, 4) == 0)
        size = ldexp((double)(1 + draw_below(state, 8)), (int)draw_below(state, 40) - 20);
    return draw_below(state, 2) ? -size : size;
}

/* N6. Moved by a number of units, or by an error: not less, and hardly more. */
TEST(moves_are_outwards)
{
    uint64_t state = 1;
    for (int i = 0; i < DRAWS; i++) {
        double x = draw_number(&state), units = 2 + (double)draw_below(&state, i % 2 ? 30 : 1000000);
        double error = fabs(x) * draw_log(&state, 1e-18, 1);
        __float128 least = (__float128)units * u * fabs(x);
        assert_true(eps__raise(x, units) - (__float128)x >= least - 2 * (__float128)u * fabs(x) * (1 + units * u));
        assert_true(eps__raise(x, units) - (__float128)x <= least + 2 * (__float128)u * fabs(x) * (1 + units * u));
        assert_true(x - (__float128)eps__lower(x, units) >= least - 2 * (__float128)u * fabs(x) * (1 + units * u));
        assert_true(eps__outward(EPS__UPPER, x, units) == eps__raise(x, units));
        assert_true(eps__outward(EPS__LOWER, x, units) == eps__lower(x, units));
        __float128 up = eps__shift(EPS__UPPER, x, error) - (__float128)x,
                   down = x - (__float128)eps__shift(EPS__LOWER, x, error);
        assert_true(up >= error && up <= error + 6 * (__float128)u * (fabs(x) + error));
        assert_true(down >= error && down <= error + 6 * (__float128)u * (fabs(x) + error));
    }
    assert_true(eps__raise(-INFINITY, 8) == -INFINITY && eps__lower(INFINITY, 8) == INFINITY);
    assert_true(eps__shift(EPS__UPPER, -INFINITY, INFINITY) == -INFINITY);
}

TEST(functions_are_enclosed)
{
    uint64_t state = 2;
    for (int i = 0; i < DRAWS / 10; i++) {
        double x = draw_between(&state, -760, 700), error = i % 3 ? draw_log(&state, 1e-17, 1e-3) : 0;
        __float128 exact = expq(x), high = expq((__float128)x + error), low = expq((__float128)x - error);
        double above = eps__exp_bound(EPS__UPPER, x, error), below = eps__exp_bound(EPS__LOWER, x, error);
        assert_true(above >= high && below <= low && below >= 0);
        assert_true(above - high <= exact * (4e-15 + 6e-16 * fabs(x)) * (1 + 2 * error) + 2 * DBL_MIN);
        assert_true(low - below <= exact * (4e-15 + 6e-16 * fabs(x)) + 2 * DBL_MIN);
        double y = i % 5 ? fabs(draw_number(&state)) : 1 + draw_between(&state, -1e-9, 1e-9);
        double units = i % 7 ? (double)draw_below(&state, 40) : draw_log(&state, 1, 1e11);
        assert_true(eps__log_bound(EPS__UPPER, y, units) >= logq(y * (1 + (__float128)units * u)));
        assert_true(eps__log_bound(EPS__LOWER, y, units) <= logq(y * (1 - (__float128)units * u)));
        assert_true(eps__log_bound(EPS__UPPER, y, units) - (double)logq(y) <= u * (2 * units + 16 * fabs(log(y)) + 4));
    }
    assert_true(eps__exp_bound(EPS__UPPER, -INFINITY, 0) == 0 && eps__exp_bound(EPS__UPPER, -1e6, 0) == DBL_MIN);
    assert_true(eps__exp_bound(EPS__LOWER, -1e6, 0) == 0 && isinf(eps__log_bound(EPS__UPPER, 0, 8)));
}

/* N6. Side by side, with SLEEF's exponential: as one by one. */
TEST(exponentials_are_enclosed_side_by_side)
{
    enum { LEN = 3 * EPS__LANES };
    uint64_t state = 3;
    for (int i = 0; i < DRAWS / LEN; i++) {
        double x[LEN], error[LEN], bound[2][LEN];
        for (size_t j = 0; j < LEN; j++) {
            x[j] = bound[0][j] = bound[1][j] = draw_between(&state, -760, 700);
            error[j] = draw_log(&state, 1e-18, 1);
        }
        x[0] = bound[0][0] = bound[1][0] = -INFINITY;
        eps__exp_bound_lanes(EPS__UPPER, bound[0], error, 3);
        eps__exp_bound_lanes(EPS__LOWER, bound[1], error, 3);
        assert_true(bound[0][0] == 0 && bound[1][0] == 0);
        for (size_t j = 1; j < LEN; j++) {
            __float128 above = expq((__float128)x[j] + error[j]), below = expq((__float128)x[j] - error[j]);
            double slack = 40 * u * (1 + fabs(x[j]));
            assert_true(bound[0][j] >= above && bound[1][j] <= below);
            assert_true(bound[0][j] <= above * (1 + slack) || above < DBL_MIN);
            assert_true(bound[1][j] >= below * (1 - slack) || below < 2 * DBL_MIN);
        }
    }
}

TEST(operations_round_one_way)
{
    uint64_t state = 3;
    for (int i = 0; i < DRAWS; i++) {
        double a = draw_number(&state), b = draw_number(&state);
        if (i % 3 == 0)
            b = a * draw_between(&state, -2, 2);
        __float128 sum = (__float128)a + b, product = (__float128)fabs(a) * fabs(b);
        assert_true(eps__add_up(a, b) >= sum && eps__add_down(a, b) <= sum);
        assert_true(eps__add_up(a, b) <= nextafter(a + b, INFINITY) &&
                    eps__add_down(a, b) >= nextafter(a + b, -INFINITY));
        if (product > DBL_MAX)
            continue;
        double up = eps__multiply_up(fabs(a), fabs(b)), down = eps__multiply_down(fabs(a), fabs(b));
        assert_true(up >= product && down <= product && up <= nextafter(nextafter(down, INFINITY), INFINITY));
        up = eps__sqrt_up(fabs(a));
        down = eps__sqrt_down(fabs(a));
        assert_true((__float128)up * up >= fabs(a) && (__float128)down * down <= fabs(a) &&
                    up <= nextafter(down, INFINITY));
    }
    /* where the residual itself is lost */
    for (int c = 0; c < 20000; c++) {
        double x = draw_log(&state, c % 2 ? 0x1p-1074 : 0x1p-1022, 0x1p-960);
        double up = eps__sqrt_up(x), down = eps__sqrt_down(x);
        assert_true((__float128)up * up >= x && (__float128)down * down <= x && down >= up * (1 - 0x1p-51));
    }
    assert_true(eps__sqrt_up(0) == 0 && eps__sqrt_down(0) == 0 && isinf(eps__sqrt_up(INFINITY)));
    assert_true(eps__multiply_up(1e-200, 1e-200) > 0 && eps__multiply_down(1e-200, 1e-200) == 0);
    assert_true(eps__multiply_up(3, 0x1p-1074) >= 0x1p-1074 * 3 && eps__multiply_up(0, 1e-300) == 0);
    assert_true(eps__add_up(0.5, 0.25) == 0.75 && eps__multiply_up(3, 0.5) == 1.5 && eps__sqrt_up(9) == 3);
}

/* The error of squares that underflow is counted. */
TEST(tiny_squares_are_enclosed)
{
    uint64_t state = 4;
    for (int c = 0; c < 2000; c++) {
        struct eps__sum sum = {0};
        __float128 exact = 0;
        double size = draw_log(&state, 1e-165, 1e-130);
        for (int i = 0; i < 300; i++) {
            double x = size * draw_between(&state, 0.5, 2);
            eps__sum_add_square(&sum, x);
            exact += (__float128)x * x;
        }
        struct eps__interval got = eps__sum_interval(&sum, 0);
        assert_true(got.lower <= exact && exact <= got.upper);
        assert_true(got.lower >= exact * 0.999 - 2 * DBL_MIN);
    }
}

TEST(no_number_bounds_nothing)
{
    assert_true(eps__certain(EPS__UPPER, NAN) == 0 && eps__certain(EPS__LOWER, NAN) == -INFINITY);
    assert_true(eps__certain(EPS__UPPER, -3) == -3 && eps__certain(EPS__LOWER, -INFINITY) == -INFINITY);
    assert_true(eps__other(EPS__UPPER) == EPS__LOWER && eps__other(EPS__LOWER) == EPS__UPPER);
    assert_true(eps__log_add(-INFINITY, -INFINITY) == -INFINITY && eps__log_add(-2, -INFINITY) == -2);
    assert_true(isnan(eps__log_add(NAN, -1)) && isnan(eps__log_add(-1, NAN)) && isnan(eps__log_add(NAN, -INFINITY)));
    assert_true(fabs(eps__log_add(-1, -2) - log(exp(-1) + exp(-2))) < 1e-15);
}
