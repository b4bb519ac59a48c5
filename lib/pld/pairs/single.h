/*
 * The privacy profile of one step, without a grid.
 *
 * SPDX-License-Identifier: GPL-3.0-or-later
 */
#ifndef EPS_PLD_PAIRS_SINGLE_H
#define EPS_PLD_PAIRS_SINGLE_H

#include "lib/pld/pairs/pair.h"

/* Whether all mixtures of the branches' pairs are laws (pair.h: whole), which the closed form requires. */
bool eps__single_serves(const struct eps__branch *branches, size_t len);

/* ln delta(eps) of one step, the mixture of its branches, eps >= 0: an upper or a lower bound. The two bounds are
 * mostly less than 1e-9, and always less than 1e-6, apart, relatively (P2). Cost: a few dozen evaluations of the
 * mixtures. */
double eps__single_log_delta(const struct eps__branch *branches, size_t len, enum eps__estimate estimate, double eps);

/* Finds a z from which on the loss of a pair of laws is at least eps > 0, close to the smallest one. Returns false if
 * that is not certain: then less than DBL_MIN of the mass of either law is beyond z. */
bool eps__single_beyond(const struct eps__pair *pair, double eps, double *z);

/* P(z > at) - e^eps Q(z > at), without loss of digits if the two are close. Out: *error, a bound on the absolute
 * error. */
double eps__single_excess(const struct eps__pair *pair, enum eps__estimate estimate, double eps, double at,
                          double *error);

#endif
