/*
 * The rule of three of one mechanism: what eps_solve() and eps_job_serves() do for a job without phases.
 *
 * SPDX-License-Identifier: GPL-3.0-or-later
 */
#ifndef EPS_SOLVE_H
#define EPS_SOLVE_H

#include "lib/epsilon.h"

EPS_MUST_USE enum eps_status eps__mechanism_serves(const struct eps_context *context, struct eps_error *error,
                                                   const struct eps_job *job, double *operations, double *bytes);

/* What is known of the question beside the job. */
struct eps__occasion {
    bool upper_alone; /* of an epsilon no lower end is sought. The bracket's is then 0, and none is within the tolerance for certain */
    bool of_phases;   /* it is one phase of several, of which no hint recommends an accountant without a profile */
};

/* occasion: NULL is the job alone. */
EPS_MUST_USE enum eps_status eps__mechanism_solve(const struct eps_context *context, struct eps_result **result,
                                                  struct eps_error *error, const struct eps_job *job,
                                                  const struct eps__occasion *occasion);

#endif
