/*
 * The rule of three of one mechanism: what eps_solve() and eps_job_serves() do for a job without phases.
 *
 * SPDX-License-Identifier: GPL-3.0-or-later
 */
#ifndef EPS_SOLVE_SOLVE_H
#define EPS_SOLVE_SOLVE_H

#include "lib/epsilon.h"

struct eps__setting;

EPS_MUST_USE enum eps_status eps__mechanism_serves(const struct eps_context *context, struct eps_error *error,
                                                   const struct eps_job *job, double *operations, double *bytes);

/* What the job does not say of the question. */
struct eps__occasion {
    bool upper_alone; /* an epsilon's lower end is not sought: it is 0, and the bracket may be wide */
    bool of_phases;   /* it is one phase of several: no hint recommends an accountant without a profile */
};

/* occasion: NULL for a job by itself. */
EPS_MUST_USE enum eps_status eps__mechanism_solve(const struct eps_context *context, struct eps_result **result,
                                                  struct eps_error *error, const struct eps_job *job,
                                                  const struct eps__occasion *occasion);

/*
 * What is known of a mechanism without solving for anything: its figures at the noise multiplier, and what these
 * accountants, one for each direction, assume. The caller destroys *result. EPS_NO_MEMORY, EPS_CANCELED, EPS_TIMEOUT.
 */
EPS_MUST_USE enum eps_status eps__mechanism_describe(struct eps_result **result, struct eps_error *error,
                                                     const struct eps__setting *setting, double noise_multiplier,
                                                     const enum eps_accountant accountants[EPS_DIRECTIONS]);

#endif
