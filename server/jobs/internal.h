/*
 * Shared by the files of server/jobs/: live jobs, runs, and the registry that holds them under one mutex, which is
 * taken outside those of server/work/ (see its internal.h).
 *
 * SPDX-License-Identifier: GPL-3.0-or-later
 */
#ifndef SERVER_JOBS_INTERNAL_H
#define SERVER_JOBS_INTERNAL_H

#include <pthread.h>
#include <stdatomic.h>

#include "api/codec/codec.h"
#include "server/jobs/jobs.h"
#include "server/ops/memory.h"
#include "server/ops/map.h"

#define ATTEMPTS_MAX 3

struct run;

/* A job that is not final. Code that reads its texts outside the mutex of the registry holds a reference; they do not
 * change once the job is admitted. */
struct live {
    atomic_int references;
    struct map_node node; /* in registry.live, by id */
    struct job_record record;
    struct run *run;
    struct live *next;              /* in the same run */
    struct waiters waiters;         /* for its end */
    bool ending;                    /* its last write is queued, so it does not change any more */
    struct reservation reservation; /* until it leaves */
};

/* The work that answers equal jobs, open from the first one until it ends or has no job left. */
struct run {
    struct work work; /* first */
    bool started;
    bool again;            /* it was put off: it has started once and starts again */
    struct waiter awaited; /* while it is put off: waits for the end of the other computation */
    struct jobs *jobs;
    struct pool *pool; /* whose task it is */
    struct live *lives;
    char job[UUID_SIZE];           /* the first job of the run, even if it has left */
    char request[REQUEST_ID_SIZE]; /* that submitted it; "": unknown */
    struct poster poster;          /* of that job; all jobs of the run are of one realm */
};

struct jobs {
    struct server *server;
    pthread_mutex_t mutex;
    struct map live;
    size_t queued;   /* posted jobs that wait for a worker, including reserved places */
    size_t children; /* children of groups that wait for a worker */
    size_t places;   /* places taken by groups */
    size_t bytes;    /* held by live jobs and reserved for new ones */
    size_t running;
    atomic_bool stopping;
    void (*child_ended)(void *user, const char *parent, const char *id); /* or NULL */
    void (*child_held)(void *user, const char *parent);                  /* likewise */
    void *user;
    struct memory *documents; /* by id */
    struct memory *results;   /* by hash, for this accounting version */
    struct memory *spends;    /* by the key of the result */
    struct memory *requests;  /* by the hash of the bytes of a request: what they decode to; see submit.c */
};

/* The last write of some jobs of a run, and what follows its commit. */
struct ending {
    struct store_update update;
    struct jobs *jobs;
    struct live *lives; /* linked by next */
    struct waiters cancelers;
};

/* The estimated time of a job, in seconds. */
double jobs__estimate(const struct job_record *record);
struct live *jobs__find_locked(struct jobs *jobs, const char *id);
void jobs__count_locked(struct jobs *jobs, const struct job_record *record, int queued, int running);
/* Counts the bytes and seconds of a reservation; sign: 1, or -1 if they are given back. */
void jobs__hold_locked(struct jobs *jobs, const struct reservation *reservation, int sign);
/* Creates the ending of `lives` (already marked), with all changes zero; NULL: out of memory. */
struct ending *jobs__ending_create(struct jobs *jobs, struct live *lives);
void jobs__ending_submit(struct ending *ending);
void jobs__run_task(struct pool_task *task); /* run.c */
/* Logs the start of a job. hash: of its computation. */
void jobs__log_start(const struct job_change *change, const char *request, const char *hash);
void jobs__live_release(struct live *live);
memory_count_fn jobs__prototype_retain; /* submit.c */
memory_count_fn jobs__prototype_release;
memory_count_fn jobs__spend_retain; /* spend.c */
memory_count_fn jobs__spend_release;

#endif
