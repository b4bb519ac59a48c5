/*
 * Converts the dominating pairs of a scheme's step into steps of a composition.
 *
 * SPDX-License-Identifier: GPL-3.0-or-later
 */
#ifndef EPS_ACCOUNTANTS_PLD_PAIRS_H
#define EPS_ACCOUNTANTS_PLD_PAIRS_H

#include "lib/pld/compose/outcomes.h"
#include "lib/sampling/pairs.h"

/* Receives steps: a composition with public outcomes or, if `outcomes` is NULL, one without them. */
struct eps__step_sink {
    struct eps__outcomes *outcomes;
    struct eps__composition *composition;
    uint64_t times; /* without outcomes: the steps are added `times` over, at least once */
};

/* Adds `count` steps whose column norm, divided by sigma, lies in [unit_lower, unit_upper]. EPS_NO_MEMORY. */
enum eps_status eps__step_pairs_add(const struct eps__step_sink *sink, const struct eps__step_pairs *pairs,
                                    enum eps_direction direction, double unit_lower, double unit_upper, uint64_t count);

#endif
