/*
 * The members of a job, drawn by the tables of members (lib/base/members.h): a new member is drawn, or missed by name,
 * as soon as it is one of the wire's.
 *
 * SPDX-License-Identifier: GPL-3.0-or-later
 */
#ifndef TESTS_GENERATE_MEMBERS_H
#define TESTS_GENERATE_MEMBERS_H

#include <stdbool.h>

#include "lib/base/members.h"

/* How often a member is drawn anew. */
struct drawing {
    double within, at_end, anywhere; /* a number: in its range, at an end of it, any double or integer */
    double coupled; /* of these, the integers that have to fit others, and what is not there and seldom is */
    double absent;  /* what is not there and may well be */
    double names, flags;
    bool ordinary; /* ranges are those of ordinary jobs, not all that is computed */
};

/* Draws numbers, names and flags of a struct; lists are the caller's: they are written to. What is required and not
 * there is always drawn, but for lists and integers. */
void members_draw(const struct eps__object *object, void *base, const struct drawing *drawing, uint64_t *state);

/* Of a job that was refused, or not, with these violations: what is wrong with that, by the ranges of its real
 * numbers; or NULL. */
struct violations {
    size_t len; /* of all, as eps_job_check() returned it */
    char pointer[64][96], message[64][320];
};
const char *members_judge(const struct eps_job *job, const struct violations *violations);

/* Tells every number of the wire's vocabulary that members_draw() never drew in its range, or never out of it;
 * returns how many. */
size_t members_missed(void (*tell)(const char *name));

#endif
