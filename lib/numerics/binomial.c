/*
 * Loader (2000), "Fast and accurate computation of binomial probabilities": the logarithm of a probability is written
 * as Stirling's formula, its corrections and two deviances, each of which is computed without cancellation.
 *
 * SPDX-License-Identifier: GPL-3.0-or-later
 */
#include "lib/numerics/binomial.h"

#include <float.h>
#include <math.h>
#include <stddef.h>

#include "lib/numerics/normal.h"

double eps__log_factorial(double n)
{
    int sign; /* lgamma() writes a global variable */
    return lgamma_r(n + 1, &sign);
}

/* ln n! - ln(sqrt(2 pi n) (n/e)^n) */
static double stirling_error(double n)
{
    if (n < 16)
        return eps__log_factorial(n) - (n + 0.5) * log(n) + n - EPS__LOG_SQRT_2PI;
    double square = n * n;
    return (1 / 12.0 - (1 / 360.0 - (1 / 1260.0 - (1 / 1680.0 - 1 / 1188.0 / square) / square) / square) / square) / n;
}

/* Of pi as a sum of doubles, to 2^-160. */
eps__quad eps__two_pi_quad(void)
{
    eps__quad rest = (eps__quad)0x1.1a62633145c07p-53 - (eps__quad)0x1.f1976b7ed8fbcp-109;
    return 2 * ((eps__quad)0x1.921fb54442d18p+1 + rest);
}

/* From 32 on by Stirling's series, whose error is below the first term that is left out, 1e-41. Below that n! is exact,
 * as its odd part has at most 87 bits. (lgammaq() writes a global variable.) */
eps__quad eps__stirling_error_quad(eps__quad n)
{
    static const double over[] = {
        1, 1, 1, 1, 1, 691, 1, 3617, 43867, 174611, 77683, 236364091, 657931, 3392780147, 1723168255201, 7709321041217};
    static const double under[] = {12,     360,    1260, 1680,    1188, 360360, 156,     122400,
                                   244188, 125400, 5796, 1506960, 300,  93960,  2492028, 505920};
    eps__quad sum = 0, factorial = 1, square = n * n;
    if (n < 32) {
        for (int k = 2; k <= (int)n; k++)
            factorial *= k;
        return logq(factorial) - (n + (eps__quad)1 / 2) * logq(n) + n - logq(eps__two_pi_quad()) / 2;
    }
    for (size_t k = sizeof over / sizeof *over; k-- > 0;) /* the signs alternate */
        sum = (eps__quad)over[k] / under[k] - sum / square;
    return sum / n;
}

/* x ln(x/np) + np - x */
static double deviance(double x, double np)
{
    double difference = x - np;
    if (fabs(difference) < 0.5 * (x + np)) {
        double ratio = difference / (x + np), sum = difference * ratio, term = 2 * x * ratio;
        for (int j = 1; j < 1000; j++) {
            term *= ratio * ratio;
            double next = sum + term / (2 * j + 1);
            if (next == sum)
                return sum;
            sum = next;
        }
        return sum;
    }
    return x * log(x / np) + np - x;
}

double eps__binomial_log_pmf(uint64_t n, double p, uint64_t k)
{
    double size = (double)n, x = (double)k;
    if (k > n)
        return -INFINITY;
    if (k == 0)
        return size * log1p(-p);
    if (k == n)
        return size * log(p);
    return stirling_error(size) - stirling_error(x) - stirling_error(size - x) - deviance(x, size * p) -
           deviance(size - x, size * (1 - p)) + 0.5 * log(size / (x * (size - x))) - EPS__LOG_SQRT_2PI;
}

double eps__binomial_error(uint64_t n, double p, double log_least)
{
    double deep = log_least < -400 ? 1e-14 * fabs(log_least) : 0;
    return 2e-12 + deep + 200 * sqrt((double)n * p * (1 - p)) * EPS__UNIT_ROUNDOFF;
}

