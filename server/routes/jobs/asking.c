/*
 * The request is handled twice: on arrival, and when the figure is available or was abandoned.
 *
 * SPDX-License-Identifier: GPL-3.0-or-later
 */
#include "server/routes/jobs/asking.h"

#include <stdlib.h>
#include <string.h>

#include "server/ops/clock.h"
#include "server/routes/waiting.h"

struct asking {
    struct watching watching;  /* first */
    struct figure_asked asked; /* its texts belong to the handler until the request is given away */
    figure_reply *reply;
    struct quota_refusal refusal;
};

static enum handled asking_resume(struct request *request)
{
    const struct asking *asking = request->state;
    struct job_record record;
    struct result_record *result;
    enum handled handled;
    if (!read_succeeded(request, &record, &result, &handled))
        return handled;
    bool replied = asking->reply(request, result, &handled);
    if (!replied && asking->refusal.seconds) {
        handled = reply_quota(request, &asking->refusal);
    } else if (!replied) {
        handled = jobs_stopping(request->server->jobs)
                      ? reply_stopping(request)
                      : reply_problem(request, API_PROBLEM_QUEUE_FULL, "it has not been computed yet; try again later");
    }
    result_record_release(result);
    job_record_clear(&record);
    return handled;
}

static bool asking_give(void *user)
{
    struct asking *asking = user;
    struct jobs *jobs = asking->watching.request->server->jobs;
    return jobs_figure_wait(jobs, &asking->asked, &asking->watching.waiter, &asking->refusal);
}

static bool asking_take_back(void *user)
{
    struct asking *asking = user;
    return jobs_figure_leave(asking->watching.request->server->jobs, &asking->watching.waiter);
}

static enum handled await(struct request *request, const struct asking *asked)
{
    static const struct holder holder = {asking_give, asking_take_back};
    struct asking *asking = malloc(sizeof *asking);
    request->state = asking;
    request->state_free = free;
    if (!asking)
        return reply_problem(request, API_PROBLEM_INTERNAL, "out of memory");
    *asking = *asked;
    if (!request_suspend(request, asking_resume))
        return reply_stopping(request);
    watching_init(&asking->watching, request);
    request_give(request, &holder, asking, clock_monotonic() + WAIT_MAX_SECONDS);
    return HANDLED_SUSPENDED;
}

enum handled figure_handle(struct request *request, const struct figure_kind *kind, figure_reply *reply,
                           const char *(*refusal)(const struct result_record *result))
{
    struct job_record record;
    struct result_record *result;
    enum handled handled;
    if (!read_succeeded(request, &record, &result, &handled))
        return handled;
    memcpy(request->job, record.id, UUID_SIZE);
    memcpy(record.poster.key, request->client.id, sizeof record.poster.key); /* who waits for it */
    if (!reply(request, result, &handled)) {
        const char *reason = refusal ? refusal(result) : NULL;
        handled = reason ? reply_problem(request, API_PROBLEM_CONFLICT, "%s", reason)
                         : await(request, &(struct asking){.asked = {kind, &record, result, &request->client.quota},
                                                           .reply = reply});
    }
    result_record_release(result);
    job_record_clear(&record);
    return handled;
}
