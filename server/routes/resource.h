/*
 * What every resource does, written once: it is read, waited for, followed by events, canceled, deleted and listed by id,
 * and posted under an idempotency key. A resource says in one struct how that is done for its kind, and its rows of the route table name it.
 *
 * SPDX-License-Identifier: GPL-3.0-or-later
 */
#ifndef SERVER_ROUTES_RESOURCE_H
#define SERVER_ROUTES_RESOURCE_H

#include "server/http/events.h"
#include "server/routes/routes.h"
#include "server/work/work.h"

/* What a page says that no row of the database does. Empty at first; whoever has it clears the texts. */
struct list_notes {
    struct text open; /* ids of the items that were not final, UUID_SIZE bytes each */
    struct text told; /* what tell_open() gave of each */
    bool unsure;      /* something could not be read, and may be another time */
};

struct resource {
    const char *path; /* "/v1/jobs" */
    const char *noun; /* "job" */
    bool heavy;       /* get() and tell() take milliseconds: the thread of the lists calls them */
    /* The document as it is now, retained for the caller. STORE_NONE: there is none of this id. */
    enum store_status (*get)(struct server *server, const char *id, struct document **document);
    /* Whether it is not final. */
    bool (*is_live)(struct server *server, const char *id);
    /* The waiter waits for its end. False: it is not live. */
    bool (*watch)(struct server *server, const char *id, struct waiter *waiter);
    enum cancel_outcome (*cancel)(struct server *server, const char *id, struct waiter *waiter);
    /* Appends what happened after the change of the number *seen, which moves on: `progress` and whatever else the resource
     * tells of. EVENTS_LAST: it is not live, and there is nothing but its end to tell. */
    enum events_next (*tell)(struct server *server, const char *id, uint64_t *seen, struct text *text);
    /* The waiter waits for the change after that one, or the end. False: it has come already, or it is not live. */
    bool (*listen)(struct server *server, const char *id, uint64_t seen, struct waiter *waiter);
    /* Forgets a final one, in the database and, once that is done, in memory. */
    void (*remove)(struct server *server, struct store_delete *deletion);
    void (*forget)(struct server *server, const char *id);
    /* Appends those that the filter lets through, newest first, parted by commas; next: the id after which the next page
     * begins, or "". On the thread of the lists. */
    enum store_status (*list)(struct server *server, const struct list_filter *filter, struct text *items,
                              char next[UUID_SIZE], struct list_notes *notes);
    /* Appends all that a list says of an item beyond what its row has. NULL: pages of it are not kept. */
    void (*tell_open)(struct server *server, const char *id, struct text *told);
};

/* Of the request's row in the route table. */
static inline const struct resource *resource_of(const struct request *request)
{
    return request->route->resource;
}

/*
 * What is posted under an Idempotency-Key is looked up twice: once it is known which request it is, so that a replay costs no
 * computing and passes even when the queue is full, and by the writer inside the transaction that stores it, which decides.
 */

/* Fills in client and text from the request's header. False with *handled: it is no key. */
bool resource_key(struct request *request, struct store_key *key, enum handled *handled);
/* The first look: whether the key was used, with this request or another. */
bool resource_key_used(struct server *server, struct store_key *key);
/* A used key: true where it replays, which a header then says, and key->id is to be shown. False with *handled: it came with
 * another request, or is damaged. */
bool resource_replays(struct request *request, const struct store_key *key, enum handled *handled);

/* The table's resources. */
extern const struct resource job_resource;   /* routes/jobs/jobs.c */
extern const struct resource sweep_resource; /* routes/groups/sweeps.c */
extern const struct resource plan_resource;  /* routes/groups/plans.c */

#endif
