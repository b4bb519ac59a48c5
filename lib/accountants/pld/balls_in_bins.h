/*
 * The accountant `pld` where an example is in one batch of every epoch, drawn uniformly: the law of P/Q itself, or that
 * of classes of bins.
 *
 * SPDX-License-Identifier: GPL-3.0-or-later
 */
#ifndef EPS_ACCOUNTANTS_PLD_BALLS_IN_BINS_H
#define EPS_ACCOUNTANTS_PLD_BALLS_IN_BINS_H

#include "lib/accountants/accountant.h"
#include "lib/accountants/stepper.h"

/* Whether the scheme is one of batches of an epoch, of which an example is in one: then these take the accountant's
 * place. */
bool eps__pld_is_balls_in_bins(const struct eps__setting *setting);

/* Whether the law is the mechanism's own, up to its bracket: bins that share no row, of one norm. Else it is a bound.
 * */
bool eps__pld_balls_in_bins_exact(const struct eps__setting *setting);

bool eps__pld_balls_in_bins_serves(const struct eps__setting *setting, struct eps_error *error);
void eps__pld_balls_in_bins_cost(const struct eps__setting *setting, double *operations, double *bytes);
double eps__pld_balls_in_bins_least_sigma(const struct eps__setting *setting);
enum eps_status eps__pld_balls_in_bins_open(const struct eps__setting *setting, double sigma,
                                            const struct eps__accuracy *accuracy, struct eps__profile **profile,
                                            struct eps_error *error);

/* Whether its bound is that of curves of known laws, one an epoch where bins are drawn anew; and these, for `count`
 * runs. EPS_NO_MEMORY. */
bool eps__pld_balls_in_bins_has_curves(const struct eps__setting *setting);
enum eps_status eps__pld_balls_in_bins_curves(const struct eps__curve_sink *sink, const struct eps__setting *setting,
                                              enum eps_direction direction, double sigma, uint64_t count);

#endif
