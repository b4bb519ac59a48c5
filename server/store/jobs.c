/*
 * Rows of jobs.
 *
 * SPDX-License-Identifier: GPL-3.0-or-later
 */
#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "server/ops/clock.h"
#include "server/ops/log.h"
#include "server/ops/metrics.h"
#include "server/store/internal.h"

/* Sorts after every id: ids consist of hexadecimal digits and dashes. */
#define AFTER_EVERY_ID "~"

/* ---------------------------------------------------------------- writes */

static enum store_status insert_row(struct store_connection *connection, const struct job_record *record)
{
    sqlite3_stmt *statement = store__statement(connection, SQL_JOB_INSERT);
    if (!statement)
        return STORE_FAILED;
    store__bind_text(statement, 1, record->id);
    store__bind_text(statement, 2, record->hash);
    store__bind_text(statement, 3, record->label);
    sqlite3_bind_int(statement, 4, (int)record->status);
    sqlite3_bind_int(statement, 5, record->attempts);
    sqlite3_bind_int64(statement, 6, record->created_at);
    store__bind_time(statement, 7, record->started_at);
    store__bind_time(statement, 8, record->finished_at);
    sqlite3_bind_int(statement, 9, record->from_cache);
    if (record->version)
        sqlite3_bind_int(statement, 10, record->version);
    store__bind_text(statement, 11, record->job);
    store__bind_text(statement, 12, record->brief);
    store__bind_text(statement, 13, record->error);
    if (record->operations > 0)
        sqlite3_bind_double(statement, 14, record->operations);
    store__bind_text(statement, 15, record->request[0] ? record->request : NULL);
    if (record->parent[0]) {
        store__bind_text(statement, 16, record->parent);
        sqlite3_bind_int(statement, 17, record->child);
    }
    return store__run(connection, statement);
}

/* Checks that the result that the record refers to still exists: it may have expired between the lookup, which may have
 * been in memory, and this transaction. */
static enum store_status check_answer(struct store *store, struct job_record *record, bool *unanswered)
{
    enum store_status status =
        record->status == JOB_SUCCEEDED ? store__result_present(store, record->hash, record->version) : STORE_OK;
    *unanswered = status == STORE_NONE;
    if (status == STORE_NONE) {
        job_record_restart(record);
        status = STORE_OK;
    }
    return status;
}

enum store_status store__job_put(struct store *store, const struct job_record *record, bool *unanswered)
{
    struct job_record row = *record; /* borrows the texts */
    enum store_status status = check_answer(store, &row, unanswered);
    return status == STORE_OK ? insert_row(store->writer, &row) : status;
}

/* ---------------------------------------------------------------- jobs answered from the cache */

enum { ANSWERED_MAX = 500 }; /* limit on the jobs answered from the same cached result */

#define ANSWERED_BYTES (INT64_C(64) << 20) /* limit on the size of their texts */
#define ANSWERED_MS 60000                  /* an id is kept at least this long, unless the texts are large */
#define ANSWERED_MORE_MS 1000              /* and some for a while, so that many are deleted at once */

/* Whether a record of the job is before that id. */
static enum store_status answered_before(struct store *store, const char *hash, const char *before, bool *found)
{
    sqlite3_stmt *statement = store__statement(store->writer, SQL_JOB_ANSWERED);
    *found = false;
    if (!statement)
        return STORE_FAILED;
    store__bind_text(statement, 1, hash);
    store__bind_text(statement, 2, before);
    int code = sqlite3_step(statement);
    *found = code == SQLITE_ROW;
    enum store_status status =
        *found || code == SQLITE_DONE ? STORE_OK : store__complain(store->writer, "find answered jobs");
    sqlite3_reset(statement);
    return status;
}

/* Deletes the oldest records to make room for this one, so that posting a cached job repeatedly does not fill the
 * database. If the job is not posted again, all of them stay for --keep. */
