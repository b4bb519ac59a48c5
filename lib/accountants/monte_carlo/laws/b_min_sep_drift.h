/*
 * The tilt of b-min-sep sampling for add: y is drawn from R = N(v, I) instead of Q = N(0, I), with v = -t E h x, so
 * that P/Q is small more often. The weight is w = dQ/dR = e^(|v|^2/2 - <v, y>) (A28).
 *
 * SPDX-License-Identifier: GPL-3.0-or-later
 */
#ifndef EPS_ACCOUNTANTS_MONTE_CARLO_LAWS_B_MIN_SEP_DRIFT_H
#define EPS_ACCOUNTANTS_MONTE_CARLO_LAWS_B_MIN_SEP_DRIFT_H

#include "lib/accountants/monte_carlo/laws/columns.h"
#include "lib/accountants/monte_carlo/laws/drift.h"

struct eps__mc_b_min_sep_drift {
    struct eps__mc_drift of; /* v = -t a */
    double half;             /* |v|^2/2 */
    double log_weight_error; /* absolute error bound of the computed |v|^2/2 - <v, y> */
};

/*
 * Chooses the drift with the least bound on values at eps. Sets columns->drift to v and raises columns->reach by it.
 * The columns may not be wider than the separation. EPS_UNSUPPORTED: plain draws are as good; EPS_NO_MEMORY.
 */
enum eps_status eps__mc_b_min_sep_drift_make(struct eps__mc_b_min_sep_drift *drift, struct eps__mc_columns *columns,
                                             const struct eps__b_min_sep_steps *steps, double eps);

/* ln of an upper bound on every value w (1 - e^(eps - loss))_+, rounded up, if losses are within loss_error. */
double eps__mc_b_min_sep_drift_most(const struct eps__mc_b_min_sep_drift *drift, double eps, double loss_error);

/* dot += <v, y> over the rows from .. end - 1 of a tile; y begins with row `from`. */
void eps__mc_b_min_sep_drift_add(double *dot, const struct eps__mc_columns *columns, const double *y, size_t from,
                                 size_t end);

#endif
