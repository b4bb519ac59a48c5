/*
 * GET .../events of every resource: `progress`, the other events of the resource, and at the end one event with the
 * name of the resource and the whole document. Its id is "final"; a client that reconnects with it has received
 * everything.
 *
 * SPDX-License-Identifier: GPL-3.0-or-later
 */
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include "server/routes/fetch.h"
#include "server/routes/waiting.h"

#define FINAL "final"
#define NUMBER_DIGITS 19 /* of an id; fits in 64 bits */

struct following {
    struct events events; /* first */
    struct watching watching;
    struct pool_task task;
};

/* A stream that is being started. */
struct beginning {
    struct fetching fetching;
    uint64_t seen;
    bool all;
};

static void beginning_free(void *state)
{
    struct beginning *beginning = state;
    fetching_clear(&beginning->fetching);
    free(beginning);
}

static void free_document(void *document)
{
    document_release(document);
}

/* Writes the final event with the document. A resource that is neither live nor final is one whose end could not be
 * written. */
static enum events_next tell_end(struct events *events)
{
    struct request *request = events->request;
    struct document *document;
    if (resource_of(request)->get(resource_of(request), request->server, request->param, &document) != STORE_OK)
        return EVENTS_BROKEN;
    if (!document->final || !reply_holds(request, document->len)) {
        document_release(document);
        return EVENTS_BROKEN;
    }
    text_printf(&events->text, "id: " FINAL "\nevent: %s\ndata: ", resource_of(request)->noun);
    events->tail =
        (struct shared_text){.data = document->text, .len = document->len, .release = free_document, .owner = document};
    return EVENTS_LAST;
}

static enum events_next next(struct events *events)
{
    struct request *request = events->request;
    enum events_next next =
        resource_of(request)->tell(resource_of(request), request->server, request->param, &events->seen, &events->text);
    return next == EVENTS_LAST ? tell_end(events) : next;
}

static bool changes_give(void *user)
{
    struct following *following = user;
    struct request *request = following->events.request;
    watching_init(&following->watching, request);
    return resource_of(request)->listen(resource_of(request), request->server, request->param, following->events.seen,
                                        &following->watching.waiter);
}

static bool end_give(void *user)
{
    struct following *following = user;
    struct request *request = following->events.request;
    watching_init(&following->watching, request);
    return resource_of(request)->watch(resource_of(request), request->server, request->param,
                                       &following->watching.waiter);
}

static bool take_back(void *user)
{
    return watching_take_back(&((struct following *)user)->watching);
}

/* Reads the events that the client already has from Last-Event-ID. Returns false if the id is not one of ours. */
static bool last_heard(const struct request *request, uint64_t *seen, bool *all)
{
    const char *id = request_header_value(request, "Last-Event-ID");
    size_t digits = id ? strspn(id, "0123456789") : 0;
    *seen = 0;
    *all = id && strcmp(id, FINAL) == 0;
    if (digits && digits <= NUMBER_DIGITS && !id[digits]) {
        *seen = strtoull(id, NULL, 10);
        return true;
    }
    return !id || !*id || *all;
}

/* On the lists thread. */
static void compose_task(struct pool_task *task)
{
    struct following *following = (struct following *)(void *)((char *)task - offsetof(struct following, task));
    events_compose(&following->events);
    request_resume(following->events.request);
}

static bool compose_give(void *user)
{
    struct following *following = user;
    following->task = request_task(following->events.request, compose_task);
    pool_submit(following->events.request->server->lists, &following->task);
    return true;
}

static bool compose_take_back(void *user)
{
    struct following *following = user;
    return pool_withdraw(following->events.request->server->lists, &following->task);
}

static enum handled begin(struct request *request)
{
    static const struct holder composer = {compose_give, compose_take_back};
    static const struct events_source light = {next, NULL, {changes_give, take_back}, {end_give, take_back}};
    static const struct events_source heavy = {next, &composer, {changes_give, take_back}, {end_give, take_back}};
    enum handled handled;
    struct beginning *beginning = request->state;
    struct document *document = fetching_take(&beginning->fetching, &handled);
    if (!document)
        return handled;
    bool final = document->final;
    document_release(document);
    if (final && beginning->all)
        return reply_empty(request, 204);
    struct following *following = calloc(1, sizeof *following);
    if (!following)
        return reply_problem(request, API_PROBLEM_INTERNAL, "out of memory");
    memcpy(request->job, request->param, UUID_SIZE);
    following->events.source = resource_of(request)->heavy ? &heavy : &light;
    following->events.seen = beginning->seen;
    return reply_events(request, &following->events);
}

enum handled handle_resource_events(struct request *request)
{
    if (!uuid_valid(request->param))
        return reply_unreadable(request, STORE_NONE);
    struct beginning *beginning = calloc(1, sizeof *beginning);
    if (!beginning)
        return reply_problem(request, API_PROBLEM_INTERNAL, "out of memory");
    request->state = beginning;
    request->state_free = beginning_free;
    if (!last_heard(request, &beginning->seen, &beginning->all))
        return reply_problem(request, API_PROBLEM_INVALID_JOB, "Last-Event-ID must be the id of an earlier event");
    return resource_fetch(request, &beginning->fetching, request->param, begin);
}
