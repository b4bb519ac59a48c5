/*
 * What the files of server/jobs/ share: live jobs, runs, and the registry that holds them under one mutex, which is
 * outside of those of server/work/ (see there, internal.h).
 *
 * SPDX-License-Identifier: GPL-3.0-or-later
 */
#ifndef SERVER_JOBS_INTERNAL_H
#define SERVER_JOBS_INTERNAL_H

#include <pthread.h>
#include <stdatomic.h>

#include "api/codec/codec.h"
#include "server/jobs/jobs.h"
#include "server/jobs/memory.h"
#include "server/ops/map.h"

#define ATTEMPTS_MAX 3

struct run;

/* A job that is not final. Whoever reads its texts outside of the registry's mutex holds a reference: they do not
 * change once the job is admitted. */
struct live {
    atomic_int references;
    struct map_node node; /* in registry.live, by id */
    struct job_record record;
    struct run *run;
    struct live *next;      /* of the same run */
    struct waiters waiters; /* for its end */
    bool ending;            /* its last write is queued: nothing changes it any more */
    size_t bytes;           /* counted in registry.bytes until it leaves */
};

/* The work that answers equal jobs: open from the first of them until it ends or none is left. */
struct run {
    struct work work; /* first */
    bool started;
    bool again;            /* it was put off: it has begun once, and begins again */
    struct waiter awaited; /* while it is put off: the end of what another computes */
    struct jobs *jobs;
    struct live *lives;
    char job[UUID_SIZE]; /* the first of them, whatever became of it */
};

struct jobs {
    struct server *server;
    pthread_mutex_t mutex;
    struct map live;
    size_t queued;   /* posted jobs that wait for a worker, reserved places included */
    size_t children; /* children of groups that do */
    size_t places;   /* taken by groups */
    size_t bytes;    /* held by live jobs, and reserved for those to come */
    size_t running;
    atomic_bool stopping;
    void (*child_ended)(void *user, const char *parent, const char *id); /* or NULL */
    void *user;
    struct memory *documents; /* by id */
    struct memory *results;   /* by hash, of this accounting version */
    struct memory *spends;    /* by what names the result */
    struct memory *requests;  /* by hash of a request's bytes: what they decode to; see submit.c */
};

/* The last write of some jobs of a run, and what happens after its commit. */
struct ending {
    struct store_update update;
    struct jobs *jobs;
    struct live *lives; /* linked by next */
    struct waiters cancelers;
};

/* Seconds that a job is estimated to take. */
double jobs__estimate(const struct job_record *record);
struct live *jobs__find_locked(struct jobs *jobs, const char *id);
void jobs__count_locked(struct jobs *jobs, const struct job_record *record, int queued, int running);
/* Makes the ending of `lives` (already marked), with changes all zero; NULL: out of memory. */
struct ending *jobs__ending_create(struct jobs *jobs, struct live *lives);
void jobs__ending_submit(struct ending *ending);
void jobs__run_task(struct pool_task *task); /* run.c */
void jobs__live_release(struct live *live);
memory_count_fn jobs__prototype_retain; /* submit.c */
memory_count_fn jobs__prototype_release;
memory_count_fn jobs__spend_retain; /* spend.c */
memory_count_fn jobs__spend_release;
/* The problem document of a failed job as text. */
char *jobs__problem_text(json_t *problem);

#endif
