/*
 * The cache of factorisations, PLDs and chunks of draws: blobs with a checksum, stored under the accounting version.
 * There are two limits in bytes: one for factorisations and PLDs, of which PLDs are evicted first, and one for chunks,
 * because a Monte Carlo job writes them by the thousand and only equal jobs read them, so they must not evict anything
 * else. Within a kind, the least recently used blob is evicted; a factorisation that a stored job refers to is kept.
 * Lookups read on the thread of the caller. Writes (put, touch, drop) are queued to the writer, and no computation
 * waits for them.
 *
 * SPDX-License-Identifier: GPL-3.0-or-later
 */
#include <sodium.h>
#include <stdlib.h>
#include <string.h>

#include "server/ops/clock.h"
#include "server/ops/log.h"
#include "server/ops/metrics.h"
#include "server/store/internal.h"

#define CHECKSUM_SIZE 16
#define PENDING_MAX (INT64_C(256) << 20) /* limit on the bytes of blobs queued to the writer */
#define TOUCH_MS 60000                   /* a use is recorded at most once in this time */

struct blob_write {
    struct store_write write;
    struct store *store;
    unsigned kind;
    int version;
    unsigned char key[32];
    unsigned char checksum[CHECKSUM_SIZE];
    size_t len;
    unsigned char data[];
};

static void blob_checksum(unsigned char checksum[CHECKSUM_SIZE], const uint8_t key[32], const void *data, size_t len)
{
    crypto_generichash_state state;
    crypto_generichash_init(&state, NULL, 0, CHECKSUM_SIZE);
    crypto_generichash_update(&state, key, 32);
    crypto_generichash_update(&state, data, len);
    crypto_generichash_final(&state, checksum, CHECKSUM_SIZE);
}

static sqlite3_stmt *blob_statement(struct store_connection *connection, enum store_sql sql, unsigned kind,
                                    const uint8_t key[32], int version)
{
    sqlite3_stmt *statement = store__statement(connection, sql);
    if (statement) {
        sqlite3_bind_int(statement, 1, (int)kind);
        sqlite3_bind_blob(statement, 2, key, 32, SQLITE_STATIC);
        sqlite3_bind_int(statement, 3, version);
    }
    return statement;
}

static void blob_done(struct store_write *write, enum store_status status)
{
    struct blob_write *blob = (struct blob_write *)write;
    (void)status; /* the store logs the failure; a cache that cannot be written only costs time */
    atomic_fetch_sub(&blob->store->pending, blob->len);
    free(blob);
}

static struct blob_write *blob_write_create(struct store *store, unsigned kind, const uint8_t key[32], const void *data,
                                            size_t len)
{
    struct blob_write *blob = calloc(1, sizeof *blob + len);
    if (blob) {
        blob->write.done = blob_done;
        blob->store = store;
        blob->kind = kind;
        blob->version = EPS_ACCOUNTING_VERSION;
        blob->len = len;
        memcpy(blob->key, key, 32);
        if (len)
            memcpy(blob->data, data, len);
        atomic_fetch_add(&store->pending, len);
    }
    return blob;
}

/* ---------------------------------------------------------------- limits */

/* A kind that is damaged in a row counts as a PLD, which may be evicted at any time. */
static enum store_shelf shelf_of(unsigned kind)
{
    return kind == EPS_CACHE_CHUNK ? STORE_SHELF_CHUNKS : STORE_SHELF_BLOBS;
}

static uint64_t shelf_bound(const struct store *store, enum store_shelf shelf)
{
    return shelf == STORE_SHELF_CHUNKS ? store->options.chunk_bytes : store->options.cache_bytes;
}

/* ---------------------------------------------------------------- eviction (writer thread) */

/* Steps a deletion that returns the size of the deleted blobs. STORE_NONE: no row was deleted. */
static enum store_status drop_row(struct store *store, sqlite3_stmt *statement, enum store_shelf shelf)
{
    if (!statement)
        return STORE_FAILED;
    int code = sqlite3_step(statement);
    enum store_status status = code == SQLITE_ROW ? STORE_OK : STORE_NONE;
    if (code == SQLITE_ROW) {
        store->blob_bytes[shelf] -= sqlite3_column_int64(statement, 0);
        code = sqlite3_step(statement);
    }
    status = code == SQLITE_DONE ? status : store__complain(store->writer, "drop blob");
    sqlite3_reset(statement);
    return status;
}

