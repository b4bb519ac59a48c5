/*
 * Groups as resources. Everything they show is in their rows, which are written together with the ends of their
 * children.
 *
 * SPDX-License-Identifier: GPL-3.0-or-later
 */
#include "server/routes/groups/groups.h"

#include <math.h>
#include <sodium.h>
#include <stdlib.h>
#include <string.h>

#include "server/jobs/document.h"
#include "server/ops/memory.h"
#include "server/ops/clock.h"
#include "server/ops/metrics.h"
#include "server/routes/fetch.h"
#include "server/work/pool.h"

/* ---------------------------------------------------------------- documents */

static void write_links(struct text *out, const struct resource *resource, const char *id)
{
    const char *path = resource->path, *children = resource->group->children;
    text_printf(out, ",\"links\":{\"self\":\"%s/%s\",\"events\":\"%s/%s/events\",\"cancel\":\"%s/%s/cancel\"", path, id,
                path, id, path, id);
    if (children)
        text_printf(out, ",\"%s\":\"%s/%s/%s\"", children, path, id, children);
    text_puts(out, "}");
}

static void write_document(struct server *server, struct text *out, const struct resource *resource,
                           const struct group_record *record, bool brief)
{
    text_printf(out, "{\"id\":\"%s\",\"status\":\"%s\",\"label\":", record->id, job_status_name(record->status));
    text_json(out, record->label);
    text_printf(out, ",\"total\":%zu,\"done\":%zu,\"failed\":%zu", record->total, record->done, record->failed);
    document_write_time(out, "created_at", record->created_at);
    document_write_time(out, "finished_at", record->finished_at);
    resource->group->write(server, out, record, brief);
    write_links(out, resource, record->id);
    text_puts(out, "}");
}

static enum store_status get(const struct resource *resource, struct server *server, const char *id,
                             struct document **document)
{
    struct group_record record;
    struct text text = {0};
    enum store_status status = groups_read(server->groups, resource->group->kind, id, &record);
    if (status != STORE_OK)
        return status;
    write_document(server, &text, resource, &record, false);
    *document = document_make(&text, id, job_status_final(record.status));
    group_record_clear(&record);
    return *document ? STORE_OK : STORE_FAILED;
}

/* Writes a row whose digests do not match. Only its id is certain, and the time in it. */
static void write_damaged(struct text *out, const struct resource *resource, const struct group_record *record)
{
    char detail[96], instance[96];
    snprintf(instance, sizeof instance, "%s/%s", resource->path, record->id);
    snprintf(detail, sizeof detail, "the stored data of this %s fails its checksum", resource->noun);
    text_printf(out, "{\"id\":\"%s\",\"status\":\"failed\",\"label\":null,\"total\":0,\"done\":0,\"failed\":0",
                record->id);
    document_write_time(out, "created_at", uuid_time(record->id));
    text_puts(out, ",\"finished_at\":null,\"error\":");
    text_value_new(out, api_problem_encode(API_PROBLEM_INTERNAL, detail, instance, NULL));
    write_links(out, resource, record->id);
    text_puts(out, "}");
}

static void write_item(struct server *server, struct text *out, const struct resource *resource,
                       struct group_record *record)
{
    if (record->damaged && !record->request) {
        write_damaged(out, resource, record);
        return;
    }
    groups_settle(server->groups, record);
    write_document(server, out, resource, record, true);
}

static enum store_status list(const struct resource *resource, struct server *server, const struct list_filter *filter,
                              struct text *items, char next[UUID_SIZE], struct list_notes *notes)
{
    struct list_filter wider = *filter;
    struct group_record *records;
    size_t len;
    (void)notes;
    wider.limit++; /* to find out whether there is a next page */
    enum store_status status = store_list_groups(server->store, resource->group->kind, &wider, &records, &len);
    if (status != STORE_OK)
        return status;
    if (len > filter->limit)
        memcpy(next, records[filter->limit - 1].id, UUID_SIZE);
    for (size_t i = 0; i < len; i++) {
        if (i < filter->limit) {
            text_puts(items, i ? "," : "");
            write_item(server, items, resource, &records[i]);
        }
        group_record_clear(&records[i]);
    }
    free(records);
    return STORE_OK;
}

