/*
 * What is allowed and probably not meant.
 *
 * SPDX-License-Identifier: GPL-3.0-or-later
 */
#ifndef EPS_SOLVE_DOUBTS_H
#define EPS_SOLVE_DOUBTS_H

#include "lib/job/setting.h"

/*
 * Adds to the hints of a result whose value and error figures are there: how examples are taken to take part where that may be
 * another number of times; a delta of one example in the data set; a strategy that has more error than none for the same
 * promise. The last one solves another job, within the context's limits.
 * EPS_OK, EPS_CANCELED, EPS_TIMEOUT, EPS_NO_MEMORY.
 */
EPS_MUST_USE enum eps_status eps__add_doubts(struct eps_result *result, struct eps_error *error,
                                             const struct eps__setting *setting);

#endif
