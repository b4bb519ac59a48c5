/*
 * Whether a candidate of a plan is served, and by whom, before its strategy is computed. Internal to lib/.
 *
 * SPDX-License-Identifier: GPL-3.0-or-later
 */
#ifndef EPS_ASK_PLAN_CHOOSE_H
#define EPS_ASK_PLAN_CHOOSE_H

#include "lib/epsilon.h"

/* Judged by a strategy of the same shape where the job's own takes long. EPS_OK, or as eps_job_serves(). */
EPS_MUST_USE enum eps_status eps__plan_serves(const struct eps_context *context, struct eps_error *error,
                                              const struct eps_job *job);

/*
 * Has a job that is served accounted for with at most so many operations: by `auto`, or else by the first of those that
 * amplify that needs no more. Bounds of bad events whose optimum takes a great part of that get a share and a tolerance that are
 * quick. EPS_OK, and *operations is what that takes, about; EPS_TOO_COSTLY: there is no such way, and the job stays as it is; or as
 * eps__plan_serves().
 */
EPS_MUST_USE enum eps_status eps__plan_choose(const struct eps_context *context, double *operations,
                                              struct eps_error *error, struct eps_job *job, double max_operations);

#endif
