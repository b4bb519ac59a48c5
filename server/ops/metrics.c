/*
 * Prometheus text exposition (format 0.0.4). Every series exists from the start, so that a rate() never misses the
 * first event; requests are counted by route and status, and timed in one histogram per kind.
 *
 * SPDX-License-Identifier: GPL-3.0-or-later
 */
#include "server/ops/metrics.h"

#include <stdatomic.h>
#include <stdbool.h>

#include "lib/epsilon.h"

struct family {
    const char *name;
    const char *labels; /* of this series, or "" */
    const char *type;
    const char *help; /* NULL: another series of the family above */
};

static const struct family families[METRIC_COUNT] = {
    [METRIC_JOBS_ACCEPTED] = {"epsilond_jobs_accepted_total", "", "counter", "Jobs accepted, including cached ones."},
    [METRIC_JOBS_SUCCEEDED] = {"epsilond_jobs_finished_total", "{status=\"succeeded\"}", "counter",
                               "Jobs that became final."},
    [METRIC_JOBS_FAILED] = {"epsilond_jobs_finished_total", "{status=\"failed\"}", "counter", NULL},
    [METRIC_JOBS_CANCELED] = {"epsilond_jobs_finished_total", "{status=\"canceled\"}", "counter", NULL},
    [METRIC_JOBS_CRASHED] = {"epsilond_jobs_crashed_total", "", "counter", "Jobs that failed after three crashes."},
    [METRIC_JOBS_JOINED] = {"epsilond_jobs_joined_total", "", "counter", "Jobs that joined an equal one in progress."},
    [METRIC_JOBS_QUEUED] = {"epsilond_jobs_queued", "", "gauge", "Jobs waiting for a worker."},
    [METRIC_JOBS_RUNNING] = {"epsilond_jobs_running", "", "gauge", "Jobs being computed."},
    [METRIC_WORKERS] = {"epsilond_workers", "", "gauge", "Worker threads."},
    [METRIC_WORKERS_BUSY] = {"epsilond_workers_busy", "", "gauge", "Worker threads that are running a task."},
    [METRIC_STUCK_TOTAL] = {"epsilond_stuck_computations_total", "", "counter",
                            "Computations abandoned because they did not stop or respond."},
    [METRIC_STUCK] = {"epsilond_stuck_computations", "", "gauge", "Abandoned computations that have not ended yet."},
    [METRIC_QUEUE_REFUSED] = {"epsilond_queue_refused_total", "", "counter",
                              "Jobs rejected because the queue was full."},
    [METRIC_QUOTA_REFUSED] = {"epsilond_quota_refused_total", "", "counter",
                              "Requests rejected because a quota of their key was used up."},
    [METRIC_RESULT_HITS] = {"epsilond_result_lookups_total", "{result=\"hit\"}", "counter", "Result cache lookups."},
    [METRIC_RESULT_MISSES] = {"epsilond_result_lookups_total", "{result=\"miss\"}", "counter", NULL},
    [METRIC_FACTORIZATION_HITS] = {"epsilond_cache_lookups_total", "{kind=\"factorization\",result=\"hit\"}", "counter",
                                   "Lookups in the cache of factorisations, PLDs and chunks of draws."},
    [METRIC_FACTORIZATION_MISSES] = {"epsilond_cache_lookups_total", "{kind=\"factorization\",result=\"miss\"}",
                                     "counter", NULL},
    [METRIC_PLD_HITS] = {"epsilond_cache_lookups_total", "{kind=\"pld\",result=\"hit\"}", "counter", NULL},
    [METRIC_PLD_MISSES] = {"epsilond_cache_lookups_total", "{kind=\"pld\",result=\"miss\"}", "counter", NULL},
    [METRIC_CHUNK_HITS] = {"epsilond_cache_lookups_total", "{kind=\"chunk\",result=\"hit\"}", "counter", NULL},
    [METRIC_CHUNK_MISSES] = {"epsilond_cache_lookups_total", "{kind=\"chunk\",result=\"miss\"}", "counter", NULL},
    [METRIC_CHECKSUM_FAILURES] = {"epsilond_checksum_failures_total", "", "counter",
                                  "Stored results and blobs that failed their checksum."},
    [METRIC_CACHE_BYTES] = {"epsilond_cache_bytes", "", "gauge", "Bytes of stored factorisations and PLDs."},
    [METRIC_CHUNK_BYTES] = {"epsilond_chunk_bytes", "", "gauge", "Bytes of stored chunks of draws."},
    [METRIC_CACHE_EVICTIONS] = {"epsilond_cache_evictions_total", "", "counter", "Blobs evicted."},
    [METRIC_STORE_COMMITS] = {"epsilond_store_commits_total", "", "counter", "Transactions committed."},
    [METRIC_STORE_WRITES] = {"epsilond_store_writes_total", "", "counter", "Writes in those transactions."},
    [METRIC_STORE_HELD] = {"epsilond_store_held", "", "gauge", "Ends of jobs waiting to be written."},
    [METRIC_STORE_FAILURES] = {"epsilond_store_failures_total", "", "counter", "Writes that failed."},
    [METRIC_STORE_BYTES] = {"epsilond_database_bytes", "", "gauge", "Size of the database, without free pages."},
    [METRIC_HTTP_IN_FLIGHT] = {"epsilond_http_requests_in_flight", "", "gauge", "Requests in progress."},
    [METRIC_HTTP_WAITING] = {"epsilond_http_requests_waiting", "", "gauge", "Suspended connections."},
    [METRIC_HTTP_CONNECTIONS] = {"epsilond_http_connections", "", "gauge", "Open connections."},
    [METRIC_HTTP_EVICTED] = {"epsilond_http_connections_closed_total", "{reason=\"evicted\"}", "counter",
                             "Connections closed by the service: idle ones to make room, late ones, and those for "
                             "which there was no room."},
    [METRIC_HTTP_EXPIRED] = {"epsilond_http_connections_closed_total", "{reason=\"expired\"}", "counter", NULL},
    [METRIC_HTTP_REFUSED] = {"epsilond_http_connections_closed_total", "{reason=\"refused\"}", "counter", NULL},
    [METRIC_BODY_BYTES] = {"epsilond_http_body_bytes", "", "gauge", "Memory of request bodies in progress."},
    [METRIC_REPLY_BYTES] = {"epsilond_http_reply_bytes", "", "gauge", "Memory of replies in progress."},
    [METRIC_DRAWN_BYTES] = {"epsilond_drawn_bytes", "", "gauge", "Memory of streams of batches and noise."},
    [METRIC_SPOOL_BYTES] = {"epsilond_spool_bytes", "", "gauge", "Temporary files of matrices in progress."},
    [METRIC_BUGS] = {"epsilond_bugs_total", "", "counter", "Bugs of the service that were detected."},
};

