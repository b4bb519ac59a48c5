/*
 * Only the number of waiting examples is tracked. Of W that wait, Binomial(W, p) are drawn, and those wait again
 * `separation` steps later (S8).
 *
 * A binomial variable is found from one uniform by adding probabilities outwards from the mode. The probability at the
 * mode comes from Loader's saddle-point form (2000), as in numerics/binomial.c, but with functions that give the same
 * bits on every machine.
 *
 * SPDX-License-Identifier: GPL-3.0-or-later
 */
#include "lib/sampling/counts.h"

#include <assert.h>
#include <math.h>

#include <sleef.h>

/* ln n! - ln(sqrt(2 pi n) (n/e)^n), n >= 1 */
static double stirling_error(double n)
{
    static const double small[] = {
        0,
        0.081061466795327258,
        0.041340695955409294,
        0.027677925684998339,
        0.020790672103765093,
        0.016644691189821192,
        0.013876128823070748,
        0.011896709945891770,
        0.010411265261972096,
        0.0092554621827127333,
        0.0083305634333631279,
        0.0075736754879518408,
        0.0069428401072095299,
        0.0064089941880042070,
        0.0059513701127588475,
        0.0055547335519628013,
    };
    double square = n * n;
    if (n < 16)
        return small[(size_t)n];
    return (1 / 12.0 - (1 / 360.0 - (1 / 1260.0 - (1 / 1680.0 - 1 / 1188.0 / square) / square) / square) / square) / n;
}

/* x ln(x/mean) + mean - x, for x within about 1 of the mean */
static double deviance(double x, double mean)
{
    double off = (x - mean) / mean;
    return mean * ((1 + off) * Sleef_cinz_log1pd1_u10purec(off) - off);
}

/* Pr[Binom(size, p) = mode] */
static double highest(double size, double p, double mode)
{
    double rest = size - mode;
    if (mode == 0)
        return Sleef_cinz_expd1_u10purec(size * Sleef_cinz_log1pd1_u10purec(-p));
    if (rest == 0)
        return Sleef_cinz_expd1_u10purec(size * Sleef_cinz_logd1_u10purec(p));
    double exponent = stirling_error(size) - stirling_error(mode) - stirling_error(rest) - deviance(mode, size * p) -
                      deviance(rest, size * (1 - p));
    return Sleef_cinz_expd1_u10purec(exponent) * sqrt(size / (2 * M_PI * mode * rest));
}

double eps__binomial_of(double size, double p, double u)
{
    if (size == 0 || p >= 1)
        return p >= 1 ? size : 0;
    double odds = p / (1 - p), mode = fmin(floor((size + 1) * p), size), up = mode, down = mode;
    double mass = highest(size, p, mode), above = mass, below = mass, left = u - mass;
    while (left >= 0 && (above > 0 || below > 0)) {
        above *= (size - up) / (up + 1) * odds;
        left -= above;
        up++;
        if (left < 0)
            return up;
        below *= down / ((size - down + 1) * odds);
        left -= below;
        down--;
        if (left < 0)
            return down;
        if (above + below < 0x1p-80)
            break; /* the remainder is rounding */
    }
    return mode;
}

void eps__b_min_sep_counts(double *out, size_t stride, const struct eps__b_min_sep_steps *steps, double others,
                           const struct eps__stream *stream, uint32_t draw, size_t first)
{
    size_t n = steps->n, b = steps->separation;
    double barred = (double)(b - 1), share = 1 / (1 + barred * steps->p);
    assert(steps->examples == 1 && others >= 0 && others <= EPS__OTHERS_MAX);
    double waiting = steps->warm ? eps__binomial_of(others, share, eps__uniform(stream, draw, first)) : others;
    double absent = others - waiting; /* drawn before the first step and not back yet */
    for (size_t i = 0; i < n; i++) {
        if (i > 0 && i < b) {
            double back = 0;
            if (absent > 0) /* they return at one of the b - i steps from here, uniformly */
                back = eps__binomial_of(absent, 1 / (double)(b - i), eps__uniform(stream, draw, first + n + i));
            absent -= back;
            waiting += back;
        } else if (i >= b) {
            waiting += out[(i - b) * stride];
        }
        assert(waiting >= 0 && waiting <= others);
        out[i * stride] = eps__binomial_of(waiting, steps->p, eps__uniform(stream, draw, first + 2 * n + i));
        waiting -= out[i * stride];
    }
}
