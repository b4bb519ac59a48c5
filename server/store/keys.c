/*
 * Idempotency keys: the first request of a key and the resource that it created. What is posted, a job or another
 * resource, is represented by a digest and an id. And who posted a resource, and the bytes that a key keeps.
 *
 * SPDX-License-Identifier: GPL-3.0-or-later
 */
#include <sodium.h>
#include <string.h>

#include "server/store/internal.h"

#define KEY_AGE_MS (24 * INT64_C(3600000))
#define KEPT_SECONDS 60 /* to wait for room: what is kept expires, or is deleted */

void store_key_request(struct store_key *key, const char *hash, const char *label)
{
    unsigned char digest[(HASH_SIZE - 1) / 2];
    crypto_generichash_state state;
    crypto_generichash_init(&state, NULL, 0, sizeof digest);
    crypto_generichash_update(&state, (const unsigned char *)hash, HASH_SIZE - 1);
    if (label)
        crypto_generichash_update(&state, (const unsigned char *)label, strlen(label) + 1);
    crypto_generichash_final(&state, digest, sizeof digest);
    sodium_bin2hex(key->request, HASH_SIZE, digest, sizeof digest);
}

/* Reads the row: `request` is the first request of the key, `id` the resource that it created. */
static enum store_status read_row(struct store_key *key, sqlite3_stmt *row)
{
    const char *request = (const char *)sqlite3_column_text(row, 0);
    const char *id = (const char *)sqlite3_column_text(row, 1);
    if (!request || !id || strlen(id) != UUID_SIZE - 1 || store__is_false(row, 2)) {
        key->use = KEY_DAMAGED;
        return store__damaged("idempotency", key->text);
    }
    key->use = strcmp(request, key->request) == 0 ? KEY_REPLAYED : KEY_CONFLICT;
    memcpy(key->id, id, UUID_SIZE);
    return STORE_OK;
}

static enum store_status find(struct store *store, struct store_connection *connection, struct store_key *key)
{
    sqlite3_stmt *statement = store__statement(connection, SQL_KEY_READ);
    if (!statement)
        return STORE_FAILED;
    store__bind_text(statement, 1, key->owner);
    store__bind_text(statement, 2, key->text);
    sqlite3_bind_int64(statement, 3, store__time(store) - KEY_AGE_MS);
    int code = sqlite3_step(statement);
    enum store_status status = STORE_OK;
    if (code == SQLITE_ROW)
        status = read_row(key, statement);
    else if (code != SQLITE_DONE)
        status = store__complain(connection, "idempotency key");
    sqlite3_reset(statement);
    return status;
}

static enum store_status put(struct store_connection *connection, const struct store_key *key, const char *id,
                             int64_t created_at)
{
    sqlite3_stmt *statement = store__statement(connection, SQL_KEY_PUT);
    if (!statement)
        return STORE_FAILED;
    store__bind_text(statement, 1, key->owner);
    store__bind_text(statement, 2, key->text);
    store__bind_text(statement, 3, key->request);
    store__bind_text(statement, 4, id);
    sqlite3_bind_int64(statement, 5, created_at);
    return store__run(connection, statement);
}

enum store_status store__key_gone(struct store *store, const char *id)
{
    sqlite3_stmt *statement = store__statement(store->writer, SQL_KEY_GONE);
    if (!statement)
        return STORE_FAILED;
    store__bind_text(statement, 1, id);
    return store__run(store->writer, statement);
}

enum store_status store_key_read(struct store *store, struct store_key *key)
{
    key->use = KEY_FREE;
    if (!key->text[0])
        return STORE_OK;
    struct store_connection *reader = store__reader_take(store);
    enum store_status status = reader ? find(store, reader, key) : STORE_FAILED;
    store__reader_give(store, reader);
    return status;
}

/* ---------------------------------------------------------------- owners */

static enum store_status owner_put(struct store *store, const struct store_posted *posted)
{
    if (!posted->poster->group[0])
        return STORE_OK;
    sqlite3_stmt *statement = store__statement(store->writer, SQL_OWNER_PUT);
    if (!statement)
        return STORE_FAILED;
    store__bind_text(statement, 1, posted->id);
    store__bind_text(statement, 2, posted->poster->group);
    store__bind_text(statement, 3, posted->poster->key);
    sqlite3_bind_int64(statement, 4, (sqlite3_int64)posted->bytes);
    return store__run(store->writer, statement);
}

