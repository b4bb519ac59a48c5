/*
 * A set of threads around one mutex. There are more threads than workers, so that every task that may start does so at
 * once: a thread that helps a computation is in the middle of an index, which may take a minute, and leaves only after
 * it. It occupies no place of a worker meanwhile.
 *
 * Invariant: running tasks <= workers, except for one short task in addition: if all others are long, or if its owner
 * has none among them. Helping threads start an index only while running tasks and helping threads are fewer than the
 * workers, and no task has arrived meanwhile.
 *
 * A task that waits for the work of another occupies no place. Running tasks and tasks that wait in this way are at
 * most twice the workers, and a task that may continue does so before the next task starts. As long as one running task
 * makes progress, all do.
 *
 * A task that does not end is abandoned: it loses its place, and another thread serves the pool instead of its thread.
 * There are at most as many abandoned tasks as workers. A thread that helps such a task is not replaced. It counts as
 * helping, so there is less help, but never fewer threads than places.
 *
 * The next task to start is chosen by fair.h: owners in turn, and within an owner the first by rank. Express and
 * background tasks are kinds of tasks of an owner.
 *
 * A long background task may yield: it then waits and occupies no place. Tasks that yielded, in the order in which they
 * did, and tasks that have not started get free places alternately. No background task starts while more than `workers`
 * have yielded, so there are at most 2 workers of these, and 5 workers + 1 threads, not counting abandoned ones.
 *
 * A computation that wants help posts a loan: a counter from which idle threads draw indices. The thread that posted it
 * draws too, and waits only for indices that others have started, so a loan ends even if no thread helps.
 *
 * SPDX-License-Identifier: GPL-3.0-or-later
 */
#include "server/work/pool.h"

#include <assert.h>
#include <errno.h>
#include <math.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "server/ops/clock.h"
#include "server/ops/crash.h"

#define OVERTAKEN_MAX 3600.0 /* seconds: the longest time by which later tasks overtake a long one */
#define BACKGROUND_SECONDS 60.0

/* On the stack of the thread that posted it. */
struct loan {
    atomic_size_t next_index;
    size_t count;
    void (*body)(void *arg, size_t index);
    void *arg;
    size_t helpers; /* protected by the mutex of the pool */
    pthread_cond_t left;
    struct loan *next;
};

/* A thread, and the state of its task. */
struct worker {
    struct pool *pool;
    pthread_t thread;
    bool busy;
    bool paused;                /* its task is paused and has no place */
    bool waits;                 /* it only waits, until it is told to continue */
    bool lost;                  /* its task was abandoned */
    enum fair_kind kind;        /* of its task, */
    char owner[FAIR_NAME_SIZE]; /* and whose it is */
    bool prompt;                /* see pool_prompt() */
    double started;
    double seconds;
    double alone_seconds;
};

struct pool {
    pthread_mutex_t mutex;
    pthread_cond_t work;
    pthread_cond_t place; /* for tasks that continue: a place is free */
    pthread_cond_t ended; /* a thread has ended */
    struct fair queue;
    struct heap alone;  /* tasks that must run alone, which go before all others */
    struct loan *loans; /* the newest first, so that inner loops come before outer ones */
    size_t workers;
    double short_seconds;
    size_t running;
    size_t background; /* background tasks among the running ones */
    size_t paused;     /* tasks */
    size_t resuming;   /* tasks that wait for a place */
    size_t yielding;   /* tasks that wait for their turn; */
    uint64_t yielded;  /* the number of the last one that yielded, */
    uint64_t turn;     /* and of the last one that continued */
    bool fresh_last;   /* the last place was given to a task that had not started */
    size_t helpers;
    size_t helpers_most;
    bool helped;          /* a loan was posted, so there are threads for helping too */
    atomic_uint arrivals; /* of tasks; helping threads check it between two indices */
    size_t idle;
    bool stopping;
    enum metric busy;
    size_t alive;
    size_t lost;
    size_t threads_len;
    struct worker threads[];
};

/* The worker whose task this thread runs; NULL: none, or it helps. */
static _Thread_local struct worker *duty;

/* ---------------------------------------------------------------- the rules */

static size_t waiting_locked(const struct pool *pool)
{
    return pool->alone.len + pool->queue.len;
}

