/*
 * The accountant `pld` for balls in bins: it evaluates the law of P/Q itself or, as a bound, the laws of classes of
 * bins.
 *
 * SPDX-License-Identifier: GPL-3.0-or-later
 */
#ifndef EPS_ACCOUNTANTS_PLD_BALLS_IN_BINS_H
#define EPS_ACCOUNTANTS_PLD_BALLS_IN_BINS_H

#include "lib/accountants/accountant.h"
#include "lib/accountants/stepper.h"

/* Whether the scheme is balls in bins: then the accountant delegates to the functions below. */
bool eps__pld_is_balls_in_bins(const struct eps__setting *setting);

/* Whether the law is that of the mechanism, up to the bracket: C is diagonal, and all bins have the same norm. Else the
 * law gives an upper bound. */
bool eps__pld_balls_in_bins_exact(const struct eps__setting *setting);

/* The accountant's serves(), cost(), least_sigma() and open() (accountant.h). */
bool eps__pld_balls_in_bins_serves(const struct eps__setting *setting, struct eps_error *error);
void eps__pld_balls_in_bins_cost(const struct eps__setting *setting, double *operations, double *bytes);
double eps__pld_balls_in_bins_least_sigma(const struct eps__setting *setting);
enum eps_status eps__pld_balls_in_bins_open(const struct eps__setting *setting, double sigma,
                                            const struct eps__accuracy *accuracy, struct eps__profile **profile,
                                            struct eps_error *error);

/* Whether the bound is a composition of curves: one curve in all or, with redraw, one per epoch. */
bool eps__pld_balls_in_bins_has_curves(const struct eps__setting *setting);

/* Adds these curves for `count` runs. EPS_NO_MEMORY. */
enum eps_status eps__pld_balls_in_bins_curves(const struct eps__curve_sink *sink, const struct eps__setting *setting,
                                              enum eps_direction direction, double sigma, uint64_t count);

#endif
