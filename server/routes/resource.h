/*
 * The operations that all resources share: read, wait, follow by events, cancel, delete, list, and post with an
 * idempotency key. A struct defines how this is done for one kind of resource; its rows of the route table refer to
 * that struct.
 *
 * SPDX-License-Identifier: GPL-3.0-or-later
 */
#ifndef SERVER_ROUTES_RESOURCE_H
#define SERVER_ROUTES_RESOURCE_H

#include "server/http/events.h"
#include "server/routes/routes.h"
#include "server/work/work.h"

/* What a page shows that is not in the database. Initially empty; the owner frees the texts. */
struct list_notes {
    struct text open; /* ids of the items that were not final, UUID_SIZE bytes each */
    struct text told; /* the output of tell_open() for each of them */
    bool unsure;      /* something could not be read, but may be readable later */
};

struct group_routes;

struct resource {
    const char *path;                 /* "/v1/jobs" */
    const char *noun;                 /* "job" */
    const char *absent;               /* the detail of a 404: the same if there is none and if it is another group's */
    bool heavy;                       /* get() and tell() take milliseconds, so the lists thread calls them */
    const struct group_routes *group; /* what distinguishes a kind of group (routes/groups/groups.h); NULL: a job */
    /* Each function is passed its own resource. */
    /* The current document, retained for the caller. STORE_NONE: there is none with this id. */
    enum store_status (*get)(const struct resource *resource, struct server *server, const char *id,
                             struct document **document);
    /* Whether it is not final. */
    bool (*is_live)(const struct resource *resource, struct server *server, const char *id);
    /* Makes the waiter wait for the end. Returns false if the resource is not live. */
    bool (*watch)(const struct resource *resource, struct server *server, const char *id, struct waiter *waiter);
    enum cancel_outcome (*cancel)(const struct resource *resource, struct server *server, const char *id,
                                  struct waiter *waiter);
    /* Appends the events after number *seen and advances it: `progress` and the other events of the resource. Returns
     * EVENTS_LAST if the resource is not live and only its end is left. */
    enum events_next (*tell)(const struct resource *resource, struct server *server, const char *id, uint64_t *seen,
                             struct text *text);
    /* Makes the waiter wait for the next change after `seen`, or the end. Returns false if there is one already, or if
     * the resource is not live. */
    bool (*listen)(const struct resource *resource, struct server *server, const char *id, uint64_t seen,
                   struct waiter *waiter);
    /* Deletes a final resource, in the database and then in memory. */
    void (*remove)(const struct resource *resource, struct server *server, struct store_delete *deletion);
    void (*forget)(const struct resource *resource, struct server *server, const char *id);
    /* Appends the items that pass the filter, newest first, separated by commas. next: the id after which the next page
     * begins, or "". On the lists thread. */
    enum store_status (*list)(const struct resource *resource, struct server *server, const struct list_filter *filter,
                              struct text *items, char next[UUID_SIZE], struct list_notes *notes);
    /* Appends what a list shows of an item in addition to its row. NULL: pages of this resource are not cached. */
    void (*tell_open)(const struct resource *resource, struct server *server, const char *id, struct text *told);
};

/* The resource of the request, from the route table. */
static inline const struct resource *resource_of(const struct request *request)
{
    return request->route->resource;
}

/* Whether a client sees the job, sweep or plan with this id: it is one of its group, or its key sees all. */
bool resource_visible(struct server *server, const struct access_client *client, const char *id);
/* For the route table. */
const char *resource_hidden(const struct request *request);

/*
 * The Idempotency-Key of a POST is looked up twice: as soon as the request is known, so that a replay needs no
 * computation and works even if the queue is full; and by the writer, inside the transaction that stores the request,
 * which decides.
 */

/* Fills in owner and text from the request. Returns false with *handled if it is not a valid key. */
bool resource_key(struct request *request, struct store_key *key, enum handled *handled);
/* The first lookup: whether the key was used, with this request or another. */
bool resource_key_used(struct server *server, struct store_key *key);
/* For a used key: true if it is a replay, which is shown in a header; key->id is the resource. Returns false with
 * *handled if it was used with another request or is damaged. */
bool resource_replays(struct request *request, const struct store_key *key, enum handled *handled);

/* The resources of the table. */
extern const struct resource job_resource;                  /* routes/jobs/jobs.c */
extern const struct resource sweep_resource, plan_resource; /* routes/groups/groups.c */

#endif
