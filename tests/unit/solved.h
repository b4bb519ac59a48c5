/*
 * What a job is answered, for tests that ask one accountant for a number or a refusal.
 *
 * SPDX-License-Identifier: GPL-3.0-or-later
 */
#ifndef TESTS_UNIT_SOLVED_H
#define TESTS_UNIT_SOLVED_H

#include "lib/epsilon.h"

/* delta in both directions, by the job's own accountant, which must answer. */
void solved_deltas(double found[EPS_DIRECTIONS], struct eps_job *job, double sigma, double eps);

/* No accountant that the job names serves it, and the member at `pointer` is told to be why. */
void assert_declined(struct eps_job *job, const char *pointer);

#endif
