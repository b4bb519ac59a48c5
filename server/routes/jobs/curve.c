/*
 * GET /v1/jobs/{id}/curve: the points stored with the result, as JSON or CSV. If there are none yet, the request starts
 * their computation and waits for it.
 *
 * SPDX-License-Identifier: GPL-3.0-or-later
 */
#include <string.h>

#include "api/codec/codec.h"
#include "server/routes/jobs/asking.h"

static enum handled reply_there(struct request *request, const struct result_record *result)
{
    struct text text = {0};
    bool csv = strcmp(request->route->produces[request->offer], "text/csv") == 0;
    reply_header(request, MHD_HTTP_HEADER_VARY, "Accept");
    if (!result->points_len)
        return reply_problem(request, API_PROBLEM_CONFLICT, "%s", result->note);
    if (csv)
        api_curve_csv(&text, result->points, result->points_len);
    else
        text_value_new(&text, api_curve_encode(result->points, result->points_len));
    return reply_text(request, 200, csv ? "text/csv; charset=utf-8" : "application/json", &text, true);
}

static bool reply_curve(struct request *request, const struct result_record *result, enum handled *handled)
{
    if (curve_missing(result))
        return false;
    *handled = reply_there(request, result);
    return true;
}

static const char *refusal(const struct result_record *result)
{
    return result_record_cached(result)
               ? NULL
               : "curves are not computed for results of an earlier accounting version; post the job again";
}

enum handled handle_job_curve(struct request *request)
{
    return figure_handle(request, &figure_curve, reply_curve, refusal);
}
