/*
 * The dominating pairs of a scheme's step as steps of a composition.
 *
 * SPDX-License-Identifier: GPL-3.0-or-later
 */
#ifndef EPS_ACCOUNTANTS_PLD_PAIRS_H
#define EPS_ACCOUNTANTS_PLD_PAIRS_H

#include "lib/pld/coins.h"
#include "lib/sampling/pairs.h"

/* `count` steps of one column norm, which in units of sigma lies between the two units. EPS_NO_MEMORY. */
enum eps_status eps__step_pairs_add(struct eps__coins *coins, const struct eps__step_pairs *pairs,
                                    enum eps_direction direction, double unit_lower, double unit_upper, uint64_t count);

#endif
