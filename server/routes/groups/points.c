/*
 * GET /v1/sweeps/{id}/points: the table of the points of a sweep.
 *
 * SPDX-License-Identifier: GPL-3.0-or-later
 */
#include "server/routes/groups/points.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "server/groups/groups.h"
#include "server/routes/groups/figures.h"
#include "server/routes/routes.h"
#include "server/http/wait.h"
#include "server/work/pool.h"

#define LIMIT_DEFAULT 50

/* ---------------------------------------------------------------- rows */

static const char *status_name(struct server *server, const struct group_record *record,
                               const struct child_record *child)
{
    return job_status_name(groups_child_status(server->groups, record, child));
}

void point_write(struct server *server, struct text *out, const struct group_record *record,
                 const struct api_sweep *sweep, const struct child_record *child)
{
    const char *pointer;
    json_t *values;
    size_t k = 0;
    text_puts(out, "{");
    json_object_foreach (sweep->grid, pointer, values) {
        text_json(out, pointer);
        text_puts(out, ":");
        text_value(out, api_sweep_value(sweep, k++, child->number));
        text_puts(out, ",");
    }
    text_puts(out, "\"job\":");
    text_json(out, child->job[0] ? child->job : NULL);
    text_printf(out, ",\"status\":\"%s\"", status_name(server, record, child));
    figures_write(out, &child->figures, API_IN_POINT, ",");
    text_puts(out, ",\"detail\":");
    text_json(out, child->detail);
    text_puts(out, "}");
}

static void write_value(struct text *out, const json_t *value)
{
    char *text = api_json_text(value);
    out->failed = out->failed || !text;
    if (text && json_is_string(value) && text[0] == '"') /* a name needs no JSON quotes */
        text_csv(out, json_string_value(value));
    else
        text_csv(out, text ? text : "");
    free(text);
}

static void write_csv_point(struct server *server, struct text *out, const struct group_record *record,
                            const struct api_sweep *sweep, const struct child_record *child)
{
    for (size_t k = 0; k < json_object_size(sweep->grid); k++) {
        write_value(out, api_sweep_value(sweep, k, child->number));
        text_puts(out, ",");
    }
    text_puts(out, child->job);
    text_puts(out, ",");
    text_puts(out, status_name(server, record, child));
    figures_write_cells(out, &child->figures, API_IN_POINT);
    text_puts(out, ",");
    text_csv(out, child->detail ? child->detail : "");
    text_puts(out, "\n");
}

/* ---------------------------------------------------------------- the table */

static bool is_cursor(const char *value)
{
    return strspn(value, "0123456789") == strlen(value) && *value && strlen(value) <= 5;
}

const struct query_member points_query[] = {
    QUERY_LIMIT, {"cursor", is_cursor, "must be the `next` of an earlier page", NULL}, {0}};

/* A page or the whole table, while it is written. */
struct table {
    struct pool_task task;
    struct request *request;
    struct group_record record;
    struct api_sweep *sweep;
    bool csv;
    size_t most; /* number of points; 0: all */
    size_t at;   /* the next point to write */
    size_t end;  /* stop before this one */
    bool begun;
    enum store_status status;
    struct text text;
};

static void table_free(void *state)
{
    struct table *table = state;
    group_record_clear(&table->record);
    api_sweep_destroy(table->sweep);
    text_clear(&table->text);
    free(table);
}

static void table_row(struct table *table, const struct child_record *child)
{
    struct server *server = table->request->server;
    if (table->csv) {
        write_csv_point(server, &table->text, &table->record, table->sweep, child);
    } else {
        text_puts(&table->text, table->text.data[table->text.len - 1] == '[' ? "" : ",");
        point_write(server, &table->text, &table->record, table->sweep, child);
    }
    table->at++;
}

/* Writes the points before `end` that have no row yet. If the sweep was canceled, they never get one. */
static void table_fill(struct table *table, size_t end)
{
    while (table->at < end) {
        struct child_record absent = store_child_absent(table->request->server->store, &table->record, table->at);
        table_row(table, &absent);
    }
}

static void table_child(void *user, const struct child_record *child)
{
    struct table *table = user;
    if (child->number < table->end) {
        table_fill(table, child->number);
        table_row(table, child);
    }
}

static void table_head(struct table *table)
{
    const char *pointer;
    json_t *values;
    if (!table->csv) {
        text_puts(&table->text, "{\"items\":[");
        return;
    }
    json_object_foreach (table->sweep->grid, pointer, values) {
        text_csv(&table->text, pointer);
        text_puts(&table->text, ",");
    }
    text_puts(&table->text, "job,status");
    figures_write_header(&table->text, API_IN_POINT);
    text_puts(&table->text, ",detail\n");
}

