/*
 * The threads that speak HTTP: each polls a libmicrohttpd daemon of its own, all accept from one socket.
 *
 * Why not libmicrohttpd's threads: when 128 connections are ready at once, its loop (up to 1.0.1 at least) asks the
 * kernel for more before it serves them, and waits there until something else happens, up to the idle timeout. With
 * 128 clients who all wait for their answer nothing else does. A loop that only waits for the daemon's epoll
 * descriptor, and has the daemon run without waiting, cannot fall into that.
 *
 * SPDX-License-Identifier: GPL-3.0-or-later
 */
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/eventfd.h>
#include <time.h>
#include <unistd.h>

#include "server/http/daemon.h"
#include "server/http/http.h"
#include "server/http/listen.h"
#include "server/ops/clock.h"
#include "server/ops/metrics.h"

struct loop {
    struct daemon_context context;
    struct MHD_Daemon *daemon;
    pthread_t thread;
    bool started;
    atomic_bool quiesced; /* no new connections */
    atomic_bool stopped;
    int listener; /* the daemon's listening socket, once it has let go of it; or -1 */
};

struct http {
    size_t len;
    struct loop loops[];
};

static int milliseconds_left(struct MHD_Daemon *daemon)
{
    MHD_UNSIGNED_LONG_LONG left;
    if (MHD_get_timeout(daemon, &left) != MHD_YES) {
        return -1;
    }
    return left < INT_MAX ? (int)left : INT_MAX;
}

static void *loop_main(void *argument)
{
    struct loop *loop = argument;
    int events = MHD_get_daemon_info(loop->daemon, MHD_DAEMON_INFO_EPOLL_FD)->epoll_fd;
    while (!atomic_load(&loop->stopped)) {
        struct pollfd polled[2] = {{.fd = events, .events = POLLIN}, {.fd = loop->context.wake, .events = POLLIN}};
        poll(polled, 2, milliseconds_left(loop->daemon));
        if (polled[1].revents) {
            eventfd_t count;
            eventfd_read(loop->context.wake, &count);
        }
        if (atomic_load(&loop->quiesced) && loop->listener < 0) {
            loop->listener = MHD_quiesce_daemon(loop->daemon);
        }
        MHD_run(loop->daemon);
    }
    return NULL;
}

/* Takes a copy of the listening socket. */
static bool loop_start(struct loop *loop, struct server *server, int fd, unsigned connections)
{
    int own = fcntl(fd, F_DUPFD_CLOEXEC, 0);
    loop->context = (struct daemon_context){server, eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)};
    loop->listener = -1;
    loop->daemon = own < 0 || loop->context.wake < 0 ? NULL : daemon_start(&loop->context, own, connections);
    if (!loop->daemon) {
        if (own >= 0) {
            close(own);
        }
        return false;
    }
    loop->started = pthread_create(&loop->thread, NULL, loop_main, loop) == 0;
    return loop->started;
}

struct http *http_start(struct server *server, char *url, size_t url_size, char *message, size_t message_size)
{
    size_t len = (size_t)server->config->http_threads;
    unsigned connections = (unsigned)(server->config->max_connections / len);
    struct http *http = calloc(1, sizeof *http + len * sizeof http->loops[0]);
    if (!http) {
        snprintf(message, message_size, "out of memory");
        return NULL;
    }
    daemon_raise_descriptors();
    int fd = listen_on(server->config->listen, url, url_size, message, message_size);
    bool started = fd >= 0;
    while (started && http->len < len) {
        started = loop_start(&http->loops[http->len++], server, fd, connections ? connections : 1);
        if (!started) {
            snprintf(message, message_size, "libmicrohttpd does not start");
        }
    }
    if (fd >= 0) {
        close(fd);
    }
    if (!started) {
        http_stop(http);
        return NULL;
    }
    return http;
}

static void loop_tell(struct loop *loop, atomic_bool *flag)
{
    atomic_store(flag, true);
    eventfd_write(loop->context.wake, 1);
}

void http_quiesce(struct http *http)
{
    for (size_t i = 0; i < http->len; i++) {
        loop_tell(&http->loops[i], &http->loops[i].quiesced);
    }
}

void http_drain(struct http *http, double seconds)
{
    (void)http;
    double deadline = clock_monotonic() + seconds;
    while (metric_get(METRIC_HTTP_IN_FLIGHT) > 0 && clock_monotonic() < deadline) {
        struct timespec pause = {.tv_nsec = 5000000};
        nanosleep(&pause, NULL);
    }
}

void http_stop(struct http *http)
{
    if (!http) {
        return;
    }
    for (size_t i = 0; i < http->len; i++) {
        struct loop *loop = &http->loops[i];
        if (loop->started) {
            loop_tell(loop, &loop->stopped);
            pthread_join(loop->thread, NULL);
        }
        if (loop->daemon) {
            MHD_stop_daemon(loop->daemon);
        }
        if (loop->listener >= 0) {
            close(loop->listener);
        }
        if (loop->context.wake >= 0) {
            close(loop->context.wake);
        }
    }
    free(http);
}
