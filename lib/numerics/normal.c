/*
 * Everything is computed from Mills' ratio m(x) = Q(x)/phi(x): below 5 from erfc, which is accurate there, above 5 from
 * Laplace's continued fraction, which neither cancels nor underflows.
 *
 * The Gaussian profile is delta = phi(u) (m(u) - m(u + mu)) with u = eps/mu - mu/2, because e^eps phi(u + mu) = phi(u).
 * For small mu the difference cancels, so it is computed as the integral of a positive function, m(u) - m(u + mu) =
 * int_0^inf exp(-u s - s^2/2) (1 - e^{-mu s}) ds, by Gauss-Legendre panels.
 *
 * SPDX-License-Identifier: GPL-3.0-or-later
 */
#include "lib/numerics/normal.h"

#include <math.h>
#include <stddef.h>

#define SQRT_HALF_PI 1.25331413731550025121
#define NO_TAIL 37 /* in standard deviations: below -NO_TAIL eps__mills() overflows */
#define U_MOST 1e8 /* in standard deviations: below -U_MOST no squares of u are computed */

double eps__mills(double x)
{
    if (x < 5) { /* e^{y^2} erfc(y), both at the same rounded y, whose rounding error then nearly cancels (N1) */
        double y = x * M_SQRT1_2, square = y * y, rest = fma(y, y, -square);
        return SQRT_HALF_PI * (1 + rest) * exp(square) * erfc(y);
    }
    /* 1/(x + 1/(x + 2/(x + ...))): these many levels leave an error below 1e-18. */
    double tail = x;
    for (int level = x < 6 ? 32 : x < 8 ? 24 : x < 12 ? 18 : 14; level > 0; level--)
        tail = x + level / tail;
    return 1 / tail;
}

double eps__log_normal_tail(double x)
{
    double log_tail;
    if (x < -5)
        log_tail = log1p(-0.5 * erfc(-x * M_SQRT1_2));
    else if (x < 5)
        log_tail = log(0.5 * erfc(x * M_SQRT1_2));
    else
        log_tail = -0.5 * x * x - EPS__LOG_SQRT_2PI + log(eps__mills(x));
    EPS__VERIFY(!eps__verify_now() || eps__verify_log_tail(x, log_tail, EPS__LOG_TAIL_ERROR(x)));
    return log_tail;
}

double eps__normal_tail_quantile(double log_tail)
{
    double low = -40, high = 40;
    if (isnan(log_tail))
        return NAN;
    if (log_tail < -800)
        high = sqrt(-2 * log_tail);
    if (log_tail >= 0)
        return low;
    double x = log_tail > -0.5 ? 0 : sqrt(-2 * log_tail) - 0.5;
    for (int i = 0; i < 100; i++) {
        double residual = eps__log_normal_tail(x) - log_tail;
        if (residual > 0)
            low = x;
        else
            high = x;
        /* d ln Q / dx = -1/m */
        double next = x + residual * (x > -36 ? eps__mills(x) : INFINITY);
        if (!(next > low && next < high))
            next = 0.5 * (low + high);
        if (fabs(next - x) < 1e-12 * (1 + fabs(x)))
            return next;
        x = next;
    }
    return x;
}

/* Eight-point Gauss-Legendre quadrature on [-1, 1]: positive nodes and their weights. */
static const double node8[4] = {0.18343464249564980494, 0.52553240991632898582, 0.79666647741362673959,
                                0.96028985649753623168};
static const double weight8[4] = {0.36268378337836198297, 0.31370664587788728734, 0.22238103445337447054,
                                  0.10122853629037625915};