static struct pool_task *take_alone_locked(struct pool *pool)
{
    struct heap_node *node = pool->alone.root;
    if (!node)
        return NULL;
    heap_remove(&pool->alone, node);
    struct pool_task *task = HEAP_ENTRY(node, struct pool_task, fair.node);
    task->waits_alone = false;
    return task;
}

static struct pool_task *task_of(struct fair_task *task)
{
    return task ? HEAP_ENTRY(task, struct pool_task, fair) : NULL;
}

/* Whether the owner has no running task. */
static bool has_none_running(const void *user, const char *owner)
{
    const struct pool *pool = user;
    for (size_t i = 0; i < pool->threads_len; i++) {
        const struct worker *worker = &pool->threads[i];
        if (worker->busy && !worker->paused && strcmp(worker->owner, owner) == 0)
            return false;
    }
    return true;
}

/* Whether the task, which is about to start, is prompt: see pool_prompt(). */
static bool prompt_locked(const struct pool *pool, const struct pool_task *task)
{
    if (!pool_has_prompt(pool) || task->fair.kind != FAIR_SHORT ||
        fair_has(&pool->queue, task->owner, FAIR_ONLY(FAIR_SHORT)))
        return false;
    for (size_t i = 0; i < pool->threads_len; i++) {
        const struct worker *worker = &pool->threads[i];
        if (worker->busy && worker->kind == FAIR_SHORT && strcmp(worker->owner, task->owner) == 0)
            return false;
    }
    return true;
}

/* Whether a task that must run alone does so, and no other task runs beside it. */
static bool alone_locked(const struct pool *pool, double now)
{
    for (size_t i = 0; i < pool->threads_len; i++) {
        const struct worker *worker = &pool->threads[i];
        if (worker->busy && now < worker->started + worker->alone_seconds)
            return true;
    }
    return false;
}

/* Whether so few tasks wait for others that one more may start. */
static bool few_wait_locked(const struct pool *pool)
{
    assert(pool->yielding <= pool->paused);
    return pool->running + pool->paused - pool->yielding < 2 * pool->workers;
}

/* Whether there is a place for a task that has not started. */
static bool place_locked(const struct pool *pool)
{
    return pool->running + pool->resuming < pool->workers && few_wait_locked(pool);
}

/* Whether all running tasks have been alone for their time, so that the next one that must be alone may start. */
static bool served_locked(const struct pool *pool, double now)
{
    for (size_t i = 0; i < pool->threads_len; i++) {
        const struct worker *worker = &pool->threads[i];
        if (worker->busy && (!(worker->alone_seconds > 0) || now < worker->started + worker->alone_seconds))
            return false;
    }
    return place_locked(pool);
}

/* Whether all running tasks, and those that wait for others, are long by their estimate or their running time, so that
 * a short one may run in addition. */
static bool all_long_locked(const struct pool *pool, double now)
{
    size_t quick = 0;
    for (size_t i = 0; i < pool->threads_len; i++) {
        const struct worker *worker = &pool->threads[i];
        quick += worker->busy && !worker->paused && worker->seconds <= pool->short_seconds &&
                 now < worker->started + pool->short_seconds;
    }
    return !quick;
}

/* The short task that may run in addition to as many as there are workers. */
static struct pool_task *take_extra_locked(struct pool *pool, double now)
{
    unsigned kind = FAIR_ONLY(FAIR_SHORT);
    if (!(pool->short_seconds > 0) || pool->running > pool->workers)
        return NULL;
    return task_of(all_long_locked(pool, now) ? fair_take(&pool->queue, kind)
                                              : fair_take_of(&pool->queue, kind, has_none_running, pool));
}

static size_t background_max(const struct pool *pool)
{
    return pool->workers > 1 ? pool->workers / 2 : 1;
}

/* The kinds of tasks that may start if there is a place, with `background` background tasks running and `yielding` more
 * that have yielded. */
static unsigned kinds_locked(const struct pool *pool, size_t background, size_t yielding)
{
    bool room = (background < background_max(pool) && yielding <= pool->workers) || pool->stopping;
    return room ? FAIR_ALL : FAIR_ALL & ~FAIR_ONLY(FAIR_BACKGROUND);
}

/* Whether the next free place goes to a task that yielded. A task that must run alone starts when these have ended. */
static bool yielder_next_locked(const struct pool *pool)
{
    return pool->yielding && pool->background < background_max(pool) &&
           (pool->fresh_last || pool->alone.root || !few_wait_locked(pool) ||
            !fair_any(&pool->queue, kinds_locked(pool, pool->background, pool->yielding)));
}

