/*
 * Gets the document of a resource for a reply. A document that takes milliseconds is made on the lists thread, while
 * the request waits.
 *
 * SPDX-License-Identifier: GPL-3.0-or-later
 */
#ifndef SERVER_ROUTES_FETCH_H
#define SERVER_ROUTES_FETCH_H

#include "server/routes/resource.h"
#include "server/work/pool.h"

/* Must live as long as the request. Zero-initialise; use for one fetch at a time. */
struct fetching {
    struct pool_task task; /* first */
    struct request *request;
    const char *id;
    bool ended;
    enum store_status status;
    struct document *document; /* STORE_OK: the document, owned until fetching_take() returns it */
};

/* Gets the document; next(request) then runs on an HTTP thread. */
enum handled resource_fetch(struct request *request, struct fetching *fetching, const char *id, request_handler *next);
/* The document, owned by the caller; or NULL with *handled after an error was replied. */
struct document *fetching_take(struct fetching *fetching, enum handled *handled);
void fetching_clear(struct fetching *fetching);

#endif
