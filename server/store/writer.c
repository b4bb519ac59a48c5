/*
 * The single writer. While a commit waits for the disk, further writes gather in the queue; the next transaction
 * applies them all, so one fsync serves all requests that arrived during the last one. A write that fails rolls back
 * its transaction; the batch is then applied again one by one, so that no other write fails with it. A write that must
 * not be lost, such as the end of a job, is held and retried: a full disk may be cleared.
 *
 * SPDX-License-Identifier: GPL-3.0-or-later
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "server/ops/clock.h"
#include "server/ops/log.h"
#include "server/ops/metrics.h"
#include "server/store/internal.h"

#define BATCH_MAX 4096
#define SWEEP_SECONDS 60
#define PAUSE 9 /* between two portions of what has expired, in units of what a portion takes */
#define BEAT_SECONDS 1
#define SCRUB_PAGES 65536 /* 256 MB of log, which a scrub does not let start again */

void store_submit(struct store *store, struct store_write *write)
{
    write->next = NULL;
    pthread_mutex_lock(&store->mutex);
    bool idle = !store->first;
    *store->last = write;
    store->last = &write->next;
    if (idle)
        pthread_cond_signal(&store->arrived);
    pthread_mutex_unlock(&store->mutex);
}

static enum store_status run_plain(struct store *store, enum store_sql sql)
{
    sqlite3_stmt *statement = store__statement(store->writer, sql);
    return statement ? store__run(store->writer, statement) : STORE_FAILED;
}

uint64_t store_changes(struct store *store)
{
    return atomic_load(&store->changes);
}

/* Applies the batch in one transaction. Returns false if it was rolled back. */
static bool batch_commit(struct store *store, struct store_write *batch)
{
    int64_t blob_bytes[STORE_SHELVES];
    memcpy(blob_bytes, store->blob_bytes, sizeof blob_bytes);
    int writes = 0;
    if (run_plain(store, SQL_BEGIN) != STORE_OK)
        return false;
    bool ok = true;
    for (struct store_write *write = batch; write && ok; write = write->next) {
        write->status = write->apply(store, write);
        ok = write->status != STORE_FAILED;
        writes++;
    }
    double started = clock_monotonic();
    bool committed = ok && run_plain(store, SQL_COMMIT) == STORE_OK;
    atomic_fetch_add(&store->changes, 1);
    if (committed) {
        metric_time(METRIC_TIME_COMMIT, clock_monotonic() - started, NULL);
        metric_add(METRIC_STORE_COMMITS, 1);
        metric_add(METRIC_STORE_WRITES, writes);
        store__blob_tell(store);
        return true;
    }
    if (!sqlite3_get_autocommit(store->writer->db))
        run_plain(store, SQL_ROLLBACK);
    memcpy(store->blob_bytes, blob_bytes, sizeof blob_bytes);
    return false;
}

static void hold(struct store *store, struct store_write *write)
{
    bool first = !write->is_held;
    write->is_held = true;
    write->next = NULL;
    *store->held_last = write;
    store->held_last = &write->next;
    if (first) {
        metric_set(METRIC_STORE_HELD, (int64_t)atomic_fetch_add(&store->held_len, 1) + 1);
        write->held(write);
    }
}

static void finish(struct store *store, struct store_write *write, enum store_status status)
{
    if (write->is_held)
        metric_set(METRIC_STORE_HELD, (int64_t)atomic_fetch_sub(&store->held_len, 1) - 1);
    write->done(write, status); /* done() owns the write: do not access it any more */
}

static void batch_run(struct store *store, struct store_write *batch)
{
    atomic_store(&store->busy_since, clock_monotonic());
    bool committed = batch_commit(store, batch);
    bool alone = !batch->next;
    while (batch) {
        struct store_write *write = batch;
        batch = write->next;
        write->next = NULL;
        if (committed || (!alone && batch_commit(store, write)))
            finish(store, write, write->status);
        else if (write->held)
            hold(store, write);
        else
            finish(store, write, STORE_FAILED);
    }
    atomic_store(&store->busy_since, 0);
}

/* Retries the held writes up to the first one that still fails, which is moved to the end: a full disk costs one
 * attempt per second, and a write that never succeeds does not block others. */
static void held_retry(struct store *store)
{
    size_t left = atomic_load(&store->held_len);
    for (bool written = true; written && left > 0; left--) {
        struct store_write *write = store->held;
        store->held = write->next;
        if (!store->held)
            store->held_last = &store->held;
        write->next = NULL;
        written = batch_commit(store, write);
        if (written)
            finish(store, write, write->status);
        else
            hold(store, write);
    }
}