enum store_status store__evict(struct store *store, enum store_shelf shelf, int64_t incoming)
{
    static const enum store_sql oldest_of[STORE_SHELVES] = {
        [STORE_SHELF_BLOBS] = SQL_BLOB_OLDEST, [STORE_SHELF_CHUNKS] = SQL_CHUNK_OLDEST};
    int64_t bound = (int64_t)shelf_bound(store, shelf);
    enum store_status status = STORE_OK;
    while (status == STORE_OK && store->blob_bytes[shelf] + incoming > bound) {
        sqlite3_stmt *oldest = store__statement(store->writer, oldest_of[shelf]);
        if (!oldest)
            return STORE_FAILED;
        int code = sqlite3_step(oldest);
        sqlite3_int64 rowid = sqlite3_column_int64(oldest, 0);
        sqlite3_reset(oldest);
        if (code != SQLITE_ROW)
            return code == SQLITE_DONE ? STORE_NONE : store__complain(store->writer, "oldest blob");
        /* By rowid, because the key may be what is damaged. */
        sqlite3_stmt *statement = store__statement(store->writer, SQL_BLOB_EVICT);
        if (statement)
            sqlite3_bind_int64(statement, 1, rowid);
        status = drop_row(store, statement, shelf);
        metric_add(METRIC_CACHE_EVICTIONS, status == STORE_OK);
    }
    return status;
}

void store__blob_prepare(struct store *store)
{
    sqlite3_stmt *statement = owner_has(store->owner) ? store__statement(store->writer, SQL_BLOB_OUTDATED) : NULL;
    if (statement) {
        sqlite3_bind_int(statement, 1, EPS_ACCOUNTING_VERSION);
        store__run(store->writer, statement);
    }
    statement = store__statement(store->writer, SQL_BLOB_TOTAL);
    if (statement && sqlite3_step(statement) == SQLITE_ROW) {
        store->blob_bytes[STORE_SHELF_BLOBS] = sqlite3_column_int64(statement, 0);
        store->blob_bytes[STORE_SHELF_CHUNKS] = sqlite3_column_int64(statement, 1);
    }
    sqlite3_reset(statement);
    store__blob_tell(store);
}

void store__blob_tell(const struct store *store)
{
    metric_set(METRIC_CACHE_BYTES, store->blob_bytes[STORE_SHELF_BLOBS]);
    metric_set(METRIC_CHUNK_BYTES, store->blob_bytes[STORE_SHELF_CHUNKS]);
}

/* ---------------------------------------------------------------- put */

static enum store_status put_apply(struct store *store, struct store_write *write)
{
    struct blob_write *blob = (struct blob_write *)write;
    enum store_shelf shelf = shelf_of(blob->kind);
    enum store_status status = store_full(store) ? STORE_NONE : store__evict(store, shelf, (int64_t)blob->len);
    if (status != STORE_OK) /* STORE_NONE: nothing else may be evicted, so there is no room */
        return status;
    sqlite3_stmt *statement =
        blob_statement(store->writer, SQL_BLOB_PUT, blob->kind, blob->key, EPS_ACCOUNTING_VERSION);
    if (!statement)
        return STORE_FAILED;
    sqlite3_bind_int64(statement, 4, (sqlite3_int64)blob->len);
    sqlite3_bind_int64(statement, 5, clock_now_ms());
    sqlite3_bind_blob(statement, 6, blob->checksum, CHECKSUM_SIZE, SQLITE_STATIC);
    sqlite3_bind_blob64(statement, 7, blob->data, blob->len, SQLITE_STATIC);
    status = store__run(store->writer, statement);
    if (status == STORE_OK && sqlite3_changes(store->writer->db) > 0)
        store->blob_bytes[shelf] += (int64_t)blob->len;
    return status;
}

void store_blob_put(struct store *store, unsigned kind, const uint8_t key[32], const void *data, size_t len)
{
    if (len > shelf_bound(store, shelf_of(kind)) / 4 || atomic_load(&store->pending) + len > PENDING_MAX)
        return;
    struct blob_write *blob = blob_write_create(store, kind, key, data, len);
    if (blob) {
        blob->write.apply = put_apply;
        blob_checksum(blob->checksum, key, data, len);
        store_submit(store, &blob->write);
    }
}

/* ---------------------------------------------------------------- get */

