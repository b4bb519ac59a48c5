/*
 * GET /v1/jobs/{id}/curve: the points that are stored with the result, as JSON or CSV; where there are none yet, the
 * request has them computed and waits for them.
 *
 * SPDX-License-Identifier: GPL-3.0-or-later
 */
#include <stdlib.h>
#include <string.h>

#include "api/codec.h"
#include "server/jobs/curve.h"
#include "server/ops/clock.h"
#include "server/routes/routes.h"
#include "server/routes/waiting.h"

static char *curve_text(const struct result_record *result, bool csv)
{
    if (csv) {
        return api_curve_csv(result->points, result->points_len);
    }
    json_t *json = api_curve_encode(result->points, result->points_len);
    char *text = json ? api_json_text(json) : NULL;
    json_decref(json);
    return text;
}

static enum handled reply_curve(struct request *request, const struct result_record *result)
{
    struct text text = {0};
    bool csv = strcmp(request->route->produces[request->offer], "text/csv") == 0;
    reply_header(request, MHD_HTTP_HEADER_VARY, "Accept");
    if (!result->points_len) {
        return reply_problem(request, API_PROBLEM_CONFLICT, "%s", result->note);
    }
    char *body = curve_text(result, csv);
    text_puts(&text, body ? body : "");
    text.failed = text.failed || !body;
    free(body);
    return reply_text(request, 200, csv ? "text/csv; charset=utf-8" : "application/json", &text, true);
}

static enum handled curve_resume(struct request *request)
{
    struct job_record record;
    struct result_record *result;
    enum handled handled;
    if (!read_succeeded(request, &record, &result, &handled)) {
        return handled;
    }
    if (!curve_missing(result)) {
        handled = reply_curve(request, result);
    } else if (jobs_stopping(request->server->jobs)) {
        handled = reply_stopping(request);
    } else {
        handled = reply_problem(request, API_PROBLEM_QUEUE_FULL, "the curve is not there yet; ask again later");
    }
    result_record_release(result);
    job_record_clear(&record);
    return handled;
}

struct asking {
    struct watching watching; /* first */
    const struct job_record *record;
    struct result_record *result; /* both of the handler, until the request is given */
};

static bool curve_give(void *user)
{
    struct asking *asking = user;
    struct jobs *jobs = asking->watching.request->server->jobs;
    return jobs_curve_wait(jobs, asking->record, asking->result, &asking->watching.waiter);
}

/* The curve is missing: waits for it. */
static enum handled await_curve(struct request *request, const struct job_record *record, struct result_record *result)
{
    static const struct holder holder = {curve_give, watching_take_back};
    if (!result_record_cached(result)) {
        return reply_problem(
            request, API_PROBLEM_CONFLICT,
            "no curve is computed any more of a result of an earlier accounting version; post the job again");
    }
    struct asking *asking = calloc(1, sizeof *asking);
    request->state = asking;
    request->state_free = free;
    if (!asking) {
        return reply_problem(request, API_PROBLEM_INTERNAL, "out of memory");
    }
    if (!request_suspend(request, curve_resume)) {
        return reply_stopping(request);
    }
    watching_init(&asking->watching, request);
    asking->record = record;
    asking->result = result;
    request_give(request, &holder, asking, clock_monotonic() + WAIT_MAX_SECONDS);
    return HANDLED_SUSPENDED;
}

enum handled handle_job_curve(struct request *request)
{
    struct job_record record;
    struct result_record *result;
    enum handled handled;
    if (!read_succeeded(request, &record, &result, &handled)) {
        return handled;
    }
    memcpy(request->job, record.id, UUID_SIZE);
    handled = curve_missing(result) ? await_curve(request, &record, result) : reply_curve(request, result);
    result_record_release(result);
    job_record_clear(&record);
    return handled;
}
