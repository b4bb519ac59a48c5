/*
 * A job's numbers out to the ends of what doubles and integers hold. They are found by the codec's tables, so that a
 * new member is drawn, or missed by name, as soon as it is one of the wire's.
 *
 * SPDX-License-Identifier: GPL-3.0-or-later
 */
#ifndef TESTS_SOAK_EXTREMES_H
#define TESTS_SOAK_EXTREMES_H

#include "lib/epsilon.h"

/* Draws numbers, names and flags of a whole job anew, some or all, in their ranges, at the ends of these or
 * anywhere. Lists are the caller's: they are written to. */
void extremes_draw(struct eps_job *job, uint64_t *state);

/* Of a job that was refused, or not, with these violations: what is wrong with that, by the ranges of its real
 * numbers; or NULL. */
struct violations {
    size_t len; /* of all, as eps_job_check() returned it */
    char pointer[64][96], message[64][320];
};
const char *extremes_judge(const struct eps_job *job, const struct violations *violations);

/* Tells every number of the wire's vocabulary that extremes_draw() never drew in its range, or never out of it;
 * returns how many. */
size_t extremes_missed(void (*tell)(const char *name));

#endif
