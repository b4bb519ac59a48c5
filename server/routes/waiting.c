/*
 * Waits for the end of a resource.
 *
 * SPDX-License-Identifier: GPL-3.0-or-later
 */
#include "server/routes/waiting.h"

#include "server/routes/resource.h"

static void resume(void *request)
{
    request_resume(request);
}

void watching_init(struct watching *watching, struct request *request)
{
    *watching = (struct watching){.waiter = {.fn = resume, .user = request}, .request = request};
}

bool watching_take_back(void *user)
{
    struct watching *watching = user;
    return waiter_withdraw(&watching->waiter);
}

static bool end_give(void *user)
{
    struct watching *watching = user;
    struct request *request = watching->request;
    return resource_of(request)->watch(resource_of(request), request->server, watching->id, &watching->waiter);
}

void watch_end(struct watching *watching, struct request *request, const char *id, double deadline)
{
    static const struct holder holder = {end_give, watching_take_back};
    watching_init(watching, request);
    watching->id = id;
    request_give(request, &holder, watching, deadline);
}
