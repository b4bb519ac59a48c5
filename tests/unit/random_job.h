/*
 * Random jobs over the whole vocabulary, all of them valid, for properties that must hold for every job.
 *
 * SPDX-License-Identifier: GPL-3.0-or-later
 */
#ifndef TESTS_UNIT_RANDOM_JOB_H
#define TESTS_UNIT_RANDOM_JOB_H

#include <jansson.h>
#include <stdint.h>

/* A request body, a new reference. *state is the generator's: any number initially. */
json_t *random_job(uint64_t *state);
/* A job of phases, some of which ask for the largest count of one phase. */
json_t *random_phases(uint64_t *state);

/* A number in [0, bound), and a double in (0, 1). */
uint64_t random_below(uint64_t *state, uint64_t bound);
double random_real(uint64_t *state);

#endif
