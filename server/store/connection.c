/*
 * Connections and statements. A connection belongs to one thread at a time and keeps its prepared statements. Idle
 * readers are kept in a pool, so that any number of threads can read without opening the file again.
 *
 * SPDX-License-Identifier: GPL-3.0-or-later
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "server/ops/clock.h"
#include "server/ops/log.h"
#include "server/ops/metrics.h"
#include "server/store/internal.h"

#define BUSY_TIMEOUT_MS 10000

/* WAL with FULL: a commit is on the disk when it returns, and readers never wait for the writer. The writer decides
 * when to checkpoint the log; see checkpoint.c. */
static const char write_setup[] = "PRAGMA journal_mode = WAL;"
                                  "PRAGMA synchronous = FULL;"
                                  "PRAGMA wal_autocheckpoint = 0;"
                                  "PRAGMA cache_size = -32768;";
static const char read_setup[] = "PRAGMA query_only = 1; PRAGMA cache_size = -8192; PRAGMA mmap_size = 268435456;";

struct store_connection *store__connect(const char *path, bool read_only, char *message, size_t message_size)
{
    struct store_connection *connection = calloc(1, sizeof *connection);
    if (!connection) {
        snprintf(message, message_size, "out of memory");
        return NULL;
    }
    int flags = SQLITE_OPEN_NOMUTEX | (read_only ? SQLITE_OPEN_READWRITE : SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE);
    if (sqlite3_open_v2(path, &connection->db, flags, NULL) != SQLITE_OK ||
        sqlite3_busy_timeout(connection->db, BUSY_TIMEOUT_MS) != SQLITE_OK || !store__digest_register(connection->db) ||
        sqlite3_exec(connection->db, read_only ? read_setup : write_setup, NULL, NULL, NULL) != SQLITE_OK) {
        snprintf(message, message_size, "%s", connection->db ? sqlite3_errmsg(connection->db) : "out of memory");
        store__disconnect(connection);
        return NULL;
    }
    return connection;
}

void store__disconnect(struct store_connection *connection)
{
    if (!connection)
        return;
    for (size_t i = 0; i < SQL_COUNT; i++)
        sqlite3_finalize(connection->statements[i]);
    sqlite3_close(connection->db);
    free(connection);
}

struct store_connection *store__reader_take(struct store *store)
{
    pthread_mutex_lock(&store->readers_mutex);
    struct store_connection *connection = store->readers;
    if (connection)
        store->readers = connection->next;
    pthread_mutex_unlock(&store->readers_mutex);
    double taken = clock_monotonic();
    char message[256];
    if (!connection)
        connection = store__connect(store->path, true, message, sizeof message);
    if (connection) {
        connection->taken = taken;
    } else {
        char quoted[320];
        log_event(LOG_LEVEL_ERROR, "store-open", "detail=%s", log_quote(quoted, sizeof quoted, message));
        metric_add(METRIC_STORE_FAILURES, 1);
    }
    return connection;
}

void store__reader_give(struct store *store, struct store_connection *connection)
{
    if (!connection)
        return;
    metric_time(METRIC_TIME_READ, clock_monotonic() - connection->taken, NULL);
    pthread_mutex_lock(&store->readers_mutex);
    connection->next = store->readers;
    store->readers = connection;
    pthread_mutex_unlock(&store->readers_mutex);
}

sqlite3_stmt *store__statement(struct store_connection *connection, enum store_sql sql)
{
    sqlite3_stmt **statement = &connection->statements[sql];
    if (*statement) {
        sqlite3_reset(*statement);
        sqlite3_clear_bindings(*statement);
        return *statement;
    }
    if (sqlite3_prepare_v3(connection->db, store__sql(sql), -1, SQLITE_PREPARE_PERSISTENT, statement, NULL) !=
        SQLITE_OK) {
        store__complain(connection, store__sql(sql));
        return NULL;
    }
    return *statement;
}

enum store_status store__run(struct store_connection *connection, sqlite3_stmt *statement)
{
    int code = sqlite3_step(statement);
    enum store_status status =
        code == SQLITE_DONE || code == SQLITE_ROW ? STORE_OK : store__complain(connection, sqlite3_sql(statement));
    sqlite3_reset(statement);
    return status;
}

bool store__read_all(struct store_connection *connection, sqlite3_stmt *statement, int code, const char *what)
{
    if (statement && code != SQLITE_DONE && code != SQLITE_ROW)
        store__complain(connection, what);
    return code == SQLITE_DONE;
}

enum store_status store__damaged(const char *table, const char *key)
{
    char quoted[320];
    metric_add(METRIC_CHECKSUM_FAILURES, 1);
    log_event(LOG_LEVEL_ERROR, "checksum", "table=%s key=%s", table, log_quote(quoted, sizeof quoted, key));
    return STORE_CORRUPT;
}

enum store_status store__complain(struct store_connection *connection, const char *what)
{
    char detail[320];
    char quoted[320];
    log_event(LOG_LEVEL_ERROR, "store", "code=%d detail=%s statement=%s", sqlite3_extended_errcode(connection->db),
              log_quote(detail, sizeof detail, sqlite3_errmsg(connection->db)), log_quote(quoted, sizeof quoted, what));
    metric_add(METRIC_STORE_FAILURES, 1);
    return STORE_FAILED;
}

char *store__column_text(sqlite3_stmt *statement, int column, bool *failed)
{
    if (sqlite3_column_type(statement, column) == SQLITE_NULL)
        return NULL;
    const unsigned char *text = sqlite3_column_text(statement, column);
    char *copy = text ? strdup((const char *)text) : NULL;
    *failed |= !copy;
    return copy;
}