/* The task that may start now; NULL: none. While the pool stops, tasks need not run alone. */
static struct pool_task *pick_locked(struct pool *pool, double now)
{
    if (!pool->stopping) {
        if (alone_locked(pool, now))
            return NULL;
        if (pool->alone.root)
            return served_locked(pool, now) ? take_alone_locked(pool) : NULL;
    } else if (pool->alone.root && place_locked(pool)) {
        return take_alone_locked(pool);
    }
    if (place_locked(pool)) {
        return yielder_next_locked(pool)
                   ? NULL
                   : task_of(fair_take(&pool->queue, kinds_locked(pool, pool->background, pool->yielding)));
    }
    return take_extra_locked(pool, now);
}

/* The time at which the result of the rules may change without an event; INFINITY: never. */
static double next_look_locked(const struct pool *pool, double now)
{
    double next = INFINITY;
    for (size_t i = 0; i < pool->threads_len; i++) {
        const struct worker *worker = &pool->threads[i];
        double ends[] = {worker->started + worker->alone_seconds, worker->started + pool->short_seconds};
        for (int k = 0; k < 2; k++)
            next = worker->busy && ends[k] > now ? fmin(next, ends[k]) : next;
    }
    return next;
}

/* ---------------------------------------------------------------- the threads */

static bool loan_draw(struct loan *loan)
{
    size_t index = atomic_fetch_add_explicit(&loan->next_index, 1, memory_order_relaxed);
    if (index >= loan->count)
        return false;
    loan->body(loan->arg, index);
    return true;
}

static bool loan_open(const struct loan *loan)
{
    return atomic_load_explicit(&loan->next_index, memory_order_relaxed) < loan->count;
}

/* A loan that may be helped. */
static struct loan *loan_find_locked(struct pool *pool)
{
    bool room = pool->running + pool->helpers < pool->workers && pool->helpers < pool->helpers_most;
    struct loan *loan = room ? pool->loans : NULL;
    while (loan && !loan_open(loan))
        loan = loan->next;
    return loan;
}

static void help_locked(struct pool *pool, struct loan *loan)
{
    unsigned arrivals = atomic_load(&pool->arrivals);
    loan->helpers++;
    pool->helpers++;
    pthread_mutex_unlock(&pool->mutex);
    while (atomic_load_explicit(&pool->arrivals, memory_order_relaxed) == arrivals && loan_draw(loan)) {}
    pthread_mutex_lock(&pool->mutex);
    pool->helpers--;
    if (--loan->helpers == 0)
        pthread_cond_signal(&loan->left); /* the loan may be freed once the mutex is released */
}

static void count_busy(const struct pool *pool, int amount)
{
    if (pool->busy < METRIC_COUNT)
        metric_add(pool->busy, amount);
}

static size_t most_running(const struct pool *pool)
{
    return pool->workers + pool_has_prompt(pool);
}

static void take_place_locked(const struct worker *worker)
{
    struct pool *pool = worker->pool;
    pool->running++;
    pool->background += worker->kind == FAIR_BACKGROUND;
    count_busy(pool, 1);
    assert(pool->running <= most_running(pool));
}

static void give_place_locked(const struct worker *worker)
{
    struct pool *pool = worker->pool;
    pool->running--;
    pool->background -= worker->kind == FAIR_BACKGROUND;
    count_busy(pool, -1);
    if (pool->resuming || pool->yielding)
        pthread_cond_broadcast(&pool->place);
}

/* Removes the task of a thread from what the rules count. */
static void leave_locked(struct worker *worker)
{
    worker->busy = false;
    if (worker->paused) {
        worker->paused = false;
        worker->pool->paused--;
    } else {
        give_place_locked(worker);
    }
}

static void run_locked(struct worker *worker, struct pool_task *task, double now)
{
    struct pool *pool = worker->pool;
    worker->prompt = prompt_locked(pool, task);
    worker->busy = true;
    worker->waits = false;
    worker->kind = task->fair.kind;
    memcpy(worker->owner, task->owner, sizeof worker->owner);
    worker->started = now;
    worker->seconds = task->seconds;
    worker->alone_seconds = task->alone_seconds;
    take_place_locked(worker);
    pool->fresh_last = true;
    if (waiting_locked(pool) && pool->running < most_running(pool)) /* the next one may be able to start too */
        pthread_cond_signal(&pool->work);
    if (pool->yielding)
        pthread_cond_broadcast(&pool->place);
    pthread_mutex_unlock(&pool->mutex);
    duty = worker;
    task->run(task);
    duty = NULL;
    pthread_mutex_lock(&pool->mutex);
    if (worker->lost) {
        worker->lost = false;
        pool->lost--;
    } else {
        leave_locked(worker);
    }
}

