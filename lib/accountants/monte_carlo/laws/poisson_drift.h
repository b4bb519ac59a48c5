/*
 * The tilt of Poisson sampling for add: y is drawn with a drift against the mean of C x, so that losses that matter are
 * drawn often (A45).
 *
 * SPDX-License-Identifier: GPL-3.0-or-later
 */
#ifndef EPS_ACCOUNTANTS_MONTE_CARLO_LAWS_POISSON_DRIFT_H
#define EPS_ACCOUNTANTS_MONTE_CARLO_LAWS_POISSON_DRIFT_H

#include <stdbool.h>
#include <stddef.h>

/* P/Q >= e^(<a, y> - mean), where a is q times the sum of the columns, for a participation probability q <= p (A18). y
 * is drawn from N(-times a, I). */
struct eps__mc_poisson_drift {
    double q, times;
    double mean;   /* rounded up */
    double square; /* |a|^2, rounded up */
    double slack;  /* allowance for rounding in log_most; set by the law */
};

/* Chooses q and times with the least bound on values at eps. rounds: number of rounds; own: the sum of the squared
 * norms of the columns; all: the squared norm of their sum; both rounded up. False if no drift is better than plain
 * draws. */
bool eps__mc_poisson_drift_choose(struct eps__mc_poisson_drift *drift, double rounds, double p, double own, double all,
                                  double eps);

/* ln of an upper bound on values at eps, rounded up (A45). */
double eps__mc_poisson_drift_log_most(const struct eps__mc_poisson_drift *drift, double eps);

#endif