static bool table_open(struct table *table)
{
    const struct request *request = table->request;
    table->status = groups_read(request->server->groups, GROUP_SWEEP, request->param, &table->record);
    if (table->status != STORE_OK)
        return false;
    table->sweep = api_sweep_read(table->record.request);
    table->status = table->sweep ? STORE_OK : STORE_FAILED;
    size_t total = table->record.total;
    table->at = table->at < total ? table->at : total;
    table->end = !table->most || total - table->at < table->most ? total : table->at + table->most;
    return table->sweep != NULL;
}

static void table_write(struct table *table)
{
    struct children_filter filter = {
        .parent = table->record.id, .after = table->at, .limit = table->end > table->at ? table->end - table->at : 1};
    table_head(table);
    if (!table->text.failed) {
        table->status = store_each_child(table->request->server->store, &filter, table_child, table);
        table_fill(table, table->end);
    }
    if (!table->csv) {
        text_puts(&table->text, "],\"next\":");
        text_printf(&table->text, table->end < table->record.total ? "\"%zu\"}\n" : "null}\n", table->end);
    }
}

/* On the lists thread. */
static void table_task(struct pool_task *task)
{
    struct table *table = (struct table *)task;
    table->begun = true;
    if (table_open(table))
        table_write(table);
    request_resume(table->request);
}

static enum handled table_resume(struct request *request)
{
    struct table *table = request->state;
    if (!table->begun)
        return reply_gone(request);
    if (table->status != STORE_OK)
        return reply_unreadable(request, table->status);
    if (!table->csv && table->end < table->record.total) {
        const char *limit = request_query(request, "limit");
        reply_header(request, MHD_HTTP_HEADER_LINK, "</v1/sweeps/%s/points?cursor=%zu&limit=%s>; rel=\"next\"",
                     table->record.id, table->end, limit ? limit : "50");
    }
    reply_header(request, MHD_HTTP_HEADER_VARY, "Accept");
    return reply_text(request, 200, table->csv ? "text/csv" : "application/json", &table->text, true);
}

static bool table_give(void *user)
{
    struct table *table = user;
    pool_submit(table->request->server->lists, &table->task);
    return true;
}

static bool table_take_back(void *user)
{
    struct table *table = user;
    return pool_withdraw(table->request->server->lists, &table->task);
}

/* CSV is always the whole table, so paging parameters are an error. */
static enum handled reply_whole(struct request *request)
{
    static const char *const members[] = {"limit", "cursor"};
    struct api_errors errors = {0};
    for (size_t i = 0; i < sizeof members / sizeof *members; i++) {
        if (request_query(request, members[i])) {
            char pointer[16];
            snprintf(pointer, sizeof pointer, "?%s", members[i]);
            api_errors_add(&errors, pointer, "is for JSON, which is paged; CSV is the whole table, so remove it");
        }
    }
    json_t *problem = api_problem_encode(API_PROBLEM_INVALID_JOB, NULL, request->path, &errors);
    api_errors_clear(&errors);
    return reply_problem_json(request, problem);
}

/* Determines the requested points. */
static void table_range(struct table *table)
{
    const struct request *request = table->request;
    const char *limit = request_query(request, "limit");
    const char *cursor = request_query(request, "cursor");
    table->csv = request->offer == 1;
    table->most = table->csv ? 0 : limit ? strtoul(limit, NULL, 10) : LIMIT_DEFAULT;
    table->at = cursor ? strtoul(cursor, NULL, 10) : 0;
}

enum handled handle_sweep_points(struct request *request)
{
    static const struct holder holder = {table_give, table_take_back};
    if (!uuid_valid(request->param))
        return reply_unreadable(request, STORE_NONE);
    if (request->offer == 1 && (request_query(request, "limit") || request_query(request, "cursor")))
        return reply_whole(request);
    struct table *table = calloc(1, sizeof *table);
    if (!table)
        return reply_problem(request, API_PROBLEM_INTERNAL, "out of memory");
    request->state = table;
    request->state_free = table_free;
    table->task = request_task(request, table_task);
    table->request = request;
    table_range(table);
    if (!request_suspend(request, table_resume))
        return reply_stopping(request);
    request_give(request, &holder, table, INFINITY);
    return HANDLED_SUSPENDED;
}
