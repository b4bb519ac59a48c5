/*
 * The composition of pairs that are known by their curves (curve_points.h): delta(eps) in one direction, from above and
 * below.
 *
 * SPDX-License-Identifier: GPL-3.0-or-later
 */
#ifndef EPS_PLD_KNOWN_CURVES_H
#define EPS_PLD_KNOWN_CURVES_H

#include "lib/pld/compose/composition.h"
#include "lib/pld/known/curve_points.h"

/* One epoch of balls in bins (balls_in_bins.h). The caller destroys it by its class; NULL without memory. */
struct eps__curve *eps__curve_balls_in_bins(const struct eps_context *context, enum eps_direction direction,
                                            size_t bins, double shift_lower, double shift_upper);

struct eps__curves;

/* Without pairs yet. The caller destroys it. EPS_NO_MEMORY. */
enum eps_status eps__curves_create(struct eps__curves **curves, const struct eps_context *context,
                                   const struct eps__accuracy *accuracy);
void eps__curves_destroy(struct eps__curves *curves);

/* `count` >= 1 independent pairs of this curve, which is taken over, also on failure; NULL is no memory. EPS_NO_MEMORY. */
enum eps_status eps__curves_add(struct eps__curves *curves, struct eps__curve *curve, uint64_t count);

/* ln of a bound on delta(eps) of all of them together, eps >= 0. Cost: a hundred bounds of each curve or a few thousand, and a
 * composition by FFT, unless eps is near one asked before. EPS_NO_MEMORY, EPS_CANCELED, EPS_TIMEOUT. Where a composition is
 * out of reach: 0 from above and nothing from below. */
enum eps_status eps__curves_log_delta(struct eps__curves *curves, enum eps__estimate estimate, double eps,
                                      double *log_delta);

/* Unproven but quicker: ln delta(eps), and the epsilon at which ln delta is as given. EPS_NO_MEMORY, EPS_CANCELED, EPS_TIMEOUT. */
enum eps_status eps__curves_approximate(struct eps__curves *curves, double eps, double *log_delta);
enum eps_status eps__curves_guess(struct eps__curves *curves, double log_delta, double *eps);

/* Makes the bracket of the next answers narrower by about `factor` >= 1; false if it cannot. */
bool eps__curves_refine(struct eps__curves *curves, double factor);

#endif
