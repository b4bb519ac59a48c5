/*
 * The tilt of b-min-sep sampling for remove: y is drawn from R = P^a Q^(1-a)/Z instead of P, so that P/Q is large more
 * often. The weight is w = dP/dR = Z (P/Q)^(1-a) (A29). A draw of R adds up a copies of the example.
 *
 * SPDX-License-Identifier: GPL-3.0-or-later
 */
#ifndef EPS_ACCOUNTANTS_MONTE_CARLO_LAWS_B_MIN_SEP_COPIES_H
#define EPS_ACCOUNTANTS_MONTE_CARLO_LAWS_B_MIN_SEP_COPIES_H

#include "lib/accountants/monte_carlo/laws/columns.h"
#include "lib/accountants/monte_carlo/laws/copies.h"
#include "lib/moments/laws/b_min_sep_draws.h"

struct eps__mc_b_min_sep_copies {
    struct eps__mc_copies of;
    double *gram; /* inner products of the columns, see eps__b_min_sep.banded */
    struct eps__b_min_sep_draws *draws;
};

/*
 * Chooses the order with the least bound on values at eps, among those whose tables fit and take about as many
 * operations as given (0: no limit), and makes its tables. The columns must be made for EPS__B_MIN_SEP_DRAWN_MAX
 * examples. The caller clears, whatever the status. EPS_UNSUPPORTED: no tables fit, or plain draws are as good;
 * EPS_NO_MEMORY, EPS_CANCELED, EPS_TIMEOUT.
 */
enum eps_status eps__mc_b_min_sep_copies_make(const struct eps_context *context,
                                              struct eps__mc_b_min_sep_copies *copies,
                                              const struct eps__mc_columns *columns,
                                              const struct eps__b_min_sep_steps *steps, double eps, double operations);

/* The estimated bytes that eps__mc_b_min_sep_copies_make() needs. Does not read the Gram matrix. */
double eps__mc_b_min_sep_copies_bytes(const struct eps__b_min_sep *b_min_sep);
void eps__mc_b_min_sep_copies_clear(struct eps__mc_b_min_sep_copies *copies);

#endif
