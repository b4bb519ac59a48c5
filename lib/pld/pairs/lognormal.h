/*
 * One lognormal V = e^{s Z - s^2/2}, the factor by which one of b equally likely Gaussians changes the odds, and its law on a
 * grid: what a mean of independent ones is composed of (pld/known/balls_in_bins.h).
 *
 * SPDX-License-Identifier: GPL-3.0-or-later
 */
#ifndef EPS_PLD_PAIRS_LOGNORMAL_H
#define EPS_PLD_PAIRS_LOGNORMAL_H

#include "lib/pld/pld.h"

/*
 * The loss of V is V - 1, or -V with `falls`, and what is larger matters. V is cut: only V <= e^{s z_cut - s^2/2} counts,
 * so the masses are those of a part of the law.
 */
struct eps__lognormal {
    double s; /* > 0 */
    bool falls;
    double z_cut;
    double z_least; /* with falls, upper: what is below may be left out; -INFINITY */
};

/* Where a sum of `count` losses has to be tilted to lie about `target`. Nothing here proves anything. */
struct eps__lognormal_aim {
    double tilt;       /* >= 0 */
    double log_moment; /* ln E[e^{t loss}; V counts] of one */
    double deviation;  /* of the tilted sum */
    double payoff;     /* E[(sum - target)_+] is e^{count log_moment - t target} times this, about */
    double low, high;  /* beyond these values of V nothing is left that counts */
};

/* False where it is out of reach: more than 37 standard deviations from what is likely. */
bool eps__lognormal_aim(const struct eps__lognormal *law, double count, double target, struct eps__lognormal_aim *aim);

/*
 * The law on a grid of this spacing, tilted as aimed (P14, P15): in the upper estimate larger in the convex order of the
 * losses, increasing, than the law of V, in the lower one smaller, rounding counted. len 0 where nothing is left.
 * log_least: ln of the tilted mass per cell that may be displaced far. Out: *pld, released with eps__pld_clear().
 * EPS_NO_MEMORY, EPS_CANCELED, EPS_TIMEOUT; EPS_TOO_COSTLY: too many knots.
 */
enum eps_status eps__lognormal_build(const struct eps_context *context, struct eps__pld *pld,
                                     const struct eps__lognormal *law, const struct eps__lognormal_aim *aim,
                                     double spacing, double log_least, enum eps__estimate estimate);

#endif
