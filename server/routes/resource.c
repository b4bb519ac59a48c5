/*
 * GET, cancel and DELETE of one resource, and the parts that POSTs share.
 *
 * SPDX-License-Identifier: GPL-3.0-or-later
 */
#include "server/routes/resource.h"

#include <stdlib.h>
#include <string.h>

#include "server/ops/clock.h"
#include "server/routes/fetch.h"
#include "server/routes/owners.h"
#include "server/routes/waiting.h"

#define ENDING_SECONDS 5 /* how long a cancel waits for a job that is just ending */

enum handled reply_unreadable(struct request *request, enum store_status status)
{
    const char *noun = resource_of(request)->noun;
    if (status == STORE_NONE && store_damage(request->server->store)) {
        return reply_problem(request, API_PROBLEM_INTERNAL,
                             "the database is damaged, so it is unknown whether there is this %s", noun);
    }
    if (status == STORE_NONE)
        return reply_problem(request, API_PROBLEM_NOT_FOUND, "%s", resource_of(request)->absent);
    if (status == STORE_CORRUPT) {
        return reply_problem(request, API_PROBLEM_INTERNAL,
                             "the stored data of this %s fails its checksum; post the %s again to compute it anew",
                             noun, noun);
    }
    return reply_problem(request, API_PROBLEM_INTERNAL, "the database could not be read");
}

enum handled reply_gone(struct request *request)
{
    return reply_problem(request, API_PROBLEM_QUEUE_FULL,
                         "the client closed its side of the connection, which counts as disconnecting");
}

enum handled reply_stopping(struct request *request)
{
    return reply_problem(request, API_PROBLEM_QUEUE_FULL, "the service is stopping; try again after the restart");
}

static void free_document(void *document)
{
    document_release(document);
}

enum handled reply_document(struct request *request, int status, struct document *document, bool conditional)
{
    struct shared_text shared = {.data = document->text,
                                 .len = document->len,
                                 .etag = document->etag,
                                 .release = free_document,
                                 .owner = document};
    memcpy(request->job, document->id, UUID_SIZE);
    return reply_shared(request, status, &shared, conditional);
}

/* ---------------------------------------------------------------- whose it is */

_Static_assert(OWNER_SIZE == ACCESS_GROUP_SIZE && POSTER_KEY_SIZE == ACCESS_ID_SIZE, "a group owns what it posts");
_Static_assert(ACCESS_ID_SIZE <= FAIR_NAME_SIZE, "a key owns its tasks");

struct pool_task request_task(const struct request *request, void (*run)(struct pool_task *task))
{
    struct pool_task task = {.run = run};
    strcpy(task.owner, request->client.id);
    return task;
}

struct poster request_poster(const struct request *request)
{
    struct poster poster;
    memcpy(poster.key, request->client.id, sizeof poster.key);
    memcpy(poster.group, request->client.group, sizeof poster.group);
    return poster;
}

bool resource_visible(struct server *server, const struct access_client *client, const char *id)
{
    char owner[OWNER_SIZE];
    if (client->sees_all)
        return true;
    if (!owners_find(server->owners, id, owner)) {
        if (store_read_owner(server->store, id, owner) != STORE_OK)
            return false;
        owners_keep(server->owners, id, owner);
    }
    return strcmp(owner, client->group) == 0;
}

const char *resource_hidden(const struct request *request)
{
    const struct resource *resource = resource_of(request);
    if (uuid_valid(request->param) && !resource_visible(request->server, &request->client, request->param))
        return resource->absent;
    return NULL;
}

/* ---------------------------------------------------------------- GET */

const struct query_member wait_query[] = {
    {"wait", query_is_seconds, "must be a whole number of seconds", query_seconds_wrong}, {0}};

/* The state of a GET while it waits. */
struct getting {
    struct fetching fetching;
    struct watching watching;
    double seconds; /* how long it waits for the end */
};

static void getting_free(void *state)
{
    struct getting *getting = state;
    fetching_clear(&getting->fetching);
    free(getting);
}

static enum handled get_reply(struct request *request)
{
    enum handled handled;
    struct getting *getting = request->state;
    struct document *document = fetching_take(&getting->fetching, &handled);
    return document ? reply_document(request, 200, document, true) : handled;
}

static enum handled get_again(struct request *request)
{
    struct getting *getting = request->state;
    return resource_fetch(request, &getting->fetching, request->param, get_reply);
}

static enum handled get_or_wait(struct request *request)
{
    enum handled handled;
    struct getting *getting = request->state;
    struct document *document = fetching_take(&getting->fetching, &handled);
    if (!document)
        return handled;
    bool waits = getting->seconds > 0 && !document->final;
    if (!waits || !request_suspend(request, get_again))
        return reply_document(request, 200, document, true);
    document_release(document);
    watch_end(&getting->watching, request, request->param, clock_monotonic() + getting->seconds);
    return HANDLED_SUSPENDED;
}

enum handled handle_resource_get(struct request *request)
{
    bool preferred;
    if (!uuid_valid(request->param))
        return reply_unreadable(request, STORE_NONE);
    struct getting *getting = calloc(1, sizeof *getting);
    if (!getting)
        return reply_problem(request, API_PROBLEM_INTERNAL, "out of memory");
    request->state = getting;
    request->state_free = getting_free;
    getting->seconds = request_wait_seconds(request, &preferred);
    if (preferred)
        reply_header(request, "Preference-Applied", "wait=%.0f", getting->seconds);
    return resource_fetch(request, &getting->fetching, request->param, get_or_wait);
}

/* ---------------------------------------------------------------- cancel */

struct canceling {
    struct watching watching;
    struct fetching fetching;
    enum cancel_outcome outcome;
};

