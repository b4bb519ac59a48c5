/*
 * A watch on what may never end: after so many seconds of the process's own time, whatever else the machine does, it
 * says what was running and aborts.
 *
 * SPDX-License-Identifier: GPL-3.0-or-later
 */
#ifndef TESTS_UNIT_PATIENCE_H
#define TESTS_UNIT_PATIENCE_H

#include <stdbool.h>
#include <stdint.h>

/* Begins anew with each call; `what` and the number are named if the time passes. */
void patience_begin(const char *what, uint64_t number, unsigned seconds);
void patience_end(void);

/* Processor seconds of this thread so far. */
double patience_clock(void);

/* A context's user whose deadline is so many seconds after it was made, and how long it was not asked at most. */
struct patience_polls {
    double deadline, last, gap;
};
struct patience_polls patience_polls(double seconds);
/* Of such a user: a context's `expired`. */
bool patience_expired(void *polls);

#endif
