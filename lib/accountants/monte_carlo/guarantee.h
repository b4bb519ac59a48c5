/*
 * From samples to what they prove (BMS appendix A): the mean of independent values in [0, M] is at most a threshold t under
 * their own mean d with a probability of at most e^(-s KL(t/M || d/M)), s their number (A24).
 *
 * SPDX-License-Identifier: GPL-3.0-or-later
 */
#ifndef EPS_ACCOUNTANTS_MONTE_CARLO_GUARANTEE_H
#define EPS_ACCOUNTANTS_MONTE_CARLO_GUARANTEE_H

#include <stdbool.h>
#include <stdint.h>

/* ln of that probability, from above: 0 where d <= t. 0 <= t, d <= most; most > 0. */
double eps__mc_log_failure(double samples, double threshold, double truth, double most);

/*
 * A delta such that a mechanism whose samples' mean is at most `threshold` is (epsilon, delta)-DP, the draws being its own: the least, about, of
 * d + e^(-s KL) (most - d) over d > threshold, rounded up; at most `most`. It rises with the threshold. *failure, if not NULL: e^(-s KL) there.
 */
double eps__mc_guarantee(double samples, double threshold, double most, double *failure);

/*
 * What an estimate is to prove: that a mechanism is (epsilon, delta)-DP where its samples' mean is at most a threshold. On a ladder of noise
 * multipliers (A42) `left`, under delta, is what the delta of every candidate that passes rightly is at most, and that of the noise
 * multiplier that is used if none passes; the rest of delta pays for one that passes wrongly. One estimate alone has no `left`: NAN.
 */
struct eps__mc_promise {
    double delta, left;
};

/* delta's part for the candidates of a ladder whose threshold is about share * delta, 0 < share < 1: between the two. */
double eps__mc_left(double delta, double share);

/* How much larger than its predecessor's a candidate's `most` may be on a ladder (A42). */
#define EPS__MC_GROWTH 4.0

/* Whether samples in [0, most] whose mean is at most `threshold` keep the promise. *failure, if not NULL, where they do: the probability, from
 * above, with which a mechanism whose delta is over eps__mc_guarantee()'s d, or over `left`, passes. */
bool eps__mc_keeps(const struct eps__mc_promise *promise, double samples, double threshold, double most,
                   double *failure);

/* The least number of samples, about, with which a mean of at most `threshold` keeps the promise; 2^53 where none does. */
uint64_t eps__mc_samples(const struct eps__mc_promise *promise, double threshold, double most);

/* The largest threshold, about, with which so many samples keep the promise; a negative number where not even 0 does. */
double eps__mc_threshold(const struct eps__mc_promise *promise, double samples, double most);

/* What the true mean is at least but for a probability of `failure` in (0, 1), where the samples' is `mean`: rounded down. */
double eps__mc_least(double samples, double mean, double failure);

#endif
