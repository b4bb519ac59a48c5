/*
 * A fixed set of threads round one mutex. A computation that wants help posts a loan: a counter of indices that
 * whoever is idle draws from. The thread that posted it draws too and waits only for indices that others have
 * already begun, so a loan ends even if no one ever helps. New tasks go before loans: helping is what idle workers
 * do.
 *
 * SPDX-License-Identifier: GPL-3.0-or-later
 */
#include "server/jobs/pool.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>

/* Lives on the stack of the thread that posted it. */
struct loan {
    atomic_size_t next_index;
    size_t count;
    void (*body)(void *arg, size_t index);
    void *arg;
    size_t helpers; /* guarded by the pool's mutex */
    pthread_cond_t left;
    struct loan *next;
};

struct pool {
    pthread_mutex_t mutex;
    pthread_cond_t work;
    struct pool_task *first;
    struct pool_task **last;
    struct loan *loans; /* the newest first: inner loops before outer ones */
    size_t idle;
    bool stopping;
    enum metric busy;
    size_t threads_len;
    pthread_t threads[];
};

static void loan_draw(struct loan *loan)
{
    size_t index;
    while ((index = atomic_fetch_add_explicit(&loan->next_index, 1, memory_order_relaxed)) < loan->count) {
        loan->body(loan->arg, index);
    }
}

static bool loan_open(const struct loan *loan)
{
    return atomic_load_explicit(&loan->next_index, memory_order_relaxed) < loan->count;
}

static struct loan *loan_find_locked(struct pool *pool)
{
    struct loan *loan = pool->loans;
    while (loan && !loan_open(loan)) {
        loan = loan->next;
    }
    return loan;
}

static void help_locked(struct pool *pool, struct loan *loan)
{
    loan->helpers++;
    pthread_mutex_unlock(&pool->mutex);
    loan_draw(loan);
    pthread_mutex_lock(&pool->mutex);
    if (--loan->helpers == 0) {
        pthread_cond_signal(&loan->left); /* the loan may be gone once the mutex is released */
    }
}

static void count_busy(const struct pool *pool, int amount)
{
    if (pool->busy < METRIC_COUNT) {
        metric_add(pool->busy, amount);
    }
}

static void *worker_main(void *argument)
{
    struct pool *pool = argument;
    pthread_mutex_lock(&pool->mutex);
    for (;;) {
        struct pool_task *task = pool->first;
        struct loan *loan = task ? NULL : loan_find_locked(pool);
        if (task) {
            pool->first = task->next;
            if (!pool->first) {
                pool->last = &pool->first;
            }
            pthread_mutex_unlock(&pool->mutex);
            count_busy(pool, 1);
            task->run(task);
            count_busy(pool, -1);
            pthread_mutex_lock(&pool->mutex);
        } else if (loan) {
            help_locked(pool, loan);
        } else if (pool->stopping) {
            break;
        } else {
            pool->idle++;
            pthread_cond_wait(&pool->work, &pool->mutex);
            pool->idle--;
        }
    }
    pthread_mutex_unlock(&pool->mutex);
    return NULL;
}

struct pool *pool_create(size_t workers, enum metric busy)
{
    struct pool *pool = calloc(1, sizeof *pool + workers * sizeof pool->threads[0]);
    if (!pool) {
        return NULL;
    }
    pthread_mutex_init(&pool->mutex, NULL);
    pthread_cond_init(&pool->work, NULL);
    pool->last = &pool->first;
    pool->busy = busy;
    while (pool->threads_len < workers) {
        if (pthread_create(&pool->threads[pool->threads_len], NULL, worker_main, pool) != 0) {
            pool_destroy(pool);
            return NULL;
        }
        pool->threads_len++;
    }
    return pool;
}

void pool_destroy(struct pool *pool)
{
    if (!pool) {
        return;
    }
    pthread_mutex_lock(&pool->mutex);
    pool->stopping = true;
    pthread_cond_broadcast(&pool->work);
    pthread_mutex_unlock(&pool->mutex);
    for (size_t i = 0; i < pool->threads_len; i++) {
        pthread_join(pool->threads[i], NULL);
    }
    pthread_cond_destroy(&pool->work);
    pthread_mutex_destroy(&pool->mutex);
    free(pool);
}

void pool_submit(struct pool *pool, struct pool_task *task)
{
    task->next = NULL;
    pthread_mutex_lock(&pool->mutex);
    *pool->last = task;
    pool->last = &task->next;
    pthread_cond_signal(&pool->work);
    pthread_mutex_unlock(&pool->mutex);
}

bool pool_withdraw(struct pool *pool, struct pool_task *task)
{
    pthread_mutex_lock(&pool->mutex);
    struct pool_task **link = &pool->first;
    while (*link && *link != task) {
        link = &(*link)->next;
    }
    bool found = *link != NULL;
    if (found) {
        *link = task->next;
        if (pool->last == &task->next) {
            pool->last = link;
        }
    }
    pthread_mutex_unlock(&pool->mutex);
    return found;
}

void pool_parallel_for(struct pool *pool, size_t count, void (*body)(void *arg, size_t index), void *arg)
{
    struct loan loan = {.count = count, .body = body, .arg = arg, .left = PTHREAD_COND_INITIALIZER};
    atomic_init(&loan.next_index, 0);
    if (count > 1) {
        pthread_mutex_lock(&pool->mutex);
        loan.next = pool->loans;
        pool->loans = &loan;
        size_t wanted = count - 1;
        for (size_t i = 0; i < pool->idle && i < wanted; i++) {
            pthread_cond_signal(&pool->work);
        }
        pthread_mutex_unlock(&pool->mutex);
    }
    loan_draw(&loan);
    if (count > 1) {
        pthread_mutex_lock(&pool->mutex);
        struct loan **link = &pool->loans;
        while (*link != &loan) {
            link = &(*link)->next;
        }
        *link = loan.next;
        while (loan.helpers) {
            pthread_cond_wait(&loan.left, &pool->mutex);
        }
        pthread_mutex_unlock(&pool->mutex);
    }
    pthread_cond_destroy(&loan.left);
}
