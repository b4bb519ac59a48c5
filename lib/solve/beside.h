/*
 * What is drawn beside an answer and is never part of it: audits and unproven estimates; and the hint that follows.
 *
 * SPDX-License-Identifier: GPL-3.0-or-later
 */
#ifndef EPS_SOLVE_BESIDE_H
#define EPS_SOLVE_BESIDE_H

#include "lib/accountants/monte_carlo/unproven.h"
#include "lib/base/sentences.h"

/* Estimates the operations of the audit that the job asks for; 0 if it asks for none. EPS_OK or EPS_UNSUPPORTED. */
EPS_MUST_USE enum eps_status eps__plan_audit(double *operations, const struct eps__setting *setting,
                                             struct eps_error *error);

/* Audits both directions, each of which is half of the progress. */
EPS_MUST_USE enum eps_status eps__audit(struct eps_result *result, struct eps_error *error,
                                        const struct eps__setting *setting);

/* Plans an unproven estimate for what these accountants answer, if they may be loose and if it fits the limits;
 * plan->samples is 0 if there is none. operations: those of the job without it. */
void eps__plan_unproven(struct eps__mc_unproven_plan *plan, const struct eps__setting *setting,
                        const struct eps__accountant *const *accountants, size_t len, double operations);

/* Makes it. */
EPS_MUST_USE enum eps_status eps__estimate_unproven(struct eps__mc_unproven *unproven, struct eps_error *error,
                                                    const struct eps__setting *setting,
                                                    const struct eps__mc_unproven_plan *plan,
                                                    const struct eps_result *result);

/* Adds a hint if draws may give a smaller answer: what it would be, if that is estimated, and who draws. decided: the
 * answer follows from sampling alone. */
void eps__hint_drawing(struct eps__sentences *list, const struct eps_result *result, const struct eps__setting *setting,
                       bool decided, const struct eps__mc_unproven *unproven);

#endif
