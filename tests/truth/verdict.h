/*
 * One job held against the truth, in both directions and from both sides.
 *
 * SPDX-License-Identifier: GPL-3.0-or-later
 */
#ifndef TESTS_TRUTH_VERDICT_H
#define TESTS_TRUTH_VERDICT_H

#include "lib/epsilon.h"
#include "tests/truth/mixture.h"

enum verdict_outcome {
    VERDICT_HOLDS,
    VERDICT_FAILS,   /* `message` says how */
    VERDICT_REFUSED, /* unsupported, too costly: nothing was claimed */
    VERDICT_UNATTAINABLE,
    VERDICT_LATE,      /* not over in time */
    VERDICT_UNCHECKED, /* answered, and no truth is computed */
    VERDICT_OUTCOMES
};

struct verdict {
    enum verdict_outcome outcome;
    enum eps_accountant accountant;
    bool tight;       /* held against the truth from above as well */
    bool exact;       /* the truth is said to be inside the bracket */
    bool least;       /* it is said to be at least something */
    double seconds;   /* of processor time that the library took */
    double looseness; /* reported delta over the lower end of the truth, the worse direction; NAN unless both count */
    double loose[EPS_DIRECTIONS], claimed[EPS_DIRECTIONS]; /* the same of each direction, and its reported delta */
    char message[600];
};

/* Solves the job, which passes eps_job_check(), in so much processor time. Of the effort, the floor is chosen here. */
struct verdict judge(const struct eps_job *job, const struct effort *effort, double seconds);

#endif
