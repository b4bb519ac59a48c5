/*
 * The document of a resource, for who answers with it. One that takes milliseconds to make is made on the thread of the
 * lists, and the request waits for it.
 *
 * SPDX-License-Identifier: GPL-3.0-or-later
 */
#ifndef SERVER_ROUTES_FETCH_H
#define SERVER_ROUTES_FETCH_H

#include "server/routes/resource.h"
#include "server/work/pool.h"

/* Lasts as long as the request. Zero-initialise; not to be used by two fetches at a time. */
struct fetching {
    struct pool_task task; /* first */
    struct request *request;
    const char *id;
    bool ended;
    enum store_status status;
    struct document *document; /* of STORE_OK: retained for who takes it, which leaves NULL */
};

/* Then next(request) runs, on an HTTP thread, and finds what came of it. */
enum handled resource_fetch(struct request *request, struct fetching *fetching, const char *id, request_handler *next);
/* The document, the caller's; NULL with *handled: there is none, which is replied. */
struct document *fetching_take(struct fetching *fetching, enum handled *handled);
void fetching_clear(struct fetching *fetching);

#endif