static const int statuses[] = {200, 202, 204, 304, 400, 403, 404, 405, 406, 409, 413, 415, 422, 500, 503, 0};
#define STATUSES (sizeof statuses / sizeof statuses[0])

static const struct {
    const char *name;
    const char *help;
} timers[METRIC_TIMERS] = {
    [METRIC_TIME_REQUEST] = {"epsilond_http_request_seconds", "Time from the header to the end of the reply."},
    [METRIC_TIME_RUN] = {"epsilond_run_seconds", "Duration of computations."},
    [METRIC_TIME_COMMIT] = {"epsilond_store_commit_seconds", "Duration of commits: writing the log and syncing it."},
    [METRIC_TIME_CHECKPOINT] = {"epsilond_store_checkpoint_seconds",
                                "Duration of checkpoints: copying the log to the database and syncing both."},
};

static const double bounds[] = {0.0001, 0.00025, 0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1,
                                0.25,   0.5,     1,      2.5,   5,      10,    30,   60,    300,  1800};
#define BOUNDS (sizeof bounds / sizeof bounds[0])

struct histogram {
    _Atomic uint64_t buckets[BOUNDS + 1];
    _Atomic uint64_t microseconds;
};

static _Atomic int64_t values[METRIC_COUNT];
static _Atomic uint64_t requests[METRIC_ROUTES_MAX][STATUSES];
static struct histogram times[METRIC_TIMERS];