/* Adds the terms relative to the first, by their exact ratios, and a geometric series that bounds the rest (N3). */
double eps__binomial_log_tail(uint64_t n, double p, uint64_t k, bool up)
{
    double size = (double)n, x = (double)k, term = 1, total = 1, odds = p / (1 - p);
    if (up ? k > n : k == 0 && n == 0)
        return up ? -INFINITY : 0;
    double first = eps__binomial_log_pmf(n, p, k), terms = 40 + 2 * sqrt(size * p * (1 - p));
    double error = 2 * eps__binomial_error(n, p, 0) + 1e-14 * fabs(first) + 16 * terms * EPS__UNIT_ROUNDOFF;
    for (double i = 0; i < terms && (up ? x < size : x > 0) && term > 0x1p-60 * total; i++) {
        term *= up ? (size - x) / (x + 1) * odds : x / (size - x + 1) / odds;
        total += term;
        x += up ? 1 : -1;
    }
    /* The terms beyond x are at most `term` times ratio/(1 - ratio), where ratio is the next one. The ratio is below 1
     * exactly where x's distance from the mode is positive. */
    double distance = up ? fma(-(size + 1), p, x + 1) : fma(size + 1, p, -x);
    if (up ? x < size : x > 0) {
        if (!(distance > 0))
            return 0;
        total += term * (up ? (size - x) * p : x * (1 - p)) / distance;
    }
    return fmin(first + log(total) + error, 0);
}

/* A sum of terms relative to the first one, a bound on the relative error of each term, and what the sum leaves out. */
struct terms {
    double total, error, left_out;
};

/* Adds the terms after `from`, upwards or downwards, up to and including `limit`: each is the one before times an exact
 * ratio. Stops early when the geometric bound on the remaining terms is negligible. */
static void add_terms(struct terms *terms, double n, double p, double from, double limit, bool up)
{
    double term = 1, error = 0, odds = p / (1 - p);
    for (double x = from; up ? x < limit : x > limit; x += up ? 1 : -1) {
        double ratio = up ? (n - x) / (x + 1) * odds : x / (n - x + 1) / odds;
        if (ratio < 1 && term * ratio / (1 - ratio) < 1e-18 * terms->total) {
            terms->left_out += 1e-18 * terms->total;
            break;
        }
        term *= ratio;
        error += 6 * EPS__UNIT_ROUNDOFF;
        terms->total += term;
    }
    terms->error = fmax(terms->error, error + 4 * EPS__UNIT_ROUNDOFF);
}

/* The tail from k outwards. If k is on the near side of the mode, sums from the mode in both directions: outwards to
 * the end and inwards to k. */
static struct eps__interval tail_sum(uint64_t n, double p, uint64_t k, bool up)
{
    double size = (double)n, mode = fmin(floor((size + 1) * p), size), edge = (double)k;
    double start = up ? fmax(edge, mode) : fmin(edge, mode);
    double log_first = eps__binomial_log_pmf(n, p, (uint64_t)start);
    if (log_first < -700) /* too small to sum: k is beyond the mode, or the tail is nearly everything */
        return (struct eps__interval){0, start == edge ? exp(eps__binomial_log_tail(n, p, k, up)) + DBL_MIN : 1};
    struct terms terms = {.total = 1};
    add_terms(&terms, size, p, start, up ? size : 0, up);
    add_terms(&terms, size, p, start, edge, !up);
    double first = exp(log_first), error = 2 * terms.error + eps__binomial_error(n, p, log_first) + 1e-15;
    return (struct eps__interval){fmax(first * terms.total * (1 - error), 0),
                                  fmin(first * (terms.total * (1 + error) + 2 * terms.left_out), 1)};
}

struct eps__interval eps__binomial_at_least(uint64_t n, double p, uint64_t k)
{
    if (k == 0)
        return (struct eps__interval){1, 1};
    return k > n ? (struct eps__interval){0, 0} : tail_sum(n, p, k, true);
}

struct eps__interval eps__binomial_at_most(uint64_t n, double p, uint64_t k)
{
    return k >= n ? (struct eps__interval){1, 1} : tail_sum(n, p, k, false);
}
