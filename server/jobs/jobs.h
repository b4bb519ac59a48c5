/*
 * A job's life: accepted (a committed row), queued, running, final. Jobs that are not final live in memory beside
 * their row; equal ones share a run, the one computation of them. Thread-safe.
 *
 * SPDX-License-Identifier: GPL-3.0-or-later
 */
#ifndef SERVER_JOBS_JOBS_H
#define SERVER_JOBS_JOBS_H

#include "server/jobs/document.h"
#include "server/server.h"
#include "server/store/store.h"
#include "server/work/work.h"

struct jobs;

/* pool, works and config of the server must be there; the store comes with jobs_recover(). */
struct jobs *jobs_create(struct server *server);
/* Queues what an earlier process left: jobs started three times without an end fail as crashed. ready (or NULL) is called
 * when the rows are right and no job is queued yet; false ends it. */
bool jobs_recover(struct jobs *jobs, bool (*ready)(void *user), void *user);
/* From now on: a child of a group is final, in the database and here. On the writer thread. */
void jobs_on_child(struct jobs *jobs, void (*ended)(void *user, const char *parent, const char *id), void *user);
/* Running computations end within the time of one poll; the next process queues their jobs again. */
void jobs_stop(struct jobs *jobs);
bool jobs_stopping(struct jobs *jobs);
/* After the pool's threads are joined. */
void jobs_destroy(struct jobs *jobs);
/* The store tells that a row expired: of a job, of a result. */
void jobs_expired(void *jobs, const char *id);
void jobs_result_expired(void *jobs, const char *hash);

/* ---------------------------------------------------------------- reading */

/* The document, retained for the caller. STORE_NONE: no such job. */
enum store_status jobs_get(struct jobs *jobs, const char *id, struct document **document);
/* The result of a hash under an accounting version, from memory or the store, retained for the caller. */
enum store_status jobs_result(struct jobs *jobs, const char *hash, int version, struct result_record **result);
/* Overwrites what a row says of a job's state by what is so now. True if the job is live. */
bool jobs_refresh(struct jobs *jobs, struct job_record *record, struct job_progress *progress);
/* True if the job is not final. */
bool jobs_is_live(struct jobs *jobs, const char *id);
/* The waiter waits for the job to be final. False: it is not live. */
bool jobs_watch(struct jobs *jobs, const char *id, struct waiter *waiter);
/* How far a job is, and a number that changes with it, never 0. False: it is not live. */
bool jobs_progress(struct jobs *jobs, const char *id, struct job_progress *progress, uint64_t *number);
/* The waiter waits for that number to change, or for the end. False: it is another one already, or the job is not live. */
bool jobs_listen(struct jobs *jobs, const char *id, uint64_t number, struct waiter *waiter);

/* ---------------------------------------------------------------- changing */

/* The waiter (or NULL) is called only where CANCEL_STARTED is returned, perhaps before that. */
enum cancel_outcome jobs_cancel(struct jobs *jobs, const char *id, struct waiter *waiter);
/* The same of a child because its group is canceled, which is committed with it: a process that is killed in between leaves no
 * group that is canceled in part. */
enum cancel_outcome jobs_cancel_with_group(struct jobs *jobs, const char *id);
/* Forgets the document of a deleted job. */
void jobs_forget(struct jobs *jobs, const char *id);

/* The memory that a job holds from its admission to its end. */
size_t jobs_bytes(const struct job_record *record);
/* A place in the queue and so many bytes, taken before the row is written. False: there is no room. */
bool jobs_reserve(struct jobs *jobs, size_t bytes);
/* The same, of jobs_bytes(), for a job that is accepted already, room or not; that of a group's child is no place. */
void jobs_reserve_anyway(struct jobs *jobs, const struct job_record *record);
void jobs_unreserve(struct jobs *jobs, size_t bytes);
void jobs_unreserve_anyway(struct jobs *jobs, const struct job_record *record);
/* A group's place in the queue, and so many bytes, for as long as it is not final. anyway: it is accepted already. */
bool jobs_take_place(struct jobs *jobs, size_t bytes, bool anyway);
void jobs_give_place(struct jobs *jobs, size_t bytes);
/* After the commit of its row: queues the job, or joins it to its equal. alone_seconds: for so long nothing else starts
 * beside it. Takes the record's texts and the reservation, which was of jobs_bytes(). False: no memory; the reservation is the caller's. */
bool jobs_admit(struct jobs *jobs, struct job_record *record, double alone_seconds);

/* The log's line of a job that is final. result: NULL where there is none. */
void jobs_log_end(const struct job_record *record, const struct result_record *result);

/* A finished job's document goes to memory; mark: jobs_mark() from before its row was written. */
uint64_t jobs_mark(struct jobs *jobs);
void jobs_remember(struct jobs *jobs, struct document *document, uint64_t mark);

#endif
