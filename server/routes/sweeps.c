/*
 * The resource /v1/sweeps, and the table of its points.
 *
 * SPDX-License-Identifier: GPL-3.0-or-later
 */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "api/sweep.h"
#include "server/jobs/jobs.h"
#include "server/routes/groups.h"
#include "server/work/pool.h"

#define LIMIT_DEFAULT 50
#define LIMIT_MAX 500

/* ---------------------------------------------------------------- points */

static const char *const columns[] = {"job",          "status",     "epsilon", "delta", "noise_multiplier",
                                      "mean_squared", "accountant", "detail",  NULL};

/* A point's state now: a row that is not final does not follow its job. */
static enum job_status status_now(struct server *server, const struct child_record *child)
{
    struct job_record record = {.status = child->status};
    struct job_progress progress;
    if (!job_status_final(child->status) && child->job[0]) {
        memcpy(record.id, child->job, UUID_SIZE);
        jobs_refresh(server->jobs, &record, &progress);
    }
    return record.status;
}

static void write_name(struct text *out, const char *name)
{
    text_json(out, name[0] ? name : NULL);
}

static void write_point(struct server *server, struct text *out, const struct group_record *record, void *asked,
                        const struct child_record *child)
{
    const struct api_sweep *sweep = asked;
    const char *pointer;
    json_t *values;
    size_t k = 0;
    (void)record;
    text_puts(out, "{");
    json_object_foreach (sweep->grid, pointer, values) {
        char *value = api_json_text(api_sweep_value(sweep, k++, child->number));
        text_json(out, pointer);
        text_puts(out, ":");
        text_puts(out, value ? value : "null");
        text_puts(out, ",");
        out->failed = out->failed || !value;
        free(value);
    }
    text_puts(out, "\"job\":");
    write_name(out, child->job);
    text_printf(out, ",\"status\":\"%s\",\"epsilon\":", job_status_name(status_now(server, child)));
    text_number(out, child->epsilon);
    text_puts(out, ",\"delta\":");
    text_number(out, child->delta);
    text_puts(out, ",\"noise_multiplier\":");
    text_number(out, child->noise_multiplier);
    text_puts(out, ",\"mean_squared\":");
    text_number(out, child->mean_squared);
    text_puts(out, ",\"accountant\":");
    write_name(out, child->accountant);
    text_puts(out, ",\"detail\":");
    text_json(out, child->detail);
    text_puts(out, "}");
}

/* A field of CSV (RFC 4180): in quotes where it needs them. */
static void write_field(struct text *out, const char *field)
{
    if (!strpbrk(field, ",\"\r\n")) {
        text_puts(out, field);
        return;
    }
    text_puts(out, "\"");
    for (; *field; field++) {
        text_puts(out, *field == '"' ? "\"" : "");
        text_append(out, field, 1);
    }
    text_puts(out, "\"");
}

static void write_cell(struct text *out, double number)
{
    text_puts(out, ",");
    if (!isnan(number)) {
        text_number(out, number);
    }
}

static void write_value(struct text *out, const json_t *value)
{
    char *text = api_json_text(value);
    out->failed = out->failed || !text;
    if (text && json_is_string(value) && text[0] == '"') { /* a name needs no quotes of JSON's */
        write_field(out, json_string_value(value));
    } else {
        write_field(out, text ? text : "");
    }
    free(text);
}

static void write_csv_point(struct server *server, struct text *out, const struct api_sweep *sweep,
                            const struct child_record *child)
{
    for (size_t k = 0; k < json_object_size(sweep->grid); k++) {
        write_value(out, api_sweep_value(sweep, k, child->number));
        text_puts(out, ",");
    }
    text_puts(out, child->job);
    text_puts(out, ",");
    text_puts(out, job_status_name(status_now(server, child)));
    write_cell(out, child->epsilon);
    write_cell(out, child->delta);
    write_cell(out, child->noise_multiplier);
    write_cell(out, child->mean_squared);
    text_puts(out, ",");
    text_puts(out, child->accountant);
    text_puts(out, ",");
    write_field(out, child->detail ? child->detail : "");
    text_puts(out, "\n");
}

