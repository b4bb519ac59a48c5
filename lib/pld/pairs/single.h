/*
 * The privacy profile of one step, without a grid.
 *
 * SPDX-License-Identifier: GPL-3.0-or-later
 */
#ifndef EPS_PLD_PAIRS_SINGLE_H
#define EPS_PLD_PAIRS_SINGLE_H

#include "lib/pld/pairs/pair.h"

/* Whether the branches' pairs are mixtures by laws (pair.h: whole), which the closed form needs. */
bool eps__single_serves(const struct eps__branch *branches, size_t len);

/* ln of delta(eps) of one step, the mixture of its branches, eps >= 0: at least (upper) or at most (lower) it, relatively
 * under 1e-9 apart, mostly, and under 1e-6 (P2). Cost: a few dozen evaluations of the mixtures. */
double eps__single_log_delta(const struct eps__branch *branches, size_t len, enum eps__estimate estimate, double eps);

/* A z from which on the loss of a pair with a law on either side is at least eps > 0, and hardly more. False if that is not
 * certain: then less than DBL_MIN of either is beyond z. */
bool eps__single_beyond(const struct eps__pair *pair, double eps, double *z);

/* P(z > at) - e^eps Q(z > at), digit by digit however near the two are; *error bounds its absolute error. */
double eps__single_excess(const struct eps__pair *pair, enum eps__estimate estimate, double eps, double at,
                          double *error);

#endif
