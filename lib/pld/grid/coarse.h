/*
 * Coarse copies of distributions: runs of knots as one, for choices that need not be exact and are asked for many
 * times.
 *
 * SPDX-License-Identifier: GPL-3.0-or-later
 */
#ifndef EPS_PLD_GRID_COARSE_H
#define EPS_PLD_GRID_COARSE_H

#include "lib/pld/pld.h"

struct eps__coarse {
    struct eps__pld_power *powers; /* as they were given, each of at most EPS__COARSE_MAX knots */
    struct eps__pld *own;
    size_t len;
};

enum { EPS__COARSE_MAX = 4096 };

/* Released with eps__coarse_clear(); refers to the powers' PLDs. EPS_NO_MEMORY. */
enum eps_status eps__coarse_make(struct eps__coarse *coarse, const struct eps__pld_power *powers, size_t len);
void eps__coarse_clear(struct eps__coarse *coarse);

#endif
