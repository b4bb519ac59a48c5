/*
 * The steps of the pld accountant, for joint compositions of several mechanisms.
 *
 * SPDX-License-Identifier: GPL-3.0-or-later
 */
#ifndef EPS_ACCOUNTANTS_PLD_STEPS_H
#define EPS_ACCOUNTANTS_PLD_STEPS_H

#include "lib/accountants/stepper.h"

/* *stepper is NULL if the bound is not the composition of one list of steps or curves: for classes of bins, truncated
 * batches, several variants of a pair, and several parts that may be the worst. Else the caller destroys it.
 * EPS_NO_MEMORY. */
enum eps_status eps__pld_stepper(const struct eps__setting *setting, enum eps_direction direction,
                                 struct eps__stepper **stepper, struct eps_error *error);

#endif
