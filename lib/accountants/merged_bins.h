/*
 * The bins of balls in bins as an accountant is asked about them: the Gram matrix of the merged columns over sigma.
 *
 * SPDX-License-Identifier: GPL-3.0-or-later
 */
#ifndef EPS_ACCOUNTANTS_MERGED_BINS_H
#define EPS_ACCOUNTANTS_MERGED_BINS_H

#include "lib/accountants/accountant.h"
#include "lib/moments/laws/bin_gram.h"

/* Where the strategy is not diagonal, what the matrix may have a side. */
enum { EPS__MERGED_BINS_MOST = 4096 };

/*
 * The Gram matrix of all epochs together; with draws > 1 equal ones, of one of them. It dominates the exact one (M9).
 * The caller clears it. EPS_OK, EPS_NO_MEMORY, EPS_CANCELED, EPS_TIMEOUT.
 */
EPS_MUST_USE enum eps_status eps__merged_bins(struct eps__bin_gram *bins, const struct eps__setting *setting,
                                              double sigma, size_t draws);

#endif
