/*
 * The list of suspended connections and the thread that keeps their deadlines and detects disconnected clients.
 * Deadlines are few and seconds apart, so the list is scanned when the nearest one is due, and there is no heap.
 * libmicrohttpd does not watch a suspended connection, so those to be watched are in an epoll set of ours.
 *
 * A client that has disconnected cannot be told from one that has only shut down its sending side, until something is
 * sent. Both are treated as disconnected (as libmicrohttpd and most servers do), and their place is freed at once.
 *
 * The mutex is taken inside those of the callers of request_resume(), and outside that of libmicrohttpd. Holders are
 * called without it; meanwhile the request is marked busy, which keeps it suspended and delays a resume.
 *
 * SPDX-License-Identifier: GPL-3.0-or-later
 */
#include "server/http/wait.h"

#include <errno.h>
#include <limits.h>
#include <math.h>
#include <poll.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "server/ops/clock.h"
#include "server/ops/metrics.h"

#define EVENTS_AT_ONCE 64

struct waits {
    pthread_mutex_t mutex;
    pthread_cond_t emptied;
    struct request *first;
    struct request **watched; /* indexed by socket */
    size_t watched_len;
    double next_deadline; /* when the thread wakes up; INFINITY: never */
    bool stopping;
    bool ended;
    int wake;  /* an eventfd */
    int epoll; /* contains the eventfd and the watched sockets */
    pthread_t thread;
};

/* Watches the client from now on. If that fails, a disconnect is noticed only when the reply is sent. */
static void watch_locked(struct waits *waits, struct request *request)
{
    size_t fd = (size_t)request->place->fd;
    if (request->wait.watched)
        return;
    if (fd >= waits->watched_len) {
        size_t len = waits->watched_len ? 2 * waits->watched_len : 64;
        len = len > fd ? len : fd + 1;
        struct request **watched = realloc(waits->watched, len * sizeof(struct request *));
        if (!watched)
            return;
        memset(watched + waits->watched_len, 0, (len - waits->watched_len) * sizeof(struct request *));
        waits->watched = watched;
        waits->watched_len = len;
    }
    struct epoll_event event = {.events = EPOLLRDHUP | EPOLLONESHOT, .data.fd = request->place->fd};
    if (epoll_ctl(waits->epoll, EPOLL_CTL_ADD, request->place->fd, &event) == 0) {
        waits->watched[fd] = request;
        request->wait.watched = true;
    }
}

static void unwatch_locked(struct waits *waits, struct request *request)
{
    if (request->wait.watched) {
        epoll_ctl(waits->epoll, EPOLL_CTL_DEL, request->place->fd, NULL);
        waits->watched[request->place->fd] = NULL;
    }
}

static void unlink_locked(struct waits *waits, struct request *request)
{
    struct wait *wait = &request->wait;
    *(wait->prev ? &wait->prev->wait.next : &waits->first) = wait->next;
    if (wait->next)
        wait->next->wait.prev = wait->prev;
    *wait = (struct wait){0};
}

static void resume_locked(struct waits *waits, struct request *request)
{
    unwatch_locked(waits, request);
    unlink_locked(waits, request);
    if (!waits->first)
        pthread_cond_signal(&waits->emptied);
    metric_add(METRIC_HTTP_WAITING, -1);
    int wake = request->context->wake;
    MHD_resume_connection(request->connection); /* from here on an HTTP thread may run it */
    eventfd_write(wake, 1);
}

/* ---------------------------------------------------------------- taking back */

/* Whether a holder has it. */
static bool held(const struct request *request)
{
    return request->wait.holder && !request->wait.busy;
}

static void due_add_locked(struct request **due, struct request *request)
{
    request->wait.busy = true;
    request->wait.due = *due;
    *due = request;
}

/* Takes back those that are due, which are marked busy; the mutex is released meanwhile. */
static void ask_locked(struct waits *waits, struct request *due)
{
    if (!due)
        return;
    pthread_mutex_unlock(&waits->mutex);
    for (struct request *request = due; request; request = request->wait.due)
        request->wait.back = request->wait.holder->take_back(request->wait.user);
    pthread_mutex_lock(&waits->mutex);
    while (due) {
        struct request *request = due;
        due = request->wait.due;
        request->wait.busy = false;
        request->wait.deadline = INFINITY; /* taken back only once */
        if (request->wait.woken || request->wait.back)
            resume_locked(waits, request);
    }
}

/* Resumes the requests that are due, and sets next_deadline. */
static void resume_due_locked(struct waits *waits)
{
    double now = clock_monotonic();
    double nearest = INFINITY;
    struct request *due = NULL;
    for (struct request *request = waits->first; request; request = request->wait.next)
        if (held(request) && request->wait.deadline <= now)
            due_add_locked(&due, request);
        else if (held(request))
            nearest = fmin(nearest, request->wait.deadline);
    waits->next_deadline = nearest;
    ask_locked(waits, due);
}