double eps__normal_log_mass(double left, double width, double *error)
{
    double right = left + width;
    if (left + right < 0) { /* reflect to the side where the tails are small */
        left = -right;
        right = left + width;
    }
    double near = fmax(left, 0), steepness = width * (fabs(left) + width);
    if (steepness > 0.5) {
        double log_near = eps__log_normal_tail(left), share = -expm1(eps__log_normal_tail(right) - log_near);
        double ends = EPS__MILLS_ERROR + 4 * EPS__UNIT_ROUNDOFF * (left * left + 1);
        *error = (ends + EPS__MILLS_ERROR + 4 * EPS__UNIT_ROUNDOFF * fmin(right * right, left * left + 1500)) / share;
        EPS__VERIFY(!eps__verify_now() || eps__verify_log_mass(left, width, log_near + log(share), *error));
        return log_near + log(share);
    }
    /* e^{-left^2/2} times the integral of e^{-left s - s^2/2} over [0, width], where the exponent is at most 1/2 in
     * size. */
    double total = 0;
    for (size_t i = 0; i < 4; i++)
        for (int sign = -1; sign <= 1; sign += 2) {
            double s = 0.5 * width * (1 + sign * node8[i]);
            total += weight8[i] * exp(-s * (left + 0.5 * s));
        }
    *error = EPS__UNIT_ROUNDOFF * (40 + 4 * near * near + 4 * left * left);
    double log_integral = log(0.5 * width * total), log_mass = log_integral - 0.5 * left * left - EPS__LOG_SQRT_2PI;
    *error += 8 * EPS__UNIT_ROUNDOFF * fabs(log_integral);
    EPS__VERIFY(!eps__verify_now() || eps__verify_log_mass(left, width, log_mass, *error));
    return log_mass;
}

/* int_0^inf exp(-u s - s^2/2) (1 - e^{-mu s}) ds for u >= -1, 0 < mu < 1. The panels have length 1/max(u, 2), the decay
 * length of the integrand; eight points leave a relative error below 1e-17. The sum stops at the first panel that adds
 * less than 1e-19 of the total, well before PANELS_MAX. */
static double mills_difference(double u, double mu)
{
    enum { PANELS_MAX = 1000 };
    double half = 0.5 / fmax(u, 2), total = 0, left = 0;
    for (int k = 0; k < PANELS_MAX; k++, left += 2 * half) {
        double panel = 0;
        for (size_t i = 0; i < 4; i++) {
            for (int sign = -1; sign <= 1; sign += 2) {
                double s = left + half * (1 + sign * node8[i]);
                panel -= weight8[i] * exp(-u * s - 0.5 * s * s) * expm1(-mu * s);
            }
        }
        total += half * panel;
        if (!(half * panel > 1e-19 * total))
            break;
    }
    return total;
}

double eps__gaussian_log_delta(double mu, double eps, double *error)
{
    if (isnan(mu) || isnan(eps)) {
        *error = INFINITY;
        return NAN;
    }
    double u = eps / mu - 0.5 * mu;
    double u_error = 2 * EPS__UNIT_ROUNDOFF * (fabs(eps / mu) + mu);
    /* eps < 0, and both tails of delta = Pr[Z > u] - e^eps Pr[Z > u + mu] are within 1e-299 of 1. */
    if (u + mu < -NO_TAIL) {
        double delta = -expm1(eps);
        *error = 8 * EPS__UNIT_ROUNDOFF + 1e-290 / delta;
        return log(delta);
    }
    if (u < -U_MOST) { /* 1 - delta is at most Pr[Z < u] + phi(u) mills(u + mu), which underflows */
        *error = DBL_MIN;
        return 0;
    }
    if (u < -1) { /* delta is at least 0.2 here */
        double upper_tail = 0.5 * erfc(u * M_SQRT1_2);
        double taken = exp(-0.5 * u * u - EPS__LOG_SQRT_2PI) * eps__mills(u + mu), below = fmin(u + mu, 0);
        double delta = upper_tail - taken, squares = 4 * u * u + 4 * below * below;
        *error = (16 * EPS__UNIT_ROUNDOFF * upper_tail + (2 * EPS__MILLS_ERROR + squares * EPS__UNIT_ROUNDOFF) * taken +
                  u_error) /
                 delta;
        return log(delta);
    }
    double log_density = -0.5 * u * u - EPS__LOG_SQRT_2PI;
    *error = (fabs(u) + 2) * u_error + 2 * EPS__UNIT_ROUNDOFF * u * u;
    if (mu < 1) {
        *error += 2e-14;
        return log_density + log(mills_difference(u, mu));
    }
    double first = eps__mills(u), difference = first - eps__mills(u + mu);
    *error += 2 * EPS__MILLS_ERROR * first / difference + 1e-15;
    return log_density + log(difference);
}