static enum store_status replace_oldest(struct store *store, struct store_insert *insert)
{
    const struct job_record *record = insert->record;
    int64_t bytes = (int64_t)strlen(record->job) + (record->brief ? (int64_t)strlen(record->brief) : 0);
    int64_t fit = ANSWERED_BYTES / (bytes ? bytes : 1);
    int64_t kept = fit < 1 ? 1 : fit < ANSWERED_MAX ? fit : ANSWERED_MAX;
    char before[UUID_SIZE] = AFTER_EVERY_ID;
    if (kept == ANSWERED_MAX) {
        bool due;
        uuid_floor(before, record->created_at - ANSWERED_MS - ANSWERED_MORE_MS);
        enum store_status looked = answered_before(store, record->hash, before, &due);
        if (looked != STORE_OK || !due)
            return looked;
        uuid_floor(before, record->created_at - ANSWERED_MS);
    }
    sqlite3_stmt *statement = store__statement(store->writer, SQL_JOB_REPLACE);
    if (!statement)
        return STORE_FAILED;
    store__bind_text(statement, 1, record->hash);
    store__bind_text(statement, 2, before);
    sqlite3_bind_int64(statement, 3, kept);
    sqlite3_bind_int(statement, 4, STORE_REPLACED);
    int code;
    while ((code = sqlite3_step(statement)) == SQLITE_ROW) {
        const char *id = (const char *)sqlite3_column_text(statement, 0);
        if (id && strlen(id) == UUID_SIZE - 1) {
            assert(insert->replaced_len < STORE_REPLACED);
            memcpy(insert->replaced[insert->replaced_len++], id, UUID_SIZE);
        }
    }
    enum store_status status = code == SQLITE_DONE ? STORE_OK : store__complain(store->writer, "replace jobs");
    sqlite3_reset(statement);
    for (size_t i = 0; i < insert->replaced_len && status == STORE_OK; i++)
        status = store__key_gone(store, insert->replaced[i]);
    return status;
}

static enum store_status insert_apply(struct store *store, struct store_write *write)
{
    struct store_insert *insert = (struct store_insert *)write;
    const struct job_record *record = insert->record;
    insert->replaced_len = 0;
    struct store_posted posted = {record->id, record->created_at, &record->poster, job_record_kept(record)};
    enum store_status status = store__post(store, &insert->key, &insert->allowance, &posted);
    if (status != STORE_OK || insert->key.use != KEY_FREE || insert->allowance.exceeded)
        return status;
    status = store__job_put(store, record, &insert->unanswered);
    bool answered = record->from_cache && !record->parent[0] && !insert->unanswered;
    return status == STORE_OK && answered ? replace_oldest(store, insert) : status;
}

void store_insert_job(struct store *store, struct store_insert *insert)
{
    insert->write.apply = insert_apply;
    store_submit(store, &insert->write);
}

void job_change_of(struct job_change *change, const struct job_record *record, char *error)
{
    *change = (struct job_change){
        .status = record->status,
        .attempts = record->attempts,
        .from_cache = record->from_cache,
        .version = record->version,
        .started_at = record->started_at,
        .finished_at = record->finished_at,
        .error = error,
    };
    memcpy(change->id, record->id, UUID_SIZE);
}

static enum store_status change_row(struct store_connection *connection, const struct job_change *change)
{
    sqlite3_stmt *statement = store__statement(connection, SQL_JOB_UPDATE);
    if (!statement)
        return STORE_FAILED;
    store__bind_text(statement, 1, change->id);
    sqlite3_bind_int(statement, 2, (int)change->status);
    sqlite3_bind_int(statement, 3, change->attempts);
    store__bind_time(statement, 4, change->started_at);
    store__bind_time(statement, 5, change->finished_at);
    sqlite3_bind_int(statement, 6, change->from_cache);
    if (change->version)
        sqlite3_bind_int(statement, 7, change->version);
    store__bind_text(statement, 8, change->error);
    return store__run(connection, statement);
}

static enum store_status update_apply(struct store *store, struct store_write *write)
{
    struct store_update *update = (struct store_update *)write;
    const struct result_record *result = update->result;
    enum store_status status = STORE_NONE;
    if (result && update->result_kept)
        status = store__result_present(store, result->hash, result->version);
    if (status == STORE_NONE)
        status = result ? store__result_put(store, update) : STORE_OK;
    for (size_t i = 0; i < update->changes_len && status == STORE_OK; i++) {
        status = change_row(store->writer, &update->changes[i]);
        if (status == STORE_OK && job_status_final(update->changes[i].status))
            status = store__child_end(store, &update->changes[i], result ? &result->figures : NULL);
        if (status == STORE_OK && update->changes[i].cancels_group)
            status = store__group_cancel(store, update->changes[i].id);
    }
    return status;
}

