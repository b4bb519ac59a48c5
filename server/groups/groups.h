/*
 * Groups of jobs: a sweep or a plan, with its children. A group occupies one place in the queue and feeds a few
 * children at a time, so that the pool has enough to choose from. The children are ordinary jobs (equal ones share a
 * run and the cached result), but are not listed, and workers alternate between them and posted jobs. A group is
 * canceled as a whole. Its progress is in the rows of its children, which are written together with the ends of their
 * jobs, so it continues after a crash. Thread-safe.
 *
 * To add a kind of group, define a struct group_kind: how a request is opened, and what each child is (see sweep.c).
 * Add a row to the table of groups.c, a value to enum group_kind_id (records.h; the `kind` of rows), and how the kind
 * is shown: a struct group_routes (see routes/groups/sweeps.c) and its row at the end of routes/groups/groups.c. A kind
 * that needs earlier results to decide about the next child (to skip one that cannot win) reads them in child() with
 * store_each_child(). Children have their turns in order, while up to `width` earlier ones may still run. From a
 * barrier on, a child has its turn only when the rows of all before it are stored, and those before the barrier are
 * final.
 *
 * SPDX-License-Identifier: GPL-3.0-or-later
 */
#ifndef SERVER_GROUPS_GROUPS_H
#define SERVER_GROUPS_GROUPS_H

#include "api/codec/codec.h"
#include "api/json/text.h"
#include "server/jobs/jobs.h"
#include "server/ops/document.h"
#include "server/server.h"
#include "server/store/store.h"
#include "server/work/work.h"

struct groups;

/* The outcome of creating a child. */
enum child_kind {
    CHILD_JOB,    /* *job */
    CHILD_TRIED,  /* *job, which is skipped if no accountant serves it */
    CHILD_WRONG,  /* an invalid job: its row is a failed one, with the detail */
    CHILD_SKIPPED /* not worth computing: its row is a canceled one, with the detail */
};

struct group_kind {
    /* Opens the request of the record; NULL: damaged, or out of memory. */
    void *(*open)(const struct group_record *record);
    void (*close)(void *asked);
    /* The turns before the barrier; NULL: there is none. */
    size_t (*barrier)(const void *asked);
    /* Creates a child. *number: its turn; from the barrier on, child() may change it to another number that no child
     * has, from the barrier on. On the bulk thread, one at a time; it may take a millisecond. */
    enum child_kind (*child)(const struct server *server, const struct group_record *record, void *asked,
                             size_t *number, struct api_job **job, char *detail, size_t detail_size);
    bool computes; /* child() may take longer, so a worker runs it */
    size_t width;  /* the number of children in progress at a time; 0: twice the number of workers */
};

extern const struct group_kind sweep_kind; /* sweep.c */
extern const struct group_kind plan_kind;  /* plan.c */

/* Requires the jobs, works, bulk and config of the server; the store is set by jobs_recover(). */
struct groups *groups_create(struct server *server);
/* For jobs_recover(), as `ready`: reads the groups that an earlier process left. */
bool groups_recover(void *groups);
/* Starts feeding them. */
void groups_start(struct groups *groups);
/* Call after the store is closed. NULL is allowed. */
void groups_destroy(struct groups *groups);

/* ---------------------------------------------------------------- reading */

/* Reads a row of this kind, in its current state. */
enum store_status groups_read(struct groups *groups, enum group_kind_id kind, const char *id,
                              struct group_record *record);
/* Sets the status of a row whose own is damaged: a group that is not live has ended, and was canceled unless all of its
 * children are final. */
void groups_settle(struct groups *groups, struct group_record *record);
/* Calls each() for every child whose job is queued, running, or about to be; each() must not call functions of the
 * groups or jobs. */
void groups_each_under_way(struct groups *groups, const char *id,
                           void (*each)(void *user, size_t number, const char *job), void *user);
/* The current status of a child, whose row may be older than its job. */
enum job_status groups_child_status(struct groups *groups, const struct group_record *record,
                                    const struct child_record *child);
/* Whether it is not final. */
bool groups_is_live(struct groups *groups, enum group_kind_id kind, const char *id);
/* Makes the waiter wait for the end. Returns false if the group is not live. */
bool groups_watch(struct groups *groups, enum group_kind_id kind, const char *id, struct waiter *waiter);
/* Makes the waiter wait until more than `done` children are final, or for the end. Returns false if that is already so,
 * or if the group is not live. */
bool groups_listen(struct groups *groups, enum group_kind_id kind, const char *id, size_t done, struct waiter *waiter);

/* ---------------------------------------------------------------- changing */

/* Reserves a place in the queue for the record, before its row is written. */
enum jobs_room groups_reserve(struct groups *groups, const struct group_record *record, const struct quota *quota,
                              struct quota_refusal *refusal);
void groups_unreserve(struct groups *groups, const struct group_record *record);
/* Call after the commit of the row: starts the group. Takes ownership of `asked` and the reservation. Returns false if
 * memory runs out; the caller then keeps both. */
bool groups_admit(struct groups *groups, const struct group_record *record, void *asked);
/* Like jobs_cancel(), for all children. */
enum cancel_outcome groups_cancel(struct groups *groups, enum group_kind_id kind, const char *id,
                                  struct waiter *waiter);

#endif
