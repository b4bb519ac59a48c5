/*
 * How large the database is: its pages without the free ones, which are filled again, and its log where that is longer
 * than it should be (a reader may hold its end). Measured by the writer, some times a second; read by whoever accepts work. At --max-db new jobs are refused and nothing is added to
 * the cache, while what was accepted before still gets its end and its result: so the bound is one of acceptance, and
 * the file may pass it by what was under way.
 *
 * SPDX-License-Identifier: GPL-3.0-or-later
 */
#include <stdio.h>
#include <sys/stat.h>

#include "server/ops/clock.h"
#include "server/ops/metrics.h"
#include "server/store/internal.h"

#define MEASURE_SECONDS 0.1
#define USUAL_LOG (INT64_C(64) << 20) /* bytes; writer.c empties it at a quarter of that */

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
    if (now < store->measure_at) {
        return;
    }
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
