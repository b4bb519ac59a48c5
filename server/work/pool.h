/*
 * The worker threads: tasks, the quick ones first, and loans of idle workers to a computation that has parallel parts.
 * Thread-safe.
 *
 * SPDX-License-Identifier: GPL-3.0-or-later
 */
#ifndef SERVER_WORK_POOL_H
#define SERVER_WORK_POOL_H

#include <stdbool.h>
#include <stddef.h>

#include "server/ops/heap.h"
#include "server/ops/metrics.h"

struct pool;
struct worker; /* a thread of one */

/* Embed it, zero but for what it says. run() owns the task: it may free what embeds it. */
struct pool_task {
    void (*run)(struct pool_task *task);
    /* How long it will take, as estimated. Of two tasks the one goes first for which the time of its coming and this
     * add up to less: a short one overtakes, and no task is overtaken by what comes later than it itself takes. */
    double seconds;
    double arrived;       /* monotonic seconds; 0: when it is submitted */
    bool background;      /* counts as coming a minute later, and half of the workers at most have one */
    bool child;           /* of a group: where others wait too, workers take one of these and one of those in turn */
    double alone_seconds; /* nothing else starts beside it for so long; before all others */
    /* The pool's. */
    struct heap_node node;
    struct heap *queue; /* NULL: it does not wait */
};

/*
 * `workers` tasks run at once. short_seconds > 0: one more, where all of these are longer than that, or have been
 * running for longer, and it is estimated to be shorter; also where tasks that are paused have taken all places. busy: the gauge of threads that have a task, or METRIC_COUNT
 * for none.
 */
struct pool *pool_create(size_t workers, double short_seconds, enum metric busy);
/* Runs what is queued, then ends the threads. False: one is still busy at the deadline (monotonic seconds), and nothing
 * that it may touch, the pool included, may be freed. NULL is allowed. */
bool pool_stop(struct pool *pool, double deadline);
/* The same without a deadline, and frees it. NULL is allowed. */
void pool_destroy(struct pool *pool);
void pool_submit(struct pool *pool, struct pool_task *task);
/* Takes a task back that no thread has begun. False: it is not in the queue (not yet, or no more). */
bool pool_withdraw(struct pool *pool, struct pool_task *task);
/* The task of this thread waits for another's work from here on: its place is another task's, for as long as no more tasks
 * wait like that than there are workers. Nothing where the thread runs no task. */
void pool_pause(void);
/* It goes on, as soon as fewer than `workers` run; before tasks that have not begun. at_once: it does not wait for that,
 * for it is about to end. */
void pool_resume(bool at_once);
/* Of a task in the background, now and then: who waits for a place has this one's, and this one goes on when it is its turn again.
 * Nothing where nobody waits who could begin, or where the thread runs no such task. */
void pool_yield(void);
enum pool_loss {
    POOL_LOST,  /* its place is another thread's */
    POOL_WAITS, /* it does nothing but wait for its turn, and is left as it is */
    POOL_SPENT  /* as many threads as there are workers are lost already, or no thread can be made */
};

/* The thread that calls, while it runs a task; else NULL. */
struct worker *pool_worker(void);
/* Whether that thread's task waits in pool_pause() or pool_yield(). NULL: it does not. */
bool pool_waits(struct worker *worker);
/* The task of that thread, which runs and goes on running meanwhile, does not end: its place goes to another thread, which is
 * made. When the task ends, the thread serves the pool again. Once a task. */
enum pool_loss pool_give_up(struct worker *worker);
/* body(arg, i) for i = 0..count-1, each once, on this thread and on others for as long as fewer than `workers` are at
 * work. Never waits for a worker to become free, so it may be called from a worker, and nested. */
void pool_parallel_for(struct pool *pool, size_t count, void (*body)(void *arg, size_t index), void *arg);

#endif
