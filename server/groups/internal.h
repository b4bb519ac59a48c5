/*
 * What the files of server/groups/ share: groups that are not final, their children under way, and the registry's mutex,
 * which is outside of those of the jobs' rooms and is not held while they are called, the store's queue, the pools' and the
 * waiters' apart.
 *
 * SPDX-License-Identifier: GPL-3.0-or-later
 */
#ifndef SERVER_GROUPS_INTERNAL_H
#define SERVER_GROUPS_INTERNAL_H

#include <pthread.h>

#include "server/groups/groups.h"
#include "server/ops/map.h"

/* From when its turn has come until it is final. */
struct child {
    struct store_child_insert insert; /* first */
    struct group *group;
    struct child *prev;
    struct child *next;
    char id[UUID_SIZE]; /* of its job; "": it came to none */
    struct job_record record;
    struct result_record *result; /* or NULL */
    char detail[640];
    struct store_update loss; /* of the end of one that there was no memory to begin */
    struct job_change change;
};

struct group {
    struct pool_task task;      /* first: feeds, on the bulk's thread or a worker */
    struct store_group_end end; /* the last write */
    struct groups *groups;
    struct map_node node; /* in groups.live, by id */
    struct group_record record;
    const struct group_kind *kind;
    void *asked;          /* the kind's */
    size_t bytes;         /* counted in the queue */
    unsigned char *begun; /* a bit a child that had its turn in an earlier process; NULL: none had */
    size_t next;          /* child: those before had their turn */
    size_t storing;       /* children whose row is not committed yet */
    size_t under_way;     /* whose job waits or runs */
    struct child *children;
    size_t done; /* final ones */
    bool feeding;
    bool canceled;
    bool cancel_left;         /* an earlier process has canceled it, and perhaps not all of its jobs */
    bool ending;              /* its last write is queued */
    struct waiters waiters;   /* for its end */
    struct waiters cancelers; /* for that, or that it could not be written yet */
    struct waiters listeners; /* for the next child that is final */
};

struct groups {
    struct server *server;
    pthread_mutex_t mutex;
    struct map live;
};

/* A copy, with what it needs while it lives; NULL: out of memory. */
struct group *groups__group_create(struct groups *groups, const struct group_record *record);
void groups__group_free(struct group *group);
bool groups__register_locked(struct groups *groups, struct group *group);
/* Feeds, or ends, if it is time for that. */
void groups__go_on_locked(struct group *group);
/* The last write. */
void groups__end_locked(struct group *group);
/* Moves `next` to a child that had no turn. */
void groups__skip_begun(struct group *group);
void groups__child_add_locked(struct group *group, struct child *child);
/* The child is final, and gone. */
void groups__child_end_locked(struct child *child, bool under_way);
/* Ids of the jobs under way; NULL: out of memory. */
char (*groups__ids_locked(const struct group *group, size_t *len))[UUID_SIZE];
void groups__tell_held(struct group *group);
void groups__feed(struct pool_task *task); /* feed.c */

#endif
