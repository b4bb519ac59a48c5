/*
 * Finding the third value on a profile, for one accountant and one direction.
 *
 * SPDX-License-Identifier: GPL-3.0-or-later
 */
#ifndef EPS_SOLVE_SEARCH_H
#define EPS_SOLVE_SEARCH_H

#include "lib/accountants/accountant.h"

#define EPS__DELTA_LEAST 1e-300 /* a smaller delta is reported as this, with a lower end of 0 */

/*
 * Solves for the unknown of the setting's job by one accountant in one direction. `curve` is not solved here.
 * EPS_OK, EPS_UNATTAINABLE, EPS_TOO_COSTLY, EPS_CANCELED, EPS_TIMEOUT, EPS_NO_MEMORY, EPS_INTERNAL.
 */
EPS_MUST_USE enum eps_status eps__search(struct eps__answer *answer, struct eps_error *error,
                                         const struct eps__setting *setting, const struct eps__accountant *accountant,
                                         enum eps_direction direction);

#endif
