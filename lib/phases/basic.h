/*
 * Basic composition: what no grid is needed for.
 *
 * SPDX-License-Identifier: GPL-3.0-or-later
 */
#ifndef EPS_PHASES_BASIC_H
#define EPS_PHASES_BASIC_H

#include "lib/pld/curves.h"

/* `count` >= 1 runs of a pair that is known by its curve. */
struct eps__run {
    struct eps__curve *curve;
    uint64_t count;
};

/*
 * ln of an upper bound on delta(eps), eps >= 0, of all runs together: the sum of their deltas at epsilons that add up to no more
 * than eps (L7; Dwork et al. 2006). The split is about the best one where delta is small, as far as the curves' guesses tell; the
 * curves are asked to the tolerance, once each. 0 where no split is found. EPS_NO_MEMORY, or what a curve says.
 */
enum eps_status eps__basic_log_delta(const struct eps__run *runs, size_t len, double eps, double tolerance,
                                     double *log_delta);

#endif
