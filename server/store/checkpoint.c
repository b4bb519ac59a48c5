/*
 * Checkpoints: copy the pages of the log to the database, when the log is long. A thread with a connection of its own
 * copies most of them and syncs both files, while the writer goes on. The log starts again from its beginning only when
 * all of it has been copied, so the writer copies what has been written meanwhile, which is little. It does that after
 * the writes of a batch have been reported. If the disk is so slow that the log grows to twice its bound meanwhile, the
 * writer waits for the thread.
 *
 * SPDX-License-Identifier: GPL-3.0-or-later
 */
#include <assert.h>
#include <stdlib.h>

#include "server/ops/clock.h"
#include "server/ops/metrics.h"
#include "server/store/internal.h"

#define BOUND_PAGES 4000 /* 16 MB of log */

/* From one checkpoint of the writer to the next: RESTING, COPYING (set by the writer), COPIED (by the thread). */
enum phase { RESTING, COPYING, COPIED };

struct checkpointer {
    struct store_connection *connection; /* of the thread */
    pthread_t thread;
    pthread_mutex_t mutex;
    pthread_cond_t changed; /* the phase, or `stopping` */
    enum phase phase;
    bool stopping;
};

/* Copies what can be copied without waiting for readers and writers. */
static void copy(struct store_connection *connection, int *in_log, int *moved)
{
    double started = clock_monotonic();
    if (sqlite3_wal_checkpoint_v2(connection->db, NULL, SQLITE_CHECKPOINT_PASSIVE, in_log, moved) != SQLITE_OK)
        store__complain(connection, "checkpoint");
    metric_time(METRIC_TIME_CHECKPOINT, clock_monotonic() - started, NULL);
}

static void *checkpointer_main(void *argument)
{
    struct checkpointer *checkpointer = argument;
    pthread_mutex_lock(&checkpointer->mutex);
    for (;;) {
        while (checkpointer->phase != COPYING && !checkpointer->stopping)
            pthread_cond_wait(&checkpointer->changed, &checkpointer->mutex);
        if (checkpointer->stopping)
            break;
        pthread_mutex_unlock(&checkpointer->mutex);
        int in_log, moved;
        copy(checkpointer->connection, &in_log, &moved);
        pthread_mutex_lock(&checkpointer->mutex);
        assert(checkpointer->phase == COPYING);
        checkpointer->phase = COPIED;
        pthread_cond_signal(&checkpointer->changed);
    }
    pthread_mutex_unlock(&checkpointer->mutex);
    return NULL;
}

/* Wakes the thread if it rests. Returns whether it has copied; then it rests again. wait: waits until it has copied. */
static bool copied(struct checkpointer *checkpointer, bool wait)
{
    pthread_mutex_lock(&checkpointer->mutex);
    if (checkpointer->phase == RESTING) {
        checkpointer->phase = COPYING;
        pthread_cond_signal(&checkpointer->changed);
    }
    while (wait && checkpointer->phase == COPYING)
        pthread_cond_wait(&checkpointer->changed, &checkpointer->mutex);
    bool done = checkpointer->phase == COPIED;
    if (done)
        checkpointer->phase = RESTING;
    pthread_mutex_unlock(&checkpointer->mutex);
    return done;
}

void store__checkpoint(struct store *store)
{
    int bound = BOUND_PAGES + store->wal_kept;
    if (store->wal_pages < bound || !copied(store->checkpointer, store->wal_pages >= 2 * bound))
        return;
    int in_log = 0;
    int moved = 0;
    copy(store->writer, &in_log, &moved);
    store->wal_kept = moved < in_log ? in_log : 0;
    store->wal_pages = 0;
}

struct checkpointer *store__checkpointer_create(const char *path, char *message, size_t message_size)
{
    struct checkpointer *checkpointer = calloc(1, sizeof *checkpointer);
    if (!checkpointer) {
        snprintf(message, message_size, "out of memory");
        return NULL;
    }
    pthread_mutex_init(&checkpointer->mutex, NULL);
    clock_condition(&checkpointer->changed);
    checkpointer->connection = store__connect(path, false, message, message_size);
    if (checkpointer->connection) {
        if (pthread_create(&checkpointer->thread, NULL, checkpointer_main, checkpointer) == 0)
            return checkpointer;
        snprintf(message, message_size, "cannot start a thread");
    }
    store__disconnect(checkpointer->connection);
    pthread_cond_destroy(&checkpointer->changed);
    pthread_mutex_destroy(&checkpointer->mutex);
    free(checkpointer);
    return NULL;
}

void store__checkpointer_destroy(struct checkpointer *checkpointer)
{
    if (!checkpointer)
        return;
    pthread_mutex_lock(&checkpointer->mutex);
    checkpointer->stopping = true;
    pthread_cond_signal(&checkpointer->changed);
    pthread_mutex_unlock(&checkpointer->mutex);
    pthread_join(checkpointer->thread, NULL);
    store__disconnect(checkpointer->connection);
    pthread_cond_destroy(&checkpointer->changed);
    pthread_mutex_destroy(&checkpointer->mutex);
    free(checkpointer);
}
