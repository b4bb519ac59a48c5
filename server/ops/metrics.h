/*
 * The metrics of /metrics: counters, gauges and histograms in C11 atomics, in one table of families. They are global,
 * because every module counts and none makes decisions by them. Thread-safe.
 *
 * SPDX-License-Identifier: GPL-3.0-or-later
 */
#ifndef SERVER_OPS_METRICS_H
#define SERVER_OPS_METRICS_H

#include <stddef.h>
#include <stdint.h>

#include "api/json/text.h"
#include "api/problem.h"

enum metric {
    METRIC_STARTED, /* gauge */
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
    METRIC_CELLS, /* gauge */
    METRIC_CELLS_FAILED,
    METRIC_CELL_DEATHS, /* the first of one for each reason, in the order of enum cell_end from CELL_CRASHED */
    METRIC_CELL_DEATHS_LAST = METRIC_CELL_DEATHS + 4,
    METRIC_BROKER_CONNECTED, /* gauge: 0 or 1 */
    METRIC_BROKER_WORKERS,   /* gauge */
    METRIC_BROKER_DIVIDED,   /* gauge */
    METRIC_BROKER_QUESTIONS,
    METRIC_BROKER_ANSWERS,
    METRIC_BROKER_ANSWERS_DROPPED,
    METRIC_BROKER_DEAD,
    METRIC_BROKER_LEFT,
    METRIC_BROKER_MALFORMED,
    METRIC_QUEUE_REFUSED,
    METRIC_QUOTA_REFUSED, /* the first of one for each quota, in the order of enum quota_kind */
    METRIC_QUOTA_REFUSED_LAST = METRIC_QUOTA_REFUSED + 4,
    METRIC_RESULT_HITS,
    METRIC_RESULT_MISSES,
    METRIC_FACTORIZATION_HITS,
    METRIC_FACTORIZATION_MISSES,
    METRIC_PLD_HITS,
    METRIC_PLD_MISSES,
    METRIC_CHUNK_HITS,
    METRIC_CHUNK_MISSES,
    METRIC_DRAWS,
    METRIC_CHECKSUM_FAILURES,
    METRIC_CACHE_BYTES, /* gauge */
    METRIC_CHUNK_BYTES, /* gauge */
    METRIC_CACHE_EVICTIONS,
    METRIC_STORE_COMMITS,
    METRIC_STORE_WRITES,
    METRIC_STORE_FAILURES,
    METRIC_STORE_HELD,       /* gauge */
    METRIC_STORE_BYTES,      /* gauge */
    METRIC_STORE_SCRUBBED,   /* gauge */
    METRIC_STORE_DAMAGED,    /* gauge */
    METRIC_HTTP_IN_FLIGHT,   /* gauge */
    METRIC_HTTP_WAITING,     /* gauge */
    METRIC_HTTP_CONNECTIONS, /* gauge */
    METRIC_STREAMS_EVENTS,   /* gauge */
    METRIC_STREAMS_DRAWN,    /* gauge */
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

/* What is timed, in one histogram each; requests are timed by metric_request(). */
enum metric_timer {
    METRIC_TIME_QUEUE,      /* of a job, from its acceptance to its start */
    METRIC_TIME_RUN,        /* a computation */
    METRIC_TIME_READ,       /* what a thread reads from the database at a time */
    METRIC_TIME_COMMIT,     /* a commit: writing its frames to the log and syncing it */
    METRIC_TIME_CHECKPOINT, /* a checkpoint: copying the pages of the log to the database and syncing both */
    METRIC_TIMERS
};

#define METRIC_ROUTES_MAX 64

void metric_add(enum metric metric, int64_t amount);
void metric_set(enum metric metric, int64_t value);
int64_t metric_get(enum metric metric);
/* request: the id of the request that caused it, which is kept as an example of its bucket; or NULL. */
void metric_time(enum metric_timer timer, double seconds, const char *request);
/* Counts and times a request: its row in the route table (METRIC_ROUTES_MAX - 1: no route), status, seconds from the
 * header to the end of the reply, and id. */
void metric_request(size_t route, int status, double seconds, const char *id);
/* Counts a problem document that is sent. */
void metric_problem(enum api_problem problem);

enum metrics_format {
    METRICS_PROMETHEUS, /* text format 0.0.4 */
    METRICS_OPENMETRICS /* OpenMetrics 1.0, with units and with ids of requests as exemplars */
};

/* The lines before the series of a family. In OpenMetrics its name may differ from theirs. */
void metrics_head(struct text *out, enum metrics_format format, const char *name, const char *type, const char *help);
/* The end, after all families. */
void metrics_end(struct text *out, enum metrics_format format);
/* Writes all metrics of this file; routes: routes_len names (path patterns with method). */
void metrics_write(struct text *out, enum metrics_format format, const char *const *routes, size_t routes_len);

#endif
