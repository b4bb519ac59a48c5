/*
 * Groups: what is made of many jobs, its children, and ends with them: a sweep, a plan. A group holds one place in the queue
 * and feeds its children, a few at a time, so that the pool has some to choose from and no more; they are jobs as any other
 * (equal ones share a run and the cached result), but in no list, and their workers alternate with those of posted jobs.
 * Cancel is of the whole. What a group has done is in its children's rows, which are written with the ends of their jobs:
 * after a crash it goes on where it was. Thread-safe.
 *
 * Another kind of group fills in a struct group_kind: how what was asked is opened, and what each child is. See sweep.c. It
 * has a row in the table of groups.c, a value in enum group_kind_id (records.h: the rows' `kind`), and a struct resource
 * whose functions call those below with it (routes/groups/sweeps.c). A kind that looks at the answers so far before it says what
 * the next child is (to skip the hopeless) reads them in child(), by store_each_child(); children are asked for in the
 * order of their numbers, while `width` earlier ones may still run.
 *
 * SPDX-License-Identifier: GPL-3.0-or-later
 */
#ifndef SERVER_GROUPS_GROUPS_H
#define SERVER_GROUPS_GROUPS_H

#include "api/codec/codec.h"
#include "server/ops/document.h"
#include "server/ops/text.h"
#include "server/server.h"
#include "server/store/store.h"
#include "server/work/work.h"

struct groups;

/* What a child came to. */
enum child_kind {
    CHILD_JOB,    /* *job */
    CHILD_WRONG,  /* no valid job: its row is a failed one, with the detail */
    CHILD_SKIPPED /* not worth it: its row is a canceled one, with the detail */
};

struct group_kind {
    /* What was asked, from the record's request; NULL: damaged, or out of memory. */
    void *(*open)(const struct group_record *record);
    void (*close)(void *asked);
    /* Child `number` of it. On the bulk's thread, one at a time; it may take a millisecond. */
    enum child_kind (*child)(const struct server *server, const struct group_record *record, void *asked, size_t number,
                             struct api_job **job, char *detail, size_t detail_size);
    bool computes; /* child() may take longer than that: a worker runs it */
    size_t width;  /* children that are under way at a time; 0: twice the workers */
};

extern const struct group_kind sweep_kind; /* sweep.c */
extern const struct group_kind plan_kind;  /* plan.c */

/* jobs, works, bulk and config of the server must be there; the store comes with jobs_recover(). */
struct groups *groups_create(struct server *server);
/* For jobs_recover(), as `ready`: reads what an earlier process left. */
bool groups_recover(void *groups);
/* They go on. */
void groups_start(struct groups *groups);
/* After the store is closed. NULL is allowed. */
void groups_destroy(struct groups *groups);

/* ---------------------------------------------------------------- reading */

/* A row of the kind as it is now. */
enum store_status groups_read(struct groups *groups, enum group_kind_id kind, const char *id,
                              struct group_record *record);
/* The state of a row whose own is damaged: what is not live has ended, and without all of its children it was canceled. */
void groups_settle(struct groups *groups, struct group_record *record);
/* Calls for each child whose job waits or runs, or is about to; each() must call nothing of the groups or the jobs. */
void groups_each_under_way(struct groups *groups, const char *id,
                           void (*each)(void *user, size_t number, const char *job), void *user);
/* Whether it is not final. */
bool groups_is_live(struct groups *groups, enum group_kind_id kind, const char *id);
/* The waiter waits for its end. False: it is not live. */
bool groups_watch(struct groups *groups, enum group_kind_id kind, const char *id, struct waiter *waiter);
/* The waiter waits until more than `done` children are final, or the end. False: there are more, or it is not live. */
bool groups_listen(struct groups *groups, enum group_kind_id kind, const char *id, size_t done, struct waiter *waiter);

/* ---------------------------------------------------------------- changing */

/* A place in the queue for the record, before its row is written. False: there is none. */
bool groups_reserve(struct groups *groups, const struct group_record *record);
void groups_unreserve(struct groups *groups, const struct group_record *record);
/* After the commit of its row: it begins. Takes `asked` and the reservation. False: no memory; all is the caller's. */
bool groups_admit(struct groups *groups, const struct group_record *record, void *asked);
/* As jobs_cancel(); of all its children. */
enum cancel_outcome groups_cancel(struct groups *groups, enum group_kind_id kind, const char *id,
                                  struct waiter *waiter);

#endif