void store_update_jobs(struct store *store, struct store_update *update)
{
    update->write.apply = update_apply;
    store_submit(store, &update->write);
}

enum store_status store_update_jobs_wait(struct store *store, struct store_update *update)
{
    update->write.apply = update_apply;
    return store_submit_wait(store, &update->write);
}

static enum store_status delete_apply(struct store *store, struct store_write *write)
{
    struct store_delete *deletion = (struct store_delete *)write;
    sqlite3_stmt *statement = store__statement(store->writer, SQL_JOB_DELETE);
    if (!statement)
        return STORE_FAILED;
    store__bind_text(statement, 1, deletion->id);
    enum store_status status = store__run(store->writer, statement);
    return status == STORE_OK && sqlite3_changes(store->writer->db) == 0 ? STORE_NONE : status;
}

void store_delete_job(struct store *store, struct store_delete *deletion)
{
    deletion->write.apply = delete_apply;
    store_submit(store, &deletion->write);
}

/* ---------------------------------------------------------------- reads */

/* Reads the columns of the row without checking them. Returns false if memory runs out. */
static bool columns_read(struct job_record *record, sqlite3_stmt *row)
{
    bool failed = false;
    const char *id = (const char *)sqlite3_column_text(row, 0);
    const char *hash = (const char *)sqlite3_column_text(row, 1);
    const char *request = (const char *)sqlite3_column_text(row, 14);
    const char *parent = (const char *)sqlite3_column_text(row, 15);
    *record = (struct job_record){0};
    snprintf(record->id, sizeof record->id, "%s", id ? id : "");
    snprintf(record->hash, sizeof record->hash, "%s", hash ? hash : "");
    snprintf(record->request, sizeof record->request, "%s", request ? request : "");
    snprintf(record->parent, sizeof record->parent, "%s", parent ? parent : "");
    record->child = sqlite3_column_int(row, 16);
    record->label = store__column_text(row, 2, &failed);
    record->attempts = sqlite3_column_int(row, 4);
    record->created_at = sqlite3_column_int64(row, 5);
    record->started_at = sqlite3_column_int64(row, 6);
    record->finished_at = sqlite3_column_int64(row, 7);
    record->from_cache = sqlite3_column_int(row, 8) != 0;
    record->version = sqlite3_column_int(row, 9);
    record->job = store__column_text(row, 10, &failed);
    record->brief = store__column_text(row, 11, &failed);
    record->error = store__column_text(row, 12, &failed);
    record->operations = sqlite3_column_double(row, 13);
    store__read_poster(&record->poster, row, 19);
    record->checked = sqlite3_column_type(row, 17) == SQLITE_INTEGER && sqlite3_column_type(row, 18) == SQLITE_INTEGER;
    return !failed;
}

/* Reads a row in the order of the columns of the statements, and clears what fails its checksum. If memory runs out,
 * returns STORE_FAILED and leaves the record empty. */
static enum store_status record_of_row(struct job_record *record, sqlite3_stmt *row)
{
    int state = sqlite3_column_int(row, 3);
    bool known = sqlite3_column_type(row, 3) == SQLITE_INTEGER && state >= 0 && state < JOB_STATUS_COUNT;
    if (!columns_read(record, row)) {
        job_record_clear(record);
        return STORE_FAILED;
    }
    bool whole = !store__is_false(row, 17) && record->job && strlen(record->hash) == HASH_SIZE - 1;
    if (whole && known && !store__is_false(row, 18)) {
        record->status = (enum job_status)state;
        return STORE_OK;
    }
    struct job_record told = *record;
    memset(record, 0, sizeof *record);
    memcpy(record->id, told.id, UUID_SIZE);
    if (whole) {
        *record = told;
        free(record->error);
        job_record_restart(record);
    } else {
        job_record_clear(&told);
    }
    record->damaged = true;
    return store__damaged("jobs", record->id);
}

