/*
 * POST /v1/noise: rows of C^-1 z or of B z, in NumPy's format or a line a step; who accepts JSON alone (as curl --json
 * does) gets an array of these lines. C is what a job was accounted with, by its factorization.id, or a stored
 * factorisation: the request names no family, so that what is drawn is what was accounted.
 *
 * The key is drawn for this reply alone. It is wiped with the stream, and nothing of it is logged or stored.
 *
 * SPDX-License-Identifier: GPL-3.0-or-later
 */
#include <inttypes.h>
#include <math.h>
#include <sodium.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "api/noise.h"
#include "server/jobs/compute.h"
#include "server/routes/accounted.h"
#include "server/routes/npy.h"

enum { TOKEN = 64 }; /* bytes: a number with its comma, a line's beginning or end */

enum form { FORM_NPY, FORM_LINES, FORM_ARRAY }; /* in the order of the route's media types */

/* The rows of a reply. */
struct rows {
    struct streaming *streaming;
    struct eps_strategy *strategy;
    struct eps_noise *noise;
    enum api_dtype dtype;
    enum form form;
    size_t n, dimensions;
    size_t row;     /* rows begun */
    size_t at;      /* coordinates written of the one under way */
    bool header;    /* is written */
    bool under_way; /* a row is: its end is not written */
    double *values; /* of the row, `dimensions` numbers */
};

static void rows_close(void *drawn)
{
    struct rows *rows = drawn;
    eps_noise_destroy(rows->noise);
    eps_strategy_destroy(rows->strategy);
    free(rows->values);
    free(rows);
}

/* ---------------------------------------------------------------- writing */

static bool on_canceled(void *user)
{
    return streaming_unwanted(user);
}

/* The next row, each of its numbers as it is written. */
static bool begin_row(struct rows *rows)
{
    struct eps_context context = {.user = rows->streaming, .canceled = on_canceled};
    struct eps_error error = {0};
    enum eps_status status = eps_noise_row(&context, rows->noise, rows->values, &error);
    bool finite = true;
    for (size_t i = 0; i < rows->dimensions && status == EPS_OK; i++) {
        finite = finite && isfinite(rows->dtype == API_FLOAT32 ? (double)(float)rows->values[i] : rows->values[i]);
    }
    if (status != EPS_OK && status != EPS_CANCELED) {
        log_event(LOG_LEVEL_ERROR, "noise", "detail=\"%s\"", error.message);
    } else if (!finite) {
        log_event(LOG_LEVEL_ERROR, "noise", "detail=\"step %zu is beyond what %s holds\"", rows->row,
                  api_dtype_name(rows->dtype));
    }
    rows->at = 0;
    rows->row++;
    rows->under_way = true;
    return status == EPS_OK && finite;
}

static size_t put_binary(struct rows *rows, char *out, size_t size)
{
    size_t bytes = rows->dtype == API_FLOAT32 ? sizeof(float) : sizeof(double);
    size_t left = rows->dimensions - rows->at, count = size / bytes < left ? size / bytes : left;
    for (size_t i = 0; i < count; i++) {
        double value = rows->values[rows->at + i];
        float narrow = (float)value;
        memcpy(out + i * bytes, rows->dtype == API_FLOAT32 ? (const void *)&narrow : &value, bytes);
    }
    rows->at += count;
    rows->under_way = rows->at < rows->dimensions;
    return count * bytes;
}

/* Decimals that read back as the same number of the dtype. */
static size_t put_text(struct rows *rows, char *out, size_t size)
{
    size_t len = 0;
    if (rows->at == 0) {
        const char *before = rows->form == FORM_LINES ? "" : rows->row == 1 ? "[" : ",";
        len += (size_t)snprintf(out, TOKEN, "%s{\"step\":%zu,\"values\":[", before, rows->row - 1);
    }
    for (; rows->at < rows->dimensions && size - len >= TOKEN; rows->at++) {
        double value = rows->values[rows->at];
        len += (size_t)snprintf(out + len, TOKEN, "%s%.*g", rows->at ? "," : "", rows->dtype == API_FLOAT32 ? 9 : 17,
                                rows->dtype == API_FLOAT32 ? (double)(float)value : value);
    }
    if (rows->at == rows->dimensions && size - len >= TOKEN) {
        const char *after = rows->form == FORM_ARRAY && rows->row == rows->n ? "]" : "";
        len += (size_t)snprintf(out + len, TOKEN, "]}%s\n", after);
        rows->under_way = false;
    }
    return len;
}

