/*
 * The composition of pairs that are known by their curves (curve_points.h): bounds on delta(eps) in one direction, from
 * above and from below.
 *
 * SPDX-License-Identifier: GPL-3.0-or-later
 */
#ifndef EPS_PLD_KNOWN_CURVES_H
#define EPS_PLD_KNOWN_CURVES_H

#include "lib/pld/compose/composition.h"
#include "lib/pld/known/curve_points.h"

/* One epoch of balls in bins (balls_in_bins.h). Released by its class's destroy(). NULL if out of memory. */
struct eps__curve *eps__curve_balls_in_bins(const struct eps_context *context, enum eps_direction direction,
                                            size_t bins, double shift_lower, double shift_upper);

struct eps__curves;

/* An empty composition. Out: *curves, released with eps__curves_destroy(). EPS_OK or EPS_NO_MEMORY. */
enum eps_status eps__curves_create(struct eps__curves **curves, const struct eps_context *context,
                                   const struct eps__accuracy *accuracy);
void eps__curves_destroy(struct eps__curves *curves);

/* Adds `count` >= 1 independent pairs with this curve, which is taken over, also on failure. NULL counts as out of
 * memory. EPS_OK or EPS_NO_MEMORY. Not after the first query. */
enum eps_status eps__curves_add(struct eps__curves *curves, struct eps__curve *curve, uint64_t count);

/* ln of a bound on delta(eps), eps >= 0, of all pairs together. Cost: from a hundred to a few thousand evaluations of
 * each curve and a composition by FFT, unless eps is near one that was asked before. EPS_OK, EPS_NO_MEMORY,
 * EPS_CANCELED, EPS_TIMEOUT. If a composition is too costly, the upper bound is 0 or better and the lower one
 * -INFINITY. */
enum eps_status eps__curves_log_delta(struct eps__curves *curves, enum eps__estimate estimate, double eps,
                                      double *log_delta);

/* Faster estimates that prove nothing: ln delta(eps), and the epsilon at which ln delta is `log_delta`. EPS_OK,
 * EPS_NO_MEMORY, EPS_CANCELED, EPS_TIMEOUT. */
enum eps_status eps__curves_approximate(struct eps__curves *curves, double eps, double *log_delta);
enum eps_status eps__curves_guess(struct eps__curves *curves, double log_delta, double *eps);

/* Makes the bracket of later answers narrower by about `factor` >= 1. Returns false if it cannot. */
bool eps__curves_refine(struct eps__curves *curves, double factor);

#endif
