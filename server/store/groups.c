/*
 * Rows of groups and of their children.
 *
 * SPDX-License-Identifier: GPL-3.0-or-later
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "server/store/internal.h"

/* Sorts after every id. */
#define AFTER_EVERY_ID "~"

/* ---------------------------------------------------------------- writes */

static enum store_status group_insert_apply(struct store *store, struct store_write *write)
{
    struct store_group_insert *insert = (struct store_group_insert *)write;
    const struct group_record *record = insert->record;
    enum store_status status = store__key_take(store, &insert->key, record->id, record->created_at);
    if (status != STORE_OK || insert->key.use != KEY_FREE) {
        return status;
    }
    sqlite3_stmt *statement = store__statement(store->writer, SQL_GROUP_INSERT);
    if (!statement) {
        return STORE_FAILED;
    }
    store__bind_text(statement, 1, record->id);
    sqlite3_bind_int(statement, 2, (int)record->kind);
    store__bind_text(statement, 3, record->label);
    sqlite3_bind_int64(statement, 4, (sqlite3_int64)record->total);
    sqlite3_bind_int64(statement, 5, record->created_at);
    store__bind_text(statement, 6, record->request);
    return store__run(store->writer, statement);
}

void store_insert_group(struct store *store, struct store_group_insert *insert)
{
    insert->write.apply = group_insert_apply;
    store_submit(store, &insert->write);
}

/* A row that becomes final, and what its group counts. */
struct child_end {
    const char *parent;
    size_t number;
    const char *job; /* or NULL */
    enum job_status status;
    const struct result_figures *figures; /* or NULL */
    const char *detail;                   /* or NULL: as `error` says, */
    const char *error;                    /* a problem document; or NULL */
};

static enum store_status count_end(struct store *store, const struct child_end *end)
{
    sqlite3_stmt *statement = store__statement(store->writer, SQL_GROUP_COUNT);
    if (!statement) {
        return STORE_FAILED;
    }
    store__bind_text(statement, 1, end->parent);
    sqlite3_bind_int(statement, 2, end->status == JOB_FAILED);
    return store__run(store->writer, statement);
}

static enum store_status end_row(struct store *store, const struct child_end *end)
{
    const struct result_figures *figures = end->figures;
    sqlite3_stmt *statement = store__statement(store->writer, SQL_CHILD_END);
    if (!statement) {
        return STORE_FAILED;
    }
    store__bind_text(statement, 1, end->parent);
    sqlite3_bind_int64(statement, 2, (sqlite3_int64)end->number);
    store__bind_text(statement, 3, end->job);
    sqlite3_bind_int(statement, 4, (int)end->status);
    if (figures) {
        store__bind_number(statement, 5, figures->epsilon);
        store__bind_number(statement, 6, figures->delta);
        store__bind_number(statement, 7, figures->noise_multiplier);
        store__bind_number(statement, 8, figures->mean_squared);
        store__bind_text(statement, 9, figures->accountant[0] ? figures->accountant : NULL);
    }
    store__bind_text(statement, 10, end->detail);
    store__bind_text(statement, 11, end->error);
    enum store_status status = store__run(store->writer, statement);
    bool changed = status == STORE_OK && sqlite3_changes(store->writer->db) > 0;
    return changed ? count_end(store, end) : status;
}

enum store_status store__child_end(struct store *store, const struct job_change *change,
                                   const struct result_figures *figures)
{
    char parent[UUID_SIZE] = "";
    struct child_end end = {.parent = parent,
                            .job = change->id,
                            .status = change->status,
                            .figures = change->status == JOB_SUCCEEDED ? figures : NULL,
                            .error = change->error};
    sqlite3_stmt *statement = store__statement(store->writer, SQL_JOB_PARENT);
    if (!statement) {
        return STORE_FAILED;
    }
    store__bind_text(statement, 1, change->id);
    int code = sqlite3_step(statement);
    if (code == SQLITE_ROW) {
        snprintf(parent, sizeof parent, "%s", (const char *)sqlite3_column_text(statement, 0));
        end.number = (size_t)sqlite3_column_int64(statement, 1);
    }
    enum store_status status =
        code == SQLITE_ROW || code == SQLITE_DONE ? STORE_OK : store__complain(store->writer, "look for parent");
    sqlite3_reset(statement);
    return code == SQLITE_ROW ? end_row(store, &end) : status;
}

