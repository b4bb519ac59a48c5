/*
 * The metrics of /metrics: counters and gauges in C11 atomics, in one table of families. They are global, because every
 * module counts and none makes decisions by them. Thread-safe.
 *
 * SPDX-License-Identifier: GPL-3.0-or-later
 */
#ifndef SERVER_OPS_METRICS_H
#define SERVER_OPS_METRICS_H

#include <stddef.h>
#include <stdint.h>

#include "api/json/text.h"

enum metric {
    METRIC_JOBS_ACCEPTED,
    METRIC_JOBS_SUCCEEDED,
    METRIC_JOBS_FAILED,
    METRIC_JOBS_CANCELED,
    METRIC_JOBS_CRASHED,
    METRIC_JOBS_JOINED,
    METRIC_JOBS_QUEUED,  /* gauge */
    METRIC_JOBS_RUNNING, /* gauge */
    METRIC_WORKERS,      /* gauge */
    METRIC_WORKERS_BUSY, /* gauge */
    METRIC_STUCK_TOTAL,
    METRIC_STUCK, /* gauge */
    METRIC_QUEUE_REFUSED,
    METRIC_QUOTA_REFUSED,
    METRIC_RESULT_HITS,
    METRIC_RESULT_MISSES,
    METRIC_FACTORIZATION_HITS,
    METRIC_FACTORIZATION_MISSES,
    METRIC_PLD_HITS,
    METRIC_PLD_MISSES,
    METRIC_CHUNK_HITS,
    METRIC_CHUNK_MISSES,
    METRIC_CHECKSUM_FAILURES,
    METRIC_CACHE_BYTES, /* gauge */
    METRIC_CHUNK_BYTES, /* gauge */
    METRIC_CACHE_EVICTIONS,
    METRIC_STORE_COMMITS,
    METRIC_STORE_WRITES,
    METRIC_STORE_FAILURES,
    METRIC_STORE_HELD,       /* gauge */
    METRIC_STORE_BYTES,      /* gauge */
    METRIC_HTTP_IN_FLIGHT,   /* gauge */
    METRIC_HTTP_WAITING,     /* gauge */
    METRIC_HTTP_CONNECTIONS, /* gauge */
    METRIC_HTTP_EVICTED,
    METRIC_HTTP_EXPIRED,
    METRIC_HTTP_REFUSED,
    METRIC_BODY_BYTES,  /* gauge */
    METRIC_REPLY_BYTES, /* gauge */
    METRIC_SPOOL_BYTES, /* gauge */
    METRIC_DRAWN_BYTES, /* gauge */
    METRIC_BUGS,
    METRIC_COUNT
};

/* What is timed, in one histogram each. */
enum metric_timer {
    METRIC_TIME_REQUEST,    /* from the header to the end of the reply */
    METRIC_TIME_RUN,        /* a computation */
    METRIC_TIME_COMMIT,     /* a commit: writing its frames to the log and syncing it */
    METRIC_TIME_CHECKPOINT, /* a checkpoint: copying the pages of the log to the database and syncing both */
    METRIC_TIMERS
};

#define METRIC_ROUTES_MAX 64

void metric_add(enum metric metric, int64_t amount);
void metric_set(enum metric metric, int64_t value);
int64_t metric_get(enum metric metric);
void metric_time(enum metric_timer timer, double seconds);
/* Counts a request: its row in the route table (METRIC_ROUTES_MAX - 1: no route), status and time. */
void metric_request(size_t route, int status, double seconds);
/* Writes the Prometheus text; routes: routes_len names (path patterns with method). */
void metrics_write(struct text *out, const char *const *routes, size_t routes_len);

#endif
