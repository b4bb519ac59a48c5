/*
 * The rows of the mmcc accountant as steps, for joint compositions of several mechanisms.
 *
 * SPDX-License-Identifier: GPL-3.0-or-later
 */
#ifndef EPS_ACCOUNTANTS_MMCC_STEPS_H
#define EPS_ACCOUNTANTS_MMCC_STEPS_H

#include "lib/accountants/stepper.h"

/* *stepper is NULL if several parts of the data set may be the worst; else the caller destroys it. EPS_NO_MEMORY and
 * the statuses of eps__mmcc_rows(). */
enum eps_status eps__mmcc_stepper(const struct eps__setting *setting, enum eps_direction direction,
                                  struct eps__stepper **stepper, struct eps_error *error);

#endif
