/*
 * A bound for bins that share rows: within a class of bins, what any two have in common is no more than if all of them
 * had one and the same part in common (A51). Then a class is a Gaussian mechanism, the common part, composed with bins
 * that share nothing.
 *
 * SPDX-License-Identifier: GPL-3.0-or-later
 */
#ifndef EPS_ACCOUNTANTS_PLD_SHARED_BINS_H
#define EPS_ACCOUNTANTS_PLD_SHARED_BINS_H

#include "lib/accountants/accountant.h"
#include "lib/accountants/pld/bin_curves.h"

/* The classes: all of at least `size` bins. `size` 0: none are worth it. */
struct eps__shared_bins {
    size_t size;
    double shared, own; /* the squared norms of what a class shares, and of what each bin has beside it; in one draw of
                         * the bin; rounded up; 0 only if all columns are */
};

/* Whether the bound is tried for this strategy, which is not diagonal: its matrix of inner products must be affordable.
 * Out: *operations for one matrix and one choice. */
bool eps__shared_bins_serve(const struct eps__setting *setting, double *operations);

/*
 * Chooses the classes, by estimates that prove nothing, for the job's epsilon and delta, or for its noise multiplier,
 * or for `sigma`. draws: 1, or the number of equal epochs in which the bin is redrawn. least: the size of classes that
 * share nothing, with which the chosen ones must compare; 0: there are none. EPS_OK, EPS_NO_MEMORY, EPS_CANCELED,
 * EPS_TIMEOUT.
 */
EPS_MUST_USE enum eps_status eps__shared_bins_find(struct eps__shared_bins *found, const struct eps__setting *setting,
                                                   double sigma, size_t draws, size_t least);

/* The composition that bounds a class, for `draws` draws of the bin. */
void eps__shared_bins_curves(struct eps__bin_curves *curves, const struct eps__shared_bins *found, size_t draws);

#endif
