/*
 * GET /v1/jobs/{id}/matrix. Building a strategy and its inverse is computing, so a worker does it and writes the
 * representation to an unlinked file beside the database, row by row; the connection, suspended meanwhile, then
 * gets the file. So memory stays bounded whatever n is, the length is known, and an error in the middle is still a
 * problem document.
 *
 * SPDX-License-Identifier: GPL-3.0-or-later
 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "server/http/wait.h"
#include "server/jobs/compute.h"
#include "server/jobs/jobs.h"
#include "server/routes/routes.h"

#define JSON_ROWS_MAX 512 /* of a part that is not Toeplitz */
#define NPY_HEADER 128    /* bytes, a multiple of 64 as the format asks */

struct drawing {
    struct pool_task task;
    struct request *request;
    char *job_text;
    enum eps_part part;
    bool npy;
    FILE *file; /* NULL once it failed or was handed over */
    uint64_t len;
    json_t *problem;
};

static void drawing_free(void *state)
{
    struct drawing *drawing = state;
    if (drawing->file) {
        fclose(drawing->file);
    }
    json_decref(drawing->problem);
    free(drawing->job_text);
    free(drawing);
}

static void drawing_fail(struct drawing *drawing, enum api_problem problem, const char *detail)
{
    if (!drawing->problem) {
        drawing->problem = api_problem_encode(problem, detail, drawing->request->path, NULL);
    }
}

/* Turns an error of the library into the reply; true if there was none. */
static bool drawing_ok(struct drawing *drawing, enum eps_status status, const struct eps_error *error)
{
    if (status == EPS_OK) {
        return true;
    }
    if (!drawing->problem) {
        drawing->problem = api_problem_of_error(error, drawing->request->path);
    }
    return false;
}

static FILE *spool_open(const char *database)
{
    struct text name = {0};
    text_printf(&name, "%s.XXXXXX", database);
    int fd = name.failed ? -1 : mkostemp(name.data, 0);
    FILE *file = fd < 0 ? NULL : fdopen(fd, "w+");
    if (fd >= 0) {
        unlink(name.data);
    }
    if (fd >= 0 && !file) {
        close(fd);
    }
    text_clear(&name);
    return file;
}

/* ---------------------------------------------------------------- writing */

static void write_numbers(FILE *file, const double *values, size_t len)
{
    struct text text = {0};
    fputc('[', file);
    for (size_t i = 0; i < len; i++) {
        text.len = 0;
        text_puts(&text, i ? "," : "");
        text_number(&text, values[i]);
        fwrite(text.data, 1, text.len, file);
    }
    fputc(']', file);
    text_clear(&text);
}

/* NumPy's format, version 1: magic, the length of the header, the header padded with spaces, float64 by rows. */
static void write_npy_header(FILE *file, size_t rows, size_t columns)
{
    char header[NPY_HEADER - 10];
    char shape[64];
    snprintf(shape, sizeof shape, columns ? "(%zu, %zu)" : "(%zu,)", rows, columns);
    int len = snprintf(header, sizeof header, "{'descr': '<f8', 'fortran_order': False, 'shape': %s, }", shape);
    memset(header + len, ' ', sizeof header - (size_t)len);
    header[sizeof header - 1] = '\n';
    const unsigned char magic[10] = {0x93, 'N', 'U', 'M', 'P', 'Y', 1, 0, sizeof header, 0};
    fwrite(magic, 1, sizeof magic, file);
    fwrite(header, 1, sizeof header, file);
}

/* The first column of a part; NULL with *status where it has none (it is not Toeplitz, or not defined). */
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