static void rest_locked(struct pool *pool, double now)
{
    double next = waiting_locked(pool) ? next_look_locked(pool, now) : INFINITY;
    pool->idle++;
    if (isinf(next)) {
        pthread_cond_wait(&pool->work, &pool->mutex);
    } else {
        struct timespec until = clock_timespec(next);
        pthread_cond_timedwait(&pool->work, &pool->mutex, &until);
    }
    pool->idle--;
}

static void *worker_main(void *argument)
{
    struct worker *worker = argument;
    struct pool *pool = worker->pool;
    crash_thread_start();
    pthread_mutex_lock(&pool->mutex);
    for (;;) {
        double now = clock_monotonic();
        struct pool_task *task = pick_locked(pool, now);
        struct loan *loan = task ? NULL : loan_find_locked(pool);
        if (task)
            run_locked(worker, task, now);
        else if (loan)
            help_locked(pool, loan);
        else if (pool->stopping && !waiting_locked(pool))
            break;
        else
            rest_locked(pool, now);
    }
    pool->alive--;
    pthread_cond_signal(&pool->ended);
    pthread_cond_broadcast(&pool->work); /* tasks that waited for a place no longer need one */
    pthread_mutex_unlock(&pool->mutex);
    crash_thread_end();
    return NULL;
}

/* ---------------------------------------------------------------- creating and ending threads */

static bool thread_add_locked(struct pool *pool)
{
    struct worker *worker = &pool->threads[pool->threads_len];
    worker->pool = pool;
    bool started = pthread_create(&worker->thread, NULL, worker_main, worker) == 0;
    pool->alive += started;
    pool->threads_len += started;
    return started;
}

/* As many threads as there may be tasks at once, including paused ones; and as many as workers for helping, once a loan
 * was posted. */
static bool threads_add_locked(struct pool *pool)
{
    size_t paused = pool->paused < 3 * pool->workers ? pool->paused : 3 * pool->workers;
    size_t wanted =
        pool->workers + (pool->short_seconds > 0) + paused + (pool->helped ? pool->workers : 0) + pool->lost;
    while (pool->threads_len < wanted && !pool->stopping)
        if (!thread_add_locked(pool))
            return false;
    return true;
}

struct pool *pool_create(size_t workers, double short_seconds, enum metric busy)
{
    struct pool *pool = calloc(1, sizeof *pool + (6 * workers + 1) * sizeof pool->threads[0]);
    if (!pool)
        return NULL;
    pthread_mutex_init(&pool->mutex, NULL);
    clock_condition(&pool->work);
    pthread_cond_init(&pool->place, NULL);
    clock_condition(&pool->ended);
    pool->workers = workers;
    pool->short_seconds = short_seconds;
    pool->helpers_most = SIZE_MAX;
    pool->busy = busy;
    pthread_mutex_lock(&pool->mutex);
    bool made = threads_add_locked(pool);
    pthread_mutex_unlock(&pool->mutex);
    if (!made) {
        pool_destroy(pool);
        return NULL;
    }
    return pool;
}

bool pool_stop(struct pool *pool, double deadline)
{
    if (!pool)
        return true;
    bool patient = isinf(deadline);
    struct timespec until = patient ? (struct timespec){0} : clock_timespec(deadline);
    int code = 0;
    pthread_mutex_lock(&pool->mutex);
    pool->stopping = true;
    pthread_cond_broadcast(&pool->work);
    pthread_cond_broadcast(&pool->place);
    while (pool->alive && code != ETIMEDOUT) {
        code = patient ? pthread_cond_wait(&pool->ended, &pool->mutex)
                       : pthread_cond_timedwait(&pool->ended, &pool->mutex, &until);
    }
    bool stopped = !pool->alive;
    pthread_mutex_unlock(&pool->mutex);
    return stopped;
}

