/*
 * Tilts for add: y is drawn with a drift against the mean of C x, so that losses that matter are drawn often. A
 * participation probability q <= p gives a lower bound on P/Q; among several q, and multiples of the mean, the drift is
 * chosen that makes the largest possible value least (A28, A45).
 *
 * SPDX-License-Identifier: GPL-3.0-or-later
 */
#ifndef EPS_ACCOUNTANTS_MONTE_CARLO_LAWS_DRIFT_H
#define EPS_ACCOUNTANTS_MONTE_CARLO_LAWS_DRIFT_H

#include <stdbool.h>

/* P/Q >= e^(<a, y> - mean), where a is the mean of C x over sigma if x is drawn with the probability q (A18, A19). y is
 * drawn from N(-tilt a, I). */
struct eps__mc_drift {
    double q, tilt;
    double mean;   /* rounded up */
    double square; /* |a|^2 */
    double slack;  /* allowance for rounding in ln of a value; set by the law */
};

/* The drifts among which one is chosen. */
struct eps__mc_drifts {
    double p;
    unsigned shares;                                       /* q is a multiple of p/shares */
    double most;                                           /* tilts are from 1/most to most */
    void (*bound)(struct eps__mc_drift *drift, void *law); /* sets mean and square for drift->q */
    void *law;
};

/* Chooses the drift with the least bound on values at eps. False if none is better than plain draws. */
bool eps__mc_drift_choose(struct eps__mc_drift *drift, const struct eps__mc_drifts *among, double eps);

/* Rounds of Poisson sampling. */
struct eps__mc_rounds {
    double len, p;
    double own; /* the sum of the squared norms of the columns, rounded up */
    double all; /* the squared norm of their sum, rounded up */
};

/* The same for Poisson sampling. */
bool eps__mc_drift_choose_poisson(struct eps__mc_drift *drift, struct eps__mc_rounds *rounds, double eps);

/* ln of an upper bound on values at eps, rounded up (A45). */
double eps__mc_drift_log_most(const struct eps__mc_drift *drift, double eps);

/* ln of the maximum of e^(t v) (1 - e^v) over v < 0, which is at e^v = t/(t+1). */
double eps__mc_drift_log_peak(double t);

/* trials KL(Bernoulli(q) || Bernoulli(p)), q <= p, rounded up. */
double eps__mc_drift_divergence(double trials, double p, double q);

#endif
