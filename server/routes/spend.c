/*
 * GET /v1/jobs/{id}/spend: epsilon at the job's delta as its training goes on, at the end of each phase and at steps
 * between, as JSON or CSV: what a trainer logs.
 *
 * SPDX-License-Identifier: GPL-3.0-or-later
 */
#include <stdlib.h>
#include <string.h>

#include "server/routes/drawing.h"

static void write_points(struct drawing *drawing, const struct eps_spend_point *points, size_t len, bool csv)
{
    struct text line = {0};
    fputs(csv ? "step,epsilon\n" : "{\"points\":[", drawing->file);
    for (size_t i = 0; i < len && !line.failed; i++) {
        line.len = 0;
        text_puts(&line, csv ? "" : i ? ",{\"step\":" : "{\"step\":");
        text_printf(&line, "%llu", (unsigned long long)points[i].step);
        text_puts(&line, csv ? "," : ",\"epsilon\":");
        text_number(&line, points[i].epsilon);
        text_puts(&line, csv ? "\n" : "}");
        fwrite(line.data, 1, line.len, drawing->file);
    }
    fputs(csv ? "" : "]}\n", drawing->file);
    if (line.failed) {
        drawing_fail(drawing, API_PROBLEM_INTERNAL, "out of memory");
    }
    text_clear(&line);
}

/* Of the answer to "count": "max" there may be no run. */
static void leave_out_unrun(struct eps_job *job)
{
    size_t kept = 0;
    for (size_t i = 0; i < job->phases_len; i++) {
        if (job->phases[i].count > 0) {
            job->phases[kept++] = job->phases[i];
        }
    }
    job->phases_len = kept;
}

/* Why there is none; NULL: ask the library. */
static const char *refusal(const struct drawing *drawing, const struct eps_job *job, bool phases)
{
    if (job->query.curve) {
        return "a job for the whole curve has no delta at which epsilon is told; post it with one";
    }
    if (!(drawing->noise_multiplier > 0)) {
        return "the job needs no noise (noise multiplier 0)";
    }
    return phases && job->phases_len == 0 ? "the only phase is never run (count is 0)" : NULL;
}

/* Called on the side pool. */
static void write_spend(struct drawing *drawing, const struct eps_context *context, struct eps_job *job)
{
    const char *type = drawing->request->route->produces[drawing->request->offer];
    struct eps_spend_point *points = NULL;
    struct eps_error error = {0};
    size_t len = 0;
    bool phases = job->phases_len > 0;
    leave_out_unrun(job);
    const char *reason = refusal(drawing, job, phases);
    if (reason) {
        drawing_fail(drawing, API_PROBLEM_CONFLICT, reason);
        return;
    }
    enum eps_status status =
        eps_spend(context, &points, &len, &error, job, drawing->noise_multiplier, drawing->result->figures.delta);
    if (status == EPS_UNSUPPORTED || status == EPS_UNATTAINABLE) {
        drawing_fail(drawing, API_PROBLEM_CONFLICT, error.message);
    } else if (drawing_ok(drawing, status, &error)) {
        write_points(drawing, points, len, strcmp(type, "text/csv") == 0);
    }
    free(points);
}

enum handled handle_job_spend(struct request *request)
{
    return drawing_start_job(request, write_spend);
}
