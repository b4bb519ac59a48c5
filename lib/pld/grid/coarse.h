/*
 * Coarse copies of distributions, in which runs of knots are merged: for choices that are made often and need no proof.
 *
 * SPDX-License-Identifier: GPL-3.0-or-later
 */
#ifndef EPS_PLD_GRID_COARSE_H
#define EPS_PLD_GRID_COARSE_H

#include "lib/pld/pld.h"

struct eps__coarse {
    struct eps__pld_power *powers; /* as given, but each with at most EPS__COARSE_MAX knots */
    struct eps__pld *own;
    size_t len;
};

enum { EPS__COARSE_MAX = 256 };

/* Out: *coarse, released with eps__coarse_clear(). Refers to the PLDs of `powers`. EPS_OK or EPS_NO_MEMORY. */
enum eps_status eps__coarse_make(struct eps__coarse *coarse, const struct eps__pld_power *powers, size_t len);
void eps__coarse_clear(struct eps__coarse *coarse);

#endif
