/*
 * The list of suspended connections and its timer thread. Deadlines are few and far apart (seconds), so the timer
 * scans the list when the nearest one is due rather than keeping a heap.
 *
 * The mutex is taken inside that of the jobs and outside libmicrohttpd's own; nothing is called back under it.
 *
 * SPDX-License-Identifier: GPL-3.0-or-later
 */
#include "server/http/wait.h"

#include <math.h>
#include <pthread.h>
#include <stdlib.h>
#include <sys/eventfd.h>
#include <time.h>

#include "server/ops/clock.h"
#include "server/ops/metrics.h"

struct waits {
    pthread_mutex_t mutex;
    pthread_cond_t changed;
    pthread_cond_t emptied;
    struct request *first;
    double next_deadline; /* when the timer wakes; INFINITY: never */
    bool stopping;
    bool ended;
    pthread_t timer;
};

static void unlink_locked(struct waits *waits, struct request *request)
{
    struct wait *wait = &request->wait;
    *(wait->prev ? &wait->prev->wait.next : &waits->first) = wait->next;
    if (wait->next) {
        wait->next->wait.prev = wait->prev;
    }
    if (wait->topic) {
        *(wait->topic_prev ? &wait->topic_prev->wait.topic_next : &wait->topic->first) = wait->topic_next;
        if (wait->topic_next) {
            wait->topic_next->wait.topic_prev = wait->topic_prev;
        }
    }
    *wait = (struct wait){0};
}

static void resume_locked(struct waits *waits, struct request *request)
{
    unlink_locked(waits, request);
    if (!waits->first) {
        pthread_cond_signal(&waits->emptied);
    }
    metric_add(METRIC_HTTP_WAITING, -1);
    int wake = request->wake;
    MHD_resume_connection(request->connection); /* from here an HTTP thread may run it */
    eventfd_write(wake, 1);
}

static void *timer_main(void *argument)
{
    struct waits *waits = argument;
    pthread_mutex_lock(&waits->mutex);
    while (!waits->ended) {
        double now = clock_monotonic();
        double nearest = INFINITY;
        struct request *next;
        for (struct request *request = waits->first; request; request = next) {
            next = request->wait.next;
            if (request->wait.topic && request->wait.deadline <= now) {
                resume_locked(waits, request);
            } else if (request->wait.topic) {
                nearest = fmin(nearest, request->wait.deadline);
            }
        }
        waits->next_deadline = nearest;
        if (isinf(nearest)) {
            pthread_cond_wait(&waits->changed, &waits->mutex);
        } else {
            struct timespec until = {.tv_sec = (time_t)nearest};
            until.tv_nsec = (long)((nearest - (double)until.tv_sec) * 1e9);
            pthread_cond_timedwait(&waits->changed, &waits->mutex, &until);
        }
    }
    pthread_mutex_unlock(&waits->mutex);
    return NULL;
}

struct waits *waits_create(void)
{
    struct waits *waits = calloc(1, sizeof *waits);
    if (!waits) {
        return NULL;
    }
    pthread_condattr_t monotonic;
    pthread_condattr_init(&monotonic);
    pthread_condattr_setclock(&monotonic, CLOCK_MONOTONIC);
    pthread_mutex_init(&waits->mutex, NULL);
    pthread_cond_init(&waits->changed, &monotonic);
    pthread_cond_init(&waits->emptied, NULL);
    pthread_condattr_destroy(&monotonic);
    waits->next_deadline = INFINITY;
    if (pthread_create(&waits->timer, NULL, timer_main, waits) != 0) {
        free(waits);
        return NULL;
    }
    return waits;
}

void waits_destroy(struct waits *waits)
{
    if (!waits) {
        return;
    }
    pthread_mutex_lock(&waits->mutex);
    waits->ended = true;
    pthread_cond_signal(&waits->changed);
    pthread_mutex_unlock(&waits->mutex);
    pthread_join(waits->timer, NULL);
    pthread_cond_destroy(&waits->changed);
    pthread_cond_destroy(&waits->emptied);
    pthread_mutex_destroy(&waits->mutex);
    free(waits);
}

bool request_suspend(struct request *request, request_handler *resume)
{
    struct waits *waits = request->server->waits;
    pthread_mutex_lock(&waits->mutex);
    if (waits->stopping) {
        pthread_mutex_unlock(&waits->mutex);
        return false;
    }
    request->resume = resume;
    request->wait = (struct wait){.next = waits->first, .deadline = INFINITY};
    if (waits->first) {
        waits->first->wait.prev = request;
    }
    waits->first = request;
    metric_add(METRIC_HTTP_WAITING, 1);
    MHD_suspend_connection(request->connection);
    pthread_mutex_unlock(&waits->mutex);
    return true;
}

void request_resume(struct request *request)
{
    struct waits *waits = request->server->waits;
    pthread_mutex_lock(&waits->mutex);
    resume_locked(waits, request);
    pthread_mutex_unlock(&waits->mutex);
}

void request_wait_on(struct request *request, struct wait_topic *topic, double deadline)
{
    struct waits *waits = request->server->waits;
    pthread_mutex_lock(&waits->mutex);
    if (waits->stopping) {
        resume_locked(waits, request);
    } else {
        request->wait.topic = topic;
        request->wait.topic_next = topic->first;
        if (topic->first) {
            topic->first->wait.topic_prev = request;
        }
        topic->first = request;
        request->wait.deadline = deadline;
        if (deadline < waits->next_deadline) {
            pthread_cond_signal(&waits->changed);
        }
    }
    pthread_mutex_unlock(&waits->mutex);
}

void waits_wake(struct waits *waits, struct wait_topic *topic)
{
    pthread_mutex_lock(&waits->mutex);
    while (topic->first) {
        resume_locked(waits, topic->first);
    }
    pthread_mutex_unlock(&waits->mutex);
}

void waits_stop(struct waits *waits)
{
    pthread_mutex_lock(&waits->mutex);
    waits->stopping = true;
    struct request *next;
    for (struct request *request = waits->first; request; request = next) {
        next = request->wait.next;
        if (request->wait.topic) {
            resume_locked(waits, request);
        }
    }
    pthread_mutex_unlock(&waits->mutex);
}

void waits_drain(struct waits *waits)
{
    pthread_mutex_lock(&waits->mutex);
    while (waits->first) {
        pthread_cond_wait(&waits->emptied, &waits->mutex);
    }
    pthread_mutex_unlock(&waits->mutex);
}