/* ---------------------------------------------------------------- the table */

static bool is_limit(const char *value)
{
    char *end;
    unsigned long limit = strtoul(value, &end, 10);
    return *value >= '0' && *value <= '9' && !*end && limit >= 1 && limit <= LIMIT_MAX;
}

static bool is_cursor(const char *value)
{
    return strspn(value, "0123456789") == strlen(value) && *value && strlen(value) <= 5;
}

const struct query_member points_query[] = {{"limit", is_limit, "must be an integer in [1, 500]"},
                                            {"cursor", is_cursor, "must be the `next` of an earlier page"},
                                            {0}};

/* A page, or the whole, in the making. */
struct table {
    struct pool_task task;
    struct request *request;
    struct group_record record;
    struct api_sweep *sweep;
    bool csv;
    size_t at;  /* the point that is written next */
    size_t end; /* before this one */
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
        write_csv_point(server, &table->text, table->sweep, child);
    } else {
        text_puts(&table->text, table->text.data[table->text.len - 1] == '[' ? "" : ",");
        write_point(server, &table->text, &table->record, table->sweep, child);
    }
    table->at++;
}

/* Points up to that one whose turn has not come, and never does where the sweep is canceled. */
static void table_fill(struct table *table, size_t end)
{
    struct child_record none = {.epsilon = NAN, .delta = NAN, .noise_multiplier = NAN, .mean_squared = NAN};
    none.status = table->record.status == JOB_CANCELED ? JOB_CANCELED : JOB_QUEUED;
    while (table->at < end) {
        none.number = table->at;
        table_row(table, &none);
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
        write_field(&table->text, pointer);
        text_puts(&table->text, ",");
    }
    for (size_t i = 0; columns[i]; i++) {
        text_puts(&table->text, i ? "," : "");
        text_puts(&table->text, columns[i]);
    }
    text_puts(&table->text, "\n");
}

/* On the thread of the lists. */
static void table_task(struct pool_task *task)
{
    struct table *table = (struct table *)task;
    struct children_filter filter = {
        .parent = table->record.id, .after = table->at, .limit = table->end > table->at ? table->end - table->at : 1};
    table->begun = true;
    table->sweep = api_sweep_read(table->record.request);
    table->status = table->sweep ? STORE_OK : STORE_FAILED;
    if (table->sweep) {
        table_head(table);
    }
    if (table->sweep && !table->text.failed) {
        table->status = store_each_child(table->request->server->store, &filter, table_child, table);
        table_fill(table, table->end);
    }
    if (!table->csv) {
        text_puts(&table->text, "],\"next\":");
        text_printf(&table->text, table->end < table->record.total ? "\"%zu\"}\n" : "null}\n", table->end);
    }
    request_resume(table->request);
}

