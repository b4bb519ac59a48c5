/*
 * Random jobs over the whole vocabulary, all of them valid: for properties that must hold of every job.
 *
 * SPDX-License-Identifier: GPL-3.0-or-later
 */
#ifndef TESTS_UNIT_RANDOM_JOB_H
#define TESTS_UNIT_RANDOM_JOB_H

#include <jansson.h>
#include <stdint.h>

/* A request body, a new reference. *state is the generator's: any number to begin with. */
json_t *random_job(uint64_t *state);
/* One of phases, sometimes with the largest count of one asked for. */
json_t *random_phases(uint64_t *state);

/* A number in [0, bound), and a double in (0, 1). */
uint64_t random_below(uint64_t *state, uint64_t bound);
double random_real(uint64_t *state);

#endif
