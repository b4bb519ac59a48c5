/*
 * GET /v1/jobs/{id}/curve: the points that the worker stored with the result, as JSON or CSV.
 *
 * SPDX-License-Identifier: GPL-3.0-or-later
 */
#include <stdlib.h>
#include <string.h>

#include "api/codec.h"
#include "server/routes/routes.h"

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

enum handled handle_job_curve(struct request *request)
{
    struct job_record record;
    struct result_record *result;
    enum handled handled;
    struct text text = {0};
    bool csv = strcmp(request->route->produces[request->offer], "text/csv") == 0;

    if (!read_succeeded(request, &record, &result, &handled)) {
        return handled;
    }
    memcpy(request->job, record.id, UUID_SIZE);
    reply_header(request, MHD_HTTP_HEADER_VARY, "Accept");
    if (result->points_len) {
        char *body = curve_text(result, csv);
        text_puts(&text, body ? body : "");
        text.failed = text.failed || !body;
        free(body);
        handled = reply_text(request, 200, csv ? "text/csv; charset=utf-8" : "application/json", &text, true);
    } else {
        handled =
            reply_problem(request, API_PROBLEM_CONFLICT, "%s", result->note ? result->note : "this job has no curve");
    }
    result_record_release(result);
    job_record_clear(&record);
    return handled;
}
