/*
 * Privacy curves.
 *
 * SPDX-License-Identifier: GPL-3.0-or-later
 */
#ifndef EPS_SOLVE_CURVE_H
#define EPS_SOLVE_CURVE_H

#include "lib/job/setting.h"

/* Computes result->curve at result->noise_multiplier, each delta to the tolerance, and sets the accountants of the
 * result and of its directions. complete: every serving accountant is in `serving`, so that the least of their lower
 * bounds is reported; otherwise the lower bounds are 0. Accountants without a profile (monte_carlo) are left out;
 * EPS_UNSUPPORTED if none remains. */
EPS_MUST_USE enum eps_status eps__curve(struct eps_result *result, struct eps_error *error,
                                        const struct eps__setting *setting,
                                        const struct eps__accountant *const *serving, size_t serving_len, bool complete,
                                        double tolerance);

/* Computes only the points, at a noise multiplier > 0, to the job's tolerance or 1e-2, whichever is larger: what
 * eps_privacy_curve() returns. The caller frees *points. */
EPS_MUST_USE enum eps_status eps__curve_points(struct eps_curve_point **points, size_t *len, struct eps_error *error,
                                               const struct eps__setting *setting,
                                               const struct eps__accountant *const *accountants, size_t accountants_len,
                                               double noise_multiplier);

#endif
