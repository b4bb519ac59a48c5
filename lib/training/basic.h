/*
 * Basic composition: a bound that needs no grid.
 *
 * SPDX-License-Identifier: GPL-3.0-or-later
 */
#ifndef EPS_TRAINING_BASIC_H
#define EPS_TRAINING_BASIC_H

#include "lib/pld/known/curves.h"

/* `count` >= 1 runs of a pair given by its curve, which is borrowed. */
struct eps__run {
    struct eps__curve *curve;
    uint64_t count;
};

/*
 * Computes ln of an upper bound on delta(eps), eps >= 0, of all runs together: the sum of their deltas at epsilons that
 * add up to at most eps (T7; Dwork et al. 2006). The epsilons are chosen by the curves' guesses, nearly optimally if
 * delta is small. Evaluates every curve once, to the tolerance. Returns EPS_OK, EPS_NO_MEMORY, or the failure of a
 * curve.
 */
enum eps_status eps__basic_log_delta(const struct eps__run *runs, size_t len, double eps, double tolerance,
                                     double *log_delta);

#endif