static void canceling_free(void *state)
{
    struct canceling *canceling = state;
    if (canceling)
        fetching_clear(&canceling->fetching);
    free(canceling);
}

static enum handled cancel_reply(struct request *request)
{
    enum handled handled;
    struct canceling *canceling = request->state;
    struct document *document = fetching_take(&canceling->fetching, &handled);
    if (!document)
        return handled;
    if (!document->final) {
        document_release(document);
        return reply_problem(request, API_PROBLEM_QUEUE_FULL,
                             "the %s is being canceled, but this could not be written yet; the service keeps trying",
                             resource_of(request)->noun);
    }
    return reply_document(request, canceling->outcome == CANCEL_STARTED ? 202 : 200, document, false);
}

static enum handled cancel_resume(struct request *request)
{
    struct canceling *canceling = request->state;
    if (canceling->outcome == CANCEL_FAILED)
        return reply_problem(request, API_PROBLEM_INTERNAL, "out of memory");
    return resource_fetch(request, &canceling->fetching, request->param, cancel_reply);
}

enum handled handle_resource_cancel(struct request *request)
{
    const struct resource *resource = resource_of(request);
    struct canceling *canceling = calloc(1, sizeof *canceling);
    request->state = canceling;
    request->state_free = canceling_free;
    if (!uuid_valid(request->param))
        return reply_unreadable(request, STORE_NONE);
    if (!canceling)
        return reply_problem(request, API_PROBLEM_INTERNAL, "out of memory");
    canceling->outcome = CANCEL_NOT_LIVE;
    if (!resource->is_live(resource, request->server, request->param))
        return cancel_resume(request);
    /* Set before the call, because once it has started the request may be answered before the call returns. */
    canceling->outcome = CANCEL_STARTED;
    if (!request_suspend(request, cancel_resume))
        return reply_stopping(request);
    watching_init(&canceling->watching, request);
    enum cancel_outcome outcome =
        resource->cancel(resource, request->server, request->param, &canceling->watching.waiter);
    if (outcome == CANCEL_STARTED)
        return HANDLED_SUSPENDED;
    canceling->outcome = outcome;
    if (outcome == CANCEL_ENDING && !store_trouble(request->server->store))
        watch_end(&canceling->watching, request, request->param, clock_monotonic() + ENDING_SECONDS);
    else
        request_resume(request);
    return HANDLED_SUSPENDED;
}

/* ---------------------------------------------------------------- DELETE */

struct deleting {
    struct store_delete deletion; /* first */
    struct request *request;
    enum store_status status;
};

static enum handled delete_resume(struct request *request)
{
    struct deleting *deleting = request->state;
    if (deleting->status == STORE_FAILED) {
        return reply_problem(request, API_PROBLEM_QUEUE_FULL,
                             "the database could not be written, and the %s still exists; try again later",
                             resource_of(request)->noun);
    }
    return deleting->status == STORE_OK ? reply_empty(request, 204) : reply_unreadable(request, deleting->status);
}

static void delete_done(struct store_write *write, enum store_status status)
{
    struct deleting *deleting = (struct deleting *)write;
    struct request *request = deleting->request;
    deleting->status = status;
    if (status == STORE_OK)
        resource_of(request)->forget(resource_of(request), request->server, request->param);
    request_resume(request);
}

enum handled handle_resource_delete(struct request *request)
{
    if (!uuid_valid(request->param))
        return reply_unreadable(request, STORE_NONE);
    const struct resource *resource = resource_of(request);
    if (resource->is_live(resource, request->server, request->param))
        return reply_problem(request, API_PROBLEM_CONFLICT, "the %s is not final; cancel it first", resource->noun);
    struct deleting *deleting = calloc(1, sizeof *deleting);
    if (!deleting)
        return reply_problem(request, API_PROBLEM_INTERNAL, "out of memory");
    request->state = deleting;
    request->state_free = free;
    deleting->request = request;
    deleting->deletion.write.done = delete_done;
    memcpy(deleting->deletion.id, request->param, UUID_SIZE);
    if (!request_suspend(request, delete_resume))
        return reply_stopping(request);
    resource->remove(resource, request->server, &deleting->deletion);
    return HANDLED_SUSPENDED;
}

/* ---------------------------------------------------------------- POST */

static bool copy_key(struct store_key *key, const char *value)
{
    size_t len = strlen(value);
    if (!len || len > IDEMPOTENCY_KEY_MAX)
        return false;
    for (size_t i = 0; i < len; i++)
        if (value[i] <= ' ' || value[i] > '~')
            return false;
    memcpy(key->text, value, len + 1);
    return true;
}

bool resource_key(struct request *request, struct store_key *key, enum handled *handled)
{
    const char *value = request_header_value(request, "Idempotency-Key");
    strcpy(key->owner, request->client.group);
    if (value && !copy_key(key, value)) {
        *handled = reply_problem(request, API_PROBLEM_INVALID_JOB,
                                 "Idempotency-Key must be 1 to %d visible ASCII characters", IDEMPOTENCY_KEY_MAX);
        return false;
    }
    return true;
}

bool resource_key_used(struct server *server, struct store_key *key)
{
    return store_key_read(server->store, key) == STORE_OK && key->use != KEY_FREE;
}

bool resource_replays(struct request *request, const struct store_key *key, enum handled *handled)
{
    if (key->use == KEY_REPLAYED) {
        reply_header(request, "Idempotent-Replayed", "true");
        return true;
    }
    *handled =
        key->use == KEY_CONFLICT
            ? reply_problem(request, API_PROBLEM_CONFLICT, "this Idempotency-Key was used with a different request")
            : reply_problem(request, API_PROBLEM_INTERNAL,
                            "the stored data of this Idempotency-Key fails its checksum; use another key");
    return false;
}
