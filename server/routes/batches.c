/*
 * POST /v1/batches: draws the batches of a training, one line per step. The request is JSON; for multi-attribution the
 * body is application/x-ndjson, and the request is followed by one line per example with its users. A client that
 * accepts only JSON (such as curl --json) gets the lines as the items of one array.
 *
 * SPDX-License-Identifier: GPL-3.0-or-later
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <sodium.h>

#include "api/requests/batches.h"
#include "server/ops/log.h"
#include "server/routes/jobs/accounted.h"

enum { MARGIN = 128, INDEX = 11 }; /* bytes: the start or end of a line; an index with its comma */

/* The lines of a reply. */
struct lines {
    const struct streaming *streaming;
    struct api_users *users; /* or NULL */
    struct eps_batcher *batcher;
    size_t steps;           /* lines that have not begun */
    struct eps_batch batch; /* of the current line */
    size_t at;              /* the next of its indices */
    bool under_way;
    bool array;
};

static void lines_close(void *drawn)
{
    struct lines *lines = drawn;
    eps_batcher_destroy(lines->batcher);
    api_users_destroy(lines->users);
    free(lines);
}

/* ---------------------------------------------------------------- writing */

static char *put_index(char *out, uint32_t index)
{
    char digits[INDEX];
    size_t len = 0;
    do {
        digits[len++] = (char)('0' + index % 10);
        index /= 10;
    } while (index);
    while (len)
        *out++ = digits[--len];
    return out;
}

/* Writes as many indices of the line as fit, and its end if all fit. */
static char *put_indices(struct lines *lines, char *out, const char *limit)
{
    const struct eps_batch *batch = &lines->batch;
    for (; lines->at < batch->len && limit - out > MARGIN; lines->at++) {
        if (lines->at)
            *out++ = ',';
        out = put_index(out, batch->indices[lines->at]);
    }
    if (lines->at == batch->len && limit - out > MARGIN) {
        out += snprintf(out, MARGIN, "],\"truncated\":%zu}%s", batch->truncated,
                        !lines->array  ? "\n"
                        : lines->steps ? ",\n"
                                       : "\n]\n");
        lines->under_way = false;
    }
    return out;
}

static ptrdiff_t lines_make(void *drawn, char *buffer, size_t size)
{
    struct lines *lines = drawn;
    char *out = buffer;
    const char *limit = buffer + size;
    while (limit - out > 2 * MARGIN && (lines->under_way || lines->steps)) {
        struct eps_error error;
        if (lines->under_way) {
            out = put_indices(lines, out, limit);
            continue;
        }
        if (eps_batcher_next(lines->batcher, &lines->batch, &error) != EPS_OK) {
            log_event(LOG_LEVEL_ERROR, "batches", "request=%s detail=\"%s\"", lines->streaming->id, error.message);
            return STREAM_FAILED;
        }
        lines->steps--;
        lines->at = 0;
        lines->under_way = true;
        out += snprintf(out, MARGIN, "%s{\"step\":%zu,\"indices\":[",
                        lines->array && lines->batch.step == 0 ? "[\n" : "", lines->batch.step);
    }
    return out - buffer;
}

/* ---------------------------------------------------------------- reading */

static void refuse_errors(struct streaming *streaming, struct api_errors *errors)
{
    enum api_problem kind = errors->out_of_memory ? API_PROBLEM_INTERNAL : API_PROBLEM_INVALID_JOB;
    streaming_refuse(streaming, api_problem_encode(kind, NULL, streaming->request->path, errors));
}

static void refuse_text(struct streaming *streaming, const char *message)
{
    streaming_fail(streaming, message[0] ? API_PROBLEM_MALFORMED_JSON : API_PROBLEM_INTERNAL,
                   message[0] ? message : "out of memory");
}

/* Reads the users of the examples, which follow the first line. */
static bool read_users(struct streaming *streaming, struct lines *lines, const char *text, size_t len)
{
    char message[300];
    struct api_errors errors = {0};
    if (!streaming_reserve(streaming, (double)len * API_USERS_BYTES, NULL))
        return false;
    lines->users = api_users_read(&errors, message, sizeof message, text, len, 2);
    if (!lines->users && errors.len)
        refuse_errors(streaming, &errors);
    else if (!lines->users)
        refuse_text(streaming, message);
    api_errors_clear(&errors);
    return lines->users;
}

