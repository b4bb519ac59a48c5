/*
 * Jobs and their answers, for tests of eps_solve().
 *
 * SPDX-License-Identifier: GPL-3.0-or-later
 */
#ifndef TESTS_UNIT_SOLVED_H
#define TESTS_UNIT_SOLVED_H

#include "lib/epsilon.h"

/* The job of a text, which the codec must accept: a format of printf(), whose result is JSON with ' in the place of ".
 * Defaults are filled in. The arrays and phases of the job exist until the program ends. */
struct eps_job job_of(const char *format, ...) __attribute__((format(printf, 1, 2)));

/* Fills in defaults and calls eps_solve(), which must succeed. context may be NULL. The caller destroys the result. */
struct eps_result *solved(const struct eps_context *context, struct eps_job job);

/* The bracket of the unknown, the values for both directions, and their bad events' share of delta. */
struct answer {
    double value, lower, of[EPS_DIRECTIONS], share[EPS_DIRECTIONS];
};

/* The same as solved(), in numbers. */
struct answer answered(struct eps_job job);

/* Fills in defaults and calls eps_solve(), which must return the status and name the member at `pointer`. */
struct eps_error assert_refused(struct eps_job job, enum eps_status status, const char *pointer);

/* delta at eps and this noise multiplier, for both directions. */
void solved_deltas(double found[EPS_DIRECTIONS], struct eps_job job, double sigma, double eps);

/* The job is EPS_UNSUPPORTED at epsilon 1 and noise multiplier 1, because of the member at `pointer`. */
void assert_declined(struct eps_job job, const char *pointer);

#endif