static enum store_status touch_apply(struct store *store, struct store_write *write)
{
    struct blob_write *blob = (struct blob_write *)write;
    sqlite3_stmt *statement =
        blob_statement(store->writer, SQL_BLOB_TOUCH, blob->kind, blob->key, EPS_ACCOUNTING_VERSION);
    if (!statement)
        return STORE_FAILED;
    sqlite3_bind_int64(statement, 4, clock_now_ms());
    return store__run(store->writer, statement);
}

static enum store_status drop_apply(struct store *store, struct store_write *write)
{
    struct blob_write *blob = (struct blob_write *)write;
    sqlite3_stmt *statement = blob_statement(store->writer, SQL_BLOB_DROP, blob->kind, blob->key, blob->version);
    enum store_status status = drop_row(store, statement, shelf_of(blob->kind));
    return status == STORE_NONE ? STORE_OK : status;
}

static void blob_note(struct store *store, unsigned kind, const uint8_t key[32], int version,
                      enum store_status (*apply)(struct store *, struct store_write *))
{
    struct blob_write *blob = blob_write_create(store, kind, key, NULL, 0);
    if (blob) {
        blob->version = version;
        blob->write.apply = apply;
        store_submit(store, &blob->write);
    }
}

/* Reads a blob and checks it. STORE_CORRUPT: the checksum is wrong. */
static enum store_status blob_read(struct store_connection *reader, unsigned kind, const uint8_t key[32], void **data,
                                   size_t *len, int64_t *used_at, int *version)
{
    sqlite3_stmt *statement = blob_statement(reader, SQL_BLOB_READ, kind, key, EPS_ACCOUNTING_VERSION);
    enum store_status status = STORE_NONE;
    if (!statement)
        return STORE_FAILED;
    if (sqlite3_step(statement) == SQLITE_ROW) {
        unsigned char checksum[CHECKSUM_SIZE];
        const void *bytes = sqlite3_column_blob(statement, 2);
        *len = (size_t)sqlite3_column_bytes(statement, 2);
        *used_at = sqlite3_column_int64(statement, 0);
        *version = sqlite3_column_int(statement, 3);
        blob_checksum(checksum, key, *len ? bytes : "", *len);
        *data = NULL;
        if (sqlite3_column_bytes(statement, 1) != CHECKSUM_SIZE ||
            memcmp(sqlite3_column_blob(statement, 1), checksum, CHECKSUM_SIZE) != 0) {
            status = STORE_CORRUPT;
        } else if ((*data = malloc(*len ? *len : 1)) != NULL) {
            if (*len)
                memcpy(*data, bytes, *len);
            status = STORE_OK;
        }
    }
    sqlite3_reset(statement);
    return status;
}

static void count_lookup(unsigned kind, bool hit)
{
    static const enum metric metrics[EPS_CACHE_KINDS][2] = {
        [EPS_CACHE_FACTORIZATION] = {METRIC_FACTORIZATION_MISSES, METRIC_FACTORIZATION_HITS},
        [EPS_CACHE_PLD] = {METRIC_PLD_MISSES, METRIC_PLD_HITS},
        [EPS_CACHE_CHUNK] = {METRIC_CHUNK_MISSES, METRIC_CHUNK_HITS},
    };
    if (kind < EPS_CACHE_KINDS)
        metric_add(metrics[kind][hit], 1);
}

bool store_blob_get(struct store *store, unsigned kind, const uint8_t key[32], void **data, size_t *len)
{
    int64_t used_at = 0;
    int version = EPS_ACCOUNTING_VERSION;
    struct store_connection *reader = store__reader_take(store);
    enum store_status status = reader ? blob_read(reader, kind, key, data, len, &used_at, &version) : STORE_FAILED;
    store__reader_give(store, reader);
    if (status == STORE_CORRUPT) {
        metric_add(METRIC_CHECKSUM_FAILURES, 1);
        log_event(LOG_LEVEL_ERROR, "checksum", "table=blobs kind=%u key=%02x%02x%02x%02x", kind, key[0], key[1], key[2],
                  key[3]);
        blob_note(store, kind, key, version, drop_apply);
    }
    bool hit = status == STORE_OK;
    if (hit && clock_now_ms() - used_at > TOUCH_MS)
        blob_note(store, kind, key, version, touch_apply);
    count_lookup(kind, hit);
    return hit;
}
