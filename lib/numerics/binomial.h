/*
 * The binomial distribution in logs.
 *
 * SPDX-License-Identifier: GPL-3.0-or-later
 */
#ifndef EPS_NUMERICS_BINOMIAL_H
#define EPS_NUMERICS_BINOMIAL_H

#include <stdint.h>

/* ln Pr[Binom(n, p) = k], 0 < p < 1; -INFINITY for k > n. By Loader's saddle-point form, which does not cancel:
 * absolute error below 1e-12 + 200 sqrt(n p (1 - p)) 2^-53 within forty deviations of the mean. */
double eps__binomial_log_pmf(uint64_t n, double p, uint64_t k);

#endif
