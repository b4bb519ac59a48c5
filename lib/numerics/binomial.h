/*
 * The binomial distribution in logs.
 *
 * SPDX-License-Identifier: GPL-3.0-or-later
 */
#ifndef EPS_NUMERICS_BINOMIAL_H
#define EPS_NUMERICS_BINOMIAL_H

#include <stdint.h>

#include "lib/numerics/sum.h"

/* ln Pr[Binom(n, p) = k], 0 < p < 1; -INFINITY for k > n. By Loader's saddle-point form, which does not cancel:
 * absolute error below 1e-12 + 200 sqrt(n p (1 - p)) 2^-53 within forty deviations of the mean. */
double eps__binomial_log_pmf(uint64_t n, double p, uint64_t k);

/* A bound on the relative error of exp(eps__binomial_log_pmf(n, p, k)) within forty deviations of the mean. */
double eps__binomial_error(uint64_t n, double p);

/* Pr[Binom(n, p) >= k] and <= k, 0 < p < 1, between proven bounds. Probabilities under 1e-300 may have 0 as their
 * lower bound. Cost: the terms within some forty deviations. */
struct eps__interval eps__binomial_at_least(uint64_t n, double p, uint64_t k);
struct eps__interval eps__binomial_at_most(uint64_t n, double p, uint64_t k);

#endif
