/*
 * Jobs over the whole vocabulary and to the edges of every range, from a seed each; about one in twenty is no valid
 * job. Those of odd seeds are extreme: of every accountant, some of phases or for the largest number, their numbers
 * drawn anew out to the ends of what doubles hold (extremes.h).
 *
 * SPDX-License-Identifier: GPL-3.0-or-later
 */
#ifndef TESTS_SOAK_WILD_JOB_H
#define TESTS_SOAK_WILD_JOB_H

#include "lib/epsilon.h"

/* Release with wild_job_free(). The same for the same seed on every machine. */
struct wild_job {
    struct eps_job job;
    double *coefficients, *rows, *weights;
    double decay[24], scale[24];
    bool stored;            /* the matrix is to be computed first, and asked for by its id */
    struct wild_job *parts; /* of a job of phases: each a mechanism */
    struct eps_phase *phases;
};

void wild_job(struct wild_job *wild, uint64_t seed);
void wild_job_free(struct wild_job *wild);

#endif
