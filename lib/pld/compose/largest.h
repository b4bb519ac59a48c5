/*
 * Bounds without a transform for a composition whose delta comes from a single large loss.
 *
 * SPDX-License-Identifier: GPL-3.0-or-later
 */
#ifndef EPS_PLD_COMPOSE_LARGEST_H
#define EPS_PLD_COMPOSE_LARGEST_H

#include "lib/pld/compose/saddle.h"

/* The cells of each class of equal steps. */
struct eps__largest;

/* Whether the bounds apply: all mixtures must be laws (pld/pairs/single.h). */
bool eps__largest_serves(const struct eps__steps *steps);

/* Out: *largest, released with eps__largest_destroy(). Borrows the steps, which must not change. EPS_OK, EPS_NO_MEMORY,
 * EPS_CANCELED, EPS_TIMEOUT. */
enum eps_status eps__largest_create(struct eps__largest **largest, const struct eps_context *context,
                                    const struct eps__steps *steps);
void eps__largest_destroy(struct eps__largest *largest);

/*
 * ln of a bound on delta(eps), eps > 0 (P3). Tight where delta comes from a single step's loss beyond eps and all
 * others together are small compared with eps; valid everywhere, at most 0. Cost: up to a few hundred million
 * operations. EPS_OK, EPS_CANCELED, EPS_TIMEOUT.
 */
enum eps_status eps__largest_log_delta(struct eps__largest *largest, enum eps__estimate estimate, double eps,
                                       double *out);

#endif
