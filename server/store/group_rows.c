/*
 * Reads rows of groups and of their children. Damaged rows are reported as such, and a lost state of a group is
 * restored from the rows of its children.
 *
 * SPDX-License-Identifier: GPL-3.0-or-later
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "server/store/internal.h"

/* Sorts after every id. */
#define AFTER_EVERY_ID "~"

/* ---------------------------------------------------------------- groups */

static bool status_known(sqlite3_stmt *row, int column)
{
    int status = sqlite3_column_int(row, column);
    return sqlite3_column_type(row, column) == SQLITE_INTEGER && status >= 0 && status < JOB_STATUS_COUNT;
}

/* Clears what is damaged: if only the state is damaged, that; otherwise everything except the id. */
static enum store_status tell_damaged(struct group_record *record, bool whole)
{
    struct group_record told = *record;
    *record = (struct group_record){.damaged = true};
    memcpy(record->id, told.id, UUID_SIZE);
    if (whole) {
        told.damaged = true;
        *record = told;
        record->status = JOB_RUNNING;
        record->done = record->failed = 0;
        record->finished_at = 0;
    } else {
        group_record_clear(&told);
    }
    return store__damaged("job_groups", record->id);
}

/* Columns in the order of GROUP_COLUMNS. STORE_CORRUPT: see store_read_group(). If memory runs out or there is no id,
 * the record is empty. */
static enum store_status group_of_row(struct group_record *record, sqlite3_stmt *row)
{
    bool failed = false;
    const char *id = (const char *)sqlite3_column_text(row, 0);
    const char *request_id = (const char *)sqlite3_column_text(row, 12);
    *record = (struct group_record){0};
    if (!id || !uuid_valid(id))
        return store__damaged("job_groups", id ? id : "");
    memcpy(record->id, id, UUID_SIZE);
    snprintf(record->request_id, sizeof record->request_id, "%s", request_id ? request_id : "");
    store__read_poster(&record->poster, row, 13);
    record->kind = sqlite3_column_int(row, 1) == GROUP_SWEEP ? GROUP_SWEEP : GROUP_PLAN;
    record->label = store__column_text(row, 2, &failed);
    record->status = (enum job_status)sqlite3_column_int(row, 3);
    record->total = (size_t)sqlite3_column_int64(row, 4);
    record->done = (size_t)sqlite3_column_int64(row, 5);
    record->failed = (size_t)sqlite3_column_int64(row, 6);
    record->created_at = sqlite3_column_int64(row, 7);
    record->finished_at = sqlite3_column_int64(row, 8);
    record->request = store__column_text(row, 9, &failed);
    if (failed) {
        group_record_clear(record);
        return STORE_FAILED;
    }
    bool whole = record->request && sqlite3_column_int(row, 10) == 1;
    bool right = whole && status_known(row, 3) && sqlite3_column_int(row, 11) == 1;
    if (right && record->status == JOB_CANCELED && !record->finished_at) {
        record->status = JOB_RUNNING;
        record->canceling = true;
    }
    return right ? STORE_OK : tell_damaged(record, whole);
}

static void count_child(void *user, const struct child_record *child)
{
    struct group_record *record = user;
    bool final = child->ended || child->damaged;
    record->done += final;
    record->failed += final && child->status == JOB_FAILED;
}

/* Restores the state of a group whose row has lost it, if the rest is intact. */
static enum store_status recount(struct store *store, struct group_record *record)
{
    struct children_filter all = {.parent = record->id};
    if (!record->request)
        return STORE_CORRUPT;
    enum store_status status = store_each_child(store, &all, count_child, record);
    if (status != STORE_OK) {
        group_record_clear(record);
        return status;
    }
    record->status = record->done == record->total ? JOB_SUCCEEDED : JOB_RUNNING;
    return STORE_OK;
}

enum store_status store_read_group(struct store *store, enum group_kind_id kind, const char *id,
                                   struct group_record *record)
{
    struct store_connection *reader = store__reader_take(store);
    *record = (struct group_record){0};
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
    return status == STORE_CORRUPT ? recount(store, record) : status;
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
        store__bind_text(statement, 6, filter->owner);
        sqlite3_bind_int64(statement, 2, (sqlite3_int64)filter->limit);
        sqlite3_bind_int(statement, 5, (int)kind);
        if (by_status)
            sqlite3_bind_int(statement, 3, (int)filter->status);
        if (filter->label)
            store__bind_text(statement, 4, filter->label);
        while (!failed && (code = sqlite3_step(statement)) == SQLITE_ROW) {
            failed = group_of_row(&found[*len], statement) == STORE_FAILED;
            *len += found[*len].id[0] != '\0'; /* without an id it cannot be requested */
        }
        failed = failed || !store__read_all(reader, statement, code, "list groups");
        sqlite3_reset(statement);
    }
    if (reader)
        store__reader_give(store, reader);
    for (size_t i = 0; i < *len && !failed; i++)
        failed = found[i].damaged && recount(store, &found[i]) == STORE_FAILED;
    if (!statement || failed) {
        for (size_t i = 0; i < *len; i++)
            group_record_clear(&found[i]);
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
        if (status == STORE_CORRUPT)
            status = recount(store, &record);
        if (status == STORE_FAILED)
            break;
        if (record.id[0])
            each(user, &record);
        group_record_clear(&record);
    }
    bool all = store__read_all(reader, statement, code, "open groups");
    sqlite3_reset(statement);
    store__reader_give(store, reader);
    return all ? STORE_OK : STORE_FAILED;
}

/* ---------------------------------------------------------------- children */

static void damage(struct child_record *child, const char *parent)
{
    store__damaged("children", parent);
    child->status = JOB_FAILED;
    child->damaged = true;
    child->detail = "the stored data of this row fails its checksum";
}

struct child_record store_child_absent(struct store *store, const struct group_record *group, size_t number)
{
    struct child_record child = child_record_new(number);
    struct group_record now = {0};
    if (group->status == JOB_SUCCEEDED && store_read_group(store, group->kind, group->id, &now) != STORE_NONE)
        damage(&child, group->id);
    group_record_clear(&now);
    return child;
}

/* Columns in the order of CHILD_COLUMNS. The texts belong to the row. */
static void child_of_row(struct child_record *child, sqlite3_stmt *row, const char *parent)
{
    const char *job = (const char *)sqlite3_column_text(row, 2);
    *child = child_record_new((size_t)sqlite3_column_int64(row, 0));
    child->ended = (size_t)sqlite3_column_int64(row, 1);
    if (!status_known(row, 3) || sqlite3_column_int(row, 5) != 1) {
        damage(child, parent);
        return;
    }
    child->status = (enum job_status)sqlite3_column_int(row, 3);
    snprintf(child->job, sizeof child->job, "%s", job ? job : "");
    child->detail = (const char *)sqlite3_column_text(row, 4);
    store__read_figures(&child->figures, row, 6, true);
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
    bool all = store__read_all(reader, statement, code, "read children");
    sqlite3_reset(statement);
    store__reader_give(store, reader);
    return all ? STORE_OK : STORE_FAILED;
}
