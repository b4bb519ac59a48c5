/*
 * See counts.h. The number of waiting examples is simulated, not the examples: of W that wait, Binomial(W, p) are
 * drawn, and these wait again `separation` steps later (S8).
 *
 * A binomial number is found from one uniform by going outwards from the mode. The probability of the mode comes from
 * Stirling's form (Loader 2000), as in lib/numerics/binomial.c, but with functions that give the same bits on every
 * machine. If the rounding errors could change the number, it is found again in quadruple precision, from more bits.
 *
 * SPDX-License-Identifier: GPL-3.0-or-later
 */
#include "lib/sampling/counts.h"

#include <assert.h>
#include <math.h>

#include <sleef.h>

#include "lib/numerics/binomial.h"
#include "lib/numerics/bound.h"

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

/* Pr[Binom(size, p) = mode]; rest = 1 - p */
static double highest(double size, double p, double rest, double mode)
{
    double others = size - mode;
    if (mode == 0)
        return Sleef_cinz_expd1_u10purec(size * Sleef_cinz_log1pd1_u10purec(-p));
    if (others == 0)
        return Sleef_cinz_expd1_u10purec(size * Sleef_cinz_log1pd1_u10purec(-rest));
    double exponent = stirling_error(size) - stirling_error(mode) - stirling_error(others) - deviance(mode, size * p) -
                      deviance(others, size * rest);
    return Sleef_cinz_expd1_u10purec(exponent) * sqrt(size / (2 * M_PI * mode * others));
}

static double mode_of(double size, eps__quad chance)
{
    return fmin(floor((size + 1) * (double)chance), size);
}

bool eps__binomial_of(double *k, double size, eps__quad chance, double u)
{
    *k = size == 0 || chance >= 1 ? size : mode_of(size, chance);
    if (size == 0 || chance >= 1)
        return true;
    double p = (double)chance, rest = (double)(1 - chance), odds = p / rest, up = *k, down = *k;
    double mass = highest(size, p, rest, *k), above = mass, below = mass, left = u - mass;
    for (double steps = 0; up < size || down > 0; steps++) {
        double doubt = (80 + 10 * steps) * EPS__UNIT_ROUNDOFF;
        if (left < -doubt)
            return true;
        if (left <= doubt)
            return false;
        if (up < size) {
            above *= (size - up) / (up + 1) * odds;
            left -= above;
            *k = ++up;
            if (left < -doubt)
                return true;
        }
        if (left > doubt && down > 0) {
            below *= down / ((size - down + 1) * odds);
            left -= below;
            *k = --down;
        }
    }
    return false;
}

/* ---------------------------------------------------------------- in quadruple precision */

static eps__quad deviance_closely(eps__quad x, eps__quad mean)
{
    eps__quad off = (x - mean) / mean;
    return mean * ((1 + off) * log1pq(off) - off);
}

static eps__quad highest_closely(eps__quad size, eps__quad p, eps__quad mode)
{
    eps__quad others = size - mode;
    if (mode == 0)
        return expq(size * log1pq(-p));
    if (others == 0)
        return expq(size * log1pq(-(1 - p)));
    eps__quad exponent = eps__stirling_error_quad(size) - eps__stirling_error_quad(mode) -
                         eps__stirling_error_quad(others) - deviance_closely(mode, size * p) -
                         deviance_closely(others, size * (1 - p));
    return expq(exponent) * sqrtq(size / (eps__two_pi_quad() * mode * others));
}

double eps__binomial_closely(double size, eps__quad chance, double u, double v)
{
    if (size == 0 || chance >= 1)
        return size;
    double mode = mode_of(size, chance), up = mode, down = mode;
    eps__quad odds = chance / (1 - chance), mass = highest_closely(size, chance, mode), above = mass, below = mass;
    eps__quad left = (eps__quad)u + (v - 0.5) * 0x1p-52 - mass;
    while (left >= 0 && (up < size || down > 0) && above + below > 0x1p-200L) {
        if (up < size) {
            above *= (size - up) / ((eps__quad)up + 1) * odds;
            left -= above;
            up++;
            if (left < 0)
                return up;
        }
        if (down > 0) {
            below *= down / (odds * (size - down + 1));
            left -= below;
            down--;
            if (left < 0)
                return down;
        }
    }
    return mode; /* reached only by rounding */
}

/* ---------------------------------------------------------------- counts */

/* A binomial number from the uniform `index` of the draw and, if that does not determine it, the one at `again`. */
static double draw_binomial(double size, eps__quad chance, const struct eps__stream *stream, uint32_t draw,
                            size_t index, size_t again)
{
    double u = eps__uniform(stream, draw, index), k;
    return eps__binomial_of(&k, size, chance, u)
               ? k
               : eps__binomial_closely(size, chance, u, eps__uniform(stream, draw, again));
}

void eps__b_min_sep_counts(double *out, size_t stride, const struct eps__b_min_sep_steps *steps, double others,
                           const struct eps__stream *stream, uint32_t draw, size_t first)
{
    size_t n = steps->n, b = steps->separation;
    eps__quad share = 1 / (1 + (eps__quad)(b - 1) * steps->p);
    assert(steps->examples == 1 && others >= 0 && others <= EPS__OTHERS_MAX);
    double waiting = steps->warm ? draw_binomial(others, share, stream, draw, first, first + 3 * n) : others;
    double absent = others - waiting; /* who was drawn before the first step and has not come back */
    for (size_t i = 0; i < n; i++) {
        if (i > 0 && i < b) {
            double back = 0;
            if (absent > 0) /* they come back at one of the b - i steps from here, each as likely */
                back = draw_binomial(absent, 1 / (eps__quad)(b - i), stream, draw, first + n + i, first + 4 * n + i);
            absent -= back;
            waiting += back;
        } else if (i >= b) {
            waiting += out[(i - b) * stride];
        }
        assert(waiting >= 0 && waiting <= others);
        out[i * stride] = draw_binomial(waiting, steps->p, stream, draw, first + 2 * n + i, first + 5 * n + i);
        waiting -= out[i * stride];
    }
}
