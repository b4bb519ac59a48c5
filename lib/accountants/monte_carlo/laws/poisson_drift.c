/*
 * See poisson_drift.h. Logarithms are SLEEF's, so that the drift, and with it the draws, are the same on every machine.
 *
 * SPDX-License-Identifier: GPL-3.0-or-later
 */
#include "lib/accountants/monte_carlo/laws/poisson_drift.h"

#include <math.h>

#include <sleef.h>

#include "lib/numerics/bound.h"

enum {
    SHARES = 16, /* q is a multiple of p/SHARES */
    HALVINGS = 60
};

#define TIMES_LEAST 1e-6 /* the range of `times` */
#define TIMES_MOST 1e6

/* rounds KL(q || p), rounded up. */
static double divergence(double rounds, double p, double q)
{
    if (q == p)
        return 0;
    double less = q * Sleef_cinz_logd1_u10purec(p / q), more = (1 - q) * Sleef_cinz_log1pd1_u10purec((p - q) / (1 - p));
    double error = 8 * EPS__UNIT_ROUNDOFF * rounds * (less + q + more);
    return fmax(eps__shift(EPS__UPPER, rounds * (more - less), error), 0);
}

/* ln of the maximum of e^(t v) (1 - e^v) over v < 0, which is at e^v = t/(t+1). */
static double log_peak(double t)
{
    return -t * Sleef_cinz_log1pd1_u10purec(1 / t) - Sleef_cinz_log1pd1_u10purec(t);
}

double eps__mc_poisson_drift_log_most(const struct eps__mc_poisson_drift *drift, double eps)
{
    double t = drift->times, square = 0.5 * t * t * drift->square, apart = t * (drift->mean - eps), peak = log_peak(t);
    double error = 16 * EPS__UNIT_ROUNDOFF * (square + t * (drift->mean + fabs(eps)) + fabs(peak) + 1);
    return eps__shift(EPS__UPPER, apart + square + peak, error + drift->slack);
}

/* Bisects for the `times` at which log_most is least; its derivative rises. */
static double best_times(const struct eps__mc_poisson_drift *drift, double eps)
{
    double low = TIMES_LEAST, high = TIMES_MOST;
    for (int i = 0; i < HALVINGS; i++) {
        double t = sqrt(low * high);
        double slope = drift->mean - eps + t * drift->square - Sleef_cinz_log1pd1_u10purec(1 / t);
        *(slope < 0 ? &low : &high) = t;
    }
    return low;
}

bool eps__mc_poisson_drift_choose(struct eps__mc_poisson_drift *drift, double rounds, double p, double own, double all,
                                  double eps)
{
    double least = 0;
    for (int share = 1; share <= SHARES && (p < 1 || share < 2); share++) {
        double q = p < 1 ? p * share / SHARES : 1, square = q * q;
        double half = 0.5 * (q * (1 - q) * own + square * all);
        struct eps__mc_poisson_drift trial = {
            .q = q, .mean = eps__raise(half + divergence(rounds, p, q), 16), .square = eps__raise(square * all, 8)};
        trial.times = best_times(&trial, eps);
        double most = eps__mc_poisson_drift_log_most(&trial, eps);
        if (most < least) {
            least = most;
            *drift = trial;
        }
    }
    return least < 0;
}
