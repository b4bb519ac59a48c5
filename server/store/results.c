/*
 * Rows of results. A checksum over everything that is read back detects a damaged file: a damaged row counts as absent,
 * so the job is computed again and the row replaced.
 *
 * SPDX-License-Identifier: GPL-3.0-or-later
 */
#include <sodium.h>
#include <stdlib.h>
#include <string.h>

#include "server/ops/log.h"
#include "server/ops/metrics.h"
#include "server/store/internal.h"

#define CHECKSUM_SIZE 16

static void hash_text(crypto_generichash_state *state, const char *text)
{
    /* NUL separates the texts, and distinguishes NULL from "" */
    if (text)
        crypto_generichash_update(state, (const unsigned char *)text, strlen(text) + 1);
    crypto_generichash_update(state, (const unsigned char *)(text ? "+" : "-"), 1);
}

static void result_checksum(unsigned char checksum[CHECKSUM_SIZE], const struct result_record *result)
{
    crypto_generichash_state state;
    crypto_generichash_init(&state, NULL, 0, CHECKSUM_SIZE);
    hash_text(&state, result->hash);
    hash_text(&state, result->core);
    hash_text(&state, result->cache);
    hash_text(&state, result->curve);
    hash_text(&state, result->note);
    crypto_generichash_update(&state, (const unsigned char *)&result->version, sizeof result->version);
    crypto_generichash_update(&state, (const unsigned char *)&result->elapsed_seconds, sizeof result->elapsed_seconds);
    if (result->points_len) {
        crypto_generichash_update(&state, (const unsigned char *)result->points,
                                  result->points_len * sizeof *result->points);
    }
    crypto_generichash_final(&state, checksum, CHECKSUM_SIZE);
}

static enum store_status uses_put(struct store *store, const struct store_update *update)
{
    for (size_t i = 0; i < update->uses_len; i++) {
        sqlite3_stmt *statement = store__statement(store->writer, SQL_USE_PUT);
        if (!statement)
            return STORE_FAILED;
        sqlite3_bind_text(statement, 1, update->result->hash, -1, SQLITE_STATIC);
        sqlite3_bind_int(statement, 2, update->result->version);
        sqlite3_bind_blob(statement, 3, update->uses[i], 32, SQLITE_STATIC);
        if (store__run(store->writer, statement) != STORE_OK)
            return STORE_FAILED;
    }
    return STORE_OK;
}

enum store_status store__result_put(struct store *store, const struct store_update *update)
{
    const struct result_record *result = update->result;
    unsigned char checksum[CHECKSUM_SIZE];
    sqlite3_stmt *statement = store__statement(store->writer, SQL_RESULT_PUT);
    if (!statement)
        return STORE_FAILED;
    result_checksum(checksum, result);
    sqlite3_bind_text(statement, 1, result->hash, -1, SQLITE_STATIC);
    sqlite3_bind_int(statement, 2, result->version);
    sqlite3_bind_int64(statement, 3, result->finished_at);
    sqlite3_bind_text(statement, 4, result->core, -1, SQLITE_STATIC);
    sqlite3_bind_text(statement, 5, result->cache, -1, SQLITE_STATIC);
    sqlite3_bind_double(statement, 6, result->elapsed_seconds);
    if (result->curve)
        sqlite3_bind_text(statement, 7, result->curve, -1, SQLITE_STATIC);
    if (result->note)
        sqlite3_bind_text(statement, 8, result->note, -1, SQLITE_STATIC);
    if (result->points_len)
        sqlite3_bind_blob64(statement, 9, result->points, result->points_len * sizeof *result->points, SQLITE_STATIC);
    sqlite3_bind_blob(statement, 10, checksum, sizeof checksum, SQLITE_STATIC);
    store__bind_figures(statement, &result->figures, false);
    if (store__run(store->writer, statement) != STORE_OK)
        return STORE_FAILED;
    return uses_put(store, update);
}

enum store_status store__result_present(struct store *store, const char *hash, int version)
{
    sqlite3_stmt *statement = store__statement(store->writer, SQL_RESULT_PRESENT);
    if (!statement)
        return STORE_FAILED;
    sqlite3_bind_text(statement, 1, hash, -1, SQLITE_STATIC);
    sqlite3_bind_int(statement, 2, version);
    int code = sqlite3_step(statement);
    enum store_status status = code == SQLITE_ROW    ? STORE_OK
                               : code == SQLITE_DONE ? STORE_NONE
                                                     : store__complain(store->writer, "look for result");
    sqlite3_reset(statement);
    return status;
}

enum store_status store_result_lost(const char *hash)
{
    return store__damaged("results", hash);
}

/* Columns in the order of SQL_RESULT_READ. */
static enum store_status result_of_row(struct result_record *result, sqlite3_stmt *row)
{
    bool failed = false;
    result->finished_at = sqlite3_column_int64(row, 0);
    result->core = store__column_text(row, 1, &failed);
    result->cache = store__column_text(row, 2, &failed);
    result->elapsed_seconds = sqlite3_column_double(row, 3);
    result->curve = store__column_text(row, 4, &failed);
    result->note = store__column_text(row, 5, &failed);
    const void *points = sqlite3_column_blob(row, 6);
    size_t bytes = (size_t)sqlite3_column_bytes(row, 6);
    if (failed || (bytes && !points))
        return STORE_FAILED;
    if (!result->core || !result->cache || bytes % sizeof *result->points)
        return STORE_CORRUPT;
    if (bytes) {
        result->points = malloc(bytes);
        if (!result->points)
            return STORE_FAILED;
        memcpy(result->points, points, bytes);
        result->points_len = bytes / sizeof *result->points;
    }
    unsigned char checksum[CHECKSUM_SIZE];
    result_checksum(checksum, result);
    if (sqlite3_column_bytes(row, 7) != CHECKSUM_SIZE ||
        memcmp(sqlite3_column_blob(row, 7), checksum, CHECKSUM_SIZE) != 0 || !sqlite3_column_int(row, 8))
        return STORE_CORRUPT;
    store__read_figures(&result->figures, row, 9, false);
    return STORE_OK;
}

enum store_status store_read_result(struct store *store, const char *hash, int version, struct result_record **result)
{
    struct result_record *found = result_record_create(hash);
    struct store_connection *reader = found ? store__reader_take(store) : NULL;
    sqlite3_stmt *statement = reader ? store__statement(reader, SQL_RESULT_READ) : NULL;
    enum store_status status = STORE_FAILED;
    if (statement) {
        found->version = version;
        sqlite3_bind_text(statement, 1, hash, -1, SQLITE_STATIC);
        sqlite3_bind_int(statement, 2, version);
        int code = sqlite3_step(statement);
        if (code == SQLITE_ROW)
            status = result_of_row(found, statement);
        else
            status = code == SQLITE_DONE ? STORE_NONE : store__complain(reader, "read result");
        sqlite3_reset(statement);
    }
    if (reader)
        store__reader_give(store, reader);
    if (status == STORE_CORRUPT) {
        metric_add(METRIC_CHECKSUM_FAILURES, 1);
        log_event(LOG_LEVEL_ERROR, "checksum", "table=results hash=%s version=%d", hash, version);
    }
    if (status == STORE_OK)
        *result = found;
    else
        result_record_release(found);
    return status;
}
