/*
 * The HTTP threads. Each polls its own libmicrohttpd daemon, and all accept from one socket. The first one also keeps
 * the deadlines of connections.
 *
 * The threads of libmicrohttpd are not used because of a defect in its loop (up to 1.0.1 at least): when 128
 * connections are ready at once, it asks the kernel for more before it serves them, and blocks until something else
 * happens, up to the idle timeout. If all 128 clients wait for their response, nothing else happens. A loop that only
 * waits for the epoll descriptor of the daemon, and runs the daemon without blocking, avoids this.
 *
 * SPDX-License-Identifier: GPL-3.0-or-later
 */
#include <limits.h>
#include <math.h>
#include <poll.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/eventfd.h>
#include <sys/resource.h>
#include <time.h>
#include <unistd.h>

#include "server/http/connections.h"
#include "server/http/daemon.h"
#include "server/http/door.h"
#include "server/http/head.h"
#include "server/http/http.h"
#include "server/ops/clock.h"
#include "server/ops/keys.h"
#include "server/ops/log.h"
#include "server/ops/metrics.h"

#define LEAVING_MAX 64       /* limit on connections that are shut down but whose sockets are still open */
#define OTHER_DESCRIPTORS 64 /* for the log, the database, temporary files, and what libraries open */
#define OTHER_A_THREAD 4     /* a thread that reads the database has two */

struct loop {
    struct daemon_context context;
    struct http *http;
    struct MHD_Daemon *daemon;
    pthread_t thread;
    bool started;
    bool keeper;                /* this thread keeps the deadlines */
    atomic_uint_fast64_t turns; /* of its loop */
    uint_fast64_t seen;         /* by http_turns() */
};

struct http {
    struct door door;
    bool socket_lent;
    struct hosts *hosts;
    atomic_bool quiesced; /* no new connections */
    atomic_bool stopped;
    size_t len;
    struct loop loops[];
};

static int milliseconds_left(struct MHD_Daemon *daemon)
{
    MHD_UNSIGNED_LONG_LONG left;
    if (MHD_get_timeout(daemon, &left) != MHD_YES)
        return INT_MAX;
    return left < INT_MAX ? (int)left : INT_MAX;
}

static void *loop_main(void *argument)
{
    struct loop *loop = argument;
    struct http *http = loop->http;
    int events = MHD_get_daemon_info(loop->daemon, MHD_DAEMON_INFO_EPOLL_FD)->epoll_fd;
    int pause = 0; /* milliseconds during which listening is pointless */
    double due = loop->keeper ? 0 : INFINITY;
    while (!atomic_load(&http->stopped)) {
        atomic_fetch_add_explicit(&loop->turns, 1, memory_order_relaxed);
        double now = clock_monotonic();
        if (now >= due) {
            due = now + connections_expire(http->door.connections);
            keys_expire(loop->context.server->keys);
        }
        bool listening = !pause && !atomic_load(&http->quiesced);
        struct pollfd polled[3] = {{.fd = events, .events = POLLIN},
                                   {.fd = loop->context.wake, .events = POLLIN},
                                   {.fd = listening ? http->door.listener : -1, .events = POLLIN}};
        double left = fmin(milliseconds_left(loop->daemon), (due - now) * 1e3 + 1);
        left = pause ? fmin(left, pause) : left;
        poll(polled, 3, left < INT_MAX ? (int)left : -1);
        if (polled[1].revents) {
            eventfd_t count;
            eventfd_read(loop->context.wake, &count);
        }
        pause = polled[2].revents ? door_accept(&http->door, loop->daemon) : 0;
        MHD_run(loop->daemon);
    }
    return NULL;
}

static bool loop_start(struct loop *loop, struct http *http, struct server *server)
{
    loop->http = http;
    loop->keeper = loop == http->loops;
    loop->seen = UINT_FAST64_MAX; /* before the first turn */
    loop->context =
        (struct daemon_context){server, http->door.connections, http->hosts, eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)};
    loop->daemon = loop->context.wake < 0 ? NULL : daemon_start(&loop->context);
    loop->started = loop->daemon && pthread_create(&loop->thread, NULL, loop_main, loop) == 0;
    return loop->started;
}

/* Every socket is a file descriptor, and a closed connection keeps its own for a while, so the number of connections
 * must leave room for both and for other files. The limit per address is reduced in proportion. */