static enum store_status start_group(struct store *store, const char *id)
{
    sqlite3_stmt *statement = store__statement(store->writer, SQL_GROUP_START);
    if (!statement) {
        return STORE_FAILED;
    }
    store__bind_text(statement, 1, id);
    return store__run(store->writer, statement);
}

static enum store_status insert_child_row(struct store *store, const struct store_child_insert *insert)
{
    sqlite3_stmt *statement = store__statement(store->writer, SQL_CHILD_INSERT);
    if (!statement) {
        return STORE_FAILED;
    }
    store__bind_text(statement, 1, insert->parent);
    sqlite3_bind_int64(statement, 2, (sqlite3_int64)insert->number);
    store__bind_text(statement, 3, insert->record ? insert->record->id : NULL);
    return store__run(store->writer, statement);
}

static enum store_status child_insert_apply(struct store *store, struct store_write *write)
{
    struct store_child_insert *insert = (struct store_child_insert *)write;
    struct child_end end = {.parent = insert->parent,
                            .number = insert->number,
                            .job = insert->record ? insert->record->id : NULL,
                            .status = insert->record ? insert->record->status : insert->status,
                            .figures = insert->result ? &insert->result->figures : NULL,
                            .detail = insert->detail};
    enum store_status status = start_group(store, insert->parent);
    insert->unanswered = false;
    if (status == STORE_OK) {
        status = insert_child_row(store, insert);
    }
    if (status == STORE_OK && insert->record) {
        status = store__job_put(store, insert->record, &insert->unanswered);
    }
    bool final = job_status_final(end.status) && !insert->unanswered;
    return status == STORE_OK && final ? end_row(store, &end) : status;
}

void store_insert_child(struct store *store, struct store_child_insert *insert)
{
    insert->write.apply = child_insert_apply;
    store_submit(store, &insert->write);
}

static enum store_status group_end_apply(struct store *store, struct store_write *write)
{
    struct store_group_end *end = (struct store_group_end *)write;
    sqlite3_stmt *statement = store__statement(store->writer, SQL_GROUP_END);
    if (!statement) {
        return STORE_FAILED;
    }
    store__bind_text(statement, 1, end->id);
    sqlite3_bind_int(statement, 2, (int)end->status);
    sqlite3_bind_int64(statement, 3, end->finished_at);
    return store__run(store->writer, statement);
}

void store_end_group(struct store *store, struct store_group_end *end)
{
    end->write.apply = group_end_apply;
    store_submit(store, &end->write);
}

static enum store_status delete_group(struct store *store, const struct store_delete *deletion, enum group_kind_id kind)
{
    sqlite3_stmt *statement = store__statement(store->writer, SQL_GROUP_DELETE);
    if (!statement) {
        return STORE_FAILED;
    }
    store__bind_text(statement, 1, deletion->id);
    sqlite3_bind_int(statement, 2, (int)kind);
    enum store_status status = store__run(store->writer, statement);
    if (status != STORE_OK || sqlite3_changes(store->writer->db) == 0) {
        return status == STORE_OK ? STORE_NONE : status;
    }
    statement = store__statement(store->writer, SQL_CHILD_DELETE);
    if (!statement) {
        return STORE_FAILED;
    }
    store__bind_text(statement, 1, deletion->id);
    return store__run(store->writer, statement);
}

static enum store_status delete_sweep_apply(struct store *store, struct store_write *write)
{
    return delete_group(store, (struct store_delete *)write, GROUP_SWEEP);
}

static enum store_status delete_plan_apply(struct store *store, struct store_write *write)
{
    return delete_group(store, (struct store_delete *)write, GROUP_PLAN);
}

