/*
 * b-min-sep sampling whose separation is below the strategy's bands, in the direction of add: P/Q has no recursion, and a lower bound on it will do, of
 * which a draw is one normal number.
 *
 * SPDX-License-Identifier: GPL-3.0-or-later
 */
#ifndef EPS_ACCOUNTANTS_MONTE_CARLO_LAWS_B_MIN_SEP_MINORANT_H
#define EPS_ACCOUNTANTS_MONTE_CARLO_LAWS_B_MIN_SEP_MINORANT_H

#include "lib/accountants/monte_carlo/laws/columns.h"
#include "lib/accountants/monte_carlo/law.h"

/*
 * P/Q >= never + (1 - never) e^(slope z - level), z = <a, y>/|a| a standard normal under Q, a = E h x (A40). The errors bound, absolutely, what level and slope
 * are off by.
 */
struct eps__b_min_sep_minorant {
    double level, slope, never;
    double level_error, slope_error;
};

/* O(n width) where all columns begin alike, else O(n width^2). EPS_OK, EPS_NO_MEMORY, EPS_CANCELED, EPS_TIMEOUT. */
enum eps_status eps__b_min_sep_minorant(struct eps__b_min_sep_minorant *minorant, const struct eps_context *context,
                                        const struct eps__mc_columns *columns,
                                        const struct eps__b_min_sep_steps *steps);

/* Its law, whose class destroys it: EPS_OK, or as above. */
enum eps_status eps__mc_b_min_sep_minorant(struct eps__mc_law **law, const struct eps_context *context,
                                           const struct eps__mc_columns *columns,
                                           const struct eps__b_min_sep_steps *steps);

#endif
