/*
 * What is asked of a job once it is answered: its curve, what was spent on the way, its matrices, its error step by
 * step, noise, batches and the statement, by the calls that the service makes for GET and POST.
 *
 * SPDX-License-Identifier: GPL-3.0-or-later
 */
#ifndef TESTS_SOAK_FOLLOW_H
#define TESTS_SOAK_FOLLOW_H

#include "lib/epsilon.h"

/* What is lent to each of these calls. */
struct following {
    const struct eps_context *context;
    void (*begin)(void *user, const char *call); /* before each, which is named: its deadline begins */
    const char *(*end)(void *user);              /* after each: what is wrong with how the hooks were called, or NULL */
    bool (*ended)(void *user);                   /* whether a hook has ended this one */
    void *user;
};

/* What is wrong with an answer of those to a job that was answered with this result, or NULL. */
const char *follow(struct following *following, const struct eps_job *job, const struct eps_result *result);

#endif
