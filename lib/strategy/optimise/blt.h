/*
 * The optimiser of buffered linear Toeplitz strategies.
 *
 * SPDX-License-Identifier: GPL-3.0-or-later
 */
#ifndef EPS_STRATEGY_OPTIMISE_BLT_H
#define EPS_STRATEGY_OPTIMISE_BLT_H

#include "lib/strategy/kind.h"

/* More buffers do not improve the loss in double precision at any length. */
enum { EPS__BLT_BUFFERS_MAX = 16 };
/* Computes the decays and scales of the best BLT with the job's number of buffers; each array has that many numbers. */
enum eps_status eps__blt_optimise(const struct eps_context *context, double *decay, double *scale,
                                  struct eps_strategy *s, struct eps_error *error,
                                  const struct eps_mechanism *mechanism);

#endif
