/*
 * How loose an answer is: draws that bound the truth from below. Never part of a guarantee.
 *
 * SPDX-License-Identifier: GPL-3.0-or-later
 */
#ifndef EPS_ACCOUNTANTS_MONTE_CARLO_AUDIT_H
#define EPS_ACCOUNTANTS_MONTE_CARLO_AUDIT_H

#include "lib/accountants/accountant.h"

/* Whether the setting's answers can be audited: the ratio of its laws is drawn, and not a bound on it. If not, false and why. *operations: what the
 * job's audit costs, about. */
bool eps__mc_audits(const struct eps__setting *setting, double *operations, struct eps_error *error);

/*
 * For one direction: what delta at (epsilon, sigma), or epsilon at (delta, sigma), is at least, but for one in a thousand (A44), and the ratio of
 * the answer to it. result holds all three. EPS_OK, EPS_CANCELED, EPS_TIMEOUT, EPS_NO_MEMORY, EPS_INTERNAL.
 */
enum eps_status eps__mc_audit(struct eps_audit *audit, const struct eps__setting *setting, enum eps_direction direction,
                              const struct eps_result *result);

#endif
