/*
 * Decides whether a candidate of a plan is served, and by which accountant, before its strategy is computed. Internal
 * to lib/.
 *
 * SPDX-License-Identifier: GPL-3.0-or-later
 */
#ifndef EPS_ASK_PLAN_CHOOSE_H
#define EPS_ASK_PLAN_CHOOSE_H

#include "lib/epsilon.h"

/* As eps_job_serves(), but with a quick strategy of the same shape if the job's own is expensive. */
EPS_MUST_USE enum eps_status eps__plan_serves(const struct eps_context *context, struct eps_error *error,
                                              const struct eps_job *job);

/* Returns EPS_OK if draws may prove less noise than is proven without them for a job that is served, as far as is known
 * before its strategy is computed; EPS_UNSUPPORTED with the reason; or fails as eps__plan_serves() does. */
EPS_MUST_USE enum eps_status eps__plan_verifiable(const struct eps_context *context, struct eps_error *error,
                                                  const struct eps_job *job);

/*
 * Sets the accountant of a job that is served so that accounting takes at most max_operations: `auto`, or else the
 * first amplifying accountant that is cheap enough. If optimising the share of bad events is expensive, the job gets a
 * fixed share and a wider tolerance.
 *
 * Returns EPS_OK and *operations, the estimate; EPS_TOO_COSTLY if no accountant is cheap enough, with the job
 * unchanged; or fails as eps__plan_serves() does.
 */
EPS_MUST_USE enum eps_status eps__plan_choose(const struct eps_context *context, double *operations,
                                              struct eps_error *error, struct eps_job *job, double max_operations);

#endif
