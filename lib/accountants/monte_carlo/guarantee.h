/*
 * Guarantees that follow from a mean of samples (BMS appendix A). Let s independent values in [0, M] have the true mean
 * d. By Chernoff's bound, their sample mean is at most t < d with probability at most e^(-s KL(t/M || d/M)) (A24).
 *
 * Everywhere here `samples` is s, `threshold` is t, and `most` is M > 0.
 *
 * SPDX-License-Identifier: GPL-3.0-or-later
 */
#ifndef EPS_ACCOUNTANTS_MONTE_CARLO_GUARANTEE_H
#define EPS_ACCOUNTANTS_MONTE_CARLO_GUARANTEE_H

#include <stdbool.h>
#include <stdint.h>

/* ln of this probability for d = truth, rounded up; 0 if truth <= threshold. threshold >= 0, 0 <= truth <= most. */
double eps__mc_log_failure(double samples, double threshold, double truth, double most);

/*
 * A delta such that a mechanism that is released only if its sample mean is at most `threshold` is (epsilon, delta)-DP,
 * with the draws as a part of it: approximately the least d + e^(-s KL) (most - d) over d > threshold, rounded up, and
 * at most `most`. It rises with the threshold. *failure, if not NULL, is e^(-s KL) for the chosen d.
 */
double eps__mc_guarantee(double samples, double threshold, double most, double *failure);

/*
 * The guarantee that an estimate has to verify: a mechanism whose sample mean is at most the threshold is
 * (epsilon, delta)-DP. On a ladder of noise multipliers (A42), `left` < delta bounds the delta of every candidate that
 * passes correctly, and of the noise multiplier that is used if none passes; delta - left pays for candidates that pass
 * by chance. A single estimate has no `left`: NAN.
 */
struct eps__mc_promise {
    double delta, left;
};

/* `left` for a ladder whose thresholds are about share * delta, 0 < share < 1; it is between that and delta. */
double eps__mc_left(double delta, double share);

/* The delta for which each of several jobs is answered, proven or by a ladder, such that the best of them keeps `delta`
 * where `verified` are by a ladder (A53). verified >= 1. */
double eps__mc_choice_delta(double delta, unsigned verified);

/* The largest ratio of a candidate's `most` to its predecessor's on a ladder (A42). */
#define EPS__MC_GROWTH 4.0

/* Whether a sample mean of at most `threshold` verifies the promise. If it does, *failure (if not NULL) is an upper
 * bound on the probability that a mechanism passes whose delta exceeds d of eps__mc_guarantee(), or `left` on a
 * ladder. */
bool eps__mc_keeps(const struct eps__mc_promise *promise, double samples, double threshold, double most,
                   double *failure);

/* Approximately the least number of samples with which a mean of at most `threshold` < delta verifies the promise; 2^53
 * if no number does. */
uint64_t eps__mc_samples(const struct eps__mc_promise *promise, double threshold, double most);

/* Approximately the largest threshold at which this number of samples verifies the promise; -1 if not even 0 does. */
double eps__mc_threshold(const struct eps__mc_promise *promise, double samples, double most);

/* A lower bound on the true mean of values in [0, 1] whose sample mean is `mean`, rounded down. It is wrong with
 * probability at most `failure`, in (0, 1). */
double eps__mc_least(double samples, double mean, double failure);

#endif
