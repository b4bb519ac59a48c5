/*
 * The open works by kind and key, and their waiters.
 *
 * SPDX-License-Identifier: GPL-3.0-or-later
 */
#include "server/work/work.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "server/ops/clock.h"
#include "server/work/internal.h"

static const char letters[] = {
    [WORK_SOLVE] = 's', [WORK_CURVE] = 'c', [WORK_SPEND] = 'p', [WORK_DRAWING] = 'd', [WORK_FACTORIZATION] = 'f'};

struct works *works_create(void)
{
    struct works *works = calloc(1, sizeof *works);
    if (works) {
        pthread_mutex_init(&works->mutex, NULL);
        clock_condition(&works->changed);
    }
    return works;
}

void works_destroy(struct works *works)
{
    if (!works)
        return;
    map_clear(&works->open);
    pthread_cond_destroy(&works->changed);
    pthread_mutex_destroy(&works->mutex);
    free(works);
}

void works_stop(struct works *works)
{
    atomic_store(&works->stopping, true);
    pthread_mutex_lock(&works->mutex);
    pthread_cond_broadcast(&works->changed);
    pthread_mutex_unlock(&works->mutex);
}

/* ---------------------------------------------------------------- waiters */

void waiter__add_locked(struct works *works, struct waiters *waiters, struct waiter *waiter)
{
    waiter->works = works;
    waiter->list = waiters;
    waiter->prev = NULL;
    waiter->next = waiters->first;
    if (waiters->first)
        waiters->first->prev = waiter;
    waiters->first = waiter;
}

void waiter__remove_locked(struct waiter *waiter)
{
    *(waiter->prev ? &waiter->prev->next : &waiter->list->first) = waiter->next;
    if (waiter->next)
        waiter->next->prev = waiter->prev;
    waiter->list = NULL;
}

static void call_locked(struct waiters *waiters)
{
    while (waiters->first) {
        struct waiter *waiter = waiters->first;
        waiter__remove_locked(waiter);
        waiter->fn(waiter->user); /* it may have been freed by now */
    }
}

void waiters_add(struct works *works, struct waiters *waiters, struct waiter *waiter)
{
    pthread_mutex_lock(&works->mutex);
    waiter__add_locked(works, waiters, waiter);
    pthread_mutex_unlock(&works->mutex);
}

void waiters_call(struct works *works, struct waiters *waiters)
{
    pthread_mutex_lock(&works->mutex);
    call_locked(waiters);
    pthread_mutex_unlock(&works->mutex);
}

bool waiter_withdraw(struct waiter *waiter)
{
    struct works *works = waiter->works;
    if (!works)
        return false;
    pthread_mutex_lock(&works->mutex);
    bool waits = waiter->list != NULL;
    if (waits)
        waiter__remove_locked(waiter);
    pthread_mutex_unlock(&works->mutex);
    return waits;
}

/* ---------------------------------------------------------------- work */

static void write_key(char key[WORK_KEY_SIZE], enum work_kind kind, const char *hash)
{
    snprintf(key, WORK_KEY_SIZE, "%c%s", letters[kind], hash);
}

void work_init(struct work *work, struct works *works, enum work_kind kind, const char *hash)
{
    *work = (struct work){.works = works, .kind = kind};
    atomic_init(&work->remaining_seconds, NAN);
    atomic_init(&work->left_at, INFINITY);
    if (hash)
        write_key(work->key, kind, hash);
}

struct work *work__find_locked(struct works *works, const char key[WORK_KEY_SIZE])
{
    struct map_node *node = map_find(&works->open, key);
    return node ? MAP_ENTRY(node, struct work, node) : NULL;
}

bool work__list_locked(struct work *work)
{
    work->listed = map_insert(&work->works->open, &work->node, work->key);
    return work->listed;
}

void work__close_locked(struct work *work)
{
    if (work->listed) {
        map_remove(&work->works->open, &work->node);
        work->listed = false;
    }
    call_locked(&work->waiters);
    call_locked(&work->listeners);
}