void store_delete_group(struct store *store, enum group_kind_id kind, struct store_delete *deletion)
{
    deletion->write.apply = kind == GROUP_SWEEP ? delete_sweep_apply : delete_plan_apply;
    store_submit(store, &deletion->write);
}

/* ---------------------------------------------------------------- reading groups */

static bool status_known(sqlite3_stmt *row, int column)
{
    int status = sqlite3_column_int(row, column);
    return sqlite3_column_type(row, column) == SQLITE_INTEGER && status >= 0 && status < JOB_STATUS_COUNT;
}

/* Columns as GROUP_COLUMNS names them. Nothing is left of a row that is not whole. */
static enum store_status group_of_row(struct group_record *record, sqlite3_stmt *row)
{
    bool failed = false;
    const char *id = (const char *)sqlite3_column_text(row, 0);
    *record = (struct group_record){0};
    if (!id || strlen(id) != UUID_SIZE - 1 || !status_known(row, 3) || sqlite3_column_int(row, 10) != 1 ||
        sqlite3_column_int(row, 11) != 1) {
        return store__damaged("job_groups", id ? id : "");
    }
    memcpy(record->id, id, UUID_SIZE);
    record->kind = sqlite3_column_int(row, 1) == GROUP_SWEEP ? GROUP_SWEEP : GROUP_PLAN;
    record->label = store__column_text(row, 2, &failed);
    record->status = (enum job_status)sqlite3_column_int(row, 3);
    record->total = (size_t)sqlite3_column_int64(row, 4);
    record->done = (size_t)sqlite3_column_int64(row, 5);
    record->failed = (size_t)sqlite3_column_int64(row, 6);
    record->created_at = sqlite3_column_int64(row, 7);
    record->finished_at = sqlite3_column_int64(row, 8);
    record->request = store__column_text(row, 9, &failed);
    if (failed || !record->request) {
        group_record_clear(record);
        return STORE_FAILED;
    }
    return STORE_OK;
}

enum store_status store_read_group(struct store *store, enum group_kind_id kind, const char *id,
                                   struct group_record *record)
{
    struct store_connection *reader = store__reader_take(store);
    sqlite3_stmt *statement = reader ? store__statement(reader, SQL_GROUP_READ) : NULL;
    enum store_status status = STORE_FAILED;
    if (statement) {
        store__bind_text(statement, 1, id);
        sqlite3_bind_int(statement, 2, (int)kind);
        int code = sqlite3_step(statement);
        status = code == SQLITE_ROW    ? group_of_row(record, statement)
                 : code == SQLITE_DONE ? STORE_NONE
                                       : store__complain(reader, "read group");
        sqlite3_reset(statement);
    }
    store__reader_give(store, reader);
    return status;
}

enum store_status store_list_groups(struct store *store, enum group_kind_id kind, const struct list_filter *filter,
                                    struct group_record **records, size_t *len)
{
    static const enum store_sql lists[2][2] = {{SQL_GROUP_LIST, SQL_GROUP_LIST_LABEL},
                                               {SQL_GROUP_LIST_STATUS, SQL_GROUP_LIST_BOTH}};
    bool by_status = filter->status < JOB_STATUS_COUNT;
    struct group_record *found = calloc(filter->limit ? filter->limit : 1, sizeof *found);
    struct store_connection *reader = found ? store__reader_take(store) : NULL;
    sqlite3_stmt *statement = reader ? store__statement(reader, lists[by_status][filter->label != NULL]) : NULL;
    int code = SQLITE_ERROR;
    bool failed = false;
    *len = 0;
    if (statement) {
        store__bind_text(statement, 1, filter->before ? filter->before : AFTER_EVERY_ID);
        sqlite3_bind_int64(statement, 2, (sqlite3_int64)filter->limit);
        sqlite3_bind_int(statement, 5, (int)kind);
        if (by_status) {
            sqlite3_bind_int(statement, 3, (int)filter->status);
        }
        if (filter->label) {
            store__bind_text(statement, 4, filter->label);
        }
        while (!failed && (code = sqlite3_step(statement)) == SQLITE_ROW) {
            enum store_status status = group_of_row(&found[*len], statement);
            *len += status == STORE_OK;
            failed = status == STORE_FAILED;
        }
        sqlite3_reset(statement);
    }
    if (reader) {
        store__reader_give(store, reader);
    }
    if (code != SQLITE_DONE || failed) {
        for (size_t i = 0; i < *len; i++) {
            group_record_clear(&found[i]);
        }
        free(found);
        return STORE_FAILED;
    }
    *records = found;
    return STORE_OK;
}

