/*
 * `epsilond serve`: starts the service from the lowest layer up, waits for a signal, and stops it from the top down.
 * The socket is opened before the database, so that wrong options are reported before a file is created.
 *
 * Steps of stopping: no new connections; running computations are stopped; requests that wait for a job are answered
 * with its current state, and requests that wait for a commit, after it; replies in progress are finished; then the
 * threads end, from HTTP down to the store. A thread that is still busy after STOP_SECONDS (for example in an
 * eigendecomposition) is not waited for: when everything submitted is committed, the process ends while it runs. What
 * that thread would have written is one transaction, and jobs whose rows say that they are running are queued again by
 * the next process, which learns from the owner file of the store that this one was asked to stop. If even that hangs,
 * the signal thread ends the process.
 *
 * If too many computations do not stop, the watchdog requests the same stop, but the exit status is 1, and the owner
 * file names the last of these computations: unless the end of its job was written, this counts as an attempt of that
 * job.
 *
 * SPDX-License-Identifier: GPL-3.0-or-later
 */
#include <math.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "server/broker/broker.h"
#include "server/cells/cells.h"
#include "server/commands.h"
#include "server/groups/groups.h"
#include "server/heart.h"
#include "server/http/forwarded.h"
#include "server/http/http.h"
#include "server/http/listen.h"
#include "server/http/tls.h"
#include "server/http/wait.h"
#include "server/jobs/jobs.h"
#include "server/ops/memory.h"
#include "server/ops/access.h"
#include "server/ops/clock.h"
#include "server/ops/crash.h"
#include "server/ops/keys.h"
#include "server/ops/ledger.h"
#include "server/ops/log.h"
#include "server/ops/metrics.h"
#include "server/ops/signals.h"
#include "server/ops/supervisor.h"
#include "server/routes/owners.h"
#include "server/routes/pages.h"
#include "server/routes/groups/ranking.h"
#include "server/routes/routes.h"
#include "server/store/store.h"
#include "server/work/watchdog.h"
#include "server/work/work.h"

#define DRAIN_SECONDS 1.0 /* for replies in progress */
#define STOP_SECONDS 2.0  /* for an orderly stop */
#define GRACE_SECONDS 3.5 /* for the end in any case */
#define SIDE_THREADS 4
#define STREAM_THREADS 2

/* ---------------------------------------------------------------- a stop by the watchdog */

static char too_many[CRASH_NAME_SIZE]; /* the computation for which there was no further thread; set before `spent` */
static atomic_bool spent;              /* the watchdog requested the stop */

/* On the watchdog thread. */
static void threads_spent(void *unused, const char *hash)
{
    (void)unused;
    snprintf(too_many, sizeof too_many, "%s", hash);
    atomic_store(&spent, true);
    log_event(
        LOG_LEVEL_ERROR, "too-many-stuck",
        "detail=\"more computations than there are workers do not stop; the process ends and must be restarted\"");
    kill(getpid(), SIGTERM);
}

/* For ending the process while threads are still running. */
static int last_status(void)
{
    if (!atomic_load(&spent))
        return 0;
    crash_trace(too_many);
    return 1;
}

/* ---------------------------------------------------------------- starting and stopping */

/* Connects to the broker. Returns false with a message. */
static bool broker_build(struct server *server, char *message, size_t message_size)
{
    char name[33];
    const struct config *config = server->config;
    if (!store_name(server->store, name)) {
        snprintf(message, message_size, "cannot read the name of the database %s", config->db);
        return false;
    }
    snprintf(message, message_size, "out of memory or threads");
    server->remote = pool_create((size_t)config->broker_jobs, 0, METRIC_COUNT);
    server->broker = server->remote ? broker_create(config, name, message, message_size) : NULL;
    return server->broker != NULL;
}

