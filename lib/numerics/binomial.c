/*
 * Loader (2000), "Fast and accurate computation of binomial probabilities": the probability is the one at the
 * mode's Stirling form times exp(-deviances), each computed without cancellation.
 *
 * SPDX-License-Identifier: GPL-3.0-or-later
 */
#include "lib/numerics/binomial.h"

#include <math.h>

#include "lib/numerics/normal.h"

/* ln n! - ln(sqrt(2 pi n) (n/e)^n) */
static double stirling_error(double n)
{
    int sign; /* lgamma() itself writes a global */
    if (n < 16)
        return lgamma_r(n + 1, &sign) - (n + 0.5) * log(n) + n - EPS__LOG_SQRT_2PI;
    double square = n * n;
    return (1 / 12.0 - (1 / 360.0 - (1 / 1260.0 - (1 / 1680.0 - 1 / 1188.0 / square) / square) / square) / square) / n;
}

/* x ln(x/np) + np - x */
static double deviance(double x, double np)
{
    double difference = x - np;
    if (fabs(difference) < 0.1 * (x + np)) {
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
