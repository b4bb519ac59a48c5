/*
 * The tilt by copies, for remove, where the participations of the example depend on its history: Poisson sampling
 * (A29, M30).
 *
 * SPDX-License-Identifier: GPL-3.0-or-later
 */
#ifndef EPS_ACCOUNTANTS_MONTE_CARLO_LAWS_HISTORIES_COPIES_H
#define EPS_ACCOUNTANTS_MONTE_CARLO_LAWS_HISTORIES_COPIES_H

#include "lib/accountants/monte_carlo/laws/copies.h"
#include "lib/moments/laws/histories_draws.h"

struct eps__mc_histories_copies {
    struct eps__mc_copies of;
    struct eps__histories_draws *draws; /* NULL: no tilt */
};

/*
 * Chooses the order with the least bound on values at eps, among those whose tables fit and take about as many
 * operations as given (0: no limit), and makes its tables. The entries of the law's Gram matrix, which the caller keeps
 * as long, have a relative error of at most gram_units units of roundoff. The caller clears, whatever the status.
 * EPS_UNSUPPORTED: no tables fit, or plain draws are as good; EPS_NO_MEMORY, EPS_CANCELED, EPS_TIMEOUT.
 */
enum eps_status eps__mc_histories_copies_make(const struct eps_context *context,
                                              struct eps__mc_histories_copies *copies, const struct eps__histories *law,
                                              double gram_units, double eps, double operations);
void eps__mc_histories_copies_clear(struct eps__mc_histories_copies *copies);

/* The estimated bytes that eps__mc_histories_copies_make() needs, beside the matrix. Does not read the Gram matrix. */
double eps__mc_histories_copies_bytes(const struct eps__histories *law);

#endif
