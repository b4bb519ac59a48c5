/*
 * What pairs and distributions claim, held against quadruple precision in the build that is for it (lib/numerics/verify.h).
 *
 * SPDX-License-Identifier: GPL-3.0-or-later
 */
#ifndef EPS_PLD_VERIFY_H
#define EPS_PLD_VERIFY_H

#include "lib/numerics/verify.h"

#ifdef EPS_VERIFY

#include "lib/pld/pairs/pair.h"
#include "lib/pld/pld.h"

/* The weights are a law's, within what the pair says of them. */
bool eps__verify_weights(const struct eps__pair *pair);
/* The loss at z is within the error, but for the weights'. */
bool eps__verify_loss(const struct eps__pair *pair, double z, double loss, double error);
/* ln P(left < z <= right) is enclosed, but for the weights' error. */
bool eps__verify_pair_mass(const struct eps__pair *pair, double left, double right, double log_lower, double log_upper);
/* P(z > at) - e^eps Q(z > at) of weights that are taken as they are. */
bool eps__verify_advantage(const struct eps__pair *pair, double eps, double at, double value, double error);
bool eps__verify_log_moment(const struct eps__pld *pld, double tilt, double value, double error);
/* The distribution's curve is above (below) the branches' at a few epsilons, and its masses are no more than a law's. */
bool eps__verify_curve(const struct eps__pld *pld, const struct eps__branch *branches, size_t len);

#endif

#endif
