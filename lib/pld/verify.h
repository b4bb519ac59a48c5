/*
 * Run-time checks, in the verify build, of what pairs and distributions claim (lib/numerics/verify.h). A check that
 * would be too slow, or beyond the range of quadruple precision, passes.
 *
 * SPDX-License-Identifier: GPL-3.0-or-later
 */
#ifndef EPS_PLD_VERIFY_H
#define EPS_PLD_VERIFY_H

#include "lib/numerics/verify.h"

#ifdef EPS_VERIFY

#include "lib/pld/pairs/pair.h"
#include "lib/pld/pld.h"

/* The weights add up to 1, within the error that the pair states. */
bool eps__verify_weights(const struct eps__pair *pair);
/* The loss at z is within the error. Errors of the weights are not counted. */
bool eps__verify_loss(const struct eps__pair *pair, double z, double loss, double error);
/* ln P(left < z <= right) lies between the two bounds. Errors of the weights are not counted. */
bool eps__verify_pair_mass(const struct eps__pair *pair, double left, double right, double log_lower, double log_upper);
/* P(z > at) - e^eps Q(z > at) is within error of value. Errors of the weights are not counted. */
bool eps__verify_advantage(const struct eps__pair *pair, double eps, double at, double value, double error);
bool eps__verify_log_moment(const struct eps__pld *pld, double tilt, double value, double error);
/* The distribution's curve is above (lower: below) that of the branches at a few epsilons, and a lower estimate has no
 * more mass than 1. */
bool eps__verify_curve(const struct eps__pld *pld, const struct eps__branch *branches, size_t len);

#endif

#endif
