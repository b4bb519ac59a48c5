/*
 * From samples to what they prove (BMS appendix A): the mean of independent values in [0, M] is at most a threshold t under
 * their own mean d with a probability of at most e^(-s KL(t/M || d/M)), s their number (L50).
 *
 * SPDX-License-Identifier: GPL-3.0-or-later
 */
#ifndef EPS_ACCOUNTANTS_MC_GUARANTEE_H
#define EPS_ACCOUNTANTS_MC_GUARANTEE_H

#include <stdint.h>

/* ln of that probability, from above: 0 where d <= t. 0 <= t, d <= most; most > 0. */
double eps__mc_log_failure(double samples, double threshold, double truth, double most);

/*
 * A delta such that a mechanism whose samples' mean is at most `threshold` is (epsilon, delta)-DP, the draws being its own: the least, about, of
 * d + e^(-s KL) (most - d) over d > threshold, rounded up; at most `most`. It rises with the threshold. *failure, if not NULL: e^(-s KL) there.
 */
double eps__mc_guarantee(double samples, double threshold, double most, double *failure);

/* The least number of samples, about, with which a mean of at most `threshold` guarantees delta > threshold; 2^53 where none
 * does. */
uint64_t eps__mc_samples(double threshold, double delta, double most);

/* The largest threshold, about, with which so many samples guarantee delta; a negative number where not even 0 does. */
double eps__mc_threshold(double samples, double delta, double most);

/* What the true mean is at least but for a probability of `failure` in (0, 1), where the samples' is `mean`: rounded down. */
double eps__mc_least(double samples, double mean, double failure);

#endif