/* Starts everything below HTTP. Returns false with a message. */
static bool server_build(struct server *server, char *message, size_t message_size)
{
    const struct config *config = server->config;
    uint64_t bodies = config->http_bytes / 2 > 2 * config->max_body ? config->http_bytes / 2 : 2 * config->max_body;
    server->bodies = (struct budget){.most = bodies, .gauge = METRIC_BODY_BYTES};
    server->replies = (struct budget){.most = config->http_bytes / 2, .gauge = METRIC_REPLY_BYTES};
    server->spool = (struct budget){.most = config->spool_bytes, .gauge = METRIC_SPOOL_BYTES};
    server->drawn = (struct budget){.most = config->draw_bytes, .gauge = METRIC_DRAWN_BYTES};
    server->divided.gauge = METRIC_BROKER_DIVIDED;
    server->ledger = ledger_create();
    server->pool = pool_create((size_t)config->workers, config->express_seconds, METRIC_WORKERS_BUSY);
    server->gate = pool_create(1, 0, METRIC_COUNT);
    server->bulk = pool_create(1, 0, METRIC_COUNT);
    server->lists = pool_create(1, 0, METRIC_COUNT);
    server->pages = pages_create();
    server->owners = owners_create();
    server->keys = keys_create(config->stream_seconds);
    server->side = pool_create(SIDE_THREADS, 0, METRIC_COUNT);
    server->streams = pool_create(STREAM_THREADS, 0, METRIC_COUNT);
    server->watchdog = watchdog_create(config->watchdog_seconds, threads_spent, NULL);
    server->works = works_create();
    server->waits = waits_create();
    server->jobs = server->works ? jobs_create(server) : NULL;
    server->groups = server->jobs ? groups_create(server) : NULL;
    server->rankings = rankings_create((size_t)config->memory_bytes / 8);
    if (!server->ledger || !server->pool || !server->gate || !server->bulk || !server->lists || !server->pages ||
        !server->owners || !server->side || !server->streams || !server->keys || !server->watchdog || !server->waits ||
        !server->groups || !server->rankings) {
        snprintf(message, message_size, "out of memory or threads");
        return false;
    }
    if (config->isolate != ISOLATE_OFF) {
        server->cells = cells_create(config, server->pool, message, message_size);
        if (!server->cells)
            return false;
    }
    metric_set(METRIC_STARTED, clock_now_ms() / 1000);
    metric_set(METRIC_WORKERS, (int64_t)config->workers);
    struct store_options options = {
        .path = config->db,
        .cache_bytes = config->cache_bytes,
        .chunk_bytes = config->chunk_bytes,
        .max_bytes = config->max_db,
        .keep_seconds = config->keep_seconds,
        .scrub_seconds = config->scrub_seconds,
        .expired = jobs_expired,
        .result_expired = jobs_result_expired,
        .user = server->jobs,
    };
    server->store = store_open(&options, message, message_size);
    if (!server->store)
        return false;
    if (config->broker && !broker_build(server, message, message_size))
        return false;
    if (!jobs_recover(server->jobs, groups_recover, server->groups)) {
        if (!store_disk_full(config->db, NULL, message, message_size))
            snprintf(message, message_size, "cannot read the jobs of an earlier run from %s", config->db);
        return false;
    }
    groups_start(server->groups);
    return true;
}

/* Stops everything that has threads, from the top. Accepts parts that were never created. Returns false if a thread is
 * still busy at the deadline; then nothing may be freed. */
static bool server_stop(struct server *server, struct http *http, double deadline)
{
    watchdog_stop(server->watchdog); /* everything becomes unwanted now */
    broker_quiesce(server->broker);
    if (http)
        http_quiesce(http);
    if (server->store)
        store_stop(server->store);
    if (server->jobs)
        jobs_stop(server->jobs);
    if (http) {
        waits_stop(server->waits);
        /* Gate, pool and store are still running, because they hold the suspended requests. */
        if (!waits_drain(server->waits, deadline))
            return false;
        http_drain(http, clock_monotonic() + DRAIN_SECONDS);
        http_stop(http);
    }
    /* The side threads before the workers, which they may use. */
    return pool_stop(server->gate, deadline) && pool_stop(server->bulk, deadline) &&
           pool_stop(server->lists, deadline) && pool_stop(server->side, deadline) &&
           pool_stop(server->streams, deadline) && pool_stop(server->remote, deadline) &&
           pool_stop(server->pool, deadline) && broker_stop(server->broker, deadline);
}

