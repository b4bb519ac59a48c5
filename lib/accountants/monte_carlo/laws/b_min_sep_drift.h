/*
 * The tilt of b-min-sep sampling in the direction of add: y is drawn of N(v, I) in the place of Q = N(0, I), with v = -t E h x, so that
 * P/Q is small more often; w = dQ/dR = e^(|v|^2/2 - <v, y>) (A28).
 *
 * SPDX-License-Identifier: GPL-3.0-or-later
 */
#ifndef EPS_ACCOUNTANTS_MONTE_CARLO_LAWS_B_MIN_SEP_DRIFT_H
#define EPS_ACCOUNTANTS_MONTE_CARLO_LAWS_B_MIN_SEP_DRIFT_H

#include "lib/accountants/monte_carlo/laws/columns.h"

struct eps__mc_b_min_sep_drift {
    double tilt;             /* t > 0 */
    double level;            /* ln P/Q >= <a, y> - level, v = -t a */
    double half;             /* |v|^2/2 */
    double slack;            /* what rounding adds to ln of a value */
    double log_weight_error; /* of |v|^2/2 - <v, y> as computed */
};

/*
 * The drift that makes values at eps the least: columns->drift is v, and columns->reach counts it. EPS_UNSUPPORTED where plain draws are as
 * good; the columns are wider than the separation; EPS_NO_MEMORY.
 */
enum eps_status eps__mc_b_min_sep_drift_make(struct eps__mc_b_min_sep_drift *drift, struct eps__mc_columns *columns,
                                             const struct eps__b_min_sep_steps *steps, double eps);

/* ln of what a value w (1 - e^(eps - loss))_+ is at most, from above, where no loss is further off than loss_error. */
double eps__mc_b_min_sep_drift_most(const struct eps__mc_b_min_sep_drift *drift, double eps, double loss_error);

/* dot += <v, y> of a tile, whose rows begin at `from`. */
void eps__mc_b_min_sep_drift_add(double *dot, const struct eps__mc_columns *columns, const double *y, size_t from,
                                 size_t end);

#endif