static ptrdiff_t rows_make(void *drawn, char *buffer, size_t size)
{
    struct rows *rows = drawn;
    size_t len = 0;
    if (!rows->header && rows->form == FORM_NPY) {
        npy_header(buffer, rows->dtype == API_FLOAT32 ? "<f4" : "<f8", rows->n, rows->dimensions);
        len = NPY_HEADER;
    }
    rows->header = true;
    while (size - len >= 2 * TOKEN && (rows->under_way || rows->row < rows->n)) {
        if (!rows->under_way && !begin_row(rows)) {
            return STREAM_FAILED;
        }
        len += (rows->form == FORM_NPY ? put_binary : put_text)(rows, buffer + len, size - len);
    }
    return (ptrdiff_t)len;
}

/* ---------------------------------------------------------------- reading */

static bool refuse_errors(struct streaming *streaming, struct api_errors *errors)
{
    enum api_problem kind = errors->out_of_memory ? API_PROBLEM_INTERNAL : API_PROBLEM_INVALID_JOB;
    streaming_refuse(streaming, api_problem_encode(kind, NULL, streaming->request->path, errors));
    return false;
}

/* True where there was no error. Pointers are into the request: what it does not have, it cannot be told to change. */
static bool passes(struct streaming *streaming, enum eps_status status, struct eps_error *error)
{
    if (status == EPS_OK) {
        return true;
    }
    if (strncmp(error->pointer, "/matrix", strlen("/matrix")) == 0 || strcmp(error->pointer, "/n") == 0) {
        error->pointer[0] = '\0';
    }
    if (status == EPS_CANCELED) { /* or the client is gone, and reads no reply */
        streaming_fail(streaming, API_PROBLEM_QUEUE_FULL, "the service is stopping; ask again when it is back");
    } else {
        streaming_refuse(streaming, api_problem_of_error(error, streaming->request->path));
    }
    return false;
}

static struct api_noise *read_request(struct streaming *streaming)
{
    const struct request *request = streaming->request;
    char message[256];
    struct api_errors errors = {0};
    json_t *json = api_json_parse(request->body ? request->body : "", request->body_len, message, sizeof message);
    struct api_noise *noise = json ? api_noise_decode(&errors, json) : NULL;
    if (!json) {
        streaming_fail(streaming, message[0] ? API_PROBLEM_MALFORMED_JSON : API_PROBLEM_INTERNAL,
                       message[0] ? message : "out of memory");
    } else if (!noise) {
        refuse_errors(streaming, &errors);
    }
    api_errors_clear(&errors);
    json_decref(json);
    return noise;
}

/* ---------------------------------------------------------------- which C */

static bool find_factorization(struct streaming *streaming, const struct eps_context *context, struct accounted *source,
                               const struct api_noise *noise)
{
    struct api_errors errors = {0};
    struct eps_job job;
    struct eps_mechanism *mechanism = &job.mechanism;
    if (request_phase(streaming->request) != NO_PHASE) {
        api_errors_add(&errors, "?phase", "goes with a job of phases, not with a factorization: leave it out");
        refuse_errors(streaming, &errors);
        api_errors_clear(&errors);
        return false;
    }
    eps_job_init(&job);
    mechanism->workload = noise->workload;
    if (eps_stored_mechanism(context, mechanism, NULL, noise->factorization) != EPS_OK) {
        streaming_fail(streaming, API_PROBLEM_NOT_FOUND,
                       "no factorisation of this id is kept: take factorization.id from a job that is");
        return false;
    }
    eps_job_defaults(&job);
    source->answered = (struct answered){.mechanism = *mechanism, .noise_multiplier = NAN, .count = 1};
    memcpy(source->answered.factorization, noise->factorization, sizeof source->answered.factorization);
    bool right = api_noise_check_workload(&errors, noise, mechanism->n) || refuse_errors(streaming, &errors);
    api_errors_clear(&errors);
    return right;
}

/* The very C that was accounted, or none. */
static bool create_strategy(struct streaming *streaming, const struct eps_context *context, struct rows *rows,
                            const struct accounted *source)
{
    struct eps_error error = {0};
    if (!passes(streaming,
                computation_strategy(context, &rows->strategy, &error, &source->answered.mechanism,
                                     source->answered.factorization),
                &error)) {
        return false;
    }
    if (strcmp(eps_strategy_id(rows->strategy), source->answered.factorization) != 0) {
        streaming_fail(streaming, API_PROBLEM_CONFLICT,
                       "the factorisation that this job was accounted with is no longer kept, and computing it again "
                       "gives another: post the job again, and draw for the new one");
        return false;
    }
    return true;
}

/* ---------------------------------------------------------------- opening */

