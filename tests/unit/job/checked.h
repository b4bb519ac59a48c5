/*
 * A job that is valid until a test changes it, and where it is refused then.
 *
 * SPDX-License-Identifier: GPL-3.0-or-later
 */
#ifndef TESTS_UNIT_JOB_CHECKED_H
#define TESTS_UNIT_JOB_CHECKED_H

#include <stdio.h>
#include <string.h>

#include "lib/epsilon.h"
#include "tests/unit/test.h"

/* DP-SGD, asking for epsilon: valid until a test changes it. */
static inline struct eps_job valid_job(enum eps_scheme scheme)
{
    struct eps_job job;

    eps_job_init(&job);
    job.mechanism.n = 100;
    job.mechanism.sampling.scheme = scheme;
    if (scheme != EPS_SCHEME_NONE && scheme != EPS_SCHEME_BALLS_IN_BINS)
        job.mechanism.sampling.p = 0.1;
    job.query.delta = 1e-6;
    job.query.noise_multiplier = 1.0;
    return job;
}

struct seen {
    char pointers[512];
    char last[400];
};

static inline void note(void *user, const char *pointer, const char *message)
{
    struct seen *seen = user;

    strncat(seen->pointers, *pointer ? pointer : "-", sizeof seen->pointers - strlen(seen->pointers) - 2);
    strcat(seen->pointers, " ");
    snprintf(seen->last, sizeof seen->last, "%s", message);
}

/* Checks the job after its defaults: the pointers, each with a space behind, and the last message. */
static inline struct seen check(struct eps_job *job)
{
    struct seen seen = {"", ""};
    size_t spaces = 0;

    eps_job_defaults(job);
    size_t violations = eps_job_check(job, 0, note, &seen);
    for (const char *c = seen.pointers; *c; c++)
        spaces += *c == ' ';
    assert_int_equal(violations, spaces);
    assert_int_equal(eps_job_check(job, 0, NULL, NULL), violations);
    return seen;
}

static inline void assert_refused(struct eps_job *job, const char *pointers)
{
    struct seen seen = check(job);

    assert_string_equal(seen.pointers, pointers);
}

#endif