void pool_destroy(struct pool *pool)
{
    if (!pool)
        return;
    pool_stop(pool, INFINITY);
    for (size_t i = 0; i < pool->threads_len; i++)
        pthread_join(pool->threads[i].thread, NULL);
    pthread_cond_destroy(&pool->work);
    pthread_cond_destroy(&pool->place);
    pthread_cond_destroy(&pool->ended);
    pthread_mutex_destroy(&pool->mutex);
    free(pool);
}

/* ---------------------------------------------------------------- submitting */

static enum fair_kind kind_of(const struct pool *pool, const struct pool_task *task)
{
    return task->background                       ? FAIR_BACKGROUND
           : task->child                          ? FAIR_CHILD
           : task->seconds <= pool->short_seconds ? FAIR_SHORT
                                                  : FAIR_LONG;
}

void pool_submit(struct pool *pool, struct pool_task *task)
{
    pthread_mutex_lock(&pool->mutex);
    double arrived = task->arrived > 0 ? task->arrived : clock_monotonic();
    double rank = arrived + fmin(task->seconds, OVERTAKEN_MAX) + (task->background ? BACKGROUND_SECONDS : 0);
    task->waits_alone = task->alone_seconds > 0;
    task->fair.kind = kind_of(pool, task);
    if (task->waits_alone)
        heap_insert(&pool->alone, &task->fair.node, rank);
    else
        fair_add(&pool->queue, &task->fair, task->owner, rank, task->seconds);
    atomic_fetch_add(&pool->arrivals, 1);
    pthread_cond_signal(&pool->work);
    if (pool->yielding)
        pthread_cond_broadcast(&pool->place);
    pthread_mutex_unlock(&pool->mutex);
}

void pool_share(struct pool *pool, struct pool_task *task, const char *owner)
{
    pthread_mutex_lock(&pool->mutex);
    if (task->fair.owner && fair_backlog(&pool->queue, owner) + task->fair.turns < task->fair.owner->backlog) {
        double rank = task->fair.node.rank;
        fair_remove(&pool->queue, &task->fair);
        snprintf(task->owner, sizeof task->owner, "%s", owner);
        fair_add(&pool->queue, &task->fair, owner, rank, task->seconds);
    }
    pthread_mutex_unlock(&pool->mutex);
}

bool pool_withdraw(struct pool *pool, struct pool_task *task)
{
    pthread_mutex_lock(&pool->mutex);
    bool found = task->waits_alone || task->fair.owner;
    if (found) {
        if (task->waits_alone)
            heap_remove(&pool->alone, &task->fair.node);
        else
            fair_remove(&pool->queue, &task->fair);
        task->waits_alone = false;
        pthread_cond_signal(&pool->work); /* it may have held others back */
        pthread_cond_broadcast(&pool->place);
    }
    pthread_mutex_unlock(&pool->mutex);
    return found;
}

void pool_pause(void)
{
    if (!duty)
        return;
    struct pool *pool = duty->pool;
    pthread_mutex_lock(&pool->mutex);
    duty->waits = true;
    if (!duty->paused && !duty->lost) {
        duty->paused = true;
        pool->paused++;
        give_place_locked(duty);
        (void)threads_add_locked(pool); /* if this fails, the next task starts later */
        pthread_cond_signal(&pool->work);
    }
    pthread_mutex_unlock(&pool->mutex);
}

void pool_resume(bool at_once)
{
    if (!duty)
        return;
    struct pool *pool = duty->pool;
    pthread_mutex_lock(&pool->mutex);
    if (duty->paused && !at_once) {
        pool->resuming++;
        while (pool->running >= pool->workers)
            pthread_cond_wait(&pool->place, &pool->mutex);
        pool->resuming--;
        pool->paused--;
        duty->paused = false;
        take_place_locked(duty);
    }
    duty->waits = false;
    pthread_mutex_unlock(&pool->mutex);
}

/* Whether a waiting task could use the place of a running background task, and there is a thread for it. */
static bool wanted_locked(struct pool *pool)
{
    if (pool->stopping || pool->alone.root ||
        (!pool->yielding &&
         (!few_wait_locked(pool) || !fair_any(&pool->queue, kinds_locked(pool, pool->background - 1, 1)))))
        return false;
    pool->paused++;
    bool threads = threads_add_locked(pool);
    pool->paused--;
    return threads;
}

