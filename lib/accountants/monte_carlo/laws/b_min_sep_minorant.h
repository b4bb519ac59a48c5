/*
 * b-min-sep sampling with a separation below the strategy's bands, for add. There is no recursion for P/Q; a lower
 * bound takes its place, and a draw of it needs one normal number.
 *
 * SPDX-License-Identifier: GPL-3.0-or-later
 */
#ifndef EPS_ACCOUNTANTS_MONTE_CARLO_LAWS_B_MIN_SEP_MINORANT_H
#define EPS_ACCOUNTANTS_MONTE_CARLO_LAWS_B_MIN_SEP_MINORANT_H

#include "lib/accountants/monte_carlo/laws/columns.h"
#include "lib/accountants/monte_carlo/law.h"

/*
 * P/Q >= never + (1 - never) e^(slope z - level), where a = E h x and z = <a, y>/|a| is standard normal under Q (A40).
 * level_error and slope_error are absolute error bounds of level and slope. 1 - never is exact.
 */
struct eps__b_min_sep_minorant {
    double level, slope, never;
    double level_error, slope_error;
};

/* Takes O(n width) operations if all columns begin alike, else O(n width^2). EPS_OK, EPS_NO_MEMORY, EPS_CANCELED,
 * EPS_TIMEOUT. */
enum eps_status eps__b_min_sep_minorant(struct eps__b_min_sep_minorant *minorant, const struct eps_context *context,
                                        const struct eps__mc_columns *columns,
                                        const struct eps__b_min_sep_steps *steps);

/* Opens the law of this lower bound; the caller destroys it through its class. Errors as above. */
enum eps_status eps__mc_b_min_sep_minorant(struct eps__mc_law **law, const struct eps_context *context,
                                           const struct eps__mc_columns *columns,
                                           const struct eps__b_min_sep_steps *steps);

#endif
