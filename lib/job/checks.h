/*
 * The checks of a job that have files of their own. Internal to lib/.
 *
 * SPDX-License-Identifier: GPL-3.0-or-later
 */
#ifndef EPS_JOB_CHECKS_H
#define EPS_JOB_CHECKS_H

#include "lib/base/check.h"

/* The members under /matrix; sets check->block, which everything about rows is measured in. */
void eps__check_matrix(struct eps__check *check);
/* The members under /workload. */
void eps__check_workload(struct eps__check *check);

#endif
