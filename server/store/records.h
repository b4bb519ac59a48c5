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

/* The bytes of the id of a key and of the name of a group of keys, with NUL. */
#define POSTER_KEY_SIZE 9
#define OWNER_SIZE 65

/* Who posted a resource, and to whom it belongs. Both are "" if it was posted without a key. */
struct poster {
    char key[POSTER_KEY_SIZE];
    char group[OWNER_SIZE];
};

/* The numbers are stored in the database: never renumber. */
enum job_status {
    JOB_QUEUED = 0,
    JOB_RUNNING = 1,
    JOB_SUCCEEDED = 2,
    JOB_FAILED = 3,
    JOB_CANCELED = 4,
    JOB_STATUS_COUNT
};

const char *job_status_name(enum job_status status);
enum job_status job_status_named(const char *name); /* JOB_STATUS_COUNT: there is no status with this name. */
static inline bool job_status_final(enum job_status status)
{
    return status >= JOB_SUCCEEDED;
}

/* A row of jobs. Owns its texts. Thread-compatible. */
struct job_record {
    char id[UUID_SIZE];
    char hash[HASH_SIZE];
    enum job_status status;
    int attempts;
    bool from_cache;               /* answered by an existing result */
    int version;                   /* of its result, see struct result_record; 0 while there is none */
    int64_t created_at;            /* ms */
    int64_t started_at;            /* 0: not started */
    int64_t finished_at;           /* 0: not finished */
    char *label;                   /* or NULL */
    char *job;                     /* canonical JSON */
    char *brief;                   /* or NULL: same as job */
    char *error;                   /* or NULL */
    double operations;             /* estimate; 0: none */
    char parent[UUID_SIZE];        /* the group of a child; "": the job was posted */
    int child;                     /* its number in the group */
    struct poster poster;          /* of the job, or of its group; not in lists */
    char request[REQUEST_ID_SIZE]; /* the request that submitted it; "": unknown */
    char client[INET6_ADDRSTRLEN]; /* the client of that request; "": unknown, as after a restart */
    bool checked;                  /* read from a row whose digests match */
    bool damaged;                  /* or from a row with a wrong digest: see store_read_job() */
};

/* These numbers are stored in the database, too. */
enum group_kind_id { GROUP_SWEEP = 0, GROUP_PLAN = 1 };

/* A row of job_groups. Owns its texts. Thread-compatible. */
struct group_record {
    char id[UUID_SIZE];
    enum group_kind_id kind;
    enum job_status status;
    char *label;         /* or NULL */
    char *request;       /* a JSON object */
    size_t total;        /* number of children */
    size_t done;         /* the number of final children */
    size_t failed;       /* the number of failed children */
    int64_t created_at;  /* ms */
    int64_t finished_at; /* 0: not finished */
    struct poster poster;
    char request_id[REQUEST_ID_SIZE]; /* the request that submitted it; "": unknown */
    char client[INET6_ADDRSTRLEN];    /* the client of that request; "": unknown, as after a restart */
    bool canceling;                   /* it runs until its last job has ended, and is then canceled */
    bool damaged;                     /* read from a row with a wrong digest: see store_read_group() */
};

void group_record_clear(struct group_record *record);

/* A row of children. */
struct child_record {
    size_t number;
    size_t ended;        /* its position in the order in which the children ended, from 1; 0: not final */
    char job[UUID_SIZE]; /* "": there is none */
    enum job_status status;
    struct api_figures figures; /* the listed figures; the others are absent */
    const char *detail;         /* borrowed; or NULL */
    bool damaged;               /* the digest of the row is wrong: it is shown as failed */
};

/* The row of a child that has not started. */
struct child_record child_record_new(size_t number);

void job_record_clear(struct job_record *record);
/* Resets the state to that of a job that was just accepted. The caller frees the error text. */
void job_record_restart(struct job_record *record);
/* The memory of a record, for limits. */
size_t job_record_bytes(const struct job_record *record);
/* What a posted job, or a group with its children, counts for among the bytes that its key keeps: the texts, and
 * KEPT_OVERHEAD for the rest of each job. It does not change while the resource exists. */
#define KEPT_OVERHEAD 1024
uint64_t job_record_kept(const struct job_record *record);
uint64_t group_record_kept(const struct group_record *record);

/* A row of results. Immutable once created, and reference-counted, because documents of many jobs share one. */
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
/* Separates a new result from the cache: it answers only the jobs for which it was computed, because they were cut
 * short and a later equal job may get a better answer. Its version becomes a unique negative number. */
void result_record_part(struct result_record *result);
/* Whether the result answers any equal job. */
static inline bool result_record_cached(const struct result_record *result)
{
    return result->version == EPS_ACCOUNTING_VERSION;
}
/* A copy without the points and the note; NULL: out of memory. */
struct result_record *result_record_copy(const struct result_record *result);
struct result_record *result_record_retain(struct result_record *result);
void result_record_release(struct result_record *result);
size_t result_record_bytes(const struct result_record *result);

#endif
