/*
 * A thread that checks all watches periodically. Time is counted in its own steps, each at most two intervals long,
 * because no task can poll while the process or the machine is stopped.
 *
 * A task that waits for its turn in the pool does not poll and is not stuck. The thread of an abandoned task stays,
 * because a thread cannot be ended from outside: it may hold locks. If the task ends later, its result is too late for
 * those who waited, and its thread serves the pool again.
 *
 * The mutex is outside those of the pools, and is not held while stuck() runs, which takes the locks of those that it
 * answers.
 *
 * SPDX-License-Identifier: GPL-3.0-or-later
 */
#include "server/work/watchdog.h"

#include <math.h>
#include <pthread.h>
#include <stdlib.h>

#include "server/ops/clock.h"
#include "server/ops/log.h"
#include "server/ops/metrics.h"

#define INTERVAL_SECONDS 1.0 /* or a quarter of the time limit, if that is less */

struct watchdog {
    pthread_mutex_t mutex;
    pthread_cond_t wake;    /* there is something to watch, or it stops */
    pthread_cond_t handled; /* a call of stuck() has returned */
    pthread_t thread;
    bool stopping;
    bool joined;
    double seconds;
    void (*end)(void *user, const char *hash);
    void *user;
    struct watch *first;
    atomic_size_t stuck;
};

/* ---------------------------------------------------------------- checking */

static void count_silence(struct watch *watch, double now, double step)
{
    bool polled = atomic_exchange_explicit(&watch->polled, false, memory_order_relaxed);
    bool owing = !polled && !watch->given_up && watch->due(watch->user, now) && !pool_waits(watch->worker);
    watch->silent = owing ? watch->silent + step : 0;
}

static struct watch *find_silent_locked(const struct watchdog *watchdog)
{
    struct watch *watch = watchdog->first;
    while (watch && watch->silent < watchdog->seconds)
        watch = watch->next;
    return watch;
}

static const char *request_of(const struct watch *watch)
{
    return watch->request && *watch->request ? watch->request : "unknown";
}

/* Returns false if there is no thread for its place, so that the process must end. */
static bool give_up_locked(struct watchdog *watchdog, struct watch *watch)
{
    enum pool_loss loss = watch->worker ? pool_give_up(watch->worker) : POOL_LOST;
    watch->silent = 0;
    if (loss == POOL_WAITS) /* since a moment ago */
        return true;
    watch->given_up = true;
    size_t stuck = atomic_fetch_add(&watchdog->stuck, 1) + 1;
    metric_add(METRIC_STUCK_TOTAL, 1);
    metric_add(METRIC_STUCK, 1);
    log_event(LOG_LEVEL_ERROR, "stuck", "job=%s request=%s hash=%.16s seconds=%.0f stuck=%zu detail=\"%s\"",
              watch->job ? watch->job : "none", request_of(watch), watch->hash ? watch->hash : "none",
              clock_monotonic() - watch->begun, stuck,
              loss == POOL_LOST
                  ? "it should have stopped and does not respond; its place has a new thread"
                  : "it should have stopped and does not respond; no further thread is available for its place");
    watch->handled = true;
    pthread_mutex_unlock(&watchdog->mutex);
    if (watch->stuck)
        watch->stuck(watch->user);
    if (loss == POOL_SPENT)
        watchdog->end(watchdog->user, watch->hash ? watch->hash : "");
    pthread_mutex_lock(&watchdog->mutex);
    watch->handled = false;
    pthread_cond_broadcast(&watchdog->handled);
    return loss == POOL_LOST;
}

static bool look_locked(struct watchdog *watchdog, double now, double step)
{
    for (struct watch *watch = watchdog->first; watch; watch = watch->next)
        count_silence(watch, now, step);
    bool goes_on = true;
    for (struct watch *watch; goes_on && (watch = find_silent_locked(watchdog)) != NULL;)
        goes_on = give_up_locked(watchdog, watch);
    return goes_on;
}

