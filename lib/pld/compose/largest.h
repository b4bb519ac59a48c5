/*
 * A composition whose delta is one large loss, bounded without a transform.
 *
 * SPDX-License-Identifier: GPL-3.0-or-later
 */
#ifndef EPS_PLD_COMPOSE_LARGEST_H
#define EPS_PLD_COMPOSE_LARGEST_H

#include "lib/pld/compose/saddle.h"

/* What the bounds need to know of each class of equal steps; made when first asked for. */
struct eps__largest;

/* Whether it serves: all pairs are mixtures by laws (pld/pairs/single.h). */
bool eps__largest_serves(const struct eps__steps *steps);

/* EPS_NO_MEMORY, EPS_CANCELED, EPS_TIMEOUT. The steps are borrowed, and must stay as they are. */
enum eps_status eps__largest_create(struct eps__largest **largest, const struct eps_context *context,
                                    const struct eps__steps *steps);
void eps__largest_destroy(struct eps__largest *largest);

/*
 * ln of a bound on delta(eps), eps > 0 (P3): close where a single step's loss beyond eps is what happens, and all others
 * together are small beside eps; valid everywhere, at most 0. Cost: up to a few hundred million operations. EPS_CANCELED,
 * EPS_TIMEOUT.
 */
enum eps_status eps__largest_log_delta(struct eps__largest *largest, enum eps__estimate estimate, double eps,
                                       double *out);

#endif
