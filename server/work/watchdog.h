/*
 * The watchdog: finds tasks that should have ended and do not even ask any more whether to go on, and sees to it that the
 * service goes on without them. Thread-safe.
 *
 * SPDX-License-Identifier: GPL-3.0-or-later
 */
#ifndef SERVER_WORK_WATCHDOG_H
#define SERVER_WORK_WATCHDOG_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>

#include "server/work/pool.h"

struct watchdog;

/* What the task of this thread is watched by. Embed it; set the first five and leave the rest zero. */
struct watch {
    const char *job;  /* what the log calls it; or NULL */
    const char *hash; /* what is to blame if the process ends because of it (server/ops/crash.h); or NULL: nothing */
    /* Both on the watchdog's thread. Whether the task should have ended by `now` (monotonic seconds): it must neither block nor
     * call the watchdog. */
    bool (*due)(void *user, double now);
    void (*stuck)(void *user); /* it has been given up: whoever waits for it is to be answered. Or NULL */
    void *user;
    /* The watchdog's. */
    struct watchdog *watchdog; /* NULL: not watched */
    struct worker *worker;     /* NULL: it is no task of a pool */
    atomic_bool polled;        /* since the watchdog looked last */
    double begun;              /* monotonic seconds */
    double silent;             /* seconds since it polled last, of those in which it should have ended */
    bool given_up;
    bool handled; /* just now: it must not go */
    struct watch *prev;
    struct watch *next;
};

/*
 * A task that is due and has not polled for so many seconds is given up: it is logged and counted, its place in the pool is another
 * thread's, and stuck() is called. If it ends after all, it is forgiven. end() is called, once and as the last thing, when a pool
 * has no further thread to give; hash: of the task that was one too many, or "". NULL: no memory or no thread.
 */
struct watchdog *watchdog_create(double seconds, void (*end)(void *user, const char *hash), void *user);
/* It looks no more. NULL is allowed, as below. */
void watchdog_stop(struct watchdog *watchdog);
/* The same, and frees it: every watch has ended. */
void watchdog_destroy(struct watchdog *watchdog);
/* How many tasks are given up and have not ended yet. */
size_t watchdog_stuck(const struct watchdog *watchdog);

/* From the task's own thread, as watch_close(). Without a watchdog (NULL), or where it is watched already, nothing. */
void watch_open(struct watchdog *watchdog, struct watch *watch);
/* Nothing where it is not watched. Waits for a stuck() under way. */
void watch_close(struct watch *watch);
/* The task asks whether to go on; on any thread, and often. */
static inline void watch_poll(struct watch *watch)
{
    if (!atomic_load_explicit(&watch->polled, memory_order_relaxed)) { /* else threads would fight for the line */
        atomic_store_explicit(&watch->polled, true, memory_order_relaxed);
    }
}

#endif
