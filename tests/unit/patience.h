/*
 * A watch on calls that might never return: after a number of seconds of the process's own time, whatever else the
 * machine does, it reports what was running and aborts.
 *
 * SPDX-License-Identifier: GPL-3.0-or-later
 */
#ifndef TESTS_UNIT_PATIENCE_H
#define TESTS_UNIT_PATIENCE_H

#include <stdbool.h>
#include <stdint.h>

/* Restarts with each call; `what` and the number are reported if the time passes. */
void patience_begin(const char *what, uint64_t number, unsigned seconds);
void patience_end(void);

/* Processor seconds of this thread so far. */
double patience_clock(void);

/* A context's user whose deadline is a number of seconds after its creation, and the longest time between two polls. */
struct patience_polls {
    double deadline, last, gap;
};
struct patience_polls patience_polls(double seconds);
/* For such a user: a context's `expired`. */
bool patience_expired(void *polls);

#endif
