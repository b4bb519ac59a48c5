/*
 * The dominating pairs of a scheme's step as steps of a composition.
 *
 * SPDX-License-Identifier: GPL-3.0-or-later
 */
#ifndef EPS_ACCOUNTANTS_PLD_PAIRS_H
#define EPS_ACCOUNTANTS_PLD_PAIRS_H

#include "lib/pld/compose/outcomes.h"
#include "lib/sampling/pairs.h"

/* Where steps go: to a composition of steps with public outcomes; or, where `outcomes` is NULL, `times` over to one
 * without. */
struct eps__step_sink {
    struct eps__outcomes *outcomes;
    struct eps__composition *composition;
    uint64_t times;
};

/* `count` steps of one column norm, which in units of sigma lies between the two units. EPS_NO_MEMORY. */
enum eps_status eps__step_pairs_add(const struct eps__step_sink *sink, const struct eps__step_pairs *pairs,
                                    enum eps_direction direction, double unit_lower, double unit_upper, uint64_t count);

#endif