static enum handled table_resume(struct request *request)
{
    struct table *table = request->state;
    if (!table->begun) {
        return reply_gone(request);
    }
    if (table->status != STORE_OK) {
        return reply_unreadable(request, table->status);
    }
    if (!table->csv && table->end < table->record.total) {
        const char *limit = request_query(request, "limit");
        reply_header(request, MHD_HTTP_HEADER_LINK, "</v1/sweeps/%s/points?cursor=%zu&limit=%s>; rel=\"next\"",
                     table->record.id, table->end, limit ? limit : "50");
    }
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

/* Which points; CSV is the whole. */
static void table_range(struct table *table, const struct request *request)
{
    const char *limit = request_query(request, "limit");
    const char *cursor = request_query(request, "cursor");
    size_t total = table->record.total;
    size_t most = limit ? strtoul(limit, NULL, 10) : LIMIT_DEFAULT;
    table->csv = request->offer == 1;
    table->at = cursor && !table->csv ? strtoul(cursor, NULL, 10) : 0;
    table->at = table->at < total ? table->at : total;
    table->end = table->csv || total - table->at < most ? total : table->at + most;
}

enum handled handle_sweep_points(struct request *request)
{
    static const struct holder holder = {table_give, table_take_back};
    struct table *table = calloc(1, sizeof *table);
    if (!table) {
        return reply_problem(request, API_PROBLEM_INTERNAL, "out of memory");
    }
    request->state = table;
    request->state_free = table_free;
    table->task.run = table_task;
    table->request = request;
    enum store_status status = uuid_valid(request->param)
                                   ? groups_read(request->server->groups, GROUP_SWEEP, request->param, &table->record)
                                   : STORE_NONE;
    if (status != STORE_OK) {
        return reply_unreadable(request, status);
    }
    table_range(table, request);
    if (!request_suspend(request, table_resume)) {
        return reply_stopping(request);
    }
    request_give(request, &holder, table, INFINITY);
    return HANDLED_SUSPENDED;
}

/* ---------------------------------------------------------------- the resource */

/* The request is an object whose members are those of the sweep. */
static void write_members(struct server *server, struct text *out, const struct group_record *record, bool brief)
{
    (void)server;
    if (!brief) {
        text_puts(out, ",");
        text_append(out, record->request + 1, strlen(record->request) - 2);
    }
}

static void *decode(struct server *server, struct api_errors *errors, struct group_record *record, const json_t *json)
{
    struct api_sweep *sweep = api_sweep_decode(errors, json, (size_t)server->config->max_n);
    if (sweep) {
        record->total = sweep->total;
        record->label = sweep->label;
        record->request = sweep->request;
        sweep->label = NULL;
        sweep->request = NULL;
    }
    return sweep;
}

static const struct group_routes sweeps = {
    .kind = GROUP_SWEEP,
    .path = "/v1/sweeps",
    .children = "points",
    .child = "point",
    .write = write_members,
    .write_child = write_point,
    .decode = decode,
    .asks = &sweep_kind,
};

enum handled handle_sweeps_post(struct request *request)
{
    return group_post(request, &sweeps);
}

static enum store_status get(struct server *server, const char *id, struct document **document)
{
    return group_get(server, &sweeps, id, document);
}

static enum store_status list(struct server *server, const struct list_filter *filter, struct text *items,
                              char next[UUID_SIZE], struct list_notes *notes)
{
    (void)notes;
    return group_list(server, &sweeps, filter, items, next);
}

static enum events_next tell(struct server *server, const char *id, uint64_t *seen, struct text *text)
{
    return group_tell(server, &sweeps, id, seen, text);
}

static bool is_live(struct server *server, const char *id)
{
    return groups_is_live(server->groups, GROUP_SWEEP, id);
}

static bool watch(struct server *server, const char *id, struct waiter *waiter)
{
    return groups_watch(server->groups, GROUP_SWEEP, id, waiter);
}

static enum cancel_outcome cancel(struct server *server, const char *id, struct waiter *waiter)
{
    return groups_cancel(server->groups, GROUP_SWEEP, id, waiter);
}

static bool listen_one(struct server *server, const char *id, uint64_t seen, struct waiter *waiter)
{
    return group_listen(server, &sweeps, id, seen, waiter);
}

static void forget(struct server *server, const char *id)
{
    (void)server; /* nothing of a final one is in memory */
    (void)id;
}

static void remove_one(struct server *server, struct store_delete *deletion)
{
    store_delete_group(server->store, GROUP_SWEEP, deletion);
}

const struct resource sweep_resource = {
    .path = "/v1/sweeps",
    .noun = "sweep",
    .get = get,
    .is_live = is_live,
    .watch = watch,
    .cancel = cancel,
    .tell = tell,
    .listen = listen_one,
    .remove = remove_one,
    .forget = forget,
    .list = list,
};
