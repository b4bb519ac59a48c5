/*
 * The worker threads: tasks in the order of their arrival, and loans of idle workers to a computation that has
 * parallel parts. Thread-safe.
 *
 * SPDX-License-Identifier: GPL-3.0-or-later
 */
#ifndef SERVER_JOBS_POOL_H
#define SERVER_JOBS_POOL_H

#include <stdbool.h>
#include <stddef.h>

#include "server/ops/metrics.h"

struct pool;

/* Embed it. run() owns the task: it may free what embeds it. */
struct pool_task {
    void (*run)(struct pool_task *task);
    struct pool_task *next;
};

/* busy: the gauge of threads that have a task, or METRIC_COUNT for none. */
struct pool *pool_create(size_t workers, enum metric busy);
/* Runs what is queued, then joins the threads. NULL is allowed. */
void pool_destroy(struct pool *pool);
void pool_submit(struct pool *pool, struct pool_task *task);
/* Takes a task back that no thread has begun. False: it is not in the queue (not yet, or no more). */
bool pool_withdraw(struct pool *pool, struct pool_task *task);
/* body(arg, i) for i = 0..count-1, each once, on this thread and on workers that are idle meanwhile. Never waits
 * for a worker to become free, so it may be called from a worker, and nested. */
void pool_parallel_for(struct pool *pool, size_t count, void (*body)(void *arg, size_t index), void *arg);

#endif