void metric_add(enum metric metric, int64_t amount)
{
    atomic_fetch_add_explicit(&values[metric], amount, memory_order_relaxed);
}

void metric_set(enum metric metric, int64_t value)
{
    atomic_store_explicit(&values[metric], value, memory_order_relaxed);
}

int64_t metric_get(enum metric metric)
{
    return atomic_load_explicit(&values[metric], memory_order_relaxed);
}

void metric_time(enum metric_timer timer, double seconds)
{
    struct histogram *histogram = &times[timer];
    size_t i = 0;
    while (i < BOUNDS && seconds > bounds[i])
        i++;
    atomic_fetch_add_explicit(&histogram->buckets[i], 1, memory_order_relaxed);
    atomic_fetch_add_explicit(&histogram->microseconds, (uint64_t)(seconds * 1e6), memory_order_relaxed);
}

void metric_request(size_t route, int status, double seconds)
{
    size_t i = 0;
    while (i < STATUSES - 1 && statuses[i] != status)
        i++;
    if (route >= METRIC_ROUTES_MAX)
        route = METRIC_ROUTES_MAX - 1;
    atomic_fetch_add_explicit(&requests[route][i], 1, memory_order_relaxed);
    metric_time(METRIC_TIME_REQUEST, seconds);
}

static void write_head(struct text *out, const char *name, const char *type, const char *help)
{
    text_printf(out, "# HELP %s %s\n# TYPE %s %s\n", name, help, name, type);
}

static void write_histogram(struct text *out, const char *name, const char *help, struct histogram *histogram)
{
    uint64_t total = 0;
    write_head(out, name, "histogram", help);
    for (size_t i = 0; i <= BOUNDS; i++) {
        total += atomic_load_explicit(&histogram->buckets[i], memory_order_relaxed);
        if (i < BOUNDS)
            text_printf(out, "%s_bucket{le=\"%g\"} %llu\n", name, bounds[i], (unsigned long long)total);
        else
            text_printf(out, "%s_bucket{le=\"+Inf\"} %llu\n", name, (unsigned long long)total);
    }
    uint64_t sum = atomic_load_explicit(&histogram->microseconds, memory_order_relaxed);
    text_printf(out, "%s_sum %.6f\n%s_count %llu\n", name, (double)sum * 1e-6, name, (unsigned long long)total);
}

static void write_requests(struct text *out, const char *const *routes, size_t routes_len)
{
    const char *name = "epsilond_http_requests_total";
    write_head(out, name, "counter", "Requests by route and status.");
    for (size_t route = 0; route < METRIC_ROUTES_MAX; route++) {
        for (size_t i = 0; i < STATUSES; i++) {
            uint64_t count = atomic_load_explicit(&requests[route][i], memory_order_relaxed);
            if (!count) /* all combinations of routes and statuses would be hundreds of unused series */
                continue;
            const char *label = route < routes_len ? routes[route] : "none";
            if (statuses[i]) {
                text_printf(out, "%s{route=\"%s\",status=\"%d\"} %llu\n", name, label, statuses[i],
                            (unsigned long long)count);
            } else {
                text_printf(out, "%s{route=\"%s\",status=\"other\"} %llu\n", name, label, (unsigned long long)count);
            }
        }
    }
}

void metrics_write(struct text *out, const char *const *routes, size_t routes_len)
{
    write_head(out, "epsilond_build_info", "gauge", "Version of the running build.");
    text_printf(out, "epsilond_build_info{version=\"%s\",accounting_version=\"%d\"} 1\n", EPS_VERSION,
                EPS_ACCOUNTING_VERSION);
    for (size_t i = 0; i < METRIC_COUNT; i++) {
        if (families[i].help)
            write_head(out, families[i].name, families[i].type, families[i].help);
        text_printf(out, "%s%s %lld\n", families[i].name, families[i].labels, (long long)metric_get((enum metric)i));
    }
    write_requests(out, routes, routes_len);
    for (size_t i = 0; i < METRIC_TIMERS; i++)
        write_histogram(out, timers[i].name, timers[i].help, &times[i]);
}