static enum store_status kept_read(struct store_connection *connection, const char *key, uint64_t *bytes,
                                   uint64_t *items)
{
    sqlite3_stmt *statement = store__statement(connection, SQL_KEPT_READ);
    *bytes = *items = 0;
    if (!statement)
        return STORE_FAILED;
    store__bind_text(statement, 1, key);
    int code = sqlite3_step(statement);
    if (code == SQLITE_ROW) {
        *bytes = (uint64_t)sqlite3_column_int64(statement, 0);
        *items = (uint64_t)sqlite3_column_int64(statement, 1);
    }
    enum store_status status =
        code == SQLITE_ROW || code == SQLITE_DONE ? STORE_OK : store__complain(connection, "kept bytes");
    sqlite3_reset(statement);
    return status;
}

enum store_status store_read_kept(struct store *store, const char *key, uint64_t *bytes, uint64_t *items)
{
    struct store_connection *reader = store__reader_take(store);
    *bytes = *items = 0;
    enum store_status status = reader ? kept_read(reader, key, bytes, items) : STORE_FAILED;
    store__reader_give(store, reader);
    return status;
}

static enum store_status allow(struct store *store, struct store_allowance *allowance,
                               const struct store_posted *posted)
{
    uint64_t items;
    allowance->exceeded = false;
    if (!allowance->most)
        return STORE_OK;
    enum store_status status = kept_read(store->writer, posted->poster->key, &allowance->kept, &items);
    allowance->exceeded =
        status == STORE_OK && (allowance->kept >= allowance->most || posted->bytes > allowance->most - allowance->kept);
    return status;
}

struct quota_refusal store_allowance_refusal(const struct store_allowance *allowance)
{
    return (struct quota_refusal){.kind = QUOTA_BYTES,
                                  .most = allowance->most,
                                  .left = allowance->most > allowance->kept ? allowance->most - allowance->kept : 0,
                                  .seconds = KEPT_SECONDS};
}

enum store_status store__post(struct store *store, struct store_key *key, struct store_allowance *allowance,
                              const struct store_posted *posted)
{
    enum store_status status = STORE_OK;
    key->use = KEY_FREE;
    allowance->exceeded = false;
    if (key->text[0])
        status = find(store, store->writer, key);
    if (status != STORE_OK || key->use != KEY_FREE)
        return status;
    status = allow(store, allowance, posted);
    if (status != STORE_OK || allowance->exceeded)
        return status;
    if (key->text[0])
        status = put(store->writer, key, posted->id, posted->created_at);
    return status == STORE_OK ? owner_put(store, posted) : status;
}

void store__read_poster(struct poster *poster, sqlite3_stmt *row, int first)
{
    const char *key = (const char *)sqlite3_column_text(row, first);
    const char *group = (const char *)sqlite3_column_text(row, first + 1);
    *poster = (struct poster){.key = ""};
    if (key && group && strlen(key) < sizeof poster->key && strlen(group) < sizeof poster->group) {
        strcpy(poster->key, key);
        strcpy(poster->group, group);
    }
}

enum store_status store_read_owner(struct store *store, const char *id, char owner[OWNER_SIZE])
{
    struct store_connection *reader = store__reader_take(store);
    sqlite3_stmt *statement = reader ? store__statement(reader, SQL_OWNER_READ) : NULL;
    enum store_status status = STORE_FAILED;
    owner[0] = '\0';
    if (statement) {
        store__bind_text(statement, 1, id);
        int code = sqlite3_step(statement);
        const char *text = code == SQLITE_ROW ? (const char *)sqlite3_column_text(statement, 0) : NULL;
        if (text && strlen(text) < OWNER_SIZE && !store__is_false(statement, 1)) {
            strcpy(owner, text);
            status = STORE_OK;
        } else {
            status = code == SQLITE_ROW    ? store__damaged("owners", id)
                     : code == SQLITE_DONE ? STORE_NONE
                                           : store__complain(reader, "owner");
        }
        sqlite3_reset(statement);
    }
    store__reader_give(store, reader);
    return status;
}