enum store_status store_read_job(struct store *store, const char *id, struct job_record *record)
{
    struct store_connection *reader = store__reader_take(store);
    sqlite3_stmt *statement = reader ? store__statement(reader, SQL_JOB_READ) : NULL;
    enum store_status status = STORE_FAILED;
    if (statement) {
        store__bind_text(statement, 1, id);
        int code = sqlite3_step(statement);
        if (code == SQLITE_ROW)
            status = record_of_row(record, statement);
        else
            status = code == SQLITE_DONE ? STORE_NONE : store__complain(reader, "read job");
        sqlite3_reset(statement);
    }
    store__reader_give(store, reader);
    return status;
}

static enum store_status list_rows(struct store_connection *reader, sqlite3_stmt *statement, struct job_record *records,
                                   size_t limit, size_t *len)
{
    int code = SQLITE_DONE;
    *len = 0;
    while (*len < limit && (code = sqlite3_step(statement)) == SQLITE_ROW) {
        if (record_of_row(&records[*len], statement) == STORE_FAILED)
            return STORE_FAILED;
        if (uuid_valid(records[*len].id))
            ++*len;
        else /* without an id it cannot be requested */
            job_record_clear(&records[*len]);
    }
    return code == SQLITE_DONE || code == SQLITE_ROW ? STORE_OK : store__complain(reader, "list jobs");
}

enum store_status store_list_jobs(struct store *store, const struct list_filter *filter, struct job_record **records,
                                  size_t *len)
{
    static const enum store_sql lists[2][2] = {{SQL_JOB_LIST, SQL_JOB_LIST_LABEL},
                                               {SQL_JOB_LIST_STATUS, SQL_JOB_LIST_BOTH}};
    bool by_status = filter->status < JOB_STATUS_COUNT;
    struct job_record *found = calloc(filter->limit ? filter->limit : 1, sizeof *found);
    struct store_connection *reader = found ? store__reader_take(store) : NULL;
    sqlite3_stmt *statement = reader ? store__statement(reader, lists[by_status][filter->label != NULL]) : NULL;
    enum store_status status = STORE_FAILED;
    size_t found_len = 0;
    if (statement) {
        store__bind_text(statement, 1, filter->before ? filter->before : AFTER_EVERY_ID);
        store__bind_text(statement, 6, filter->owner);
        sqlite3_bind_int64(statement, 2, (sqlite3_int64)filter->limit);
        if (by_status)
            sqlite3_bind_int(statement, 3, (int)filter->status);
        if (filter->label)
            store__bind_text(statement, 4, filter->label);
        status = list_rows(reader, statement, found, filter->limit, &found_len);
        sqlite3_reset(statement);
    }
    if (reader)
        store__reader_give(store, reader);
    if (status != STORE_OK) {
        for (size_t i = 0; i < found_len; i++)
            job_record_clear(&found[i]);
        free(found);
        return status;
    }
    *records = found;
    *len = found_len;
    return STORE_OK;
}

enum store_status store_list_open(struct store *store, char (**ids)[UUID_SIZE], size_t *len)
{
    struct store_connection *reader = store__reader_take(store);
    sqlite3_stmt *statement = reader ? store__statement(reader, SQL_JOB_OPEN) : NULL;
    char(*found)[UUID_SIZE] = NULL;
    size_t found_len = 0;
    size_t capacity = 0;
    int code = SQLITE_ERROR;
    while (statement && (code = sqlite3_step(statement)) == SQLITE_ROW) {
        if (found_len == capacity) {
            capacity = capacity ? 2 * capacity : 64;
            char(*more)[UUID_SIZE] = realloc(found, capacity * sizeof *found);
            if (!more)
                break;
            found = more;
        }
        const char *id = (const char *)sqlite3_column_text(statement, 0);
        if (id && uuid_valid(id))
            memcpy(found[found_len++], id, UUID_SIZE);
        else
            store__damaged("jobs", id ? id : "");
    }
    bool all = store__read_all(reader, statement, code, "open jobs");
    sqlite3_reset(statement);
    store__reader_give(store, reader);
    if (!all) {
        free(found);
        return STORE_FAILED;
    }
    *ids = found;
    *len = found_len;
    return STORE_OK;
}
