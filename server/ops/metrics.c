/*
 * The text of Prometheus (format 0.0.4) and OpenMetrics 1.0. Every series exists from the start, so that a rate() never
 * misses the first event; except requests, which are counted by route and status, and timed by route.
 *
 * SPDX-License-Identifier: GPL-3.0-or-later
 */
#include "server/ops/metrics.h"

#include <assert.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#include "lib/epsilon.h"
#include "server/ops/clock.h"
#include "server/ops/log.h"

struct family {
    const char *name;
    const char *labels; /* of this series, or "" */
    const char *type;
    const char *help; /* NULL: another series of the family above */
};

static const struct family families[METRIC_COUNT] = {
    [METRIC_STARTED] = {"process_start_time_seconds", "", "gauge", "Start of the process, since 1970."},
    [METRIC_JOBS_ACCEPTED] = {"epsilond_jobs_accepted_total", "", "counter", "Jobs accepted, including cached ones."},
    [METRIC_JOBS_SUCCEEDED] = {"epsilond_jobs_finished_total", "{status=\"succeeded\"}", "counter",
                               "Jobs that became final."},
    [METRIC_JOBS_FAILED] = {"epsilond_jobs_finished_total", "{status=\"failed\"}", "counter", NULL},
    [METRIC_JOBS_CANCELED] = {"epsilond_jobs_finished_total", "{status=\"canceled\"}", "counter", NULL},
    [METRIC_JOBS_CRASHED] = {"epsilond_jobs_crashed_total", "", "counter", "Jobs that failed because they crashed."},
    [METRIC_JOBS_JOINED] = {"epsilond_jobs_joined_total", "", "counter", "Jobs that joined an equal one in progress."},
    [METRIC_JOBS_QUEUED] = {"epsilond_jobs_queued", "", "gauge", "Jobs waiting for a worker."},
    [METRIC_JOBS_RUNNING] = {"epsilond_jobs_running", "", "gauge", "Jobs being computed."},
    [METRIC_WORKERS] = {"epsilond_workers", "", "gauge", "Worker threads."},
    [METRIC_WORKERS_BUSY] = {"epsilond_workers_busy", "", "gauge", "Worker threads that are running a task."},
    [METRIC_STUCK_TOTAL] = {"epsilond_computations_given_up_total", "", "counter",
                            "Computations given up because they did not stop or respond."},
    [METRIC_STUCK] = {"epsilond_stuck_computations", "", "gauge", "Computations given up that have not ended yet."},
    [METRIC_CELLS] = {"epsilond_cells", "", "gauge", "Processes that compute, or are ready to."},
    [METRIC_CELLS_FAILED] = {"epsilond_cell_start_failures_total", "", "counter",
                             "Processes for computing that could not be started."},
    [METRIC_CELL_DEATHS] = {"epsilond_cell_deaths_total", "{reason=\"crashed\"}", "counter",
                            "Processes that ended while they computed."},
    [METRIC_CELL_DEATHS + 1] = {"epsilond_cell_deaths_total", "{reason=\"killed\"}", "counter", NULL},
    [METRIC_CELL_DEATHS + 2] = {"epsilond_cell_deaths_total", "{reason=\"forbidden\"}", "counter", NULL},
    [METRIC_CELL_DEATHS + 3] = {"epsilond_cell_deaths_total", "{reason=\"overdue\"}", "counter", NULL},
    [METRIC_CELL_DEATHS + 4] = {"epsilond_cell_deaths_total", "{reason=\"malformed\"}", "counter", NULL},
    [METRIC_BROKER_CONNECTED] = {"epsilond_broker_connected", "", "gauge", "Whether the broker is connected."},
    [METRIC_BROKER_WORKERS] = {"epsilond_broker_workers", "", "gauge", "Workers at the broker that are ready."},
    [METRIC_BROKER_DIVIDED] = {"epsilond_broker_divided_jobs", "", "gauge",
                               "Jobs whose draws are divided among workers."},
    [METRIC_BROKER_QUESTIONS] = {"epsilond_broker_questions_total", "", "counter",
                                 "Jobs and portions of draws sent to the broker."},
    [METRIC_BROKER_ANSWERS] = {"epsilond_broker_answers_total", "{use=\"taken\"}", "counter",
                               "Answers of workers: the first one is taken, and later ones are dropped."},
    [METRIC_BROKER_ANSWERS_DROPPED] = {"epsilond_broker_answers_total", "{use=\"dropped\"}", "counter", NULL},
    [METRIC_BROKER_DEAD] = {"epsilond_broker_dead_total", "", "counter", "Jobs that no worker lived to answer."},
    [METRIC_BROKER_LEFT] = {"epsilond_broker_fallback_total", "", "counter",
                            "Jobs computed here because the broker or the workers were gone."},
    [METRIC_BROKER_MALFORMED] = {"epsilond_broker_malformed_total", "", "counter",
                                 "Messages from the broker that made no sense."},
    [METRIC_QUEUE_REFUSED] = {"epsilond_queue_refused_total", "", "counter",
                              "Jobs rejected because the queue was full."},
    [METRIC_QUOTA_REFUSED] = {"epsilond_quota_refused_total", "{quota=\"requests\"}", "counter",
                              "Requests rejected because a quota of their key was used up."},
    [METRIC_QUOTA_REFUSED + 1] = {"epsilond_quota_refused_total", "{quota=\"queued\"}", "counter", NULL},
    [METRIC_QUOTA_REFUSED + 2] = {"epsilond_quota_refused_total", "{quota=\"seconds\"}", "counter", NULL},
    [METRIC_QUOTA_REFUSED + 3] = {"epsilond_quota_refused_total", "{quota=\"streams\"}", "counter", NULL},
    [METRIC_QUOTA_REFUSED + 4] = {"epsilond_quota_refused_total", "{quota=\"bytes\"}", "counter", NULL},
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
    [METRIC_DRAWS] = {"epsilond_draws_total", "", "counter", "Draws of Monte Carlo computations."},
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
    [METRIC_STORE_SCRUBBED] = {"epsilond_database_scrub_time_seconds", "", "gauge",
                               "When the whole database was last read and found undamaged, since 1970; 0: not yet."},
    [METRIC_STORE_DAMAGED] = {"epsilond_database_damaged", "", "gauge",
                              "1: the database was read and found damaged; 0: not."},
    [METRIC_HTTP_IN_FLIGHT] = {"epsilond_http_requests_in_flight", "", "gauge", "Requests in progress."},
    [METRIC_HTTP_WAITING] = {"epsilond_http_requests_waiting", "", "gauge", "Suspended connections."},
    [METRIC_HTTP_CONNECTIONS] = {"epsilond_http_connections", "", "gauge", "Open connections."},
    [METRIC_STREAMS_EVENTS] = {"epsilond_http_streams", "{kind=\"events\"}", "gauge",
                               "Open streams: of events, and of batches and noise that are drawn."},
    [METRIC_STREAMS_DRAWN] = {"epsilond_http_streams", "{kind=\"drawn\"}", "gauge", NULL},
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

static const int statuses[] = {200, 202, 204, 304, 400, 401, 403, 404, 405, 406, 409, 413, 415, 422, 429, 500, 503, 0};
#define STATUSES (sizeof statuses / sizeof statuses[0])

static const struct {
    const char *name;
    const char *help;
} timers[METRIC_TIMERS] = {
    [METRIC_TIME_QUEUE] = {"epsilond_queue_seconds", "Time from the acceptance of jobs to their start."},
    [METRIC_TIME_RUN] = {"epsilond_run_seconds", "Duration of computations."},
    [METRIC_TIME_READ] = {"epsilond_store_read_seconds", "Duration of reads from the database."},
    [METRIC_TIME_COMMIT] = {"epsilond_store_commit_seconds", "Duration of commits: writing the log and syncing it."},
    [METRIC_TIME_CHECKPOINT] =
        {"epsilond_store_checkpoint_seconds",
         "Duration of each part of a checkpoint: copying the log to the database and syncing both."},
};

static const double bounds[] = {0.0001, 0.00025, 0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1,
                                0.25,   0.5,     1,      2.5,   5,      10,    30,   60,    300,  1800};
#define BOUNDS (sizeof bounds / sizeof bounds[0])

/* The last observation of a bucket that a request caused. */
struct exemplar {
    char request[REQUEST_ID_SIZE]; /* "": none */
    double seconds;
    int64_t at; /* ms since 1970 */
};

struct histogram {
    _Atomic uint64_t buckets[BOUNDS + 1];
    _Atomic uint64_t microseconds;
    struct exemplar exemplars[BOUNDS + 1]; /* under exemplars_mutex */
};

static _Atomic int64_t values[METRIC_COUNT];
static _Atomic uint64_t problems[API_PROBLEM_COUNT];
static _Atomic uint64_t requests[METRIC_ROUTES_MAX][STATUSES];
static struct histogram request_times[METRIC_ROUTES_MAX];
static struct histogram times[METRIC_TIMERS];
static pthread_mutex_t exemplars_mutex = PTHREAD_MUTEX_INITIALIZER;

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

void metric_problem(enum api_problem problem)
{
    assert((size_t)problem < API_PROBLEM_COUNT);
    atomic_fetch_add_explicit(&problems[problem], 1, memory_order_relaxed);
}

static bool needs_escape(const char *label)
{
    return label[strcspn(label, "\"\\\n")] != '\0';
}

/* An example is dropped rather than waited for. */
static void keep_exemplar(struct exemplar *exemplar, double seconds, const char *request)
{
    if (!request || !*request || strlen(request) >= sizeof exemplar->request || needs_escape(request) ||
        pthread_mutex_trylock(&exemplars_mutex) != 0)
        return;
    memcpy(exemplar->request, request, strlen(request) + 1);
    exemplar->seconds = seconds;
    exemplar->at = clock_now_ms();
    pthread_mutex_unlock(&exemplars_mutex);
}

static void observe(struct histogram *histogram, double seconds, const char *request)
{
    assert(seconds >= 0);
    size_t i = 0;
    while (i < BOUNDS && seconds > bounds[i])
        i++;
    atomic_fetch_add_explicit(&histogram->buckets[i], 1, memory_order_relaxed);
    atomic_fetch_add_explicit(&histogram->microseconds, (uint64_t)(seconds * 1e6), memory_order_relaxed);
    keep_exemplar(&histogram->exemplars[i], seconds, request);
}

void metric_time(enum metric_timer timer, double seconds, const char *request)
{
    observe(&times[timer], seconds, request);
}

void metric_request(size_t route, int status, double seconds, const char *id)
{
    size_t i = 0;
    while (i < STATUSES - 1 && statuses[i] != status)
        i++;
    if (route >= METRIC_ROUTES_MAX)
        route = METRIC_ROUTES_MAX - 1;
    atomic_fetch_add_explicit(&requests[route][i], 1, memory_order_relaxed);
    observe(&request_times[route], seconds, id);
}

/* ---------------------------------------------------------------- writing */

struct sheet {
    struct text *out;
    bool open; /* OpenMetrics */
    const char *const *routes;
    size_t routes_len;
};

static bool ends_with(const char *name, size_t len, const char *end)
{
    return len > strlen(end) && memcmp(name + len - strlen(end), end, strlen(end)) == 0;
}

/* In OpenMetrics the name of a family lacks the suffix of its series, and ends with its unit. */
void metrics_head(struct text *out, enum metrics_format format, const char *name, const char *type, const char *help)
{
    bool open = format == METRICS_OPENMETRICS;
    static const char *const units[] = {"seconds", "bytes"};
    int len = (int)strlen(name);
    if (open && strcmp(type, "counter") == 0) {
        assert(ends_with(name, (size_t)len, "_total"));
        len -= (int)strlen("_total");
    } else if (open && strcmp(type, "info") == 0) {
        assert(ends_with(name, (size_t)len, "_info"));
        len -= (int)strlen("_info");
    } else if (strcmp(type, "info") == 0) {
        type = "gauge";
    }
    text_printf(out, "# HELP %.*s %s\n# TYPE %.*s %s\n", len, name, help, len, name, type);
    for (size_t i = 0; open && i < sizeof units / sizeof *units; i++)
        if (ends_with(name, (size_t)len, units[i]))
            text_printf(out, "# UNIT %.*s %s\n", len, name, units[i]);
}

static void write_head(const struct sheet *sheet, const char *name, const char *type, const char *help)
{
    metrics_head(sheet->out, sheet->open ? METRICS_OPENMETRICS : METRICS_PROMETHEUS, name, type, help);
}

static const char *route_name(const struct sheet *sheet, size_t route)
{
    return route < sheet->routes_len ? sheet->routes[route] : "none";
}

/* OpenMetrics writes whole numbers as 1.0. */
static void write_bound(const struct sheet *sheet, size_t i)
{
    char bound[32] = "+Inf";
    if (i < BOUNDS)
        snprintf(bound, sizeof bound, "%g", bounds[i]);
    text_printf(sheet->out, "le=\"%s%s\"}", bound, sheet->open && i < BOUNDS && !strchr(bound, '.') ? ".0" : "");
}

/* route: or NULL. */
static void write_histogram(const struct sheet *sheet, const char *name, const char *route, struct histogram *histogram)
{
    struct exemplar exemplars[BOUNDS + 1];
    struct text *out = sheet->out;
    uint64_t total = 0;
    char label[112] = "";
    pthread_mutex_lock(&exemplars_mutex);
    memcpy(exemplars, histogram->exemplars, sizeof exemplars);
    pthread_mutex_unlock(&exemplars_mutex);
    if (route)
        snprintf(label, sizeof label, "route=\"%s\"", route);
    for (size_t i = 0; i <= BOUNDS; i++) {
        total += atomic_load_explicit(&histogram->buckets[i], memory_order_relaxed);
        text_printf(out, "%s_bucket{%s%s", name, label, route ? "," : "");
        write_bound(sheet, i);
        text_printf(out, " %llu", (unsigned long long)total);
        if (sheet->open && exemplars[i].request[0])
            text_printf(out, " # {request=\"%s\"} %.9g %.3f", exemplars[i].request, exemplars[i].seconds,
                        (double)exemplars[i].at / 1000);
        text_puts(out, "\n");
    }
    uint64_t sum = atomic_load_explicit(&histogram->microseconds, memory_order_relaxed);
    const char *open = route ? "{" : "", *close = route ? "}" : "";
    text_printf(out, "%s_sum%s%s%s %.6f\n", name, open, label, close, (double)sum * 1e-6);
    text_printf(out, "%s_count%s%s%s %llu\n", name, open, label, close, (unsigned long long)total);
}

static void write_timers(const struct sheet *sheet)
{
    for (size_t i = 0; i < METRIC_TIMERS; i++) {
        write_head(sheet, timers[i].name, "histogram", timers[i].help);
        write_histogram(sheet, timers[i].name, NULL, &times[i]);
    }
}

static void write_problems(const struct sheet *sheet)
{
    const char *name = "epsilond_http_problems_total";
    write_head(sheet, name, "counter", "Problem documents sent, by type: requests rejected, and why.");
    for (size_t i = 0; i < API_PROBLEM_COUNT; i++)
        text_printf(sheet->out, "%s{problem=\"%s\"} %llu\n", name, api_problem_type((enum api_problem)i)->name,
                    (unsigned long long)atomic_load_explicit(&problems[i], memory_order_relaxed));
}

static bool was_requested(size_t route)
{
    uint64_t count = 0;
    for (size_t i = 0; i < STATUSES; i++)
        count += atomic_load_explicit(&requests[route][i], memory_order_relaxed);
    return count > 0;
}

/* All combinations of routes and statuses would be hundreds of unused series. */
static void write_requests(const struct sheet *sheet)
{
    const char *name = "epsilond_http_requests_total";
    write_head(sheet, name, "counter", "Requests by route and status.");
    for (size_t route = 0; route < METRIC_ROUTES_MAX; route++) {
        for (size_t i = 0; i < STATUSES; i++) {
            uint64_t count = atomic_load_explicit(&requests[route][i], memory_order_relaxed);
            char status[16] = "other";
            if (statuses[i])
                snprintf(status, sizeof status, "%d", statuses[i]);
            if (count)
                text_printf(sheet->out, "%s{route=\"%s\",status=\"%s\"} %llu\n", name, route_name(sheet, route), status,
                            (unsigned long long)count);
        }
    }
    name = "epsilond_http_request_seconds";
    write_head(sheet, name, "histogram", "Time from the header to the end of the reply, by route.");
    for (size_t route = 0; route < METRIC_ROUTES_MAX; route++)
        if (was_requested(route))
            write_histogram(sheet, name, route_name(sheet, route), &request_times[route]);
}

void metrics_write(struct text *out, enum metrics_format format, const char *const *routes, size_t routes_len)
{
    const struct sheet sheet = {out, format == METRICS_OPENMETRICS, routes, routes_len};
    write_head(&sheet, "epsilond_build_info", "info", "Version of the running build.");
    text_printf(out, "epsilond_build_info{version=\"%s\",accounting_version=\"%d\"} 1\n", EPS_VERSION,
                EPS_ACCOUNTING_VERSION);
    for (size_t i = 0; i < METRIC_COUNT; i++) {
        if (families[i].help)
            write_head(&sheet, families[i].name, families[i].type, families[i].help);
        text_printf(out, "%s%s %lld\n", families[i].name, families[i].labels, (long long)metric_get((enum metric)i));
    }
    write_problems(&sheet);
    write_requests(&sheet);
    write_timers(&sheet);
}

void metrics_end(struct text *out, enum metrics_format format)
{
    if (format == METRICS_OPENMETRICS)
        text_puts(out, "# EOF\n");
}