/* The event may belong to a socket that has been reused by now. */
static void hang_up_locked(struct waits *waits, int fd)
{
    struct pollfd polled = {.fd = fd, .events = POLLRDHUP};
    struct request *request = (size_t)fd < waits->watched_len ? waits->watched[fd] : NULL;
    struct request *due = NULL;
    if (request && held(request) && poll(&polled, 1, 0) == 1) {
        due_add_locked(&due, request);
        ask_locked(waits, due);
    }
}

static int milliseconds_until(double deadline)
{
    double left = (deadline - clock_monotonic()) * 1e3;
    return left < 0 ? 0 : left < INT_MAX - 1 ? (int)left + 1 : -1;
}

static void *waits_main(void *argument)
{
    struct waits *waits = argument;
    struct epoll_event events[EVENTS_AT_ONCE];
    pthread_mutex_lock(&waits->mutex);
    while (!waits->ended) {
        resume_due_locked(waits);
        int timeout = milliseconds_until(waits->next_deadline);
        pthread_mutex_unlock(&waits->mutex);
        int len = epoll_wait(waits->epoll, events, EVENTS_AT_ONCE, timeout);
        pthread_mutex_lock(&waits->mutex);
        for (int i = 0; i < len; i++) {
            eventfd_t count;
            if (events[i].data.fd == waits->wake)
                eventfd_read(waits->wake, &count);
            else
                hang_up_locked(waits, events[i].data.fd);
        }
    }
    pthread_mutex_unlock(&waits->mutex);
    return NULL;
}

static void waits_free(struct waits *waits)
{
    if (waits->epoll >= 0)
        close(waits->epoll);
    if (waits->wake >= 0)
        close(waits->wake);
    pthread_cond_destroy(&waits->emptied);
    pthread_mutex_destroy(&waits->mutex);
    free(waits->watched);
    free(waits);
}

struct waits *waits_create(void)
{
    struct waits *waits = calloc(1, sizeof *waits);
    if (!waits)
        return NULL;
    pthread_mutex_init(&waits->mutex, NULL);
    clock_condition(&waits->emptied);
    waits->next_deadline = INFINITY;
    waits->wake = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    waits->epoll = epoll_create1(EPOLL_CLOEXEC);
    struct epoll_event event = {.events = EPOLLIN, .data.fd = waits->wake};
    if (waits->wake < 0 || waits->epoll < 0 || epoll_ctl(waits->epoll, EPOLL_CTL_ADD, waits->wake, &event) != 0 ||
        pthread_create(&waits->thread, NULL, waits_main, waits) != 0) {
        waits_free(waits);
        return NULL;
    }
    return waits;
}

void waits_destroy(struct waits *waits)
{
    if (!waits)
        return;
    pthread_mutex_lock(&waits->mutex);
    waits->ended = true;
    pthread_mutex_unlock(&waits->mutex);
    eventfd_write(waits->wake, 1);
    pthread_join(waits->thread, NULL);
    waits_free(waits);
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
    if (waits->first)
        waits->first->wait.prev = request;
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
    if (request->wait.busy)
        request->wait.woken = true;
    else
        resume_locked(waits, request);
    pthread_mutex_unlock(&waits->mutex);
}

void request_give(struct request *request, const struct holder *holder, void *user, double deadline)
{
    struct waits *waits = request->server->waits;
    struct request *due = NULL;
    pthread_mutex_lock(&waits->mutex);
    request->wait.busy = true;
    pthread_mutex_unlock(&waits->mutex);
    bool given = holder->give(user);
    pthread_mutex_lock(&waits->mutex);
    request->wait.busy = false;
    request->wait.holder = holder;
    request->wait.user = user;
    request->wait.deadline = deadline;
    if (!given || request->wait.woken) {
        resume_locked(waits, request);
    } else if (waits->stopping && !isinf(deadline)) {
        due_add_locked(&due, request);
        ask_locked(waits, due);
    } else {
        watch_locked(waits, request);
        if (deadline < waits->next_deadline)
            eventfd_write(waits->wake, 1);
    }
    pthread_mutex_unlock(&waits->mutex);
}

void waits_stop(struct waits *waits)
{
    pthread_mutex_lock(&waits->mutex);
    waits->stopping = true;
    struct request *due = NULL;
    for (struct request *request = waits->first; request; request = request->wait.next)
        if (held(request) && !isinf(request->wait.deadline))
            due_add_locked(&due, request);
    ask_locked(waits, due);
    pthread_mutex_unlock(&waits->mutex);
}

bool waits_stopping(struct waits *waits)
{
    pthread_mutex_lock(&waits->mutex);
    bool stopping = waits->stopping;
    pthread_mutex_unlock(&waits->mutex);
    return stopping;
}

bool waits_drain(struct waits *waits, double deadline)
{
    struct timespec until = clock_timespec(deadline);
    pthread_mutex_lock(&waits->mutex);
    while (waits->first && pthread_cond_timedwait(&waits->emptied, &waits->mutex, &until) != ETIMEDOUT) {}
    bool drained = !waits->first;
    pthread_mutex_unlock(&waits->mutex);
    return drained;
}
