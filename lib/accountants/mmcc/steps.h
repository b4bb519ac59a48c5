/*
 * The rows of mmcc as steps, for compositions of several mechanisms.
 *
 * SPDX-License-Identifier: GPL-3.0-or-later
 */
#ifndef EPS_ACCOUNTANTS_MMCC_STEPS_H
#define EPS_ACCOUNTANTS_MMCC_STEPS_H

#include "lib/accountants/stepper.h"

/* *stepper: NULL where several parts of the data set may be the worst. EPS_NO_MEMORY, or what making the rows says. */
enum eps_status eps__mmcc_stepper(const struct eps__setting *setting, enum eps_direction direction,
                                  struct eps__stepper **stepper, struct eps_error *error);

#endif
