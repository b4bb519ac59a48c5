/*
 * The size of the database: its pages without the free ones, which are reused, plus the log where it is longer than
 * usual (a reader may prevent the checkpoint of its end). The writer measures it several times a second; threads that
 * accept work read it. At --max-db, new jobs are rejected and nothing is added to the cache, but jobs that were
 * accepted before still get their end and result. The limit is therefore on acceptance, and the file may exceed it by
 * the results of jobs in progress.
 *
 * SPDX-License-Identifier: GPL-3.0-or-later
 */
#include <stdio.h>
#include <sys/stat.h>

#include "server/ops/clock.h"
#include "server/ops/metrics.h"
#include "server/store/internal.h"

#define MEASURE_SECONDS 0.1
#define USUAL_LOG (INT64_C(64) << 20) /* bytes; writer.c checkpoints the log at a quarter of it */

static int64_t read_number(struct store *store, enum store_sql sql)
{
    sqlite3_stmt *statement = store__statement(store->writer, sql);
    int64_t number = statement && sqlite3_step(statement) == SQLITE_ROW ? sqlite3_column_int64(statement, 0) : 0;
    sqlite3_reset(statement);
    return number;
}

static int64_t log_bytes(const struct store *store)
{
    char path[4096];
    struct stat log;
    snprintf(path, sizeof path, "%s-wal", store->path);
    return stat(path, &log) == 0 ? (int64_t)log.st_size : 0;
}

void store__measure(struct store *store)
{
    double now = clock_monotonic();
    if (now < store->measure_at)
        return;
    int64_t pages = read_number(store, SQL_PAGES) - read_number(store, SQL_PAGES_FREE);
    int64_t log = log_bytes(store);
    int64_t bytes = pages * read_number(store, SQL_PAGE_SIZE) + (log > USUAL_LOG ? log - USUAL_LOG : 0);
    atomic_store(&store->bytes, (uint64_t)bytes);
    metric_set(METRIC_STORE_BYTES, bytes);
    store->measure_at = now + MEASURE_SECONDS;
}

bool store_full(struct store *store)
{
    uint64_t most = store->options.max_bytes;
    return most > 0 && atomic_load(&store->bytes) >= most;
}