static bool read_request(struct streaming *streaming, struct api_batches *batches, const char *text, size_t len,
                         uint64_t lists)
{
    char message[256];
    struct api_errors errors = {0};
    json_t *json = api_json_parse(text, len, message, sizeof message);
    bool read = json && api_batches_decode(batches, &errors, json, lists, (size_t)streaming->server->config->max_n);
    if (!json)
        refuse_text(streaming, message);
    else if (!read)
        refuse_errors(streaming, &errors);
    api_errors_clear(&errors);
    json_decref(json);
    return read;
}

/* Reads the sampling of the job that the request names, if it names one. */
static bool find_source(struct streaming *streaming, struct api_batches *batches, uint64_t lists)
{
    struct api_errors errors = {0};
    struct accounted accounted;
    if (!batches->job[0]) {
        if (request_phase(streaming->request) != NO_PHASE) {
            api_errors_add(&errors, "?phase", "requires job, a job with phases; remove it");
            refuse_errors(streaming, &errors);
            api_errors_clear(&errors);
            return false;
        }
        return true;
    }
    bool found = accounted_find(streaming, &accounted, batches->job, "batches");
    bool right = found && api_batches_of_job(batches, &errors, &accounted.answered.mechanism, lists);
    if (found && !right)
        refuse_errors(streaming, &errors);
    api_errors_clear(&errors);
    accounted_clear(&accounted);
    return right;
}

/* Whether the number of examples is within the limit. */
static bool affordable(struct streaming *streaming, const struct api_batches *batches, const struct eps_users *users)
{
    struct eps_error error = {.status = EPS_TOO_COSTLY};
    double most = streaming->server->config->max_operations;
    eps_batches_cost(&batches->mechanism, batches->dataset_size, users, &error.operations, &error.bytes);
    if (error.operations > most) {
        snprintf(error.message, sizeof error.message,
                 "the batches contain an estimated %.3g examples, which exceeds the limit of %.3g (--max-operations)",
                 error.operations, most);
        streaming_refuse(streaming, api_problem_of_error(&error, streaming->request->path));
        return false;
    }
    return streaming_reserve(streaming, error.bytes, NULL);
}

static bool open_batcher(struct streaming *streaming, struct lines *lines, const struct api_batches *batches)
{
    uint8_t key[32];
    struct eps_error error = {0};
    const struct eps_users *users = lines->users ? api_users_get(lines->users) : NULL;
    if (!affordable(streaming, batches, users))
        return false;
    streaming_key(streaming, key, batches->seed, "batches");
    enum eps_status status =
        eps_batcher_create(&lines->batcher, &error, &batches->mechanism, batches->dataset_size, users, key);
    sodium_memzero(key, sizeof key);
    if (status != EPS_OK)
        streaming_refuse(streaming, api_problem_of_error(&error, streaming->request->path));
    lines->steps = batches->mechanism.n;
    return status == EPS_OK;
}

/* On the side pool. */
static void *lines_open(struct streaming *streaming)
{
    const struct request *request = streaming->request;
    const char *body = request->body ? request->body : "";
    const char *end = request->lines ? memchr(body, '\n', request->body_len) : NULL;
    size_t first = end ? (size_t)(end - body) : request->body_len;
    size_t rest = end ? request->body_len - first - 1 : 0;
    struct api_batches batches;
    struct lines *lines = calloc(1, sizeof *lines);
    if (!lines) {
        streaming_fail(streaming, API_PROBLEM_INTERNAL, "out of memory");
        return NULL;
    }
    lines->streaming = streaming;
    lines->array = request->offer == 1;
    bool read = !rest || read_users(streaming, lines, end + 1, rest);
    uint64_t lists = lines->users ? api_users_examples(lines->users) : 0;
    if (read && read_request(streaming, &batches, body, first, lists) && find_source(streaming, &batches, lists) &&
        open_batcher(streaming, lines, &batches))
        return lines;
    lines_close(lines);
    return NULL;
}

enum handled handle_batches_post(struct request *request)
{
    static const struct streaming_kind kind = {lines_open, lines_make, lines_close};
    return streaming_start(request, &kind);
}