/* ---------------------------------------------------------------- events */

/* The number of an event is one more than the number of final children: 1 is the first progress event, and each child
 * that has an event has its own. */
#define FIRST_NUMBER 1
#define TOLD_AT_ONCE 64

struct telling {
    struct server *server;
    const struct group_routes *routes;
    const struct group_record *record;
    void *view; /* or NULL: no child has been sent yet */
    struct text *text;
    uint64_t seen;
    size_t len;
};

static void tell_child(void *user, const struct child_record *child)
{
    struct telling *telling = user;
    if (!telling->view)
        telling->view = telling->routes->open_view(telling->server, telling->record);
    if (!telling->view) { /* this ends the stream */
        telling->text->failed = true;
        return;
    }
    telling->seen = child->ended + FIRST_NUMBER;
    telling->len++;
    if (telling->routes->tells && !telling->routes->tells(telling->view, child))
        return;
    event_begin(telling->text, telling->routes->child, telling->seen);
    telling->routes->write_child(telling->server, telling->text, telling->record, telling->view, child);
    event_end(telling->text);
}

static void tell_progress(struct telling *telling)
{
    const struct group_record *record = telling->record;
    double done = (double)(telling->seen - FIRST_NUMBER);
    struct job_progress progress = {.fraction = done / (double)record->total,
                                    .stage = done > 0 ? telling->routes->children : NULL,
                                    .remaining_seconds = NAN};
    double seconds = (double)(clock_now_ms() - record->created_at) / 1000;
    if (done > 0 && seconds > 0)
        progress.remaining_seconds = seconds / done * ((double)record->total - done);
    event_begin(telling->text, "progress", telling->seen);
    document_write_progress(telling->text, &progress);
    event_end(telling->text);
}

static enum events_next tell_news(struct telling *telling, bool live)
{
    struct children_filter news = {.parent = telling->record->id, .by_end = true, .limit = TOLD_AT_ONCE};
    uint64_t before = telling->seen;
    telling->seen = before ? before : FIRST_NUMBER;
    news.after = telling->seen - FIRST_NUMBER;
    if (store_each_child(telling->server->store, &news, tell_child, telling) != STORE_OK)
        return EVENTS_BROKEN;
    if (telling->seen != before)
        tell_progress(telling);
    bool more = telling->len == TOLD_AT_ONCE || (telling->len && !live);
    return more ? EVENTS_MORE : telling->seen != before ? EVENTS_SOME : live ? EVENTS_NONE : EVENTS_LAST;
}

static enum events_next tell(const struct resource *resource, struct server *server, const char *id, uint64_t *seen,
                             struct text *text)
{
    const struct group_routes *routes = resource->group;
    struct group_record record;
    bool live = groups_is_live(server->groups, routes->kind, id); /* first: when it is not live, all rows are written */
    if (groups_read(server->groups, routes->kind, id, &record) != STORE_OK)
        return EVENTS_BROKEN;
    if (*seen > record.done + FIRST_NUMBER) /* the id is from an earlier database */
        *seen = 0;
    struct telling telling = {.server = server, .routes = routes, .record = &record, .text = text, .seen = *seen};
    enum events_next next = tell_news(&telling, live);
    *seen = telling.seen;
    if (telling.view)
        routes->close_view(telling.view);
    group_record_clear(&record);
    return next;
}

/* ---------------------------------------------------------------- POST */

struct posting {
    struct store_group_insert insert; /* first */
    struct pool_task task;
    struct request *request;
    const struct group_routes *routes; /* of the request */
    struct group_record record;
    void *asked;
    json_t *problem; /* or NULL */
    bool reserved;
    bool over; /* a quota is used up: */
    struct quota_refusal refusal;
    struct fetching fetching;
};

static void posting_free(void *state)
{
    struct posting *posting = state;
    struct server *server = posting->request->server;
    if (posting->reserved)
        groups_unreserve(server->groups, &posting->record);
    if (posting->asked)
        posting->routes->asks->close(posting->asked);
    json_decref(posting->problem);
    fetching_clear(&posting->fetching);
    group_record_clear(&posting->record);
    free(posting);
}

