/*
 * See heart.h. One thread looks four times within the patience of the supervisor. A look that finds something wrong
 * sends nothing; the next one may find it mended, so a slow commit costs no restart. If the thread itself is caught in
 * a lock of what it looks at, nothing is sent either.
 *
 * The watchdog of computations proves that it looks by calling due() of a watch that is never due.
 *
 * SPDX-License-Identifier: GPL-3.0-or-later
 */
#include "server/heart.h"

#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "server/http/http.h"
#include "server/ops/clock.h"
#include "server/ops/log.h"
#include "server/ops/supervisor.h"
#include "server/store/store.h"
#include "server/work/pool.h"
#include "server/work/watchdog.h"

#define LOOKS 4          /* within the patience of the supervisor */
#define LOOK_SECONDS 3.0 /* the watchdog looks every second or more often */
#define REASON_SIZE 512

enum probe { PROBE_NONE, PROBE_PENDING, PROBE_WRITTEN, PROBE_FAILED };

struct heart {
    struct server *server;
    struct http *http;
    const char *status; /* for the operator, while there is no reason */
    double seconds;     /* between two looks */
    pthread_t thread;
    bool started;
    pthread_mutex_t mutex;
    pthread_cond_t wake;
    bool stopping;
    struct watch watch;
    _Atomic double looked; /* when the watchdog last did (monotonic seconds) */
    struct store_write write;
    _Atomic enum probe probe; /* of the write */
    unsigned bad;             /* looks since the last good one */
    bool well;                /* what was told last, like the next one */
    char reason[REASON_SIZE]; /* why not, or what else the operator should know; "": nothing */
};

static bool looked_at(void *user, double now)
{
    struct heart *heart = user;
    atomic_store(&heart->looked, now);
    return false;
}

static void probe_done(struct store_write *write, enum store_status status)
{
    struct heart *heart = (struct heart *)((char *)write - offsetof(struct heart, write));
    atomic_store(&heart->probe, status == STORE_OK ? PROBE_WRITTEN : PROBE_FAILED);
}

/* Takes the outcome of the last write, and submits the next. Returns false with a reason. */
static bool writer_works(struct heart *heart, char *reason, size_t reason_size)
{
    enum probe probe = atomic_load(&heart->probe);
    bool works = probe == PROBE_WRITTEN || probe == PROBE_NONE ||
                 (probe == PROBE_FAILED && store_disk_full(heart->server->config->db, NULL, reason, reason_size));
    if (!works) {
        snprintf(reason, reason_size, "%s",
                 probe == PROBE_PENDING ? "the database does not respond" : "the database cannot be written");
    }
    if (probe != PROBE_PENDING) {
        atomic_store(&heart->probe, PROBE_PENDING);
        store_probe(heart->server->store, &heart->write);
    }
    return works;
}

static void take_mutexes(const struct server *server)
{
    struct pool *const pools[] = {server->pool, server->gate,    server->bulk,  server->lists,
                                  server->side, server->streams, server->remote};
    struct pool_task none = {0};
    for (size_t i = 0; i < sizeof pools / sizeof pools[0]; i++)
        if (pools[i])
            pool_withdraw(pools[i], &none);
}

static bool workers_work(struct heart *heart, char *reason, size_t reason_size)
{
    take_mutexes(heart->server);
    size_t stuck = watchdog_stuck(heart->server->watchdog);
    if (stuck)
        snprintf(reason, reason_size, "%zu computations did not stop when told to", stuck);
    else if (clock_monotonic() - atomic_load(&heart->looked) > LOOK_SECONDS)
        snprintf(reason, reason_size, "the watchdog of computations does not run");
    else
        return true;
    return false;
}

/* Tells the supervisor and the log what has changed. One bad look is not told: the next may find it mended. */
static void tell(struct heart *heart, bool well, const char *reason)
{
    char quoted[600];
    heart->bad = well ? 0 : heart->bad + 1;
    if (heart->bad == 1)
        return;
    if (strcmp(reason, heart->reason) != 0)
        supervisor_status(*reason ? reason : heart->status);
    if (well && !heart->well) {
        log_event(LOG_LEVEL_WARN, "well", "detail=\"heartbeats are sent again\"");
    } else if (!well && heart->well) {
        log_event(LOG_LEVEL_ERROR, "unwell",
                  "detail=%s action=\"no heartbeat is sent; the supervisor will restart it\"",
                  log_quote(quoted, sizeof quoted, reason));
    }
    heart->well = well;
    snprintf(heart->reason, sizeof heart->reason, "%s", reason);
}

static void look(struct heart *heart)
{
    char reason[REASON_SIZE] = "";
    /* Both prepare the next look too. */
    bool http = http_turns(heart->http);
    bool writer = writer_works(heart, reason, sizeof reason);
    bool well = writer && workers_work(heart, reason, sizeof reason) && http;
    if (!*reason && !http)
        snprintf(reason, sizeof reason, "an HTTP thread does not respond");
    if (well)
        supervisor_beat();
    tell(heart, well, reason);
}

static void *heart_main(void *argument)
{
    struct heart *heart = argument;
    double next = clock_monotonic();
    pthread_mutex_lock(&heart->mutex);
    while (!heart->stopping) {
        struct timespec until = clock_timespec(next);
        if (pthread_cond_timedwait(&heart->wake, &heart->mutex, &until) != ETIMEDOUT)
            continue;
        pthread_mutex_unlock(&heart->mutex);
        look(heart);
        next = clock_monotonic() + heart->seconds;
        pthread_mutex_lock(&heart->mutex);
    }
    pthread_mutex_unlock(&heart->mutex);
    return NULL;
}

struct heart *heart_start(struct server *server, struct http *http, const char *status)
{
    double patience = supervisor_patience();
    struct heart *heart = calloc(1, sizeof *heart);
    if (!heart)
        return NULL;
    heart->server = server;
    heart->http = http;
    heart->status = status;
    heart->seconds = patience / LOOKS;
    heart->well = true;
    heart->write.done = probe_done;
    heart->watch = (struct watch){.due = looked_at, .user = heart};
    atomic_init(&heart->looked, clock_monotonic());
    pthread_mutex_init(&heart->mutex, NULL);
    clock_condition(&heart->wake);
    if (!(patience > 0))
        return heart;
    watch_open(server->watchdog, &heart->watch);
    heart->started = pthread_create(&heart->thread, NULL, heart_main, heart) == 0;
    if (heart->started)
        return heart;
    heart_stop(heart);
    heart_destroy(heart);
    return NULL;
}

void heart_stop(struct heart *heart)
{
    if (!heart)
        return;
    if (heart->started) {
        pthread_mutex_lock(&heart->mutex);
        heart->stopping = true;
        pthread_cond_signal(&heart->wake);
        pthread_mutex_unlock(&heart->mutex);
        pthread_join(heart->thread, NULL);
        heart->started = false;
    }
    watch_close(&heart->watch);
}

void heart_destroy(struct heart *heart)
{
    if (!heart)
        return;
    pthread_cond_destroy(&heart->wake);
    pthread_mutex_destroy(&heart->mutex);
    free(heart);
}
