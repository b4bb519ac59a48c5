/*
 * Balls in bins with a new bin in every epoch, for strategies none of whose rows extends over more than one epoch. The
 * epochs are then independent, so the likelihood ratio is a product of independent ones (M16).
 *
 * SPDX-License-Identifier: GPL-3.0-or-later
 */
#ifndef EPS_MOMENTS_LAWS_EPOCHS_H
#define EPS_MOMENTS_LAWS_EPOCHS_H

#include "lib/moments/laws/balls_in_bins.h"

/* Replaces the bounds and moments of one epoch by those of `epochs` >= 1 equal ones. The central moments must be >= 0,
 * as those of balls in bins are; at most EPS__MOMENTS_MAX of them are kept. */
void eps__orders_of_epochs(struct eps__orders *orders, size_t epochs);
void eps__moments_of_epochs(struct eps__moments *moments, size_t epochs);

#endif
