/*
 * The watchdog finds tasks that should have stopped and no longer poll, and lets the service continue without them.
 * Thread-safe.
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

/* The watch of the task of this thread. Embed it; set the first six members and leave the rest zero. */
struct watch {
    const char *job;     /* its name in the log; or NULL */
    const char *request; /* the id of the request that submitted the job; "" or NULL: unknown */
    const char *hash; /* the computation to which a resulting end of the process is attributed (server/ops/crash.h); or
                       * NULL: none */
    /* Both run on the thread of the watchdog. Whether the task should have ended by `now` (monotonic seconds); must
     * neither block nor call the watchdog. */
    bool (*due)(void *user, double now);
    void (*stuck)(void *user); /* it has been abandoned: answers those who wait for it. Or NULL */
    void *user;
    /* Private. */
    struct watchdog *watchdog; /* NULL: not watched */
    struct worker *worker;     /* NULL: it is not a task of a pool */
    atomic_bool polled;        /* since the last check */
    double begun;              /* monotonic seconds */
    double silent;             /* seconds without a poll, counted while it should have ended */
    bool given_up;
    bool handled; /* its stuck() is running, so it must not be removed */
    struct watch *prev;
    struct watch *next;
};

/*
 * A task that is due and has not polled for `seconds` is abandoned: it is logged and counted, its place in the pool
 * goes to another thread, and stuck() is called. If it ends later, this is undone. end() is called once, as the last
 * action, when a pool cannot provide another thread; hash: of the task for which it could not, or "". Returns NULL if
 * memory or threads run out.
 */
struct watchdog *watchdog_create(double seconds, void (*end)(void *user, const char *hash), void *user);
/* Stops checking. NULL is allowed, as below. */
void watchdog_stop(struct watchdog *watchdog);
/* Stops checking and frees it; every watch must have ended. */
void watchdog_destroy(struct watchdog *watchdog);
/* The number of abandoned tasks that have not ended yet. */
size_t watchdog_stuck(const struct watchdog *watchdog);

/* On the thread of the task, like watch_close(). Does nothing without a watchdog (NULL), or if it is watched
 * already. */
void watch_open(struct watchdog *watchdog, struct watch *watch);
/* Does nothing if it is not watched. Waits for a running stuck(). */
void watch_close(struct watch *watch);
/* Records that the task polls; on any thread, and often. */
static inline void watch_poll(struct watch *watch)
{
    if (!atomic_load_explicit(&watch->polled, memory_order_relaxed)) /* avoids contention for the cache line */
        atomic_store_explicit(&watch->polled, true, memory_order_relaxed);
}

#endif
