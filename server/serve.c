/*
 * `epsilond serve`: builds the service from the bottom up, waits for a signal, and takes it down from the top.
 *
 * Stopping, in this order: no new connections; running computations end and their jobs return to the queue in the
 * database; whoever waits for a job is answered with its present state, and whoever waits for a commit after it; the
 * replies under way go out; then the threads end, from HTTP down to the store.
 *
 * SPDX-License-Identifier: GPL-3.0-or-later
 */
#include <signal.h>
#include <stdio.h>

#include "server/commands.h"
#include "server/http/http.h"
#include "server/http/wait.h"
#include "server/jobs/claims.h"
#include "server/jobs/jobs.h"
#include "server/ops/log.h"
#include "server/ops/metrics.h"
#include "server/ops/signals.h"
#include "server/store/store.h"

#define DRAIN_SECONDS 10.0
#define SIDE_THREADS 2

/* Everything below HTTP. False with a message. */
static bool server_build(struct server *server, char *message, size_t message_size)
{
    const struct config *config = server->config;
    uint64_t bodies = config->http_bytes / 2 > 2 * config->max_body ? config->http_bytes / 2 : 2 * config->max_body;
    server->bodies = (struct budget){.most = bodies, .gauge = METRIC_BODY_BYTES};
    server->replies = (struct budget){.most = config->http_bytes / 2, .gauge = METRIC_REPLY_BYTES};
    server->spool = (struct budget){.most = config->spool_bytes, .gauge = METRIC_SPOOL_BYTES};
    server->pool = pool_create((size_t)config->workers, METRIC_WORKERS_BUSY);
    server->gate = pool_create(1, METRIC_COUNT);
    server->side = pool_create(SIDE_THREADS, METRIC_COUNT);
    server->claims = claims_create();
    server->waits = waits_create();
    server->jobs = server->waits ? jobs_create(server) : NULL;
    if (!server->pool || !server->gate || !server->side || !server->claims || !server->jobs) {
        snprintf(message, message_size, "out of memory or threads");
        return false;
    }
    metric_set(METRIC_WORKERS, (int64_t)config->workers);
    struct store_options options = {
        .path = config->db,
        .cache_bytes = config->cache_bytes,
        .keep_seconds = config->keep_seconds,
        .expired = jobs_expired,
        .user = server->jobs,
    };
    server->store = store_open(&options, message, message_size);
    if (!server->store) {
        return false;
    }
    if (!jobs_recover(server->jobs)) {
        snprintf(message, message_size, "the jobs of an earlier run cannot be read from %s", config->db);
        return false;
    }
    return true;
}

/* Accepts parts that were never built. */
static void server_stop(struct server *server, struct http *http)
{
    if (http) {
        http_quiesce(http);
        jobs_stop(server->jobs);
        waits_stop(server->waits);
        waits_drain(server->waits); /* gate, pool and store still run: they hold the suspended requests */
        http_drain(http, DRAIN_SECONDS);
        http_stop(http);
    } else if (server->jobs) {
        jobs_stop(server->jobs);
    }
    pool_destroy(server->gate);
    pool_destroy(server->side); /* before the workers that it may borrow */
    pool_destroy(server->pool);
    store_close(server->store);
    jobs_destroy(server->jobs);
    waits_destroy(server->waits);
    claims_destroy(server->claims);
}

int command_serve(int argc, char **argv)
{
    struct config config;
    struct server server = {.config = &config};
    struct http *http = NULL;
    char message[512];
    char url[300];

    int operand = config_read(&config, CONFIG_SERVE, argc, argv, message, sizeof message);
    if (operand == -2) {
        print_help();
        return 0;
    }
    if (operand >= 0 && operand < argc) {
        snprintf(message, sizeof message, "serve takes no argument \"%.100s\"; see epsilond --help", argv[operand]);
        operand = -1;
    }
    if (operand < 0) {
        fprintf(stderr, "epsilond: %s\n", message);
        return 2;
    }
    signals_start();
    log_start(config.log_level);
    bool built = server_build(&server, message, sizeof message);
    if (built) {
        http = http_start(&server, url, sizeof url, message, sizeof message);
    }
    if (!http) {
        fprintf(stderr, "epsilond: %s\n", message);
        server_stop(&server, NULL);
        return 1;
    }
    printf("listening on %s\n", url);
    fflush(stdout);
    log_event(LOG_LEVEL_INFO, "started", "url=%s workers=%llu", url, (unsigned long long)config.workers);
    int number = signals_wait();
    log_event(LOG_LEVEL_INFO, "stopping", "signal=%s", number == SIGTERM ? "SIGTERM" : "SIGINT");
    server_stop(&server, http);
    log_event(LOG_LEVEL_INFO, "stopped", NULL);
    return 0;
}
