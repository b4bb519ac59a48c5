/*
 * The lifecycle of jobs: accepted (a committed row), queued, running, final. Jobs that are not final are in memory in
 * addition to their row. Equal jobs share a run, which computes them once. Thread-safe.
 *
 * SPDX-License-Identifier: GPL-3.0-or-later
 */
#ifndef SERVER_JOBS_JOBS_H
#define SERVER_JOBS_JOBS_H

#include "server/jobs/document.h"
#include "server/ops/ledger.h"
#include "server/server.h"
#include "server/store/store.h"
#include "server/work/work.h"

struct jobs;

/* Requires the pool, works and config of the server; the store is set by jobs_recover(). */
struct jobs *jobs_create(struct server *server);
/* Queues the jobs that an earlier process left; jobs that were started three times without an end fail as crashed.
 * ready (or NULL) is called when the rows are up to date and no job is queued yet; if it returns false, recovery
 * fails. */
bool jobs_recover(struct jobs *jobs, bool (*ready)(void *user), void *user);
/* Sets the callbacks for when a child of a group is final, in the database and in memory, and for when its end could
 * not be written and will be retried. On the writer thread. */
void jobs_on_child(struct jobs *jobs, void (*ended)(void *user, const char *parent, const char *id),
                   void (*held)(void *user, const char *parent), void *user);
/* Stops running computations within one polling interval; the next process queues their jobs again. */
void jobs_stop(struct jobs *jobs);
bool jobs_stopping(struct jobs *jobs);
/* Call after the threads of the pool have been joined. */
void jobs_destroy(struct jobs *jobs);
/* Called by the store when the row of a job or result has expired. */
void jobs_expired(void *jobs, const char *id);
void jobs_result_expired(void *jobs, const char *hash);

/* ---------------------------------------------------------------- reading */

/* The document, retained for the caller. STORE_NONE: there is no such job. */
enum store_status jobs_get(struct jobs *jobs, const char *id, struct document **document);
/* The result of a hash under an accounting version, from memory or the store, retained for the caller. */
enum store_status jobs_result(struct jobs *jobs, const char *hash, int version, struct result_record **result);
/* Updates the state of a record that was read from a row. Returns true if the job is live. */
bool jobs_refresh(struct jobs *jobs, struct job_record *record, struct job_progress *progress);
/* Whether the job is not final. */
bool jobs_is_live(struct jobs *jobs, const char *id);
/* Makes the waiter wait until the job is final. Returns false if it is not live. */
bool jobs_watch(struct jobs *jobs, const char *id, struct waiter *waiter);
/* The progress of a job, and a number, never 0, that changes with it. Returns false if the job is not live. */
bool jobs_progress(struct jobs *jobs, const char *id, struct job_progress *progress, uint64_t *number);
/* Makes the waiter wait until that number changes, or for the end. Returns false if it has changed already, or if the
 * job is not live. */
bool jobs_listen(struct jobs *jobs, const char *id, uint64_t number, struct waiter *waiter);

/* ---------------------------------------------------------------- changing */

/* The waiter (or NULL) is called only if CANCEL_STARTED is returned, possibly before that. */
enum cancel_outcome jobs_cancel(struct jobs *jobs, const char *id, struct waiter *waiter);
/* The same for a child whose group is canceled, in one commit with it, so that a crash cannot leave a group canceled in
 * part. */
enum cancel_outcome jobs_cancel_with_group(struct jobs *jobs, const char *id);
/* Removes the document of a deleted job from memory. */
void jobs_forget(struct jobs *jobs, const char *id);

/* What is reserved for a job, another computation that waits, or a group. */
struct reservation {
    struct account *account; /* who pays; NULL: nothing is reserved */
    size_t bytes;            /* of memory */
    double seconds;          /* estimated computing time */
};

enum jobs_room {
    JOBS_ROOM,
    JOBS_FULL, /* there is no place, or too little memory (--queue, --queue-bytes), or the service is stopping */
    JOBS_OVER  /* the account has its part of that, or its quota is used up: see the refusal */
};

/* That of a job, from its admission to its end. */
struct reservation jobs_reservation(struct jobs *jobs, const struct job_record *record);
/* Reserves a place in the queue and the rest, before the row is written. */
enum jobs_room jobs_reserve(struct jobs *jobs, const struct reservation *reservation, const struct quota *quota,
                            struct quota_refusal *refusal);
/* Gives it back; *reservation becomes empty. Does nothing if it is. */
void jobs_unreserve(struct jobs *jobs, struct reservation *reservation);
/* The same for a job that is already accepted, even if there is no room. A child of a group takes no place. */
void jobs_reserve_anyway(struct jobs *jobs, const struct job_record *record);
void jobs_unreserve_anyway(struct jobs *jobs, const struct job_record *record);
/* Reserves a place in the queue for a group, until it is final, beside those that wait. */
enum jobs_room jobs_take_place(struct jobs *jobs, const struct reservation *reservation, const struct quota *quota,
                               struct quota_refusal *refusal);
/* The same for a group that is already accepted. */
void jobs_take_place_anyway(struct jobs *jobs, const struct reservation *reservation);
void jobs_give_place(struct jobs *jobs, const struct reservation *reservation);
/* Call after the commit of the row: queues the job, or joins it to an equal one. alone_seconds: nothing else starts
 * while it runs, for this long. Takes ownership of the texts of the record and of its jobs_reservation(). Returns false
 * if memory runs out; the caller then keeps the reservation. */
bool jobs_admit(struct jobs *jobs, struct job_record *record, double alone_seconds);

/* Writes the log line of a final job. result: NULL if there is none. */
void jobs_log_end(const struct job_record *record, const struct result_record *result);

/* Caches the document of a finished job; mark: jobs_mark() from before its row was written. */
uint64_t jobs_mark(struct jobs *jobs);
void jobs_remember(struct jobs *jobs, struct document *document, uint64_t mark);

#endif