void pool_yield(void)
{
    if (!duty || duty->kind != FAIR_BACKGROUND)
        return;
    struct pool *pool = duty->pool;
    pthread_mutex_lock(&pool->mutex);
    if (!duty->paused && !duty->lost && wanted_locked(pool)) {
        uint64_t number = ++pool->yielded;
        duty->paused = duty->waits = true;
        pool->paused++;
        give_place_locked(duty);
        pool->yielding++;
        pool->fresh_last = false;
        pthread_cond_signal(&pool->work);
        pthread_cond_broadcast(&pool->place);
        while (!pool->stopping && !(number == pool->turn + 1 && pool->running + pool->resuming < pool->workers &&
                                    yielder_next_locked(pool)))
            pthread_cond_wait(&pool->place, &pool->mutex);
        duty->waits = false;
        pool->yielding--;
        pool->turn++;
        if (!pool->stopping) { /* otherwise it is about to end and needs no place */
            pool->paused--;
            duty->paused = false;
            pool->fresh_last = false;
            take_place_locked(duty);
        }
        assert(pool->turn <= pool->yielded && pool->yielding == pool->yielded - pool->turn);
        pthread_cond_signal(&pool->work);
        pthread_cond_broadcast(&pool->place);
    }
    pthread_mutex_unlock(&pool->mutex);
}

struct worker *pool_worker(void)
{
    return duty;
}

bool pool_has_prompt(const struct pool *pool)
{
    return pool->short_seconds > 0;
}

bool pool_prompt(void)
{
    return duty && duty->prompt;
}

bool pool_waits(struct worker *worker)
{
    if (!worker)
        return false;
    pthread_mutex_lock(&worker->pool->mutex);
    bool waits = worker->waits;
    pthread_mutex_unlock(&worker->pool->mutex);
    return waits;
}

enum pool_loss pool_give_up(struct worker *worker)
{
    struct pool *pool = worker->pool;
    enum pool_loss loss = POOL_LOST;
    pthread_mutex_lock(&pool->mutex);
    assert(worker->busy && !worker->lost);
    if (worker->waits) {
        loss = POOL_WAITS;
    } else if (pool->lost == pool->workers) {
        loss = POOL_SPENT;
    } else {
        worker->lost = true;
        pool->lost++;
        leave_locked(worker);
        loss = threads_add_locked(pool) ? POOL_LOST : POOL_SPENT;
        pthread_cond_signal(&pool->work);
    }
    pthread_mutex_unlock(&pool->mutex);
    return loss;
}

size_t pool_part(struct pool *pool)
{
    pthread_mutex_lock(&pool->mutex);
    size_t part = pool->workers / (pool->running ? pool->running : 1);
    pthread_mutex_unlock(&pool->mutex);
    return part ? part : 1;
}

void pool_help_at_most(struct pool *pool, size_t helpers)
{
    pthread_mutex_lock(&pool->mutex);
    if (helpers < pool->helpers_most)
        atomic_fetch_add(&pool->arrivals, 1); /* those that help look again */
    if (helpers > pool->helpers_most && pool->loans)
        pthread_cond_broadcast(&pool->work);
    pool->helpers_most = helpers;
    pthread_mutex_unlock(&pool->mutex);
}

void pool_parallel_for(struct pool *pool, size_t count, void (*body)(void *arg, size_t index), void *arg)
{
    struct loan loan = {.count = count, .body = body, .arg = arg, .left = PTHREAD_COND_INITIALIZER};
    atomic_init(&loan.next_index, 0);
    if (count > 1) {
        pthread_mutex_lock(&pool->mutex);
        pool->helped = true;
        (void)threads_add_locked(pool); /* if this fails, there is less help */
        loan.next = pool->loans;
        pool->loans = &loan;
        size_t room = pool->helpers < pool->helpers_most ? pool->helpers_most - pool->helpers : 0;
        size_t wanted = count - 1 < room ? count - 1 : room;
        for (size_t i = 0; i < pool->idle && i < wanted; i++)
            pthread_cond_signal(&pool->work);
        pthread_mutex_unlock(&pool->mutex);
    }
    while (loan_draw(&loan)) {}
    if (count > 1) {
        pthread_mutex_lock(&pool->mutex);
        struct loan **link = &pool->loans;
        while (*link != &loan)
            link = &(*link)->next;
        *link = loan.next;
        while (loan.helpers)
            pthread_cond_wait(&loan.left, &pool->mutex);
        pthread_mutex_unlock(&pool->mutex);
    }
    pthread_cond_destroy(&loan.left);
}
