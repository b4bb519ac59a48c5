/*
 * Jobs with a single phase that is run once: they are solved as its mechanism, with identical results.
 *
 * SPDX-License-Identifier: GPL-3.0-or-later
 */
#ifndef EPS_TRAINING_SINGLE_H
#define EPS_TRAINING_SINGLE_H

#include "lib/epsilon.h"

/* Sets the answer and the only phase of the result. */
EPS_MUST_USE enum eps_status eps__single_solve(struct eps_result *result, struct eps_error *error,
                                               const struct eps_context *context, const struct eps_job *job);

#endif
