/*
 * The binomial distribution in logs.
 *
 * SPDX-License-Identifier: GPL-3.0-or-later
 */
#ifndef EPS_NUMERICS_BINOMIAL_H
#define EPS_NUMERICS_BINOMIAL_H

#include <stdbool.h>
#include <stdint.h>

#include "lib/numerics/sum.h"

/* ln n!, to a few units. */
double eps__log_factorial(double n);

/* ln Pr[Binom(n, p) = k], 0 < p < 1, n < 2^52; -INFINITY for k > n. By Loader's saddle-point form, which does not
 * cancel. */
double eps__binomial_log_pmf(uint64_t n, double p, uint64_t k);

/* A bound on the absolute error of eps__binomial_log_pmf(n, p, k) where that is at least log_least >= -2200 (N2). */
double eps__binomial_error(uint64_t n, double p, double log_least);

/* ln of an upper bound on Pr[Binom(n, p) >= k] (up) or <= k, 0 < p < 1: within a factor of 2 where k lies beyond the
 * mode, the closer the farther out, and near 0 before it; -INFINITY where nothing is there. No underflow (N3). */
double eps__binomial_log_tail(uint64_t n, double p, uint64_t k, bool up);

/* Pr[Binom(n, p) >= k] and <= k, 0 < p < 1, between proven bounds. Probabilities under 1e-300 may have 0 as their
 * lower bound. Cost: the terms within some forty deviations. */
struct eps__interval eps__binomial_at_least(uint64_t n, double p, uint64_t k);
struct eps__interval eps__binomial_at_most(uint64_t n, double p, uint64_t k);

#endif
