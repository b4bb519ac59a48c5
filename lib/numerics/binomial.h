/*
 * The binomial distribution in logarithms.
 *
 * SPDX-License-Identifier: GPL-3.0-or-later
 */
#ifndef EPS_NUMERICS_BINOMIAL_H
#define EPS_NUMERICS_BINOMIAL_H

#include <stdbool.h>
#include <stdint.h>

#include "lib/numerics/quad.h"
#include "lib/numerics/sum.h"

/* ln n!, with a relative error of a few units of roundoff. */
double eps__log_factorial(double n);

/* 2 pi, and ln n! - ln(sqrt(2 pi n) (n/e)^n) for an integer n >= 1, in quadruple precision. */
eps__quad eps__two_pi_quad(void);
eps__quad eps__stirling_error_quad(eps__quad n);

/* ln Pr[Binom(n, p) = k] for 0 < p < 1, n < 2^52; -INFINITY for k > n. Uses Loader's saddle-point form, which does not
 * cancel. */
double eps__binomial_log_pmf(uint64_t n, double p, uint64_t k);

/* A bound on the absolute error of eps__binomial_log_pmf(n, p, k) where that is at least log_least >= -2200 (N2). */
double eps__binomial_error(uint64_t n, double p, double log_least);

/* An upper bound on ln Pr[Binom(n, p) >= k] (up) or on ln Pr[Binom(n, p) <= k], for 0 < p < 1. Beyond the mode the
 * bound on the probability is within a factor of 2, and closer the farther out k is. Before the mode the bound is near
 * 0. -INFINITY if the probability is 0. Does not underflow (N3). */
double eps__binomial_log_tail(uint64_t n, double p, uint64_t k, bool up);

/* Proven bounds on Pr[Binom(n, p) >= k] and on Pr[Binom(n, p) <= k], for 0 < p < 1. The lower bound may be 0 if the
 * probability is below 1e-300. Cost: one term for each integer within some forty standard deviations. */
struct eps__interval eps__binomial_at_least(uint64_t n, double p, uint64_t k);
struct eps__interval eps__binomial_at_most(uint64_t n, double p, uint64_t k);

#endif
