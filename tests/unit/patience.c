/*
 * A timer of virtual time, and a handler that only writes and aborts.
 *
 * SPDX-License-Identifier: GPL-3.0-or-later
 */
#include "tests/unit/patience.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

static char message[160];

static void pass(int signal_number)
{
    ssize_t written = write(STDERR_FILENO, message, strlen(message));
    (void)written;
    (void)signal_number;
    abort();
}

void patience_begin(const char *what, uint64_t number, unsigned seconds)
{
    const struct itimerval timer = {.it_value.tv_sec = (time_t)seconds};
    snprintf(message, sizeof message, "# %s %llu hangs\n", what, (unsigned long long)number);
    signal(SIGVTALRM, pass);
    setitimer(ITIMER_VIRTUAL, &timer, NULL);
}

void patience_end(void)
{
    const struct itimerval off = {0};
    setitimer(ITIMER_VIRTUAL, &off, NULL);
}

double patience_clock(void)
{
    struct timespec now;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
    return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}

struct patience_polls patience_polls(double seconds)
{
    double now = patience_clock();
    return (struct patience_polls){.deadline = now + seconds, .last = now};
}

bool patience_expired(void *polls)
{
    struct patience_polls *own = polls;
    double now = patience_clock();
    own->gap = now - own->last > own->gap ? now - own->last : own->gap;
    own->last = now;
    return now > own->deadline;
}
