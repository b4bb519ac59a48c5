/*
 * GET /v1/jobs/{id}/matrix: C, B = A C^-1 or C^-1, as JSON or in the NumPy format. A Toeplitz part is represented by
 * its first column, other parts by rows; C also by its bands. See drawing.h for threads and files.
 *
 * SPDX-License-Identifier: GPL-3.0-or-later
 */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "server/routes/jobs/answered.h"
#include "server/routes/jobs/drawing.h"
#include "server/routes/npy.h"

#define JSON_ROWS_MAX 512    /* for a part that is not Toeplitz */
#define JSON_NUMBER_BYTES 25 /* at most, including a comma */

static bool npy(const struct drawing *drawing)
{
    return drawing->request->offer == 1;
}

static void write_npy_header(FILE *file, size_t rows, size_t columns)
{
    char header[NPY_HEADER];
    npy_header(header, sizeof header, "<f8", rows, columns);
    fwrite(header, 1, sizeof header, file);
}

/* The first column of a part; NULL with *status if it is not Toeplitz or not defined. */
static double *first_column(const struct eps_strategy *strategy, enum eps_part part, size_t n, enum eps_status *status,
                            struct eps_error *error)
{
    double *column = malloc(n * sizeof *column);
    if (!column) {
        *status = EPS_NO_MEMORY;
        *error = (struct eps_error){.status = EPS_NO_MEMORY, .message = "out of memory"};
        return NULL;
    }
    *status = eps_strategy_coefficients(strategy, column, error, part, n);
    if (*status != EPS_OK) {
        free(column);
        return NULL;
    }
    return column;
}

/* Writes a Toeplitz part. Returns false if this part is not Toeplitz and must be written by rows. */
static bool write_toeplitz(struct drawing *drawing, const struct eps_strategy *strategy)
{
    enum eps_status status = EPS_UNSUPPORTED;
    struct eps_error error = {0};
    size_t n = eps_strategy_columns(strategy);
    double *column =
        eps_strategy_is_toeplitz(strategy) ? first_column(strategy, drawing->part, n, &status, &error) : NULL;
    if (!column)
        return status == EPS_UNSUPPORTED ? false : !drawing_ok(drawing, status, &error);
    if (npy(drawing)) {
        write_npy_header(drawing->file, n, 0);
        fwrite(column, sizeof *column, n, drawing->file);
        free(column);
        return true;
    }
    fprintf(drawing->file, "{\"part\":\"%s\",\"coefficients\":", eps_part_name(drawing->part));
    drawing_numbers(drawing->file, column, n);
    free(column);
    column = first_column(strategy, EPS_PART_NOISE, n, &status, &error);
    if (column) {
        fputs(",\"inverse_coefficients\":", drawing->file);
        drawing_numbers(drawing->file, column, n);
    }
    fputs("}\n", drawing->file);
    free(column);
    return true;
}

static void write_row(struct drawing *drawing, const double *row, size_t index, size_t columns)
{
    if (npy(drawing)) {
        fwrite(row, sizeof *row, columns, drawing->file);
    } else {
        fputs(index ? "," : "", drawing->file);
        drawing_numbers(drawing->file, row, columns);
    }
}

/* What is written row by row: a part, or C by its bands. */
struct table {
    const char *name; /* of the rows in JSON */
    size_t rows, columns;
    enum eps_status (*row)(const struct eps_strategy *strategy, double *out, struct eps_error *error,
                           enum eps_part part, size_t row);
};

static void write_table(struct drawing *drawing, const struct eps_strategy *strategy, const struct table *table)
{
    const double number_bytes = npy(drawing) ? sizeof(double) : JSON_NUMBER_BYTES;
    struct eps_error error = {0};
    if ((double)table->rows * (double)table->columns * number_bytes >
        (double)drawing->request->server->config->max_bytes) {
        drawing_fail(drawing, API_PROBLEM_TOO_COSTLY, "the size of the matrix exceeds --max-bytes");
        return;
    }
    double *row = malloc(table->columns * sizeof *row);
    if (!row) {
        drawing_fail(drawing, API_PROBLEM_INTERNAL, "out of memory");
        return;
    }
    if (npy(drawing))
        write_npy_header(drawing->file, table->rows, table->columns);
    else
        fprintf(drawing->file, "{\"part\":\"%s\",\"%s\":[", eps_part_name(drawing->part), table->name);
    for (size_t i = 0; i < table->rows && !drawing->problem; i++) {
        if (drawing_ok(drawing, table->row(strategy, row, &error, drawing->part, i), &error))
            write_row(drawing, row, i, table->columns);
        if (drawing_stopping(drawing))
            drawing_fail(drawing, API_PROBLEM_QUEUE_FULL, "the service is stopping");
    }
    fputs(npy(drawing) ? "" : "]}\n", drawing->file);
    free(row);
}

static void write_rows(struct drawing *drawing, const struct eps_strategy *strategy)
{
    struct eps_error error = {0};
    struct table table = {.name = "rows", .row = eps_strategy_row};
    if (!drawing_ok(drawing, eps_strategy_shape(strategy, &error, drawing->part, &table.rows, &table.columns), &error))
        return;
    if (!npy(drawing) && table.rows > JSON_ROWS_MAX) {
        drawing_fail(drawing, API_PROBLEM_NOT_ACCEPTABLE,
                     "JSON is limited to n = 512 for a matrix that is not Toeplitz; accept application/x-npy, or use "
                     "?form=bands for a banded C");
        return;
    }
    write_table(drawing, strategy, &table);
}

static enum eps_status band_row(const struct eps_strategy *strategy, double *out, struct eps_error *error,
                                enum eps_part part, size_t row)
{
    (void)part;
    return eps_strategy_band_row(strategy, out, error, row);
}

/* On the side pool. */
static void write_bands(struct drawing *drawing, const struct eps_context *context, const struct eps_strategy *strategy)
{
    const struct table table = {"bands", eps_strategy_columns(strategy), eps_strategy_bands(strategy), band_row};
    (void)context;
    write_table(drawing, strategy, &table);
}

/* On the side pool. */
static void write_matrix(struct drawing *drawing, const struct eps_context *context,
                         const struct eps_strategy *strategy)
{
    (void)context;
    if (!write_toeplitz(drawing, strategy))
        write_rows(drawing, strategy);
}

/* EPS_PART_COUNT: there is no part with this name. */
static enum eps_part part_named(const char *name)
{
    int part = 0;
    while (part < EPS_PART_COUNT && strcmp(eps_part_name((enum eps_part)part), name) != 0)
        part++;
    return (enum eps_part)part;
}

static bool is_part(const char *value)
{
    return part_named(value) < EPS_PART_COUNT;
}

static bool is_form(const char *value)
{
    return strcmp(value, "bands") == 0;
}

const struct query_member matrix_query[] = {
    {"part", is_part, "must be encoder, decoder or noise", NULL},
    {"form", is_form, "must be bands, or absent", NULL},
    {"phase", query_is_phase, PHASE_MUST, NULL},
    {0},
};

enum handled handle_job_matrix(struct request *request)
{
    const char *name = request_query(request, "part");
    const char *form = request_query(request, "form");
    enum eps_part part = name ? part_named(name) : EPS_PART_ENCODER;
    if (form && part != EPS_PART_ENCODER) {
        return reply_problem(request, API_PROBLEM_INVALID_JOB,
                             "?form=bands requires ?part=encoder: the inverse of a banded matrix has no bands");
    }
    return drawing_start(request, form ? write_bands : write_matrix, part);
}