enum store_status store_each_open_group(struct store *store,
                                        void (*each)(void *user, const struct group_record *record), void *user)
{
    struct store_connection *reader = store__reader_take(store);
    sqlite3_stmt *statement = reader ? store__statement(reader, SQL_GROUP_OPEN) : NULL;
    int code = SQLITE_ERROR;
    while (statement && (code = sqlite3_step(statement)) == SQLITE_ROW) {
        struct group_record record;
        enum store_status status = group_of_row(&record, statement);
        if (status == STORE_FAILED) {
            break;
        }
        if (status == STORE_OK) {
            each(user, &record);
            group_record_clear(&record);
        }
    }
    sqlite3_reset(statement);
    store__reader_give(store, reader);
    return code == SQLITE_DONE ? STORE_OK : STORE_FAILED;
}

/* ---------------------------------------------------------------- reading children */

/* Columns as CHILD_COLUMNS names them. The texts are the row's. */
static void child_of_row(struct child_record *child, sqlite3_stmt *row, const char *parent)
{
    const char *job = (const char *)sqlite3_column_text(row, 2);
    const char *accountant = (const char *)sqlite3_column_text(row, 8);
    *child = (struct child_record){.number = (size_t)sqlite3_column_int64(row, 0),
                                   .ended = (size_t)sqlite3_column_int64(row, 1),
                                   .epsilon = NAN,
                                   .delta = NAN,
                                   .noise_multiplier = NAN,
                                   .mean_squared = NAN};
    if (!status_known(row, 3) || sqlite3_column_int(row, 10) != 1) {
        store__damaged("children", parent);
        child->status = JOB_FAILED;
        child->detail = "what is stored of this row fails its checksum";
        return;
    }
    child->status = (enum job_status)sqlite3_column_int(row, 3);
    snprintf(child->job, sizeof child->job, "%s", job ? job : "");
    child->epsilon = store__column_number(row, 4);
    child->delta = store__column_number(row, 5);
    child->noise_multiplier = store__column_number(row, 6);
    child->mean_squared = store__column_number(row, 7);
    snprintf(child->accountant, sizeof child->accountant, "%s", accountant ? accountant : "");
    child->detail = (const char *)sqlite3_column_text(row, 9);
}

enum store_status store_each_child(struct store *store, const struct children_filter *filter,
                                   void (*each)(void *user, const struct child_record *record), void *user)
{
    struct store_connection *reader = store__reader_take(store);
    sqlite3_stmt *statement =
        reader ? store__statement(reader, filter->by_end ? SQL_CHILD_ENDED : SQL_CHILD_LIST) : NULL;
    int code = SQLITE_ERROR;
    if (statement) {
        store__bind_text(statement, 1, filter->parent);
        sqlite3_bind_int64(statement, 2, (sqlite3_int64)filter->after);
        sqlite3_bind_int64(statement, 3, filter->limit ? (sqlite3_int64)filter->limit : -1);
    }
    while (statement && (code = sqlite3_step(statement)) == SQLITE_ROW) {
        struct child_record child;
        child_of_row(&child, statement, filter->parent);
        each(user, &child);
    }
    sqlite3_reset(statement);
    store__reader_give(store, reader);
    return code == SQLITE_DONE ? STORE_OK : STORE_FAILED;
}