static void *watchdog_main(void *argument)
{
    struct watchdog *watchdog = argument;
    double interval = fmin(INTERVAL_SECONDS, watchdog->seconds / 4);
    double before = clock_monotonic();
    bool goes_on = true;
    pthread_mutex_lock(&watchdog->mutex);
    while (goes_on && !watchdog->stopping) {
        if (!watchdog->first) {
            pthread_cond_wait(&watchdog->wake, &watchdog->mutex);
            before = clock_monotonic();
            continue;
        }
        struct timespec until = clock_timespec(before + interval);
        pthread_cond_timedwait(&watchdog->wake, &watchdog->mutex, &until);
        double now = clock_monotonic();
        if (!watchdog->stopping && now >= before + interval) {
            goes_on = look_locked(watchdog, now, fmin(now - before, 2 * interval));
            before = now;
        }
    }
    pthread_mutex_unlock(&watchdog->mutex);
    return NULL;
}

/* ---------------------------------------------------------------- creation and end */

struct watchdog *watchdog_create(double seconds, void (*end)(void *user, const char *hash), void *user)
{
    struct watchdog *watchdog = calloc(1, sizeof *watchdog);
    if (!watchdog)
        return NULL;
    watchdog->seconds = seconds;
    watchdog->end = end;
    watchdog->user = user;
    pthread_mutex_init(&watchdog->mutex, NULL);
    clock_condition(&watchdog->wake);
    pthread_cond_init(&watchdog->handled, NULL);
    watchdog->joined = pthread_create(&watchdog->thread, NULL, watchdog_main, watchdog) != 0;
    if (watchdog->joined) {
        watchdog_destroy(watchdog);
        return NULL;
    }
    return watchdog;
}

void watchdog_stop(struct watchdog *watchdog)
{
    if (!watchdog || watchdog->joined)
        return;
    pthread_mutex_lock(&watchdog->mutex);
    watchdog->stopping = true;
    pthread_cond_signal(&watchdog->wake);
    pthread_mutex_unlock(&watchdog->mutex);
    pthread_join(watchdog->thread, NULL);
    watchdog->joined = true;
}

void watchdog_destroy(struct watchdog *watchdog)
{
    if (!watchdog)
        return;
    watchdog_stop(watchdog);
    pthread_cond_destroy(&watchdog->wake);
    pthread_cond_destroy(&watchdog->handled);
    pthread_mutex_destroy(&watchdog->mutex);
    free(watchdog);
}

size_t watchdog_stuck(const struct watchdog *watchdog)
{
    return watchdog ? atomic_load(&watchdog->stuck) : 0;
}

/* ---------------------------------------------------------------- watches */

void watch_open(struct watchdog *watchdog, struct watch *watch)
{
    if (!watchdog || watch->watchdog)
        return;
    watch->watchdog = watchdog;
    watch->worker = pool_worker();
    watch->begun = clock_monotonic();
    pthread_mutex_lock(&watchdog->mutex);
    watch->prev = NULL;
    watch->next = watchdog->first;
    if (watch->next)
        watch->next->prev = watch;
    else
        pthread_cond_signal(&watchdog->wake);
    watchdog->first = watch;
    pthread_mutex_unlock(&watchdog->mutex);
}

void watch_close(struct watch *watch)
{
    struct watchdog *watchdog = watch->watchdog;
    if (!watchdog)
        return;
    pthread_mutex_lock(&watchdog->mutex);
    while (watch->handled)
        pthread_cond_wait(&watchdog->handled, &watchdog->mutex);
    *(watch->prev ? &watch->prev->next : &watchdog->first) = watch->next;
    if (watch->next)
        watch->next->prev = watch->prev;
    pthread_mutex_unlock(&watchdog->mutex);
    if (watch->given_up) {
        size_t stuck = atomic_fetch_sub(&watchdog->stuck, 1) - 1;
        metric_add(METRIC_STUCK, -1);
        log_event(LOG_LEVEL_WARN, "unstuck", "job=%s request=%s seconds=%.0f stuck=%zu detail=\"it has ended\"",
                  watch->job ? watch->job : "none", request_of(watch), clock_monotonic() - watch->begun, stuck);
    }
    watch->watchdog = NULL;
}