/* Call after server_stop(). Returns false if a process that computed ended in another way than it should. */
static bool server_free(struct server *server)
{
    bool well = cells_destroy(server->cells);
    signals_on_reload(NULL, NULL);
    access_destroy(server->access);
    tls_destroy(server->tls);
    proxies_destroy(server->proxies);
    pool_destroy(server->gate);
    pool_destroy(server->bulk);
    pool_destroy(server->lists);
    pages_destroy(server->pages);
    owners_destroy(server->owners);
    keys_destroy(server->keys);
    pool_destroy(server->side);
    pool_destroy(server->streams);
    pool_destroy(server->pool);
    pool_destroy(server->remote);
    broker_destroy(server->broker);
    store_close(server->store);
    groups_destroy(server->groups);
    memory_destroy(server->rankings);
    jobs_destroy(server->jobs);
    waits_destroy(server->waits);
    watchdog_destroy(server->watchdog);
    works_destroy(server->works);
    ledger_destroy(server->ledger);
    return well;
}

/* On the signal thread: the process was asked to stop GRACE_SECONDS ago, or a second time. */
static int overdue(void *unused)
{
    (void)unused;
    log_event(LOG_LEVEL_WARN, "stopped", "detail=\"not an orderly stop; accepted jobs are in the database\"");
    return last_status();
}

/* Serves until a signal arrives. Returns the exit status. */
static int serve(struct server *server, struct http *http, const char *url)
{
    char status[320];
    snprintf(status, sizeof status, "listening on %s", url);
    puts(status);
    fflush(stdout);
    log_event(LOG_LEVEL_INFO, "started", "url=%s workers=%llu", url, (unsigned long long)server->config->workers);
    supervisor_ready();
    supervisor_status(status);
    struct heart *heart = heart_start(server, http, status);
    if (!heart)
        log_event(LOG_LEVEL_ERROR, "heart", "detail=\"out of memory or threads\"");
    int number = signals_wait();
    supervisor_stopping();
    heart_stop(heart);
    log_event(LOG_LEVEL_INFO, "stopping", "signal=%s",
              number == SIGTERM  ? "SIGTERM"
              : number == SIGINT ? "SIGINT"
                                 : "SIGHUP");
    if (!server_stop(server, http, clock_monotonic() + STOP_SECONDS)) {
        store_settle(server->store);
        log_event(LOG_LEVEL_INFO, "stopped", "detail=\"a computation was interrupted; its jobs run again\"");
        _exit(last_status()); /* not exit(), which would free what the busy thread uses */
    }
    bool well = server_free(server);
    heart_destroy(heart);
    log_event(LOG_LEVEL_INFO, "stopped", NULL);
    return atomic_load(&spent) || !well; /* the computations that did not stop have ended meanwhile */
}

/* On the signal thread. */
static void reload(void *user)
{
    struct server *server = user;
    char message[512], quoted[600];
    supervisor_reloading();
    if (!log_reopen(message, sizeof message))
        log_event(LOG_LEVEL_ERROR, "log", "detail=%s action=\"the former file is used\"",
                  log_quote(quoted, sizeof quoted, message));
    if (!access_required(server->access) && !server->tls && !server->config->log_file)
        log_event(LOG_LEVEL_WARN, "hangup", "detail=\"nothing to reload; restart to change an option\"");
    if (access_required(server->access) && access_reload(server->access, message, sizeof message))
        log_event(LOG_LEVEL_INFO, "keys", "count=%zu", access_count(server->access));
    else if (access_required(server->access))
        log_event(LOG_LEVEL_ERROR, "keys", "detail=%s action=\"the former keys stay valid\"",
                  log_quote(quoted, sizeof quoted, message));
    if (server->tls && tls_reload(server->tls, message, sizeof message))
        log_event(LOG_LEVEL_INFO, "certificate", "file=%s", log_quote(quoted, sizeof quoted, server->config->tls_cert));
    else if (server->tls)
        log_event(LOG_LEVEL_ERROR, "certificate", "detail=%s action=\"the former certificate stays in use\"",
                  log_quote(quoted, sizeof quoted, message));
    supervisor_ready();
}

