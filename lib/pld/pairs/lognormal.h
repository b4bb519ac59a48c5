/*
 * The lognormal V = e^{s Z - s^2/2}, the likelihood ratio of one of b equally likely Gaussians, discretised on a grid.
 * A mean of independent ones is composed from it (pld/known/balls_in_bins.h).
 *
 * SPDX-License-Identifier: GPL-3.0-or-later
 */
#ifndef EPS_PLD_PAIRS_LOGNORMAL_H
#define EPS_PLD_PAIRS_LOGNORMAL_H

#include "lib/pld/pld.h"

/* The loss of V is V - 1, or -V if `falls`; large losses matter. V is cut: only V <= e^{s z_cut - s^2/2} counts, so
 * that the total mass is less than 1. */
struct eps__lognormal {
    double s; /* > 0 */
    bool falls;
    double z_cut;
    double z_least; /* with falls, upper: what is below may be left out; -INFINITY if nothing may */
};

/* The tilt that moves the mean of a sum of `count` losses to `target`, and what follows from it. An approximation that
 * proves nothing. */
struct eps__lognormal_aim {
    double tilt;       /* >= 0 */
    double log_moment; /* ln E[e^{t loss}; V <= cut] of one loss */
    double deviation;  /* standard deviation of the tilted sum */
    double payoff;     /* E[(sum - target)_+] is about e^{count log_moment - t target} times this */
    double low, high;  /* values of V outside [low, high] are negligible */
};

/* Computes the aim. Returns false if no tilt reaches the target, or the mass that matters is more than 37 standard
 * deviations out. */
bool eps__lognormal_aim(const struct eps__lognormal *law, double count, double target, struct eps__lognormal_aim *aim);

/*
 * The law on a grid of this spacing, tilted as aimed (P14, P15). The upper estimate is larger, and the lower one
 * smaller, than the law of V in the increasing convex order of the losses, rounding included. len is 0 if no mass is
 * left. log_least: ln of the tilted mass of a cell that may be moved far. Out: *pld, released with eps__pld_clear().
 * EPS_OK, EPS_NO_MEMORY, EPS_CANCELED, EPS_TIMEOUT, or EPS_TOO_COSTLY (too many knots, or a spacing below rounding).
 */
enum eps_status eps__lognormal_build(const struct eps_context *context, struct eps__pld *pld,
                                     const struct eps__lognormal *law, const struct eps__lognormal_aim *aim,
                                     double spacing, double log_least, enum eps__estimate estimate);

#endif
