/*
 * Solves jobs with phases, including those that ask for the largest number of runs of a phase.
 *
 * SPDX-License-Identifier: GPL-3.0-or-later
 */
#ifndef EPS_TRAINING_SOLVE_PHASES_H
#define EPS_TRAINING_SOLVE_PHASES_H

#include "lib/epsilon.h"

/* eps_job_serves(), eps_solve() and eps_privacy_curve() for a job with phases that passed eps_job_check(). */
EPS_MUST_USE enum eps_status eps__phases_serve(const struct eps_context *context, struct eps_error *error,
                                               const struct eps_job *job, double *operations, double *bytes);
EPS_MUST_USE enum eps_status eps__phases_solve(const struct eps_context *context, struct eps_result **result,
                                               struct eps_error *error, const struct eps_job *job);
EPS_MUST_USE enum eps_status eps__phases_curve(const struct eps_context *context, struct eps_curve_point **points,
                                               size_t *len, struct eps_error *error, const struct eps_job *job,
                                               double noise_multiplier);

/* Computes only epsilon of a job with given delta and noise multiplier, without the results of single phases. */
EPS_MUST_USE enum eps_status eps__phases_epsilon(const struct eps_context *context, double *epsilon,
                                                 struct eps_error *error, const struct eps_job *job);

#endif