/* Toeplitz. False: this part is not, so it goes by rows. */
static bool write_toeplitz(struct drawing *drawing, const struct eps_strategy *strategy)
{
    enum eps_status status = EPS_UNSUPPORTED;
    struct eps_error error = {0};
    size_t n = eps_strategy_columns(strategy);
    double *column =
        eps_strategy_is_toeplitz(strategy) ? first_column(strategy, drawing->part, n, &status, &error) : NULL;
    if (!column) {
        return status == EPS_UNSUPPORTED ? false : !drawing_ok(drawing, status, &error);
    }
    if (drawing->npy) {
        write_npy_header(drawing->file, n, 0);
        fwrite(column, sizeof *column, n, drawing->file);
        free(column);
        return true;
    }
    fprintf(drawing->file, "{\"part\":\"%s\",\"coefficients\":", eps_part_name(drawing->part));
    write_numbers(drawing->file, column, n);
    free(column);
    column = first_column(strategy, EPS_PART_NOISE, n, &status, &error);
    if (column) {
        fputs(",\"inverse_coefficients\":", drawing->file);
        write_numbers(drawing->file, column, n);
    }
    fputs("}\n", drawing->file);
    free(column);
    return true;
}

static bool canceled(void *user)
{
    struct drawing *drawing = user;
    return jobs_stopping(drawing->request->server->jobs);
}

static void write_row(struct drawing *drawing, const double *row, size_t index, size_t columns)
{
    if (drawing->npy) {
        fwrite(row, sizeof *row, columns, drawing->file);
    } else {
        fputs(index ? "," : "", drawing->file);
        write_numbers(drawing->file, row, columns);
    }
}

static void write_rows(struct drawing *drawing, const struct eps_strategy *strategy)
{
    const struct config *config = drawing->request->server->config;
    struct eps_error error = {0};
    size_t rows;
    size_t columns;
    if (!drawing_ok(drawing, eps_strategy_shape(strategy, &error, drawing->part, &rows, &columns), &error)) {
        return;
    }
    if (!drawing->npy && rows > JSON_ROWS_MAX) {
        drawing_fail(drawing, API_PROBLEM_NOT_ACCEPTABLE,
                     "a matrix that is not Toeplitz is JSON up to n = 512; accept application/x-npy");
        return;
    }
    if ((double)rows * (double)columns * sizeof(double) > (double)config->max_bytes) {
        drawing_fail(drawing, API_PROBLEM_TOO_COSTLY, "the matrix has more bytes than --max-bytes");
        return;
    }
    double *row = malloc(columns * sizeof *row);
    if (!row) {
        drawing_fail(drawing, API_PROBLEM_INTERNAL, "out of memory");
        return;
    }
    if (drawing->npy) {
        write_npy_header(drawing->file, rows, columns);
    } else {
        fprintf(drawing->file, "{\"part\":\"%s\",\"rows\":[", eps_part_name(drawing->part));
    }
    for (size_t i = 0; i < rows && !drawing->problem; i++) {
        if (drawing_ok(drawing, eps_strategy_row(strategy, row, &error, drawing->part, i), &error)) {
            write_row(drawing, row, i, columns);
        }
        if (canceled(drawing)) {
            drawing_fail(drawing, API_PROBLEM_QUEUE_FULL, "the service is stopping");
        }
    }
    fputs(drawing->npy ? "" : "]}\n", drawing->file);
    free(row);
}

static void draw(struct drawing *drawing, const struct api_job *job)
{
    const struct config *config = drawing->request->server->config;
    struct eps_strategy *strategy = NULL;
    struct eps_error error = {0};
    struct computation computation = {
        .config = config,
        .pool = drawing->request->server->pool,
        .store = drawing->request->server->store,
        .deadline = config->max_seconds > 0 ? clock_monotonic() + config->max_seconds : INFINITY,
        .canceled = canceled,
        .user = drawing,
        .mutex = PTHREAD_MUTEX_INITIALIZER,
    };
    struct eps_context context = computation_context(&computation);
    if (drawing_ok(drawing, eps_strategy_create(&context, &strategy, &error, &job->job.mechanism), &error) &&
        !write_toeplitz(drawing, strategy)) {
        write_rows(drawing, strategy);
    }
    eps_strategy_destroy(strategy);
    free(computation.uses);
}

