/*
 * Chernoff's bound, solved for each of its variables by search.
 *
 * SPDX-License-Identifier: GPL-3.0-or-later
 */
#include "lib/accountants/monte_carlo/guarantee.h"

#include <assert.h>
#include <math.h>
#include <stddef.h>

#include "lib/numerics/bound.h"

enum { STEPS = 200 }; /* of a search, at most */

#define SAMPLES_MOST 0x1p53
#define FAILURE_MOST 0x1p-6 /* the largest failure probability of one candidate of a ladder: q_max of A42 */
#define REST 0x1p-6         /* the largest share of delta that is set aside for failures */

/* KL(t || d) of Bernoulli distributions, 0 <= t, d <= 1, rounded down. If t is near d the two terms cancel, so the
 * rounding error is taken from their sizes. 2 (t - d)^2 and (t - d)^2/(2 max(t, d)) are lower bounds as well. */
static double divergence(double t, double d)
{
    if (d <= 0 || d >= 1)
        return t == d ? 0 : INFINITY;
    double first = t > 0 ? t * log(t / d) : 0, second = t < 1 ? (1 - t) * log1p((d - t) / (1 - d)) : 0;
    double sizes = fabs(first) + fabs(second) + t + fabs(t - d);
    double gap = fabs(t - d), near = gap * gap / (2 * fmax(t, d));
    double value = eps__shift(EPS__LOWER, first + second, 16 * EPS__UNIT_ROUNDOFF * sizes);
    return fmax(value, eps__lower(fmax(near, 2 * gap * gap), 16));
}

double eps__mc_log_failure(double samples, double threshold, double truth, double most)
{
    assert(samples >= 0 && threshold >= 0 && truth >= 0 && truth <= most && most > 0);
    double t = eps__raise(threshold / most, 2), d = eps__lower(truth / most, 2);
    return t < d ? -eps__lower(samples * divergence(t, d), 8) : 0; /* no bound unless t is below d */
}

/* d + e^(-s KL) (most - d), rounded up. */
static double total(double samples, double threshold, double d, double most, double *failure)
{
    *failure = eps__exp_bound(EPS__UPPER, eps__mc_log_failure(samples, threshold, d, most), 0);
    return eps__raise(d + *failure * (most - d), 8);
}

/* Golden-section search for the least sum: with d it first falls, as the probability does, and then rises. */
double eps__mc_guarantee(double samples, double threshold, double most, double *failure)
{
    double ratio = 0.5 * (sqrt(5) - 1), ignored, best = most, chosen = 1;
    if (threshold >= most) {
        if (failure)
            *failure = 1;
        return most;
    }
    /* The search is over ln(d - threshold), which resolves d near the threshold. */
    double low = log(fmax(threshold, 1e-300) * 1e-9 + 1e-12 / fmax(samples, 1)), high = log(most - threshold);
    double a = high - ratio * (high - low), b = low + ratio * (high - low);
    for (int i = 0; i < STEPS && high - low > 1e-9; i++) {
        double at_a = total(samples, threshold, fmin(threshold + exp(a), most), most, &ignored);
        if (at_a < best) {
            best = at_a;
            chosen = ignored;
        }
        double at_b = total(samples, threshold, fmin(threshold + exp(b), most), most, &ignored);
        if (at_b < best) {
            best = at_b;
            chosen = ignored;
        }
        *(at_a < at_b ? &high : &low) = at_a < at_b ? b : a;
        a = high - ratio * (high - low);
        b = low + ratio * (high - low);
    }
    if (failure)
        *failure = chosen;
    return fmin(best, most);
}

double eps__mc_left(double delta, double share)
{
    assert(delta > 0 && share > 0 && share < 1);
    return eps__lower(delta * (1 - fmin(REST, 0.5 * (1 - share))), 4);
}

/* A53: the failures of one job cost at most REST of its delta, by eps__mc_left(). */
double eps__mc_choice_delta(double delta, unsigned verified)
{
    assert(delta > 0 && verified > 0);
    return eps__lower(delta / (1 + verified * REST), 32 + 8.0 * verified);
}

/* A42: let j be the first candidate whose delta exceeds `left`. If it passes, most/(1 - FAILURE_MOST * EPS__MC_GROWTH)
 * bounds the mean delta of the candidate that is used. */
static bool rung_keeps(const struct eps__mc_promise *promise, double samples, double threshold, double most,
                       double *failure)
{
    double left = promise->left, after = eps__raise(most / (1 - FAILURE_MOST * EPS__MC_GROWTH), 4);
    assert(left > 0 && left < promise->delta);
    if (threshold > left)
        return false;
    *failure = most <= left ? 0 : eps__exp_bound(EPS__UPPER, eps__mc_log_failure(samples, threshold, left, most), 0);
    return *failure <= FAILURE_MOST && eps__raise(left + *failure * fmax(after - left, 0), 8) <= promise->delta;
}

bool eps__mc_keeps(const struct eps__mc_promise *promise, double samples, double threshold, double most,
                   double *failure)
{
    double ignored;
    if (!failure)
        failure = &ignored;
    return isnan(promise->left) ? eps__mc_guarantee(samples, threshold, most, failure) <= promise->delta
                                : rung_keeps(promise, samples, threshold, most, failure);
}

uint64_t eps__mc_samples(const struct eps__mc_promise *promise, double threshold, double most)
{
    double low = 0, high = 1;
    assert(threshold >= 0 && promise->delta > threshold);
    if (eps__mc_keeps(promise, 0, threshold, most, NULL))
        return 0;
    for (; high < SAMPLES_MOST && !eps__mc_keeps(promise, high, threshold, most, NULL); high *= 2)
        low = high;
    if (!(high < SAMPLES_MOST))
        return (uint64_t)SAMPLES_MOST;
    while (high - low > 1 && high - low > 1e-6 * high) {
        double middle = floor(0.5 * (low + high));
        *(eps__mc_keeps(promise, middle, threshold, most, NULL) ? &high : &low) = middle;
    }
    return (uint64_t)ceil(high);
}

double eps__mc_threshold(const struct eps__mc_promise *promise, double samples, double most)
{
    double low = 0, high = promise->delta;
    if (!eps__mc_keeps(promise, samples, 0, most, NULL))
        return -1;
    for (int i = 0; i < STEPS && high - low > 1e-9 * high; i++) {
        double middle = 0.5 * (low + high);
        *(eps__mc_keeps(promise, samples, middle, most, NULL) ? &low : &high) = middle;
    }
    return low;
}

/* Bisection. Chernoff's bound for a sample mean above the true one is the same, with success and failure exchanged. */
double eps__mc_least(double samples, double mean, double failure)
{
    double low = 0, high = fmin(mean, 1), wanted = -log(failure);
    assert(samples >= 0 && mean >= 0 && failure > 0 && failure < 1);
    for (int i = 0; i < STEPS && high - low > 1e-12 * high; i++) {
        double middle = 0.5 * (low + high);
        bool told = samples * divergence(eps__lower(fmin(mean, 1), 2), middle) >= eps__raise(wanted, 8);
        *(told ? &low : &high) = middle;
    }
    return low;
}
