/*
 * Random small jobs over all that is served and its neighbourhood, from a seed each.
 *
 * SPDX-License-Identifier: GPL-3.0-or-later
 */
#ifndef TESTS_TRUTH_RANDOM_MECHANISM_H
#define TESTS_TRUTH_RANDOM_MECHANISM_H

#include "lib/epsilon.h"

enum { TRUTH_STEPS_MOST = 9 };

/* A job and its arrays, which point into the struct: do not copy. */
struct random_mechanism {
    struct eps_job job;
    double coefficients[TRUTH_STEPS_MOST], rows[TRUTH_STEPS_MOST * TRUTH_STEPS_MOST], decay[3], scale[3];
};

/* Defaults are filled in, and the job passes eps_job_check(). The same for the same seed on every machine. */
void random_mechanism(struct random_mechanism *drawn, uint64_t seed);

/* The job as a request body; malloc'ed. */
char *mechanism_text(const struct eps_job *job);

#endif
