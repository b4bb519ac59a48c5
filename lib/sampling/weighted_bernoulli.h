/*
 * Upper quantiles of S + tau Z, where S = sum_k weight_k Binom(count_k, p) and Z is standard normal and independent:
 * what an example's past outputs may say about one of its participations (MMCC figure 2, appendix B.3).
 *
 * Every function returns a number T with Pr[S + tau Z > T] <= e^log_eta, rounding included, or INFINITY where it has
 * nothing to say, or no memory to say it. The least of several valid T is valid.
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
    const double *count;  /* whole numbers; NULL: one each */
    size_t len;
    double p;             /* in (0, 1] */
    atomic_bool *starved; /* set where there was no memory for a bound; or NULL */
};

/* tau z with Pr[Z > z] <= e^log_eta, z >= 0, so that tau may be an upper bound: the quantile where nothing is summed.
 * log_eta < 0. */
double eps__tail_gaussian(double tau, double log_eta);

/* ln E e^{lambda w Bern(p)} at exponent = lambda w >= 0, p in (0, 1]: within 9 + 4 exponent units of rounding,
 * relative (S1). */
double eps__bernoulli_log_moment(double p, double exponent);

/* A bound on ln E e^{lambda S}. */
double eps__weights_log_moment(const struct eps__weights *weights, double lambda);

/* A point u of the normal tail and its slope: what a bound below needs, for any number of sums. */
struct eps__tilt {
    double u, tau;
    double log_tail; /* ln Pr[Z > u] */
    double rate;     /* lambda = hazard(u)/tau: how fast the tail of tau Z falls at u tau */
};
struct eps__tilt eps__tilt_at(double u, double tau);

/*
 * From a bound on ln E e^{lambda S}: because ln Pr[Z > (T - s)/tau] is concave in s, it lies under its tangent of slope
 * lambda, so Pr[S + tau Z > T] <= E e^{lambda S} Pr[Z > u] e^{-lambda (T - u tau)}.
 * Exact where S is constant, and to first order in the variance of S where that is small beside tau; never worse than
 * Chernoff's bound on the sum. Any u is valid.
 */
double eps__tail_tilted_at(const struct eps__tilt *tilt, double log_moment, double log_eta);

/* The same at about the best u. In-out, may be NULL: *ratio, u over the Gaussian's quantile, where to start (NAN:
 * anywhere), and where it ended. */
double eps__tail_tilted(const struct eps__weights *weights, double tau, double log_eta, double *ratio);

/* MMCC appendix B.3: the t largest weights, t the binomial quantile, and the normal quantile, at half of eta each. */
double eps__tail_largest(const struct eps__weights *weights, double tau, double log_eta);

/* The law of S with weights rounded up to a grid, convolved with the normal: the exact quantile but for the grid. */
double eps__tail_convolved(const struct eps__weights *weights, double tau, double log_eta);

#endif
