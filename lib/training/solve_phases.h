/*
 * The rule of three of a training of phases, and of one that asks how much longer it may be.
 *
 * SPDX-License-Identifier: GPL-3.0-or-later
 */
#ifndef EPS_TRAINING_SOLVE_PHASES_H
#define EPS_TRAINING_SOLVE_PHASES_H

#include "lib/epsilon.h"

/* What eps_job_serves(), eps_solve() and eps_privacy_curve() do for a job that passed eps_job_check() and has phases. */
EPS_MUST_USE enum eps_status eps__phases_serve(const struct eps_context *context, struct eps_error *error,
                                               const struct eps_job *job, double *operations, double *bytes);
EPS_MUST_USE enum eps_status eps__phases_solve(const struct eps_context *context, struct eps_result **result,
                                               struct eps_error *error, const struct eps_job *job);
EPS_MUST_USE enum eps_status eps__phases_curve(const struct eps_context *context, struct eps_curve_point **points,
                                               size_t *len, struct eps_error *error, const struct eps_job *job,
                                               double noise_multiplier);

/* Epsilon alone, of a job that gives delta and the noise multiplier: without what each phase costs. */
EPS_MUST_USE enum eps_status eps__phases_epsilon(const struct eps_context *context, double *epsilon,
                                                 struct eps_error *error, const struct eps_job *job);

#endif
