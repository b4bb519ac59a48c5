/*
 * The pld accountant's steps, for compositions of several mechanisms.
 *
 * SPDX-License-Identifier: GPL-3.0-or-later
 */
#ifndef EPS_ACCOUNTANTS_PLD_STEPS_H
#define EPS_ACCOUNTANTS_PLD_STEPS_H

#include "lib/accountants/stepper.h"

/* *stepper: NULL where its bound is no one composition of steps or curves: classes of bins, truncated batches, several parts that
 * may be the worst. EPS_NO_MEMORY. */
enum eps_status eps__pld_stepper(const struct eps__setting *setting, enum eps_direction direction,
                                 struct eps__stepper **stepper, struct eps_error *error);

#endif
