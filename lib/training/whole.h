/*
 * Solves a training as a whole: each direction on the profile of the whole training (joint.c).
 *
 * SPDX-License-Identifier: GPL-3.0-or-later
 */
#ifndef EPS_TRAINING_WHOLE_H
#define EPS_TRAINING_WHOLE_H

#include "lib/training/training.h"

/* Solves for epsilon or delta at the given noise multiplier, or for the noise multiplier, and sets the answer and its
 * candidates. upper_alone: as in struct eps__occasion. */
EPS_MUST_USE enum eps_status eps__whole_solve(struct eps_result *result, struct eps_error *error,
                                              struct eps__training *training, struct eps__cache_use *cache_use,
                                              bool upper_alone);

/* Solves for the largest count of a phase, and leaves the phase with that count. */
EPS_MUST_USE enum eps_status eps__whole_runs(struct eps_result *result, struct eps_error *error,
                                             struct eps__training *training);

/* Computes the curve. */
EPS_MUST_USE enum eps_status eps__whole_curve(struct eps_result *result, struct eps_error *error,
                                              struct eps__training *training);

/* Computes only the points of the curve, as eps__curve_points(). */
EPS_MUST_USE enum eps_status eps__whole_points(struct eps_curve_point **points, size_t *len, struct eps_error *error,
                                               struct eps__training *training, double noise_multiplier);

/* Computes epsilon of the query, with the accountants chosen before, of all phases but one, or of all if `without` is
 * NULL. */
EPS_MUST_USE enum eps_status eps__whole_epsilon(double *epsilon, struct eps_error *error,
                                                struct eps__training *training, struct eps__phase *without,
                                                const struct eps_query *query, bool upper_alone);

/* An approximation of what eps__whole_epsilon() computes, by saddle points and without a composition where all phases
 * have steps. Proves nothing. */
EPS_MUST_USE enum eps_status eps__whole_guess(double *epsilon, struct eps_error *error, struct eps__training *training,
                                              struct eps__phase *without, const struct eps_query *query);

#endif