/* Reads the keys, the trusted proxies and the certificate. Returns false with a message. */
static bool admit(struct server *server, int fd, char *message, size_t message_size)
{
    server->access = access_create(server->config, message, message_size);
    if (!server->access)
        return false;
    if (!access_required(server->access) && !server->config->insecure && !listen_is_local(fd)) {
        snprintf(
            message, message_size,
            "%s can be reached from other machines, and everyone there could use the service: give the keys of its "
            "clients by --keys, or allow it by --insecure",
            server->config->listen);
        return false;
    }
    if (server->config->private_cache && !access_required(server->access)) {
        snprintf(message, message_size,
                 "--private-cache keeps the groups of keys apart, and there are no keys: give them by --keys");
        return false;
    }
    server->proxies = proxies_create(&server->config->trusted_proxy, message, message_size);
    if (!server->proxies)
        return false;
    if (server->config->tls_cert) {
        server->tls = tls_create(server->config->tls_cert, server->config->tls_key, server->config->tls_client_ca,
                                 message, message_size);
        if (!server->tls)
            return false;
    }
    signals_on_reload(reload, server);
    return true;
}

/* Binds the listening socket, or takes that of the supervisor. Sets config->listen to its address if none was given; it
 * may point into url. Returns -1 with a message. */
static int open_socket(struct server *server, struct config *config, char *url, size_t url_size, char *message,
                       size_t message_size)
{
    const char *scheme = config->tls_cert ? "https" : "http";
    int lent;
    if (!supervisor_socket(&lent, message, message_size))
        return -1;
    if (lent < 0) {
        config->listen = config->listen ? config->listen : CONFIG_LISTEN;
        return listen_on(config->listen, scheme, config->request_seconds, url, url_size, message, message_size);
    }
    if (config->listen) {
        snprintf(
            message, message_size,
            "--listen %.200s (or EPSILOND_LISTEN) is given, but the supervisor passes a socket: remove the option, or "
            "disable epsilond.socket",
            config->listen);
        return -1;
    }
    if (!listen_adopt(lent, scheme, config->request_seconds, url, url_size, message, message_size))
        return -1;
    server->socket_lent = true;
    config->listen = strstr(url, "://") + 3;
    return lent;
}

int command_serve(int argc, char **argv)
{
    struct config config;
    struct server server = {.config = &config, .routes = route_table};
    char message[512] = "out of memory or threads";
    char url[300];

    int operand = config_read(&config, CONFIG_SERVE, argc, argv, message, sizeof message);
    if (operand == -2) {
        print_help();
        return 0;
    }
    if (operand >= 0 && operand < argc) {
        snprintf(message, sizeof message, "serve takes no arguments, but got \"%.100s\"; see epsilond --help",
                 argv[operand]);
        operand = -1;
    }
    if (operand < 0) {
        fprintf(stderr, "epsilond: %s\n", message);
        return 2;
    }
    signals_start();
    log_start(config.log_level);
    bool logs = !config.log_file || log_open(config.log_file, message, sizeof message);
    int fd = logs ? open_socket(&server, &config, url, sizeof url, message, sizeof message) : -1;
    bool ready = fd >= 0 && admit(&server, fd, message, sizeof message) &&
                 signals_watch(GRACE_SECONDS, overdue, NULL) && server_build(&server, message, sizeof message);
    struct http *http = ready ? http_start(&server, fd, message, sizeof message) : NULL;
    if (http) {
        int status = serve(&server, http, url);
        close(fd);
        return status;
    }
    fprintf(stderr, "epsilond: %s\n", message);
    if (!server_stop(&server, NULL, INFINITY))
        _exit(1);
    server_free(&server);
    if (fd >= 0)
        close(fd);
    return 1;
}
