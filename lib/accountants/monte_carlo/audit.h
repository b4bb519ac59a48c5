/*
 * Audits: draws that bound the true delta or epsilon from below, to show how loose an answer is. An audit is never part
 * of a guarantee.
 *
 * SPDX-License-Identifier: GPL-3.0-or-later
 */
#ifndef EPS_ACCOUNTANTS_MONTE_CARLO_AUDIT_H
#define EPS_ACCOUNTANTS_MONTE_CARLO_AUDIT_H

#include "lib/accountants/accountant.h"

/* Whether answers for the setting can be audited. That needs draws of the likelihood ratio itself, not of a bound on
 * it. If not, returns false and sets the error. *operations: the estimated operations of the job's audit, or 0. */
bool eps__mc_audits(const struct eps__setting *setting, double *operations, struct eps_error *error);

/*
 * Audits the result in one direction: a lower bound on delta at (epsilon, sigma) or on epsilon at (delta, sigma), which
 * holds with probability 99.9% (A44), and the ratio of the answer to it. result holds epsilon, delta and sigma. EPS_OK,
 * EPS_CANCELED, EPS_TIMEOUT, EPS_NO_MEMORY, EPS_INTERNAL.
 */
enum eps_status eps__mc_audit(struct eps_audit *audit, const struct eps__setting *setting, enum eps_direction direction,
                              const struct eps_result *result);

#endif
