/*
 * GET /v1/jobs/{id}/error: the variance of A C^-1 z at each step, at the noise multiplier of the job, as JSON or CSV.
 * result.error has its mean, its maximum and its last value.
 *
 * SPDX-License-Identifier: GPL-3.0-or-later
 */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "server/routes/jobs/drawing.h"

static void write_json(struct drawing *drawing, const double *variance, size_t n)
{
    fputs("{\"noise_multiplier\":", drawing->file);
    struct text text = {0};
    text_number(&text, drawing->noise_multiplier);
    fwrite(text.data, 1, text.len, drawing->file);
    text_clear(&text);
    fputs(",\"variance\":", drawing->file);
    drawing_numbers(drawing->file, variance, n);
    fputs("}\n", drawing->file);
}

static void write_csv(struct drawing *drawing, const double *variance, size_t n)
{
    struct text line = {0};
    fputs("step,variance\n", drawing->file);
    for (size_t i = 0; i < n && !line.failed; i++) {
        line.len = 0;
        text_printf(&line, "%zu,", i);
        text_number(&line, variance[i]);
        text_puts(&line, "\n");
        fwrite(line.data, 1, line.len, drawing->file);
    }
    if (line.failed)
        drawing_fail(drawing, API_PROBLEM_INTERNAL, "out of memory");
    text_clear(&line);
}

/* On the side pool. */
static void write_error(struct drawing *drawing, const struct eps_context *context, const struct eps_strategy *strategy)
{
    struct eps_error error = {0};
    size_t n = eps_strategy_columns(strategy);
    double *variance = malloc(n * sizeof *variance);
    if (!variance) {
        drawing_fail(drawing, API_PROBLEM_INTERNAL, "out of memory");
        return;
    }
    if (drawing_ok(drawing, eps_strategy_variance(context, strategy, variance, &error), &error)) {
        bool finite = true;
        for (size_t i = 0; i < n; i++) {
            variance[i] *= drawing->noise_multiplier * drawing->noise_multiplier;
            finite = finite && isfinite(variance[i]);
        }
        if (!finite)
            drawing_fail(drawing, API_PROBLEM_UNSUPPORTED, "the variances exceed the range of a double");
        else if (strcmp(drawing->request->route->produces[drawing->request->offer], "text/csv") == 0)
            write_csv(drawing, variance, n);
        else
            write_json(drawing, variance, n);
    }
    free(variance);
}

enum handled handle_job_error(struct request *request)
{
    return drawing_start(request, write_error, EPS_PART_DECODER);
}
