/*
 * What each phase of a training that was solved costs.
 *
 * SPDX-License-Identifier: GPL-3.0-or-later
 */
#ifndef EPS_TRAINING_EACH_PHASE_H
#define EPS_TRAINING_EACH_PHASE_H

#include "lib/training/training.h"

/* Sets result->phases and result->alone at the delta and noise multiplier of the answer: solves every phase on its own
 * and computes its share of epsilon. */
EPS_MUST_USE enum eps_status eps__phases_each(struct eps_result *result, struct eps_error *error,
                                              struct eps__training *training);

#endif
