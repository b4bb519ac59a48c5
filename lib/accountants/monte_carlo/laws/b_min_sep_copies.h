/*
 * The tilt of b-min-sep sampling in the direction of remove: y is drawn of R = P^a Q^(1-a)/Z in the place of P, so
 * that P/Q is large more often; w = dP/dR = Z (P/Q)^(1-a) (A29).
 *
 * SPDX-License-Identifier: GPL-3.0-or-later
 */
#ifndef EPS_ACCOUNTANTS_MONTE_CARLO_LAWS_B_MIN_SEP_COPIES_H
#define EPS_ACCOUNTANTS_MONTE_CARLO_LAWS_B_MIN_SEP_COPIES_H

#include "lib/accountants/monte_carlo/laws/columns.h"
#include "lib/moments/laws/b_min_sep_draws.h"

struct eps__mc_b_min_sep_copies {
    unsigned order; /* a >= 2 */
    double *gram;   /* of the columns */
    struct eps__b_min_sep_draws *draws;
};

/*
 * The order whose values at eps are the least, of those whose tables fit. The columns' reach must count
 * EPS__B_MIN_SEP_DRAWN_MAX copies. EPS_UNSUPPORTED where none fits, or plain draws are as good; EPS_NO_MEMORY,
 * EPS_CANCELED, EPS_TIMEOUT. To be cleared in any case.
 */
enum eps_status eps__mc_b_min_sep_copies_make(const struct eps_context *context,
                                              struct eps__mc_b_min_sep_copies *copies,
                                              const struct eps__mc_columns *columns,
                                              const struct eps__b_min_sep_steps *steps, double eps);
/* About the bytes that making them takes, the matrix not being read. */
double eps__mc_b_min_sep_copies_bytes(const struct eps__b_min_sep *b_min_sep);
void eps__mc_b_min_sep_copies_clear(struct eps__mc_b_min_sep_copies *copies);

/* ln w of a loss; what it is off by, where no loss is further off than loss_error. */
double eps__mc_b_min_sep_copies_log_weight(const struct eps__mc_b_min_sep_copies *copies, double loss);
double eps__mc_b_min_sep_copies_error(const struct eps__mc_b_min_sep_copies *copies, double loss_error);

/* ln of what a value w (1 - e^(eps - loss))_+ is at most, from above. */
double eps__mc_b_min_sep_copies_most(const struct eps__mc_b_min_sep_copies *copies, double eps, double loss_error);

#endif
