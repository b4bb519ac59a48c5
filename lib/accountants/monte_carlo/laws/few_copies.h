/*
 * The tilt by copies, for remove, under Poisson sampling with more bands than histories fit: copies are drawn in
 * groups, by laws that dominate the exact one (A54, M32).
 *
 * SPDX-License-Identifier: GPL-3.0-or-later
 */
#ifndef EPS_ACCOUNTANTS_MONTE_CARLO_LAWS_FEW_COPIES_H
#define EPS_ACCOUNTANTS_MONTE_CARLO_LAWS_FEW_COPIES_H

#include "lib/accountants/monte_carlo/laws/copies.h"
#include "lib/moments/laws/few_draws.h"

struct eps__mc_few_copies {
    struct eps__mc_copies of;
    struct eps__few_draws *draws; /* NULL: no tilt */
};

/*
 * Chooses the groups with the least bound on values at eps, among those that take about as many operations as given (0:
 * no limit), and makes their tables. The entries of the Gram matrix, which the caller keeps as long, have a relative
 * error of at most gram_units units of roundoff. The caller clears, whatever the status. EPS_UNSUPPORTED: no tables
 * fit, or plain draws are as good; EPS_NO_MEMORY, EPS_CANCELED, EPS_TIMEOUT.
 */
enum eps_status eps__mc_few_copies_make(const struct eps_context *context, struct eps__mc_few_copies *copies,
                                        const struct eps__banded_gram *banded, double gram_units, double eps,
                                        double operations);
void eps__mc_few_copies_clear(struct eps__mc_few_copies *copies);

/* The estimated bytes that eps__mc_few_copies_make() needs, beside the matrix. Does not read the Gram matrix. */
double eps__mc_few_copies_bytes(const struct eps__banded_gram *banded);

#endif
