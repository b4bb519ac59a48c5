/*
 * Hints for jobs that are valid but probably not what the user means.
 *
 * SPDX-License-Identifier: GPL-3.0-or-later
 */
#ifndef EPS_SOLVE_DOUBTS_H
#define EPS_SOLVE_DOUBTS_H

#include "lib/job/setting.h"

/*
 * Adds hints to a result whose value and error figures are set: participation that may differ from what the scheme
 * assumes; a delta of at least one example in the data set; a strategy with more error than none at the same epsilon
 * and delta. The last solves another job, within the context's limits.
 * Returns EPS_OK, EPS_CANCELED, EPS_TIMEOUT, EPS_NO_MEMORY.
 */
EPS_MUST_USE enum eps_status eps__add_doubts(struct eps_result *result, struct eps_error *error,
                                             const struct eps__setting *setting);

#endif