static void refuse(struct posting *posting, enum api_problem problem, const char *detail)
{
    posting->problem = api_problem_encode(problem, detail, posting->request->path, NULL);
}

/* All resources share one space of keys, so the path is part of the request. */
static void name_request(struct posting *posting)
{
    const char *path = resource_of(posting->request)->path;
    unsigned char digest[(HASH_SIZE - 1) / 2];
    char hash[HASH_SIZE];
    crypto_generichash_state state;
    crypto_generichash_init(&state, NULL, 0, sizeof digest);
    crypto_generichash_update(&state, (const unsigned char *)path, strlen(path) + 1);
    crypto_generichash_update(&state, (const unsigned char *)posting->record.request, strlen(posting->record.request));
    crypto_generichash_final(&state, digest, sizeof digest);
    sodium_bin2hex(hash, sizeof hash, digest, sizeof digest);
    store_key_request(&posting->insert.key, hash, posting->record.label);
}

/* Decodes the body. Returns false if it is rejected. */
static bool read_body(struct posting *posting)
{
    struct request *request = posting->request;
    struct group_record *record = &posting->record;
    char message[256] = "";
    struct api_errors errors = {0};
    json_t *json = api_json_parse(request->body ? request->body : "", request->body_len, message, sizeof message);
    request_drop_body(request);
    if (json)
        posting->asked = posting->routes->decode(request->server, &errors, record, json);
    if (!json && message[0])
        refuse(posting, API_PROBLEM_MALFORMED_JSON, message);
    else if (!json || errors.out_of_memory)
        refuse(posting, API_PROBLEM_INTERNAL, "out of memory");
    else if (!posting->asked)
        posting->problem = api_problem_encode(API_PROBLEM_INVALID_JOB, NULL, request->path, &errors);
    api_errors_clear(&errors);
    json_decref(json);
    return posting->asked != NULL;
}

/* On the writer thread, after the commit. */
static void post_stored(struct store_write *write, enum store_status status)
{
    struct posting *posting = (struct posting *)write;
    struct groups *groups = posting->request->server->groups;
    bool answered = status == STORE_OK || status == STORE_CORRUPT;
    if (!answered) {
        refuse(posting, API_PROBLEM_QUEUE_FULL,
               "the database could not be written and nothing was accepted; post it again later");
    } else if (posting->insert.allowance.exceeded) {
        posting->over = true;
        posting->refusal = store_allowance_refusal(&posting->insert.allowance);
    } else if (posting->insert.key.use == KEY_FREE && groups_admit(groups, &posting->record, posting->asked)) {
        posting->asked = NULL;
        posting->reserved = false;
    } else if (posting->insert.key.use == KEY_FREE) { /* the row is stored: it runs after a restart */
        refuse(posting, API_PROBLEM_INTERNAL, "out of memory");
    }
    request_resume(posting->request);
}

/* On the bulk thread. */
static void post_decide(struct pool_task *task)
{
    struct posting *posting = (struct posting *)(void *)((char *)task - offsetof(struct posting, task));
    struct server *server = posting->request->server;
    struct group_record *record = &posting->record;
    record->poster = request_poster(posting->request);
    if (!read_body(posting)) {
        request_resume(posting->request);
        return;
    }
    name_request(posting);
    if (resource_key_used(server, &posting->insert.key)) {
        request_resume(posting->request);
        return;
    }
    record->kind = posting->routes->kind;
    record->created_at = clock_now_ms();
    snprintf(record->request_id, sizeof record->request_id, "%s", posting->request->id);
    snprintf(record->client, sizeof record->client, "%s", posting->request->place->client);
    uuid_next(record->id);
    enum jobs_room room =
        store_full(server->store)
            ? JOBS_FULL
            : groups_reserve(server->groups, record, &posting->request->client.quota, &posting->refusal);
    posting->reserved = room == JOBS_ROOM;
    if (room == JOBS_OVER) {
        posting->over = true;
        request_resume(posting->request);
        return;
    }
    if (room == JOBS_FULL) {
        refuse(posting, API_PROBLEM_QUEUE_FULL,
               "the queue is full, in number (--queue) or bytes (--queue-bytes), or the database has reached its limit "
               "(--max-db); post it again later");
        request_resume(posting->request);
        return;
    }
    posting->insert.record = record;
    posting->insert.allowance.most = posting->request->client.quota.most[QUOTA_BYTES];
    posting->insert.write.done = post_stored;
    store_insert_group(server->store, &posting->insert);
}

