/*
 * Shared by the files of server/groups/: groups that are not final, their children in progress, and the mutex of the
 * registry. It is taken outside the mutexes of the job modules, and is not held while they are called, except for the
 * queue of the store, the pools and the waiters.
 *
 * SPDX-License-Identifier: GPL-3.0-or-later
 */
#ifndef SERVER_GROUPS_INTERNAL_H
#define SERVER_GROUPS_INTERNAL_H

#include <pthread.h>

#include "server/groups/groups.h"
#include "server/jobs/jobs.h"
#include "server/ops/map.h"

/* A child, from its turn until it is final. */
struct child {
    struct store_child_insert insert; /* first */
    struct group *group;
    size_t turn;
    struct child *prev;
    struct child *next;
    char id[UUID_SIZE]; /* of its job; "": it has none */
    struct job_record record;
    struct result_record *result; /* or NULL */
    char detail[640];
    struct store_update loss; /* the write that ends a job that could not be started because memory ran out */
    struct job_change change;
};

struct group {
    struct pool_task task;      /* the first member: feeds, on the bulk thread or a worker */
    struct store_group_end end; /* the last write */
    struct groups *groups;
    struct map_node node; /* in groups.live, by id */
    struct group_record record;
    const struct group_kind *kind;
    void *asked;              /* of the kind */
    struct reservation place; /* in the queue */
    size_t barrier;           /* the turns before it */
    unsigned char *begun;     /* one bit per turn, set if it was in an earlier process; NULL: none was */
    size_t next;              /* the next turn; those before it were */
    size_t storing;           /* children whose row is not committed yet */
    size_t under_way;         /* children whose job is queued or running */
    struct child *children;
    size_t done; /* final children */
    bool feeding;
    bool canceled;
    bool cancel_left;         /* an earlier process canceled the group, but possibly not all of its jobs */
    bool ending;              /* its last write is queued */
    struct waiters waiters;   /* for its end */
    struct waiters cancelers; /* for the end, or for the failure to write it */
    struct waiters listeners; /* for the next final child */
};

struct groups {
    struct server *server;
    pthread_mutex_t mutex;
    struct map live;
};

/* A copy of the record, with the data of a live group; NULL: out of memory. */
struct group *groups__group_create(struct groups *groups, const struct group_record *record);
void groups__group_free(struct group *group);
bool groups__register_locked(struct groups *groups, struct group *group);
/* Feeds the group or ends it, if it is time for that. */
void groups__go_on_locked(struct group *group);
/* Queues the last write. */
void groups__end_locked(struct group *group);
/* Moves `next` to a turn that has not been. */
void groups__skip_begun(struct group *group);
/* Sets what the kind asks for; the group owns it. */
void groups__group_set_asked(struct group *group, void *asked);
void groups__child_add_locked(struct group *group, struct child *child);
/* The child is final and is freed. */
void groups__child_end_locked(struct child *child, bool under_way);
/* The ids of the jobs in progress; NULL: out of memory. */
char (*groups__ids_locked(const struct group *group, size_t *len))[UUID_SIZE];
void groups__tell_held(struct group *group);
void groups__feed(struct pool_task *task); /* feed.c */

#endif
