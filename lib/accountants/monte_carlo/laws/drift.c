/*
 * See drift.h. Logarithms are SLEEF's, so that the drift, and with it the draws, are the same on every machine.
 *
 * SPDX-License-Identifier: GPL-3.0-or-later
 */
#include "lib/accountants/monte_carlo/laws/drift.h"

#include <math.h>

#include <sleef.h>

#include "lib/numerics/bound.h"

enum { HALVINGS = 80 };

double eps__mc_drift_divergence(double trials, double p, double q)
{
    if (q >= p)
        return 0;
    double less = q * Sleef_cinz_logd1_u10purec(p / q), more = (1 - q) * Sleef_cinz_log1pd1_u10purec((p - q) / (1 - p));
    double error = 8 * EPS__UNIT_ROUNDOFF * trials * (less + q + more);
    return fmax(eps__shift(EPS__UPPER, trials * (more - less), error), 0);
}

double eps__mc_drift_log_peak(double t)
{
    return -t * Sleef_cinz_log1pd1_u10purec(1 / t) - Sleef_cinz_log1pd1_u10purec(t);
}

double eps__mc_drift_log_most(const struct eps__mc_drift *drift, double eps)
{
    double t = drift->tilt, square = 0.5 * t * t * drift->square, apart = t * (drift->mean - eps);
    double peak = eps__mc_drift_log_peak(t);
    double error = 16 * EPS__UNIT_ROUNDOFF * (square + t * (drift->mean + fabs(eps)) + fabs(peak) + 1);
    return eps__shift(EPS__UPPER, apart + square + peak, error + drift->slack);
}

/* Bisects for the tilt at which log_most is least; its derivative rises. */
static double best_tilt(const struct eps__mc_drift *drift, double most, double eps)
{
    double low = 1 / most, high = most;
    for (int i = 0; i < HALVINGS; i++) {
        double t = sqrt(low * high);
        double slope = drift->mean - eps + t * drift->square - Sleef_cinz_log1pd1_u10purec(1 / t);
        *(slope < 0 ? &low : &high) = t;
    }
    return low;
}

bool eps__mc_drift_choose(struct eps__mc_drift *drift, const struct eps__mc_drifts *among, double eps)
{
    double least = 0;
    for (unsigned share = among->p < 1 ? 1 : among->shares; share <= among->shares; share++) {
        struct eps__mc_drift trial = {.q = among->p * share / among->shares};
        among->bound(&trial, among->law);
        trial.tilt = best_tilt(&trial, among->most, eps);
        double most = eps__mc_drift_log_most(&trial, eps);
        if (most < least) {
            least = most;
            *drift = trial;
        }
    }
    return least < 0;
}

static void bound_rounds(struct eps__mc_drift *drift, void *law)
{
    const struct eps__mc_rounds *rounds = law;
    double q = drift->q, square = q * q, half = 0.5 * (q * (1 - q) * rounds->own + square * rounds->all);
    drift->mean = eps__raise(half + eps__mc_drift_divergence(rounds->len, rounds->p, q), 16);
    drift->square = eps__raise(square * rounds->all, 8);
}

bool eps__mc_drift_choose_poisson(struct eps__mc_drift *drift, struct eps__mc_rounds *rounds, double eps)
{
    const struct eps__mc_drifts among = {
        .p = rounds->p, .shares = 16, .most = 1e6, .bound = bound_rounds, .law = rounds};
    return eps__mc_drift_choose(drift, &among, eps);
}