static enum handled post_reply(struct request *request)
{
    enum handled handled;
    struct posting *posting = request->state;
    struct document *document = fetching_take(&posting->fetching, &handled);
    if (!document)
        return handled;
    reply_header(request, MHD_HTTP_HEADER_LOCATION, "%s/%s", resource_of(request)->path, document->id);
    return reply_document(request, document->final ? 200 : 202, document, false);
}

static enum handled post_resume(struct request *request)
{
    struct posting *posting = request->state;
    const struct store_key *key = &posting->insert.key;
    enum handled handled;
    if (posting->problem) {
        json_t *problem = posting->problem;
        posting->problem = NULL;
        return reply_problem_json(request, problem);
    }
    if (posting->over)
        return reply_quota(request, &posting->refusal);
    if (key->use != KEY_FREE && !resource_replays(request, key, &handled))
        return handled;
    const char *id = key->use == KEY_FREE ? posting->record.id : key->id;
    return resource_fetch(request, &posting->fetching, id, post_reply);
}

enum handled handle_group_post(struct request *request)
{
    enum handled handled;
    struct posting *posting = calloc(1, sizeof *posting);
    if (!posting)
        return reply_problem(request, API_PROBLEM_INTERNAL, "out of memory");
    request->state = posting;
    request->state_free = posting_free;
    posting->request = request;
    posting->routes = resource_of(request)->group;
    posting->task = request_task(request, post_decide);
    if (!resource_key(request, &posting->insert.key, &handled))
        return handled;
    if (!request_suspend(request, post_resume))
        return reply_stopping(request);
    pool_submit(request->server->bulk, &posting->task);
    return HANDLED_SUSPENDED;
}

/* ---------------------------------------------------------------- the resources */

static bool is_live(const struct resource *resource, struct server *server, const char *id)
{
    return groups_is_live(server->groups, resource->group->kind, id);
}

static bool watch(const struct resource *resource, struct server *server, const char *id, struct waiter *waiter)
{
    return groups_watch(server->groups, resource->group->kind, id, waiter);
}

static enum cancel_outcome cancel(const struct resource *resource, struct server *server, const char *id,
                                  struct waiter *waiter)
{
    return groups_cancel(server->groups, resource->group->kind, id, waiter);
}

static bool listen_one(const struct resource *resource, struct server *server, const char *id, uint64_t seen,
                       struct waiter *waiter)
{
    return groups_listen(server->groups, resource->group->kind, id, (size_t)(seen - FIRST_NUMBER), waiter);
}

static void remove_one(const struct resource *resource, struct server *server, struct store_delete *deletion)
{
    store_delete_group(server->store, resource->group->kind, deletion);
}

static void forget(const struct resource *resource, struct server *server, const char *id)
{
    (void)resource; /* nothing about a final sweep is kept in memory */
    memory_drop(server->rankings, id);
}

#define GROUP_RESOURCE(where, what, routes)                                                                \
    {                                                                                                      \
        .path = (where), .noun = (what), .absent = "there is no " what " with this id", .heavy = true,     \
        .group = (routes), .get = get, .is_live = is_live, .watch = watch, .cancel = cancel, .tell = tell, \
        .listen = listen_one, .remove = remove_one, .forget = forget, .list = list,                        \
    }

const struct resource sweep_resource = GROUP_RESOURCE("/v1/sweeps", "sweep", &sweep_routes);
const struct resource plan_resource = GROUP_RESOURCE("/v1/plans", "plan", &plan_routes);
