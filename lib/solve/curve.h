/*
 * The whole privacy curve of one mechanism.
 *
 * SPDX-License-Identifier: GPL-3.0-or-later
 */
#ifndef EPS_SOLVE_CURVE_H
#define EPS_SOLVE_CURVE_H

#include "lib/job/setting.h"

/* Fills in result->curve, directions' and the result's accountant, at result->noise_multiplier, each delta to the
 * tolerance. complete: no accountant that serves was left out, so that the least lower end is below the truth.
 * An accountant without a profile (monte_carlo) has no curve and is left out; EPS_UNSUPPORTED where none is left. */
EPS_MUST_USE enum eps_status eps__curve(struct eps_result *result, struct eps_error *error,
                                        const struct eps__setting *setting,
                                        const struct eps__accountant *const *serving, size_t serving_len, bool complete,
                                        double tolerance);

/* The points alone, of these accountants together, at a noise multiplier over 0, to the job's tolerance or 1e-2: what
 * eps_privacy_curve() returns. */
EPS_MUST_USE enum eps_status eps__curve_points(struct eps_curve_point **points, size_t *len, struct eps_error *error,
                                               const struct eps__setting *setting,
                                               const struct eps__accountant *const *accountants, size_t accountants_len,
                                               double noise_multiplier);

#endif
