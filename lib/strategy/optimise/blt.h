/*
 * The optimiser of buffered linear Toeplitz strategies.
 *
 * SPDX-License-Identifier: GPL-3.0-or-later
 */
#ifndef EPS_STRATEGY_OPTIMISE_BLT_H
#define EPS_STRATEGY_OPTIMISE_BLT_H

#include "lib/strategy/kind.h"

/* Beyond this many buffers doubles have nothing to add at any length. */
enum { EPS__BLT_BUFFERS_MAX = 16 };
/* The decays and scales of the best BLT with the job's number of buffers. */
enum eps_status eps__blt_optimise(const struct eps_context *context, double *decay, double *scale,
                                  struct eps_strategy *s, struct eps_error *error,
                                  const struct eps_mechanism *mechanism);

#endif
