/*
 * A bin that is drawn anew in every epoch, where no row of the strategy reaches over one: the epochs are independent, with
 * the example and without it, so the likelihood ratio is a product of independent ones (M16).
 *
 * SPDX-License-Identifier: GPL-3.0-or-later
 */
#ifndef EPS_MOMENTS_LAWS_EPOCHS_H
#define EPS_MOMENTS_LAWS_EPOCHS_H

#include "lib/moments/laws/balls_in_bins.h"

/* From one epoch's bounds and moments to those of `epochs` >= 1 equal ones, in place. Of moments with mu_j >= 0, as those of
 * balls in bins are; at most EPS__MOMENTS_MAX of them are kept. */
void eps__orders_of_epochs(struct eps__orders *orders, size_t epochs);
void eps__moments_of_epochs(struct eps__moments *moments, size_t epochs);

#endif
