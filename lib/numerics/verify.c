/*
 * Run-time checks of claims against quadruple precision, for the verify build.
 *
 * SPDX-License-Identifier: GPL-3.0-or-later
 */
#include "lib/numerics/verify.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "lib/numerics/bound.h"

/* Relative rounding error allowed for quadruple precision itself. */
#define OWN 1e-30L
/* In standard deviations: a tail beyond this underflows quadruple precision. */
#define FARTHEST 145.0

void eps__verify_failed(const char *claim, const char *file, int line)
{
    fprintf(stderr, "%s:%d: verification failed: %s\n", file, line, claim);
    abort();
}

bool eps__verify_now(void)
{
    static _Thread_local unsigned calls;
    return calls++ % 61 == 0;
}

bool eps__verify_order(eps__quad a, eps__quad b)
{
    return !(a > b + OWN * fabsq(b));
}

bool eps__verify_moved(double x, double moved, double units)
{
    if (!isfinite(x) || !isfinite(moved) || fabs(x) < DBL_MIN / EPS__UNIT_ROUNDOFF)
        return true;
    eps__quad move = (eps__quad)units * EPS__UNIT_ROUNDOFF * fabs(x), least = x + move * (1 - 4 * EPS__UNIT_ROUNDOFF);
    return signbit(units) ? moved <= least : moved >= least;
}

bool eps__verify_shifted(double x, double shifted, double error)
{
    if (!isfinite(x) || !isfinite(shifted) || isnan(error))
        return true;
    return signbit(error) ? shifted <= (eps__quad)x + error : shifted >= (eps__quad)x + error;
}

bool eps__verify_exp(double x, double power, double error)
{
    if (isnan(power) || isinf(x) || isinf(power))
        return true;
    eps__quad exact = expq((eps__quad)x + error);
    return signbit(error) ? power <= exact : power >= exact;
}

bool eps__verify_log(double x, double value, double units)
{
    if (!isfinite(value) || isinf(x))
        return true;
    eps__quad exact = logq(x * (1 + (eps__quad)units * EPS__UNIT_ROUNDOFF));
    return signbit(units) ? value <= exact : value >= exact;
}

eps__quad eps__verify_exp_of(eps__quad x)
{
    return expq(x);
}

eps__quad eps__verify_log_of(eps__quad x)
{
    return logq(x);
}

eps__quad eps__verify_tail(eps__quad x)
{
    return erfcq(x / sqrtq(2)) / 2;
}

static bool near(eps__quad exact, double value, double error)
{
    return !isfinite(value) || !isfinite(error) || fabsq(exact - value) <= error * (1 + OWN) + OWN * fabsq(exact);
}

bool eps__verify_log_tail(double x, double value, double error)
{
    return !(fabs(x) < FARTHEST) || near(logq(eps__verify_tail(x)), value, error);
}

bool eps__verify_log_mass(double left, double width, double value, double error)
{
    eps__quad right = (eps__quad)left + width, from = left;
    if (!isfinite(left) || !(fabs(left) < FARTHEST) || isnan(value))
        return true;
    if (from + right < 0) { /* reflect to the side where the tails are small */
        from = -right;
        right = -(eps__quad)left;
    }
    eps__quad mass = eps__verify_tail(from) - (isinf(width) ? 0 : eps__verify_tail(right));
    /* a narrow interval: the difference of two tails has too few digits left even in quadruple precision */
    return mass < 1e-14L * eps__verify_tail(from) || near(logq(mass), value, error);
}
