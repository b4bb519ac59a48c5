/*
 * The checks of a job that are shared between files of lib/job. Internal to lib/.
 *
 * SPDX-License-Identifier: GPL-3.0-or-later
 */
#ifndef EPS_JOB_CHECKS_H
#define EPS_JOB_CHECKS_H

#include "lib/base/check.h"

/* Checks the members under /matrix. Sets check->block. */
void eps__check_matrix(struct eps__check *check);
/* Checks the members under /workload. */
void eps__check_workload(struct eps__check *check);

#endif
