/*
 * Opens and closes the database.
 *
 * SPDX-License-Identifier: GPL-3.0-or-later
 */
#include "server/store/store.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>

#include "server/ops/clock.h"
#include "server/ops/log.h"
#include "server/store/internal.h"

#define PATIENCE_SECONDS 5.0 /* the time that a batch may take before the database is reported as not responding */

static void store_threads(struct store *store)
{
    pthread_mutex_init(&store->mutex, NULL);
    pthread_mutex_init(&store->readers_mutex, NULL);
    clock_condition(&store->arrived);
    store->last = &store->first;
    store->held_last = &store->held;
}

/* Jobs contain information about private data. New files are private because of the umask of the process (main.c), and
 * the log and its index inherit the mode of the database; this function is for files that existed before. Files of
 * another owner are not changed. */
static void make_private(const char *path)
{
    static const char *const tails[] = {"", "-wal", "-shm"};
    for (size_t i = 0; i < sizeof tails / sizeof tails[0]; i++) {
        char file[4096];
        snprintf(file, sizeof file, "%s%s", path, tails[i]);
        chmod(file, S_IRUSR | S_IWUSR);
    }
}

struct store *store_open(const struct store_options *options, char *message, size_t message_size)
{
    char detail[512] = "out of memory";
    struct store *store = calloc(1, sizeof *store);
    if (!store)
        goto fail;
    store_threads(store);
    store->options = *options;
    store->owner = owner_claim(options->path, options->guest, detail, sizeof detail);
    if (!store->owner)
        goto fail;
    store->path = owner_database(store->owner);
    make_private(store->path);
    store->writer = store__connect(store->path, false, detail, sizeof detail);
    if (!store->writer || !store__migrate(store->writer, owner_has(store->owner), detail, sizeof detail))
        goto fail;
    store__blob_prepare(store);
    store__measure(store);
    owner_yield(store->owner);
    store__time_begin(store, owner_past(store->owner).last_beat);
    store->checkpointer = store__checkpointer_create(store->path, detail, sizeof detail);
    if (!store->checkpointer)
        goto fail;
    if (options->scrub_seconds > 0)
        store->scrubber = store__scrubber_create(store->path, options->scrub_seconds);
    if ((options->scrub_seconds > 0 && !store->scrubber) ||
        pthread_create(&store->thread, NULL, store__writer_main, store) != 0) {
        snprintf(detail, sizeof detail, "cannot start a thread");
        goto fail;
    }
    store->thread_started = true;
    return store;
fail:
    if (!store_disk_full(options->path, detail, message, message_size))
        snprintf(message, message_size, "cannot open the database %s: %s", options->path, detail);
    store_close(store);
    return NULL;
}

void store_close(struct store *store)
{
    if (!store)
        return;
    if (store->thread_started) {
        pthread_mutex_lock(&store->mutex);
        store->stopping = true;
        pthread_cond_signal(&store->arrived);
        pthread_mutex_unlock(&store->mutex);
        pthread_join(store->thread, NULL);
    }
    store__checkpointer_destroy(store->checkpointer); /* these after the writer, which may call them */
    store__scrubber_destroy(store->scrubber);
    while (store->readers) {
        struct store_connection *connection = store->readers;
        store->readers = connection->next;
        store__disconnect(connection);
    }
    store__disconnect(store->writer);
    pthread_cond_destroy(&store->arrived);
    pthread_mutex_destroy(&store->mutex);
    pthread_mutex_destroy(&store->readers_mutex);
    owner_release(store->owner); /* last: the next process may open it from here on */
    free(store);
}

struct owner_past store_past(const struct store *store)
{
    return owner_past(store->owner);
}

bool store_name(struct store *store, char name[33])
{
    struct store_connection *reader = store__reader_take(store);
    sqlite3_stmt *statement = reader ? store__statement(reader, SQL_NAME) : NULL;
    bool ok = statement && sqlite3_step(statement) == SQLITE_ROW && sqlite3_column_bytes(statement, 0) == 32;
    if (ok)
        memcpy(name, sqlite3_column_text(statement, 0), 33);
    if (statement)
        sqlite3_reset(statement);
    store__reader_give(store, reader);
    return ok;
}

void store_begin(struct store *store)
{
    owner_begin(store->owner);
    crash_start(owner_file(store->owner));
}

void store_stop(struct store *store)
{
    owner_stop(store->owner);
}

void store_settle(struct store *store)
{
    struct store_update nothing = {0};
    store_update_jobs_wait(store, &nothing); /* writes are applied in the order in which they were submitted */
}

const char *store_trouble(struct store *store)
{
    double since = atomic_load(&store->busy_since);
    if (since > 0 && clock_monotonic() - since > PATIENCE_SECONDS)
        return "the database has not responded for several seconds";
    return atomic_load(&store->held_len) ? "the database could not be written; the ends of jobs are waiting for it"
                                         : NULL;
}

const char *store_damage(const struct store *store)
{
    return store__scrubber_damage(store->scrubber);
}

static enum store_status probe_apply(struct store *store, struct store_write *write)
{
    (void)write;
    sqlite3_stmt *statement = store__statement(store->writer, SQL_PROBE);
    if (!statement)
        return STORE_FAILED;
    sqlite3_bind_int64(statement, 1, clock_now_ms());
    return store__run(store->writer, statement);
}

void store_probe(struct store *store, struct store_write *write)
{
    write->apply = probe_apply;
    store_submit(store, write);
}