static void limit_connections(struct connections_options *options, const struct config *config)
{
    struct rlimit limit = {0};
    if (getrlimit(RLIMIT_NOFILE, &limit) == 0 && limit.rlim_cur < limit.rlim_max) {
        limit.rlim_cur = limit.rlim_max;
        setrlimit(RLIMIT_NOFILE, &limit);
    }
    getrlimit(RLIMIT_NOFILE, &limit);
    uint64_t threads = config->workers + config->http_threads;
    uint64_t others = OTHER_DESCRIPTORS + OTHER_A_THREAD * threads + CONNECTIONS_SPARE + config->http_threads;
    uint64_t left = limit.rlim_cur > 2 * others ? limit.rlim_cur - others : limit.rlim_cur / 2;
    uint64_t leaving = left / 4 < LEAVING_MAX ? left / 4 : LEAVING_MAX;
    uint64_t allowed = left - leaving;
    options->max_leaving = (size_t)leaving;
    options->max = (size_t)config->max_connections;
    if (config->max_connections > allowed) {
        options->max = (size_t)allowed;
        if (config->max_connections_of_one < config->max_connections) {
            double share = (double)config->max_connections_of_one / (double)config->max_connections;
            options->max_of_one = (size_t)fmax(1, share * (double)allowed);
        }
        log_event(LOG_LEVEL_WARN, "descriptors",
                  "max_connections=%llu detail=\"only %llu file descriptors are available\"",
                  (unsigned long long)allowed, (unsigned long long)limit.rlim_cur);
    }
}

/* Builds everything except the loops. */
static bool http_build(struct http *http, const struct server *server, int fd)
{
    const struct config *config = server->config;
    struct connections_options options = {
        .max_of_one = (size_t)config->max_connections_of_one,
        .idle_seconds = config->idle_seconds,
        .proxies = server->proxies,
    };
    limit_connections(&options, config);
    http->door.listener = fd;
    http->socket_lent = server->socket_lent;
    atomic_init(&http->door.complained, -INFINITY);
    http->door.connections = connections_create(&options);
    http->hosts = hosts_create(config->listen, config->allow_host.values, config->allow_host.len);
    return http->door.connections && http->hosts;
}

struct http *http_start(struct server *server, int fd, char *message, size_t message_size)
{
    size_t len = (size_t)server->config->http_threads;
    struct http *http = calloc(1, sizeof *http + len * sizeof http->loops[0]);
    if (!http || !http_build(http, server, fd)) {
        snprintf(message, message_size, "out of memory");
        http_stop(http);
        return NULL;
    }
    bool started = true;
    while (started && http->len < len) {
        started = loop_start(&http->loops[http->len++], http, server);
        if (!started)
            snprintf(message, message_size, "libmicrohttpd failed to start");
    }
    if (!started) {
        http_stop(http);
        return NULL;
    }
    return http;
}

static void loops_tell(struct http *http, atomic_bool *flag)
{
    atomic_store(flag, true);
    for (size_t i = 0; i < http->len; i++)
        eventfd_write(http->loops[i].context.wake, 1);
}

bool http_turns(struct http *http)
{
    bool all = true;
    for (size_t i = 0; i < http->len; i++) {
        struct loop *loop = &http->loops[i];
        uint_fast64_t turns = atomic_load_explicit(&loop->turns, memory_order_relaxed);
        all = all && turns != loop->seen;
        loop->seen = turns;
        eventfd_write(loop->context.wake, 1); /* so that an idle one turns too */
    }
    return all;
}

void http_quiesce(struct http *http)
{
    if (!http->socket_lent)
        shutdown(http->door.listener, SHUT_RDWR); /* the kernel refuses connections from now on */
    loops_tell(http, &http->quiesced);
}

void http_drain(struct http *http, double deadline)
{
    (void)http;
    while (metric_get(METRIC_HTTP_IN_FLIGHT) > 0 && clock_monotonic() < deadline) {
        struct timespec pause = {.tv_nsec = 5000000};
        nanosleep(&pause, NULL);
    }
}

void http_stop(struct http *http)
{
    if (!http)
        return;
    loops_tell(http, &http->stopped);
    for (size_t i = 0; i < http->len; i++) {
        struct loop *loop = &http->loops[i];
        if (loop->started)
            pthread_join(loop->thread, NULL);
        if (loop->daemon)
            MHD_stop_daemon(loop->daemon);
        if (loop->context.wake >= 0)
            close(loop->context.wake);
    }
    connections_destroy(http->door.connections);
    hosts_destroy(http->hosts);
    free(http);
}
