/*
 * The worker threads. They run tasks, those of each owner in turn and of an owner short ones first, and help
 * computations that have parallel parts while they are idle. Thread-safe.
 *
 * SPDX-License-Identifier: GPL-3.0-or-later
 */
#ifndef SERVER_WORK_POOL_H
#define SERVER_WORK_POOL_H

#include <stdbool.h>
#include <stddef.h>

#include "server/ops/metrics.h"
#include "server/work/fair.h"

struct pool;
struct worker; /* a thread of a pool */

/* Embed it, zero except for the members that are set. run() owns the task: it may free the struct that embeds it. */
struct pool_task {
    void (*run)(struct pool_task *task);
    /* Whose task it is: the id of a key; "": nobody's, who count as one owner. Owners that have waiting tasks share the
     * workers equally, by estimated time: see fair.h. */
    char owner[FAIR_NAME_SIZE];
    /* The estimated duration. Of an owner's tasks, the one with the smallest sum of arrival time and duration goes
     * first, so a short task overtakes longer ones, and no task is overtaken by one that arrives later by more than its
     * own duration. */
    double seconds;
    double arrived;       /* monotonic seconds; 0: set when it is submitted */
    bool background;      /* counts as arriving a minute later; at most half of the workers run one */
    bool child;           /* of a group: if an owner has both kinds, children and others alternate */
    double alone_seconds; /* nothing else starts beside it for this long; goes before all others */
    /* Private. */
    struct fair_task fair;
    bool waits_alone; /* in the queue of tasks that must run alone, by its node */
};

/*
 * At most `workers` tasks run at once. short_seconds > 0: one more, if it is estimated to be shorter, and the running
 * ones are estimated to be longer or have been running for longer, or are those of other owners; also if paused tasks
 * have taken all places. busy: the gauge of threads that have a task, or METRIC_COUNT for none.
 */
struct pool *pool_create(size_t workers, double short_seconds, enum metric busy);
/* Runs what is queued, then ends the threads. Returns false if one is still busy at the deadline (monotonic seconds);
 * then nothing that it may access, including the pool, may be freed. NULL is allowed. */
bool pool_stop(struct pool *pool, double deadline);
/* The same without a deadline; frees the pool. NULL is allowed. */
void pool_destroy(struct pool *pool);
void pool_submit(struct pool *pool, struct pool_task *task);
/* Another owner waits for the task too. If it has not started, it goes to the one that has less waiting, so that nobody
 * waits longer for it than for a task of his own. */
void pool_share(struct pool *pool, struct pool_task *task, const char *owner);
/* Withdraws a task that no thread has started. Returns false if it is not in the queue. */
bool pool_withdraw(struct pool *pool, struct pool_task *task);
/* The task of this thread waits for another task from here on. Its place is given to another task, as long as no more
 * tasks wait in this way than there are workers. Does nothing if the thread runs no task. */
void pool_pause(void);
/* Continues as soon as fewer than `workers` tasks run, before tasks that have not started. at_once: does not wait for
 * that, because the task is about to end. */
void pool_resume(bool at_once);
/* Call from a background task from time to time: a waiting task gets its place, and it continues when its turn comes.
 * Does nothing if no waiting task could start, or if the thread runs no background task. */
void pool_yield(void);
enum pool_loss {
    POOL_LOST,  /* its place is given to another thread */
    POOL_WAITS, /* it only waits for its turn, and is left alone */
    POOL_SPENT  /* as many threads as there are workers are lost already, or no thread can be created */
};

/* The calling thread if it runs a task; otherwise NULL. */
struct worker *pool_worker(void);
/* Whether a task of this pool may be prompt: one short task may run in addition to `workers`. */
bool pool_has_prompt(const struct pool *pool);
/* Whether the task of the calling thread is prompt: it is short, and when it started its owner had no other short task,
 * waiting or running. It asks for no more than its owner's part of the workers, and may delay tasks that queue up. */
bool pool_prompt(void);
/* Whether the task of that thread waits in pool_pause() or pool_yield(). NULL: it does not. */
bool pool_waits(struct worker *worker);
/* Abandons the task of that thread, which must not end during the call: a new thread gets its place. If the task ends
 * later, its thread serves the pool again. Once per task. */
enum pool_loss pool_give_up(struct worker *worker);
/* A running task's equal part of the workers, at least 1: how many threads another process may use for it. */
size_t pool_part(struct pool *pool);
/* At most so many threads help, from now on; at first there is no limit of their own. */
void pool_help_at_most(struct pool *pool, size_t helpers);
/* Calls body(arg, i) for i = 0..count-1, each once, on this thread and on others while fewer than `workers` are busy.
 * Never waits for a worker, so it may be called from a worker, and nested. */
void pool_parallel_for(struct pool *pool, size_t count, void (*body)(void *arg, size_t index), void *arg);

#endif
