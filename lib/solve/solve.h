/*
 * Solves jobs of one mechanism: eps_solve() and eps_job_serves() for jobs without phases.
 *
 * SPDX-License-Identifier: GPL-3.0-or-later
 */
#ifndef EPS_SOLVE_SOLVE_H
#define EPS_SOLVE_SOLVE_H

#include "lib/epsilon.h"

struct eps__setting;

/* As eps_job_serves(). */
EPS_MUST_USE enum eps_status eps__mechanism_serves(const struct eps_context *context, struct eps_error *error,
                                                   const struct eps_job *job, double *operations, double *bytes);

/* Options of a solve that are not part of the job. */
struct eps__occasion {
    bool upper_alone;  /* solving for epsilon, do not compute the lower bound: it is 0, and the bracket may be wide */
    bool of_phases;    /* the mechanism is one of several phases: no hint recommends an accountant without a profile */
    bool proven_alone; /* without an unproven estimate */
};

/* As eps_solve(). occasion: NULL for a job of its own. */
EPS_MUST_USE enum eps_status eps__mechanism_solve(const struct eps_context *context, struct eps_result **result,
                                                  struct eps_error *error, const struct eps_job *job,
                                                  const struct eps__occasion *occasion);

/*
 * Describes a mechanism without solving for anything: its figures at the noise multiplier, and the assumptions of these
 * accountants, one per direction. Returns EPS_OK and *result, which the caller releases with eps_result_destroy();
 * EPS_NO_MEMORY, EPS_CANCELED, EPS_TIMEOUT.
 */
EPS_MUST_USE enum eps_status eps__mechanism_describe(struct eps_result **result, struct eps_error *error,
                                                     const struct eps__setting *setting, double noise_multiplier,
                                                     const enum eps_accountant accountants[EPS_DIRECTIONS]);

#endif