/* On a worker. */
static void draw_task(struct pool_task *task)
{
    struct drawing *drawing = (struct drawing *)(void *)((char *)task - offsetof(struct drawing, task));
    struct server *server = drawing->request->server;
    struct api_errors errors = {0};
    char message[256];
    jobs_unreserve(server->jobs, 0);
    drawing->file = spool_open(server->config->db);
    json_t *json = api_json_parse(drawing->job_text, strlen(drawing->job_text), message, sizeof message);
    struct api_job *job = json ? api_job_decode(&errors, json, (size_t)server->config->max_n) : NULL;
    if (!drawing->file) {
        drawing_fail(drawing, API_PROBLEM_INTERNAL, "no temporary file could be made beside the database");
    } else if (!job) {
        drawing_fail(drawing, API_PROBLEM_INTERNAL, "the stored job cannot be read");
    } else {
        draw(drawing, job);
        if (fflush(drawing->file) != 0 || ferror(drawing->file)) {
            drawing_fail(drawing, API_PROBLEM_INTERNAL, "the temporary file could not be written");
        }
        drawing->len = (uint64_t)ftello(drawing->file);
    }
    api_errors_clear(&errors);
    api_job_destroy(job);
    json_decref(json);
    request_resume(drawing->request);
}

/* ---------------------------------------------------------------- the request */

static enum handled matrix_resume(struct request *request)
{
    struct drawing *drawing = request->state;
    if (drawing->problem) {
        json_t *problem = drawing->problem;
        drawing->problem = NULL;
        return reply_problem_json(request, problem);
    }
    int fd = dup(fileno(drawing->file));
    if (fd < 0) {
        return reply_problem(request, API_PROBLEM_INTERNAL, "out of file descriptors");
    }
    reply_header(request, MHD_HTTP_HEADER_VARY, "Accept");
    return reply_file(request, request->route->produces[request->offer], fd, drawing->len);
}

static bool read_part(const struct request *request, enum eps_part *part)
{
    const char *name = request_query(request, "part");
    *part = EPS_PART_ENCODER;
    for (int i = 0; name && i < EPS_PART_COUNT; i++) {
        if (strcmp(eps_part_name((enum eps_part)i), name) == 0) {
            *part = (enum eps_part)i;
            return true;
        }
    }
    return !name;
}

enum handled handle_job_matrix(struct request *request)
{
    struct job_record record;
    struct result_record *result;
    enum handled handled;
    enum eps_part part;
    if (!read_part(request, &part)) {
        return reply_problem(request, API_PROBLEM_INVALID_JOB, "?part must be encoder, decoder or noise");
    }
    if (!read_succeeded(request, &record, &result, &handled)) {
        return handled;
    }
    result_record_release(result);
    memcpy(request->job, record.id, UUID_SIZE);
    struct drawing *drawing = calloc(1, sizeof *drawing);
    if (!drawing) {
        job_record_clear(&record);
        return reply_problem(request, API_PROBLEM_INTERNAL, "out of memory");
    }
    request->state = drawing;
    request->state_free = drawing_free;
    drawing->request = request;
    drawing->task.run = draw_task;
    drawing->part = part;
    drawing->npy = request->offer == 1;
    drawing->job_text = record.job;
    record.job = NULL;
    job_record_clear(&record);
    if (!jobs_reserve(request->server->jobs, 0)) {
        return reply_problem(request, API_PROBLEM_QUEUE_FULL, "as many jobs wait as may wait; ask again later");
    }
    if (!request_suspend(request, matrix_resume)) {
        jobs_unreserve(request->server->jobs, 0);
        return reply_stopping(request);
    }
    pool_submit(request->server->pool, &drawing->task);
    return HANDLED_SUSPENDED;
}
