/*
 * GET /v1/jobs/{id}/spend: epsilon at the delta of the job in the course of the training, at the end of each phase and
 * at steps in between, as JSON or CSV, for training logs.
 *
 * SPDX-License-Identifier: GPL-3.0-or-later
 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "server/routes/jobs/answered.h"
#include "server/routes/jobs/asking.h"

/* ---------------------------------------------------------------- replying */

static void write_points(struct text *out, const struct spend *spend, bool csv)
{
    text_puts(out, csv ? "step,epsilon\n" : "{\"points\":[");
    for (size_t i = 0; i < spend->len; i++) {
        text_puts(out, csv ? "" : i ? ",{\"step\":" : "{\"step\":");
        text_printf(out, "%llu", (unsigned long long)spend->points[i].step);
        text_puts(out, csv ? "," : ",\"epsilon\":");
        text_number(out, spend->points[i].epsilon);
        text_puts(out, csv ? "\n" : "}");
    }
    text_puts(out, csv ? "" : "]}\n");
}

static enum handled reply_there(struct request *request, const struct spend *spend)
{
    const char *type = request->route->produces[request->offer];
    bool csv = strcmp(type, "text/csv") == 0;
    struct text text = {0};
    if (spend->error.status == EPS_UNSUPPORTED)
        return reply_problem(request, API_PROBLEM_CONFLICT, "%s", spend->error.message);
    if (spend->error.status != EPS_OK)
        return reply_problem_json(request, api_problem_of_error(&spend->error, request->path));
    write_points(&text, spend, csv);
    reply_header(request, MHD_HTTP_HEADER_VARY, "Accept");
    return reply_text(request, 200, type, &text, true);
}

static bool reply_spend(struct request *request, const struct result_record *result, enum handled *handled)
{
    struct spend *spend = jobs_spend(request->server->jobs, result);
    if (!spend)
        return false;
    *handled = reply_there(request, spend);
    spend_release(spend);
    return true;
}

/* ---------------------------------------------------------------- computing */

/* If the answer to "count": "max" is 0, the phase has no run and is left out. */
static void leave_out_unrun(struct eps_job *job)
{
    size_t kept = 0;
    for (size_t i = 0; i < job->phases_len; i++)
        if (job->phases[i].count > 0)
            job->phases[kept++] = job->phases[i];
    job->phases_len = kept;
}

/* Why there are no points; NULL: ask the library. */
static const char *refusal(double noise_multiplier, const struct eps_job *job, bool phases)
{
    if (job->query.curve)
        return "a job for the whole curve has no delta; post it with one";
    if (!(noise_multiplier > 0))
        return "the job needs no noise (noise multiplier 0)";
    return phases && job->phases_len == 0 ? "the only phase is never run (count is 0)" : NULL;
}

static struct eps_error unsupported(const char *detail)
{
    struct eps_error error = {.status = EPS_UNSUPPORTED};
    snprintf(error.message, sizeof error.message, "%s", detail ? detail : "");
    return error;
}

static struct spend *compute(struct computation *computation, struct api_job *asked, const struct result_record *result)
{
    struct eps_job *job = &asked->job;
    struct eps_error error = {0};
    struct answered answered;
    json_t *problem = NULL;
    struct answer answer;
    bool phases = job->phases_len > 0;
    if (!answered_read(&answered, job, result, NO_PHASE, false, "", &problem)) {
        error = unsupported(json_string_value(json_object_get(problem, "detail")));
        json_decref(problem);
        return spend_create(NULL, 0, &error);
    }
    leave_out_unrun(job);
    const char *reason = refusal(answered.noise_multiplier, job, phases);
    if (reason) {
        error = unsupported(reason);
        return spend_create(NULL, 0, &error);
    }
    if (!isnan(job->query.delta) && !isnan(job->query.noise_multiplier))
        job->query.epsilon = NAN; /* it asks for the largest number no more, so it must ask for something else */
    const struct question question = {.kind = QUESTION_SPEND,
                                      .job = asked,
                                      .noise_multiplier = answered.noise_multiplier,
                                      .delta = result->figures.delta};
    computation_ask(computation, &question, &answer);
    error = answer.error;
    if (error.status == EPS_UNATTAINABLE)
        error.status = EPS_UNSUPPORTED;
    bool lost = error.status == EPS_CANCELED || error.status == EPS_NO_MEMORY;
    struct spend *spend = lost ? NULL : spend_create(answer.spend, answer.spend_len, &error);
    answer_clear(&answer);
    return spend;
}

static bool spend_missing(struct jobs *jobs, const struct result_record *result)
{
    struct spend *spend = jobs_spend(jobs, result);
    spend_release(spend);
    return !spend;
}

static void spend_compute(struct jobs *jobs, struct computation *computation, struct api_job *job,
                          const struct result_record *result)
{
    struct spend *spend = compute(computation, job, result);
    if (spend)
        jobs_spend_keep(jobs, result, spend);
    spend_release(spend);
}

static void spend_give_up(struct jobs *jobs, const struct result_record *result)
{
    const struct eps_error error = {.status = EPS_TIMEOUT, .message = FIGURE_STUCK};
    struct spend *spend = spend_create(NULL, 0, &error);
    if (spend)
        jobs_spend_keep(jobs, result, spend);
    spend_release(spend);
}

enum handled handle_job_spend(struct request *request)
{
    static const struct figure_kind kind = {WORK_SPEND, 30, spend_missing, spend_compute, spend_give_up};
    return figure_handle(request, &kind, reply_spend, NULL);
}