/* The bytes of a stream of so many coordinates; INFINITY where it is not to be had. */
static double bytes_of(const struct eps_context *context, const struct rows *rows, const struct api_noise *asked,
                       size_t dimensions)
{
    double bytes;
    struct eps_error error;
    enum eps_status status = eps_noise_cost(context, &error, rows->strategy, asked->part, dimensions, NULL, &bytes);
    return status == EPS_OK ? bytes + (double)sizeof *rows + (double)dimensions * sizeof(double) : INFINITY;
}

/* Counts the bytes of the stream and of its row. What is too much is told with the number of coordinates that is not. */
static bool reserve(struct streaming *streaming, const struct eps_context *context, const struct rows *rows,
                    const struct api_noise *asked)
{
    double bytes = bytes_of(context, rows, asked, asked->dimensions);
    char part[160] = "no part of it takes so little";
    if (!streaming_fits(streaming, bytes)) {
        size_t fits = 0, above = asked->dimensions;
        while (above - fits > 1 && above - fits > fits / 16) {
            size_t middle = fits + (above - fits) / 2;
            *(streaming_fits(streaming, bytes_of(context, rows, asked, middle)) ? &fits : &above) = middle;
        }
        if (fits) {
            snprintf(part, sizeof part,
                     "ask for %zu dimensions at a time: coordinates are independent, and several requests are as good",
                     fits);
        }
    }
    return streaming_reserve(streaming, bytes, part);
}

static bool create_noise(struct streaming *streaming, const struct eps_context *context, struct rows *rows,
                         const struct api_noise *asked, double noise_multiplier)
{
    uint8_t key[32];
    struct eps_error error = {0};
    if (!passes(streaming, eps_noise_cost(context, &error, rows->strategy, asked->part, asked->dimensions, NULL, NULL),
                &error) ||
        !reserve(streaming, context, rows, asked)) {
        return false;
    }
    rows->values = malloc(asked->dimensions * sizeof(double));
    if (!rows->values) {
        streaming_fail(streaming, API_PROBLEM_INTERNAL, "out of memory");
        return false;
    }
    streaming_key(streaming, key, asked->seed, "noise");
    enum eps_status status = eps_noise_create(context, &rows->noise, &error, rows->strategy, asked->part,
                                              noise_multiplier, asked->dimensions, key);
    sodium_memzero(key, sizeof key);
    return passes(streaming, status, &error);
}

static struct rows *rows_create(struct streaming *streaming, const struct api_noise *asked)
{
    struct rows *rows = calloc(1, sizeof *rows);
    if (!rows) {
        streaming_fail(streaming, API_PROBLEM_INTERNAL, "out of memory");
        return NULL;
    }
    rows->streaming = streaming;
    rows->dtype = asked->dtype;
    rows->dimensions = asked->dimensions;
    rows->form = (enum form)streaming->request->offer;
    return rows;
}

/* All that takes the database and the library. */
static bool rows_fill(struct streaming *streaming, const struct eps_context *context, struct rows *rows,
                      const struct api_noise *asked)
{
    struct accounted source = {.decoded = NULL};
    bool found = asked->job[0] ? accounted_find(streaming, &source, asked->job, "noise")
                               : find_factorization(streaming, context, &source, asked);
    double multiplier = isnan(asked->noise_multiplier) ? source.answered.noise_multiplier : asked->noise_multiplier;
    bool filled = found && create_strategy(streaming, context, rows, &source) &&
                  create_noise(streaming, context, rows, asked, multiplier);
    accounted_clear(&source);
    rows->n = filled ? eps_strategy_columns(rows->strategy) : 0;
    return filled;
}

/* On the side pool. */
static void *rows_open(struct streaming *streaming)
{
    const struct config *config = streaming->server->config;
    struct api_noise *asked = read_request(streaming);
    struct rows *rows = asked ? rows_create(streaming, asked) : NULL;
    if (rows) {
        struct computation computation;
        computation_open(&computation, streaming->server, NULL,
                         config->max_seconds > 0 ? fmin(config->max_seconds, WAIT_MAX_SECONDS) : WAIT_MAX_SECONDS);
        computation.canceled = on_canceled;
        computation.user = streaming;
        computation.job = asked->job[0] ? asked->job : NULL;
        struct eps_context context = computation_context(&computation);
        if (!rows_fill(streaming, &context, rows, asked)) {
            rows_close(rows);
            rows = NULL;
        }
        computation_close(&computation);
    }
    api_noise_destroy(asked);
    return rows;
}

enum handled handle_noise_post(struct request *request)
{
    static const struct streaming_kind kind = {rows_open, rows_make, rows_close};
    return streaming_start(request, &kind);
}
