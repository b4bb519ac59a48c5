/*
 * Waiting for jobs.
 *
 * SPDX-License-Identifier: GPL-3.0-or-later
 */
#include "server/routes/waiting.h"

#include "server/jobs/jobs.h"

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

static bool job_give(void *user)
{
    struct watching *watching = user;
    return jobs_watch(watching->request->server->jobs, watching->id, &watching->waiter);
}

void watch_job(struct watching *watching, struct request *request, const char *id, double deadline)
{
    static const struct holder holder = {job_give, watching_take_back};
    watching_init(watching, request);
    watching->id = id;
    request_give(request, &holder, watching, deadline);
}
