/*
 * Solves for epsilon, delta or the noise multiplier by one accountant in one direction, using the accountant's profile.
 *
 * SPDX-License-Identifier: GPL-3.0-or-later
 */
#ifndef EPS_SOLVE_SEARCH_H
#define EPS_SOLVE_SEARCH_H

#include "lib/accountants/accountant.h"

#define EPS__DELTA_LEAST 1e-300 /* smaller deltas are reported as this, with a lower bound of 0 */

/*
 * Solves for the unknown of the setting's job, which is not `curve`, by one accountant in one direction. best: what
 * others proved in this direction; if the accountant foretells that its value is far above, it proves nothing and sets
 * answer->left_out. INFINITY: prove in any case.
 * Returns EPS_OK and *answer, EPS_UNATTAINABLE, EPS_TOO_COSTLY, EPS_CANCELED, EPS_TIMEOUT, EPS_NO_MEMORY, EPS_INTERNAL.
 */
EPS_MUST_USE enum eps_status eps__search(struct eps__answer *answer, struct eps_error *error,
                                         const struct eps__setting *setting, const struct eps__accountant *accountant,
                                         enum eps_direction direction, double best);

#endif