static void wait_locked(struct work *work, struct waiter *waiter)
{
    waiter__add_locked(work->works, &work->waiters, waiter);
    atomic_store(&work->left_at, INFINITY);
}

struct work *work_find(struct works *works, enum work_kind kind, const char *hash)
{
    char key[WORK_KEY_SIZE];
    write_key(key, kind, hash);
    pthread_mutex_lock(&works->mutex);
    struct work *work = work__find_locked(works, key);
    pthread_mutex_unlock(&works->mutex);
    return work;
}

bool work_join(struct works *works, enum work_kind kind, const char *hash, struct waiter *waiter)
{
    char key[WORK_KEY_SIZE];
    write_key(key, kind, hash);
    pthread_mutex_lock(&works->mutex);
    struct work *work = work__find_locked(works, key);
    if (work)
        wait_locked(work, waiter);
    pthread_mutex_unlock(&works->mutex);
    return work != NULL;
}

struct work *work_open(struct work *fresh, struct waiter *waiter)
{
    struct works *works = fresh->works;
    pthread_mutex_lock(&works->mutex);
    struct work *work = work__find_locked(works, fresh->key);
    if (!work && work__list_locked(fresh))
        work = fresh;
    if (work && waiter)
        wait_locked(work, waiter);
    pthread_mutex_unlock(&works->mutex);
    return work;
}

bool work_leave(struct waiter *waiter, struct work **left)
{
    struct works *works = waiter->works;
    *left = NULL;
    if (!works)
        return false;
    pthread_mutex_lock(&works->mutex);
    struct waiters *list = waiter->list;
    if (list) {
        waiter__remove_locked(waiter);
        if (!list->first) {
            *left = MAP_ENTRY(list, struct work, waiters);
            atomic_store(&(*left)->left_at, clock_monotonic());
        }
    }
    pthread_mutex_unlock(&works->mutex);
    return list != NULL;
}

void work_close(struct work *work)
{
    pthread_mutex_lock(&work->works->mutex);
    work__close_locked(work);
    pthread_mutex_unlock(&work->works->mutex);
}

void work_cancel(struct work *work)
{
    atomic_store(&work->canceled, true);
    pthread_mutex_lock(&work->works->mutex);
    pthread_cond_broadcast(&work->works->changed);
    pthread_mutex_unlock(&work->works->mutex);
}

bool work_unwanted(struct work *work)
{
    return atomic_load_explicit(&work->canceled, memory_order_relaxed) ||
           atomic_load_explicit(&work->works->stopping, memory_order_relaxed);
}

void work_progress(struct work *work, double fraction, const char *stage, double remaining_seconds)
{
    if (fraction >= atomic_load(&work->fraction))
        atomic_store(&work->fraction, fmin(fraction, 1));
    atomic_store(&work->stage, stage);
    if (!isnan(remaining_seconds)) /* otherwise the estimate remains */
        atomic_store(&work->remaining_seconds, remaining_seconds);
    /* The number is raised before `listened` is read; work_listen() does it in the opposite order. So at least one of
     * the two sees the other. */
    atomic_fetch_add(&work->changes, 1);
    if (atomic_load(&work->listened))
        work_tell(work);
}

bool work_listen(struct work *work, unsigned seen, struct waiter *waiter)
{
    struct works *works = work->works;
    pthread_mutex_lock(&works->mutex);
    waiter__add_locked(works, &work->listeners, waiter);
    atomic_store(&work->listened, true);
    bool waits = atomic_load(&work->changes) == seen;
    if (!waits)
        waiter__remove_locked(waiter);
    pthread_mutex_unlock(&works->mutex);
    return waits;
}

void work_tell(struct work *work)
{
    pthread_mutex_lock(&work->works->mutex);
    atomic_store(&work->listened, false);
    call_locked(&work->listeners);
    pthread_mutex_unlock(&work->works->mutex);
}
