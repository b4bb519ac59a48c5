/*
 * A function of family banded that tests call.
 *
 * SPDX-License-Identifier: GPL-3.0-or-later
 */
#ifndef EPS_STRATEGY_FAMILIES_BANDED_H
#define EPS_STRATEGY_FAMILIES_BANDED_H

#include "lib/epsilon.h"

/* Whether bands beyond the separation may have either sign: the job does not sample, and its patterns are few and
 * fixed, so the sensitivity comes from one Gram matrix. */
bool eps__banded_either_sign(const struct eps_mechanism *mechanism);

#endif
