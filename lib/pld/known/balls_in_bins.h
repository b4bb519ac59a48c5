/*
 * Balls in bins, one epoch: an example is in one of b batches, drawn uniformly, and its contributions to different
 * batches are orthogonal and of equal norm. Under Q, P/Q is then the mean of b independent lognormals, and delta(eps)
 * can be bounded to any accuracy, in either direction, from both sides.
 *
 * SPDX-License-Identifier: GPL-3.0-or-later
 */
#ifndef EPS_PLD_KNOWN_BALLS_IN_BINS_H
#define EPS_PLD_KNOWN_BALLS_IN_BINS_H

#include "lib/pld/compose/composition.h"

struct eps__balls_in_bins;

/* `bins` >= 1 batches. The norm of a contribution, in units of sigma, lies between shift_lower and shift_upper, both >
 * 0, which suffices by P7. Out: *balls_in_bins, released with eps__balls_in_bins_destroy(). EPS_OK or EPS_NO_MEMORY. */
enum eps_status eps__balls_in_bins_create(struct eps__balls_in_bins **balls_in_bins, const struct eps_context *context,
                                          enum eps_direction direction, size_t bins, double shift_lower,
                                          double shift_upper, const struct eps__accuracy *accuracy);
void eps__balls_in_bins_destroy(struct eps__balls_in_bins *balls_in_bins);

/* For queries with ascending epsilons. A composition then answers only epsilons up to the one it is made for (remove),
 * or from that one on (add), within `reach` standard deviations. So all answers are as precise as at the epsilon for
 * which a composition is made. Compositions are shorter, and after a few that fail in a row no more are tried. */
void eps__balls_in_bins_ascend(struct eps__balls_in_bins *balls_in_bins, double reach);

/* ln of a bound on delta(eps), eps >= 0. Cost: a composition by FFT, unless eps is near one that was asked before.
 * EPS_OK, EPS_NO_MEMORY, EPS_CANCELED, EPS_TIMEOUT. If a composition is too costly, the upper bound is that without
 * sampling and the lower one -INFINITY. */
enum eps_status eps__balls_in_bins_log_delta(struct eps__balls_in_bins *balls_in_bins, enum eps__estimate estimate,
                                             double eps, double *log_delta);

/* Fast estimates that prove nothing: ln delta(eps), and the epsilon at which ln delta is `log_delta`. */
double eps__balls_in_bins_approximate(const struct eps__balls_in_bins *balls_in_bins, double eps);
double eps__balls_in_bins_guess(const struct eps__balls_in_bins *balls_in_bins, double log_delta);

/* Makes the grid of later answers finer by `factor` >= 1. Returns false if it cannot. */
bool eps__balls_in_bins_refine(struct eps__balls_in_bins *balls_in_bins, double factor);

#endif
