/*
 * Requests documents from the lists thread.
 *
 * SPDX-License-Identifier: GPL-3.0-or-later
 */
#include "server/routes/fetch.h"

#include <math.h>

#include "server/http/wait.h"

static void fetch(struct fetching *fetching)
{
    const struct request *request = fetching->request;
    fetching->status =
        resource_of(request)->get(resource_of(request), request->server, fetching->id, &fetching->document);
    fetching->ended = true;
}

/* On the lists thread. */
static void fetch_task(struct pool_task *task)
{
    struct fetching *fetching = (struct fetching *)task;
    fetch(fetching);
    request_resume(fetching->request);
}

static bool fetch_give(void *user)
{
    struct fetching *fetching = user;
    pool_submit(fetching->request->server->lists, &fetching->task);
    return true;
}

static bool fetch_take_back(void *user)
{
    struct fetching *fetching = user;
    return pool_withdraw(fetching->request->server->lists, &fetching->task);
}

enum handled resource_fetch(struct request *request, struct fetching *fetching, const char *id, request_handler *next)
{
    static const struct holder holder = {fetch_give, fetch_take_back};
    *fetching = (struct fetching){.task = request_task(request, fetch_task), .request = request, .id = id};
    /* If the request cannot be suspended because the service is stopping, the document is made at once. */
    if (!resource_of(request)->heavy || !request_suspend(request, next)) {
        fetch(fetching);
        return next(request);
    }
    request_give(request, &holder, fetching, INFINITY);
    return HANDLED_SUSPENDED;
}

struct document *fetching_take(struct fetching *fetching, enum handled *handled)
{
    struct document *document = fetching->status == STORE_OK ? fetching->document : NULL;
    fetching->document = NULL;
    if (!document) {
        *handled =
            fetching->ended ? reply_unreadable(fetching->request, fetching->status) : reply_gone(fetching->request);
    }
    return document;
}

void fetching_clear(struct fetching *fetching)
{
    if (fetching->ended && fetching->status == STORE_OK)
        document_release(fetching->document);
}
