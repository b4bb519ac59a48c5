/*
 * Solves for epsilon, delta or the noise multiplier with several accountants.
 *
 * SPDX-License-Identifier: GPL-3.0-or-later
 */
#ifndef EPS_SOLVE_SCALAR_H
#define EPS_SOLVE_SCALAR_H

#include "lib/job/setting.h"

/* Sets the answer, its candidates and hints of those that failed. An accountant that samples is the last one.
 * complete: every serving accountant is among them; otherwise the lower end of the bracket is 0. */
EPS_MUST_USE enum eps_status eps__scalar(struct eps_result *result, struct eps_error *error,
                                         const struct eps__setting *setting,
                                         const struct eps__accountant *const *accountants, size_t len, bool complete);

#endif
