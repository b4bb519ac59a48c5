/*
 * Upper quantiles of S + tau Z, where S = sum_k weight_k Binom(count_k, p) and Z is an independent standard normal.
 * They bound what an example's past outputs can reveal about one of its participations (MMCC figure 2, appendix B.3).
 *
 * Every quantile function returns a number T with Pr[S + tau Z > T] <= e^log_eta, rounding included, or INFINITY if it
 * has no bound or no memory. The smallest of several valid T is valid.
 *
 * SPDX-License-Identifier: GPL-3.0-or-later
 */
#ifndef EPS_SAMPLING_WEIGHTED_BERNOULLI_H
#define EPS_SAMPLING_WEIGHTED_BERNOULLI_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>

struct eps__weights {
    const double *weight; /* >= 0, each an upper bound */
    const double *count;  /* integers; NULL: all 1 */
    size_t len;
    double p;             /* in (0, 1] */
    atomic_bool *starved; /* set if memory ran out; may be NULL */
};

/* The quantile if S = 0: tau z with z >= 0 and Pr[Z > z] <= e^log_eta, log_eta < 0. Because z >= 0, an upper bound on
 * tau may be passed. */
double eps__tail_gaussian(double tau, double log_eta);

/* ln E e^{lambda w Bern(p)} at exponent = lambda w >= 0, p in (0, 1]. The relative error is at most 9 + 4 exponent
 * units of rounding (S1). */
double eps__bernoulli_log_moment(double p, double exponent);

/* An upper bound on ln E e^{lambda S}. */
double eps__weights_log_moment(const struct eps__weights *weights, double lambda);

/* A point u of the normal tail and the slope there. It can be used for any number of sums. */
struct eps__tilt {
    double u, tau;
    double log_tail; /* ln Pr[Z > u] */
    double rate;     /* lambda = hazard(u)/tau: the rate at which the tail of tau Z falls at u tau */
};
struct eps__tilt eps__tilt_at(double u, double tau);

/*
 * The quantile from a bound on ln E e^{lambda S}. ln Pr[Z > (T - s)/tau] is concave in s and so lies below its tangent
 * of slope lambda. Hence Pr[S + tau Z > T] <= E e^{lambda S} Pr[Z > u] e^{-lambda (T - u tau)}.
 *
 * The bound is exact if S is constant, exact to first order in the variance of S if that is small compared with tau,
 * and never worse than Chernoff's bound on the sum. Any u is valid.
 */
double eps__tail_tilted_at(const struct eps__tilt *tilt, double log_moment, double log_eta);

/* The same at a nearly optimal u. *ratio is u divided by the Gaussian's quantile: on entry, where the search starts
 * (NAN: at a default), on return, where it ended. ratio may be NULL. */
double eps__tail_tilted(const struct eps__weights *weights, double tau, double log_eta, double *ratio);

/* The bound of MMCC appendix B.3: the sum of the t largest weights, where t is the binomial quantile at eta/2, plus the
 * normal quantile at eta/2. */
double eps__tail_largest(const struct eps__weights *weights, double tau, double log_eta);

/* The quantile of the law of S, with weights rounded up to a grid, convolved with the normal law. Exact but for the
 * grid. */
double eps__tail_convolved(const struct eps__weights *weights, double tau, double log_eta);

#endif
