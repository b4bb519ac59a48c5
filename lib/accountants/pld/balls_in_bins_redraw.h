/*
 * The accountant `pld` for balls in bins with redraw, where the bin of an example is drawn anew in every epoch: the
 * composition of independent epochs.
 *
 * SPDX-License-Identifier: GPL-3.0-or-later
 */
#ifndef EPS_ACCOUNTANTS_PLD_BALLS_IN_BINS_REDRAW_H
#define EPS_ACCOUNTANTS_PLD_BALLS_IN_BINS_REDRAW_H

#include "lib/accountants/stepper.h"

/* Whether bins are redrawn, in several epochs and with more than one bin: then eps__pld_balls_in_bins_*() delegate to
 * these functions. */
bool eps__pld_redraws(const struct eps__setting *setting);

/* Whether the composition is the mechanism's own, up to the bracket: C is diagonal, the norms of an epoch are equal,
 * and epochs have few of them. Else it is an upper bound. */
bool eps__pld_redraw_exact(const struct eps__setting *setting);

/* The accountant's serves(), cost(), least_sigma() and open() (accountant.h). */
bool eps__pld_redraw_serves(const struct eps__setting *setting, struct eps_error *error);
void eps__pld_redraw_cost(const struct eps__setting *setting, double *operations, double *bytes);
double eps__pld_redraw_least_sigma(const struct eps__setting *setting);
enum eps_status eps__pld_redraw_open(const struct eps__setting *setting, double sigma,
                                     const struct eps__accuracy *accuracy, struct eps__profile **profile,
                                     struct eps_error *error);

/* Adds the curves of all epochs of `count` runs. EPS_NO_MEMORY. */
enum eps_status eps__pld_redraw_curves(const struct eps__curve_sink *sink, const struct eps__setting *setting,
                                       enum eps_direction direction, double sigma, uint64_t count);

#endif
