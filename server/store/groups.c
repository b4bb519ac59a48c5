/*
 * Writes rows of groups and of their children.
 *
 * SPDX-License-Identifier: GPL-3.0-or-later
 */
#include <stdio.h>

#include "server/store/internal.h"

/* ---------------------------------------------------------------- writes */

static enum store_status group_insert_apply(struct store *store, struct store_write *write)
{
    struct store_group_insert *insert = (struct store_group_insert *)write;
    const struct group_record *record = insert->record;
    struct store_posted posted = {record->id, record->created_at, &record->poster, group_record_kept(record)};
    enum store_status status = store__post(store, &insert->key, &insert->allowance, &posted);
    if (status != STORE_OK || insert->key.use != KEY_FREE || insert->allowance.exceeded)
        return status;
    sqlite3_stmt *statement = store__statement(store->writer, SQL_GROUP_INSERT);
    if (!statement)
        return STORE_FAILED;
    store__bind_text(statement, 1, record->id);
    sqlite3_bind_int(statement, 2, (int)record->kind);
    store__bind_text(statement, 3, record->label);
    sqlite3_bind_int64(statement, 4, (sqlite3_int64)record->total);
    sqlite3_bind_int64(statement, 5, record->created_at);
    store__bind_text(statement, 6, record->request);
    store__bind_text(statement, 7, record->request_id[0] ? record->request_id : NULL);
    return store__run(store->writer, statement);
}

void store_insert_group(struct store *store, struct store_group_insert *insert)
{
    insert->write.apply = group_insert_apply;
    store_submit(store, &insert->write);
}

/* A row that becomes final, and its effect on the counts of its group. */
struct child_end {
    const char *parent;
    size_t number;
    const char *job; /* or NULL */
    enum job_status status;
    const struct api_figures *figures; /* or NULL */
    const char *detail;                /* or NULL: taken from `error` */
    const char *error;                 /* a problem document; or NULL */
};

static enum store_status count_end(struct store *store, const struct child_end *end)
{
    sqlite3_stmt *statement = store__statement(store->writer, SQL_GROUP_COUNT);
    if (!statement)
        return STORE_FAILED;
    store__bind_text(statement, 1, end->parent);
    sqlite3_bind_int(statement, 2, end->status == JOB_FAILED);
    return store__run(store->writer, statement);
}

static enum store_status end_row(struct store *store, const struct child_end *end)
{
    sqlite3_stmt *statement = store__statement(store->writer, SQL_CHILD_END);
    if (!statement)
        return STORE_FAILED;
    store__bind_text(statement, 1, end->parent);
    sqlite3_bind_int64(statement, 2, (sqlite3_int64)end->number);
    store__bind_text(statement, 3, end->job);
    sqlite3_bind_int(statement, 4, (int)end->status);
    if (end->figures)
        store__bind_figures(statement, end->figures, true);
    store__bind_text(statement, sqlite3_bind_parameter_index(statement, ":detail"), end->detail);
    store__bind_text(statement, sqlite3_bind_parameter_index(statement, ":error"), end->error);
    enum store_status status = store__run(store->writer, statement);
    bool changed = status == STORE_OK && sqlite3_changes(store->writer->db) > 0;
    return changed ? count_end(store, end) : status;
}

enum store_status store__child_end(struct store *store, const struct job_change *change,
                                   const struct api_figures *figures)
{
    char parent[UUID_SIZE] = "";
    struct child_end end = {.parent = parent,
                            .job = change->id,
                            .status = change->status,
                            .figures = change->status == JOB_SUCCEEDED ? figures : NULL,
                            .error = change->error};
    sqlite3_stmt *statement = store__statement(store->writer, SQL_JOB_PARENT);
    if (!statement)
        return STORE_FAILED;
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

enum store_status store__group_cancel(struct store *store, const char *job)
{
    sqlite3_stmt *statement = store__statement(store->writer, SQL_GROUP_CANCEL);
    if (!statement)
        return STORE_FAILED;
    store__bind_text(statement, 1, job);
    return store__run(store->writer, statement);
}

static enum store_status start_group(struct store *store, const char *id)
{
    sqlite3_stmt *statement = store__statement(store->writer, SQL_GROUP_START);
    if (!statement)
        return STORE_FAILED;
    store__bind_text(statement, 1, id);
    return store__run(store->writer, statement);
}

static enum store_status insert_child_row(struct store *store, const struct store_child_insert *insert)
{
    sqlite3_stmt *statement = store__statement(store->writer, SQL_CHILD_INSERT);
    if (!statement)
        return STORE_FAILED;
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
    if (status == STORE_OK)
        status = insert_child_row(store, insert);
    if (status == STORE_OK && insert->record)
        status = store__job_put(store, insert->record, &insert->unanswered);
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
    if (!statement)
        return STORE_FAILED;
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

struct store_group_repair {
    struct store_write write;
    const struct group_record *record;
};

static enum store_status group_repair_apply(struct store *store, struct store_write *write)
{
    struct store_group_repair *repair = (struct store_group_repair *)write;
    const struct group_record *record = repair->record;
    sqlite3_stmt *statement = store__statement(store->writer, SQL_GROUP_REPAIR);
    if (!statement)
        return STORE_FAILED;
    store__bind_text(statement, 1, record->id);
    sqlite3_bind_int(statement, 2, (int)record->status);
    sqlite3_bind_int64(statement, 3, (sqlite3_int64)record->done);
    sqlite3_bind_int64(statement, 4, (sqlite3_int64)record->failed);
    store__bind_time(statement, 5, record->finished_at);
    return store__run(store->writer, statement);
}

enum store_status store_repair_group_wait(struct store *store, const struct group_record *record)
{
    struct store_group_repair repair = {.write.apply = group_repair_apply, .record = record};
    return store_submit_wait(store, &repair.write);
}

static enum store_status delete_group(struct store *store, const struct store_delete *deletion, enum group_kind_id kind)
{
    sqlite3_stmt *statement = store__statement(store->writer, SQL_GROUP_DELETE);
    if (!statement)
        return STORE_FAILED;
    store__bind_text(statement, 1, deletion->id);
    sqlite3_bind_int(statement, 2, (int)kind);
    enum store_status status = store__run(store->writer, statement);
    if (status != STORE_OK || sqlite3_changes(store->writer->db) == 0)
        return status == STORE_OK ? STORE_NONE : status;
    statement = store__statement(store->writer, SQL_CHILD_DELETE);
    if (!statement)
        return STORE_FAILED;
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
