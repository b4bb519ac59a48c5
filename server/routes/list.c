/*
 * Lists of a resource, newest first, with the id of the last item as the cursor. A list of 500 items takes ten
 * milliseconds, in which an HTTP thread serves hundreds of requests, so lists are written one after the other by a
 * thread of their own.
 *
 * SPDX-License-Identifier: GPL-3.0-or-later
 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "api/codec/codec.h"
#include "server/http/wait.h"
#include "server/routes/pages.h"
#include "server/routes/resource.h"
#include "server/work/pool.h"

#define LIMIT_DEFAULT 50

static bool is_status(const char *value)
{
    return job_status_named(value) < JOB_STATUS_COUNT;
}

static bool is_label(const char *value)
{
    json_t *text = json_string(value); /* NULL: it is not UTF-8 */
    bool valid = text && api_text_characters(value, strlen(value)) <= API_LABEL_MAX;
    json_decref(text);
    return valid;
}

const struct query_member list_query[] = {
    {"status", is_status, "must be queued, running, succeeded, failed or canceled", NULL},
    {"label", is_label, "must be UTF-8 of at most 200 characters", NULL},
    QUERY_LIMIT,
    {"cursor", uuid_valid, "must be the `next` of an earlier page", NULL},
    {0},
};

/* Reads the parameters, which passed the table. */
static void read_filter(const struct request *request, struct list_filter *filter)
{
    const char *status = request_query(request, "status");
    const char *limit = request_query(request, "limit");
    *filter = (struct list_filter){.status = status ? job_status_named(status) : JOB_STATUS_COUNT,
                                   .limit = limit ? strtoul(limit, NULL, 10) : LIMIT_DEFAULT,
                                   .label = request_query(request, "label"),
                                   .before = request_query(request, "cursor")};
}

static void write_encoded(struct text *out, const char *value)
{
    for (; *value; value++) {
        unsigned char c = (unsigned char)*value;
        bool plain =
            (c >= '0' && c <= '9') || (c >= 'A' && c <= 'Z') || (c >= 'a' && c <= 'z') || strchr("-._~", c) != NULL;
        if (plain)
            text_append(out, value, 1);
        else
            text_printf(out, "%%%02X", c);
    }
}

static void add_link(struct request *request, const struct list_filter *filter, const char *next)
{
    struct text link = {0};
    text_printf(&link, "<%s?cursor=%s&limit=%zu", resource_of(request)->path, next, filter->limit);
    if (filter->status < JOB_STATUS_COUNT)
        text_printf(&link, "&status=%s", job_status_name(filter->status));
    if (filter->label) {
        text_puts(&link, "&label=");
        write_encoded(&link, filter->label);
    }
    text_puts(&link, ">; rel=\"next\"");
    if (!link.failed)
        reply_header(request, MHD_HTTP_HEADER_LINK, "%s", link.data);
    text_clear(&link);
}

/* A list that is being written. The texts of the filter belong to the request. */
struct listing {
    struct pool_task task;
    struct request *request;
    struct list_filter filter;
    bool begun;
    enum store_status status;
    struct document *document; /* NULL: out of memory */
    char next[UUID_SIZE];      /* or "" */
};

static void listing_free(void *state)
{
    struct listing *listing = state;
    document_release(listing->document);
    free(listing);
}

/* Writes the page and caches it. */
static void write_page(struct listing *listing, const struct resource *resource)
{
    struct server *server = listing->request->server;
    static const char of_no_one[UUID_SIZE];
    struct text text = {0};
    struct list_notes notes = {0};
    uint64_t changes = store_changes(server->store);
    text_puts(&text, "{\"items\":[");
    listing->status = resource->list(resource, server, &listing->filter, &text, listing->next, &notes);
    text_puts(&text, "],\"next\":");
    text_json(&text, listing->next[0] ? listing->next : NULL);
    text_puts(&text, "}");
    listing->document = document_make(&text, of_no_one, false);
    notes.unsure = notes.unsure || listing->status != STORE_OK || !listing->document;
    pages_keep(server->pages, resource, &listing->filter, listing->document, listing->next, changes, &notes);
}

/* On the lists thread. */
static void list_task(struct pool_task *task)
{
    struct listing *listing = (struct listing *)task;
    const struct resource *resource = resource_of(listing->request);
    struct server *server = listing->request->server;
    listing->begun = true;
    listing->status = STORE_OK;
    listing->document = pages_find(server->pages, server, resource, &listing->filter, listing->next);
    if (!listing->document)
        write_page(listing, resource);
    request_resume(listing->request);
}

static enum handled list_resume(struct request *request)
{
    struct listing *listing = request->state;
    if (!listing->begun)
        return reply_gone(request);
    if (listing->status != STORE_OK)
        return reply_unreadable(request, listing->status);
    if (listing->next[0])
        add_link(request, &listing->filter, listing->next);
    if (!listing->document)
        return reply_problem(request, API_PROBLEM_INTERNAL, "out of memory");
    return reply_document(request, 200, document_retain(listing->document), true);
}

static bool list_give(void *user)
{
    struct listing *listing = user;
    pool_submit(listing->request->server->lists, &listing->task);
    return true;
}

static bool list_take_back(void *user)
{
    struct listing *listing = user;
    return pool_withdraw(listing->request->server->lists, &listing->task);
}

enum handled handle_resource_list(struct request *request)
{
    static const struct holder holder = {list_give, list_take_back};
    struct listing *listing = calloc(1, sizeof *listing);
    if (!listing)
        return reply_problem(request, API_PROBLEM_INTERNAL, "out of memory");
    request->state = listing;
    request->state_free = listing_free;
    listing->task = request_task(request, list_task);
    listing->request = request;
    read_filter(request, &listing->filter);
    listing->filter.owner = request->client.sees_all ? NULL : request->client.group;
    if (!request_suspend(request, list_resume))
        return reply_stopping(request);
    request_give(request, &holder, listing, INFINITY);
    return HANDLED_SUSPENDED;
}
