/*
 * The rows of the database as structs, shared by the store and the jobs.
 *
 * SPDX-License-Identifier: GPL-3.0-or-later
 */
#ifndef SERVER_STORE_RECORDS_H
#define SERVER_STORE_RECORDS_H

#include <netinet/in.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "api/codec/figures.h"
#include "lib/epsilon.h"
#include "server/ops/clock.h"
#include "server/ops/log.h"

#define HASH_SIZE 65 /* 64 hex digits and NUL */

/* The numbers stand in the database: never renumber. */
enum job_status {
    JOB_QUEUED = 0,
    JOB_RUNNING = 1,
    JOB_SUCCEEDED = 2,
    JOB_FAILED = 3,
    JOB_CANCELED = 4,
    JOB_STATUS_COUNT
};

const char *job_status_name(enum job_status status);
enum job_status job_status_named(const char *name); /* JOB_STATUS_COUNT: none */
static inline bool job_status_final(enum job_status status)
{
    return status >= JOB_SUCCEEDED;
}

/* A row of jobs. Texts are owned. Thread-compatible. */
struct job_record {
    char id[UUID_SIZE];
    char hash[HASH_SIZE];
    enum job_status status;
    int attempts;
    bool from_cache;               /* answered by a result that was there before */
    int version;                   /* of its result, see struct result_record; 0 before there is one */
    int64_t created_at;            /* ms */
    int64_t started_at;            /* 0: not yet */
    int64_t finished_at;           /* 0: not yet */
    char *label;                   /* or NULL */
    char *job;                     /* canonical JSON */
    char *brief;                   /* or NULL: same as job */
    char *error;                   /* or NULL */
    double operations;             /* estimated; 0: not */
    char parent[UUID_SIZE];        /* the group whose child it is; "": it was posted */
    int child;                     /* its number there */
    char request[REQUEST_ID_SIZE]; /* that brought it; "": not known */
    char client[INET6_ADDRSTRLEN]; /* who sent that; "": not known, as after a restart */
    bool checked;                  /* read from a row whose digests are right */
    bool damaged;                  /* or from one of which at least one is wrong: see store_read_job() */
};

/* Numbers stand in the database, too. */
enum group_kind_id { GROUP_SWEEP = 0, GROUP_PLAN = 1 };

/* A row of job_groups. Texts are owned. Thread-compatible. */
struct group_record {
    char id[UUID_SIZE];
    enum group_kind_id kind;
    enum job_status status;
    char *label;                      /* or NULL */
    char *request;                    /* JSON: an object */
    size_t total;                     /* children */
    size_t done;                      /* of these, those that are final */
    size_t failed;                    /* of these */
    int64_t created_at;               /* ms */
    int64_t finished_at;              /* 0: not yet */
    char request_id[REQUEST_ID_SIZE]; /* of the request that brought it; "": not known */
    char client[INET6_ADDRSTRLEN];    /* who sent that; "": not known, as after a restart */
    bool canceling;                   /* it runs until its last job has ended, and is canceled then */
    bool damaged;                     /* read from a row of which a digest is wrong: see store_read_group() */
};

void group_record_clear(struct group_record *record);

/* A row of children. */
struct child_record {
    size_t number;
    size_t ended;        /* the how manieth of its group, from 1; 0: it is not final */
    char job[UUID_SIZE]; /* "": it came to none */
    enum job_status status;
    struct api_figures figures; /* those that are listed; none of the others */
    const char *detail;         /* lent; or NULL */
    bool damaged;               /* the row fails its digest: it is told as failed */
};

/* The row of a child before its turn has come. */
struct child_record child_record_new(size_t number);

void job_record_clear(struct job_record *record);
/* Its state becomes that of a job that was just accepted. An error text is the caller's to free. */
void job_record_restart(struct job_record *record);
/* The bytes it holds, for bounding what is kept in memory. */
size_t job_record_bytes(const struct job_record *record);

/* A row of results, immutable once made and counted by reference: documents of many jobs share one. */
struct result_record {
    atomic_int references;
    char hash[HASH_SIZE];
    int version; /* accounting version; negative: see result_record_part() */
    int64_t finished_at;
    double elapsed_seconds;
    struct api_figures figures;
    char *core;  /* the result object up to its cache member, without the closing brace */
    char *cache; /* the cache member of the job that computed it */
    char *curve; /* or NULL */
    char *note;  /* or NULL: why there are no points */
    struct eps_curve_point *points;
    size_t points_len;
};

struct result_record *result_record_create(const char hash[HASH_SIZE]);
/* Parts a new result from the cache: it answers the jobs that it was computed for and no other, for they were cut short,
 * and a later equal job may be answered better. Its version becomes a negative number of its own. */
void result_record_part(struct result_record *result);
/* Whether any equal job is answered by it. */
static inline bool result_record_cached(const struct result_record *result)
{
    return result->version == EPS_ACCOUNTING_VERSION;
}
/* All but the points and the note; NULL: out of memory. */
struct result_record *result_record_copy(const struct result_record *result);
struct result_record *result_record_retain(struct result_record *result);
void result_record_release(struct result_record *result);
size_t result_record_bytes(const struct result_record *result);

#endif
