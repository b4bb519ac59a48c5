/*
 * The Gram matrix of the bins under balls in bins: inner products of the merged columns m_i over sigma^2.
 *
 * SPDX-License-Identifier: GPL-3.0-or-later
 */
#ifndef EPS_ACCOUNTANTS_MERGED_BINS_H
#define EPS_ACCOUNTANTS_MERGED_BINS_H

#include "lib/accountants/accountant.h"
#include "lib/moments/laws/bin_gram.h"

/* The largest number of bins that callers accept if the strategy is not diagonal. */
enum { EPS__MERGED_BINS_MOST = 4096 };

/*
 * The Gram matrix over all epochs or, with draws > 1 equal epochs in which the bin is redrawn, that of one epoch. It
 * dominates the exact one (M9). The caller clears it. EPS_OK, EPS_NO_MEMORY, EPS_CANCELED, EPS_TIMEOUT.
 */
EPS_MUST_USE enum eps_status eps__merged_bins(struct eps__bin_gram *bins, const struct eps__setting *setting,
                                              double sigma, size_t draws);

#endif
