/*
 * A training that stops between two runs. The training is opened once for all points at which it may stop, so that the
 * curves of its phases are computed once.
 *
 * SPDX-License-Identifier: GPL-3.0-or-later
 */
#ifndef EPS_TRAINING_STOPPED_H
#define EPS_TRAINING_STOPPED_H

#include "lib/training/training.h"

/*
 * Computes epsilon, at the job's delta and noise multiplier, of a training after the first counts[i] runs of phase i of
 * its job, i < phases_len. At least one count is not 0, and none exceeds that of the job. *chosen: whether accountants
 * have been chosen; set at the first call. Returns EPS_OK and *epsilon, or a failure.
 */
EPS_MUST_USE enum eps_status eps__stopped_epsilon(struct eps__training *training, const uint64_t *counts, bool *chosen,
                                                  double *epsilon, struct eps_error *error);

#endif