/* The store is closing: one last attempt for each. */
static void held_end(struct store *store)
{
    while (store->held) {
        struct store_write *write = store->held;
        store->held = write->next;
        write->next = NULL;
        finish(store, write, batch_commit(store, write) ? write->status : STORE_FAILED);
    }
}

static int on_commit(void *user, sqlite3 *db, const char *schema, int pages)
{
    struct store *store = user;
    (void)db;
    (void)schema;
    store->wal_pages = pages;
    if (pages > SCRUB_PAGES)
        store__scrubber_interrupt(store->scrubber);
    return SQLITE_OK;
}

/* Up to BATCH_MAX writes; NULL after BEAT_SECONDS or when the writer should stop. */
static struct store_write *batch_take(struct store *store)
{
    struct timespec until = clock_timespec(clock_monotonic() + BEAT_SECONDS);
    pthread_mutex_lock(&store->mutex);
    while (!store->first && !store->stopping)
        if (pthread_cond_timedwait(&store->arrived, &store->mutex, &until) == ETIMEDOUT)
            break;
    struct store_write *batch = store->first;
    struct store_write *last = batch;
    for (int len = 1; last && last->next && len < BATCH_MAX; len++)
        last = last->next;
    if (last) {
        store->first = last->next;
        last->next = NULL;
        if (!store->first)
            store->last = &store->first;
    }
    pthread_mutex_unlock(&store->mutex);
    return batch;
}

static bool writer_stopping(struct store *store)
{
    pthread_mutex_lock(&store->mutex);
    bool stopping = store->stopping && !store->first;
    pthread_mutex_unlock(&store->mutex);
    return stopping;
}

void *store__writer_main(void *argument)
{
    struct store *store = argument;
    double beat_at = 0;
    double sweep_at = clock_monotonic() + 1; /* soon, so that a service that restarts often deletes expired rows too */
    sqlite3_wal_hook(store->writer->db, on_commit, store);
    while (!writer_stopping(store)) {
        struct store_write *batch = batch_take(store);
        if (batch) {
            batch_run(store, batch);
            store__checkpoint(store);
            store__measure(store);
        }
        double now = clock_monotonic();
        if (now >= beat_at) {
            owner_beat(store->owner);
            store__time_look(store);
            held_retry(store);
            beat_at = now + BEAT_SECONDS;
        }
        if (now >= sweep_at && !store->options.guest) {
            bool full = store__sweep(store);
            store__measure(store);
            double after = clock_monotonic();
            /* Portions follow each other until nothing is left, and leave most of the time to clients. */
            sweep_at = after + (full ? PAUSE * (after - now) : SWEEP_SECONDS);
        }
    }
    held_end(store);
    return NULL;
}

struct waited {
    pthread_mutex_t mutex;
    pthread_cond_t finished;
    bool done;
};

/* store_submit_wait() keeps the waiter next to the write, so that callers do not need it. */
struct waiting_write {
    struct store_write write;
    struct store_write *inner;
    struct waited *waited;
};

static enum store_status waiting_apply(struct store *store, struct store_write *write)
{
    struct waiting_write *waiting = (struct waiting_write *)write;
    return waiting->inner->apply(store, waiting->inner);
}

static void waiting_done(struct store_write *write, enum store_status status)
{
    struct waiting_write *waiting = (struct waiting_write *)write;
    struct waited *waited = waiting->waited;
    pthread_mutex_lock(&waited->mutex);
    waiting->inner->status = status;
    waited->done = true;
    pthread_cond_signal(&waited->finished);
    pthread_mutex_unlock(&waited->mutex);
}

enum store_status store_submit_wait(struct store *store, struct store_write *write)
{
    struct waited waited = {PTHREAD_MUTEX_INITIALIZER, PTHREAD_COND_INITIALIZER, false};
    struct waiting_write waiting = {
        .write = {.apply = waiting_apply, .done = waiting_done}, .inner = write, .waited = &waited};
    store_submit(store, &waiting.write);
    pthread_mutex_lock(&waited.mutex);
    while (!waited.done)
        pthread_cond_wait(&waited.finished, &waited.mutex);
    pthread_mutex_unlock(&waited.mutex);
    pthread_mutex_destroy(&waited.mutex);
    pthread_cond_destroy(&waited.finished);
    return write->status;
}
