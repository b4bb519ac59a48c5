/*
 * Replies and problem documents. All responses are queued here, so that headers, conditional requests and log lines are
 * the same everywhere.
 *
 * SPDX-License-Identifier: GPL-3.0-or-later
 */
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "server/http/request.h"
#include "server/ops/document.h"
#include "server/ops/log.h"
#include "server/ops/metrics.h"

#define RETRY_SECONDS 5U
#define SMALL_REPLY 65536              /* bytes; smaller replies are not counted */
#define MADE_AT_ONCE 16384             /* bytes requested at a time from a reply of unknown length, without chunks */
#define REPLY_BYTES_A_SECOND 1048576.0 /* the minimum rate at which a client must read */

static const char problem_type[] = "application/problem+json";
static const char json_media[] = "application/json";

void reply_header(struct request *request, const char *name, const char *format, ...)
{
    if (request->headers_len == REQUEST_HEADERS) {
        metric_add(METRIC_BUGS, 1);
        log_event(LOG_LEVEL_ERROR, "BUG", "detail=\"too many reply headers\" header=%s", name);
        return;
    }
    char *value = NULL;
    va_list args;
    va_start(args, format);
    int len = vasprintf(&value, format, args);
    va_end(args);
    if (len >= 0) {
        request->headers[request->headers_len].name = name;
        request->headers[request->headers_len].value = value;
        request->headers_len++;
    }
}

/* Counts the memory of a reply. Small replies are always sent, among them the one that explains why others are not. */
static bool hold(struct request *request, size_t len)
{
    struct budget *replies = &request->server->replies;
    if (len <= SMALL_REPLY)
        return true;
    if (request->reply_held || !budget_take(replies, len, replies->most)) {
        connections_drop_stalled(request->context->connections);
        return false;
    }
    request->reply_held = len;
    return true;
}

bool reply_holds(struct request *request, size_t len)
{
    return hold(request, len);
}

static enum handled reply_crowded(struct request *request)
{
    return reply_problem(request, API_PROBLEM_QUEUE_FULL, "the memory for replies is in use; try again later");
}

static double seconds_for(const struct request *request, size_t len)
{
    return request->server->config->request_seconds + (double)len / REPLY_BYTES_A_SECOND;
}

void reply_goes_on(struct request *request, size_t len)
{
    request->reply_bytes += len;
    connection_sending(request->place, seconds_for(request, len), request->server->config->request_seconds);
}

void reply_streams_on(struct request *request, size_t len)
{
    request->reply_bytes += len;
    connection_streaming(request->place, seconds_for(request, len), request->server->config->request_seconds);
}

/* Adds the headers and queues the response, of which it takes ownership. */
static enum handled reply_queue(struct request *request, int status, const char *type, struct MHD_Response *response,
                                size_t len)
{
    if (!response)
        return HANDLED_LOST;
    if (request->malformed || request->last || request->place->spare)
        MHD_add_response_header(response, MHD_HTTP_HEADER_CONNECTION, "close");
    if (type)
        MHD_add_response_header(response, MHD_HTTP_HEADER_CONTENT_TYPE, type);
    MHD_add_response_header(response, REQUEST_ID_HEADER, request->id);
    /* JSON and CSV contain names from clients; no browser may take them for a page, or show them in one. */
    MHD_add_response_header(response, "X-Content-Type-Options", "nosniff");
    MHD_add_response_header(response, "Referrer-Policy", "no-referrer");
    if (request->server->tls)
        MHD_add_response_header(response, "Strict-Transport-Security", "max-age=31536000");
    bool policy = false;
    for (size_t i = 0; i < request->headers_len; i++) {
        MHD_add_response_header(response, request->headers[i].name, request->headers[i].value);
        policy |= strcmp(request->headers[i].name, CONTENT_POLICY) == 0;
    }
    if (!policy)
        MHD_add_response_header(response, CONTENT_POLICY, "default-src 'none'; frame-ancestors 'none'");
    request->status = status;
    request->reply_bytes = request->bodyless ? 0 : len;
    connection_busy(request->place, seconds_for(request, request->reply_bytes));
    enum MHD_Result queued = MHD_queue_response(request->connection, (unsigned)status, response);
    MHD_destroy_response(response);
    return queued == MHD_YES ? HANDLED_REPLIED : HANDLED_LOST;
}

enum handled reply_empty(struct request *request, int status)
{
    return reply_queue(request, status, NULL, MHD_create_response_from_buffer(0, NULL, MHD_RESPMEM_PERSISTENT), 0);
}

enum handled reply_static(struct request *request, const char *type, const void *data, size_t len)
{
    /* libmicrohttpd does not write to a persistent buffer, although its parameter is not const. */
    union {
        const void *constant;
        void *variable;
    } buffer = {.constant = data};
    return reply_queue(request, 200, type,
                       MHD_create_response_from_buffer(len, buffer.variable, MHD_RESPMEM_PERSISTENT), len);
}

enum handled reply_text(struct request *request, int status, const char *type, struct text *text, bool etag)
{
    size_t len = text->len;
    char *data = text_steal(text);
    if (!data)
        return reply_problem(request, API_PROBLEM_INTERNAL, "out of memory");
    if (etag) {
        char tag[ETAG_SIZE];
        text_etag(tag, data, len);
        reply_header(request, MHD_HTTP_HEADER_ETAG, "%s", tag);
        if (request_has_etag(request, tag)) {
            free(data);
            return reply_empty(request, 304);
        }
    }
    if (!hold(request, len)) {
        free(data);
        return reply_crowded(request);
    }
    return reply_queue(request, status, type, MHD_create_response_from_buffer(len, data, MHD_RESPMEM_MUST_FREE), len);
}

enum handled reply_shared(struct request *request, int status, const struct shared_text *shared, bool conditional)
{
    reply_header(request, MHD_HTTP_HEADER_ETAG, "%s", shared->etag);
    if (conditional && request_has_etag(request, shared->etag)) {
        shared->release(shared->owner);
        return reply_empty(request, 304);
    }
    if (!hold(request, shared->len)) {
        shared->release(shared->owner);
        return reply_crowded(request);
    }
    struct MHD_Response *response = MHD_create_response_from_buffer_with_free_callback_cls(
        shared->len, shared->data, shared->release, shared->owner);
    if (!response) {
        shared->release(shared->owner);
        return HANDLED_LOST;
    }
    return reply_queue(request, status, json_media, response, shared->len);
}

enum handled reply_file(struct request *request, const char *type, int fd, uint64_t len)
{
    struct MHD_Response *response = MHD_create_response_from_fd64(len, fd);
    if (!response)
        close(fd);
    return reply_queue(request, 200, type, response, (size_t)len);
}

enum handled reply_made(struct request *request, const char *type, size_t held, MHD_ContentReaderCallback read,
                        MHD_ContentReaderFreeCallback release, void *cls)
{
    if (!hold(request, held)) {
        release(cls);
        return reply_crowded(request);
    }
    struct MHD_Response *response =
        MHD_create_response_from_callback(MHD_SIZE_UNKNOWN, MADE_AT_ONCE, read, cls, release);
    if (!response)
        release(cls);
    return reply_queue(request, 200, type, response, 0);
}

static enum api_problem type_of(const json_t *problem)
{
    const char *type = json_string_value(json_object_get(problem, "type"));
    const char *name = type ? strrchr(type, '/') : NULL;
    enum api_problem found = name ? api_problem_named(name + 1) : API_PROBLEM_COUNT;
    return found == API_PROBLEM_COUNT ? API_PROBLEM_INTERNAL : found;
}

enum handled reply_problem_json(struct request *request, json_t *problem)
{
    int status = (int)json_integer_value(json_object_get(problem, "status"));
    metric_problem(type_of(problem));
    char *text = api_json_text_new(problem);
    if (!text) {
        static const char plain[] = "{\"type\":\"/problems/internal\",\"title\":\"Internal "
                                    "error\",\"status\":500,\"detail\":\"out of memory\"}";
        text = strdup(plain);
        status = 500;
    }
    if (!text)
        return HANDLED_LOST;
    if (status == 503 || status == 429)
        reply_header(request, MHD_HTTP_HEADER_RETRY_AFTER, "%u",
                     request->retry_seconds ? request->retry_seconds : RETRY_SECONDS);
    size_t len = strlen(text);
    return reply_queue(request, status, problem_type, MHD_create_response_from_buffer(len, text, MHD_RESPMEM_MUST_FREE),
                       len);
}

enum handled reply_problem(struct request *request, enum api_problem problem, const char *format, ...)
{
    char detail[512];
    va_list args;
    va_start(args, format);
    vsnprintf(detail, sizeof detail, format, args);
    va_end(args);
    return reply_problem_json(request, api_problem_encode(problem, detail, request->path, NULL));
}

/* The fields are those of draft-ietf-httpapi-ratelimit-headers-10: lists of strings with parameters. */
enum handled reply_quota(struct request *request, const struct quota_refusal *refusal)
{
    char detail[256], window[32] = "";
    const char *name = quota_name(refusal->kind), *unit = quota_unit(refusal->kind);
    unsigned long long most = refusal->most, left = refusal->left;
    unsigned seconds = quota_window(refusal->kind);
    if (seconds)
        snprintf(window, sizeof window, ";w=%u", seconds);
    _Static_assert(METRIC_QUOTA_REFUSED + QUOTA_KINDS == METRIC_QUOTA_REFUSED_LAST + 1, "each quota has a counter");
    metric_add(METRIC_QUOTA_REFUSED + refusal->kind, 1);
    request->retry_seconds = refusal->seconds;
    reply_header(request, "RateLimit-Policy", "\"%s\";q=%llu;qu=\"%s\"%s", name, most, unit, window);
    reply_header(request, "RateLimit", "\"%s\";r=%llu;t=%u", name, left, refusal->seconds);
    snprintf(detail, sizeof detail,
             "the quota of this key is used up: %s, of which it may have %llu%s; nothing was done; GET /v1/usage shows "
             "what is in use",
             name, most,
             refusal->kind == QUOTA_REQUESTS  ? " a second"
             : refusal->kind == QUOTA_SECONDS ? " of computing an hour"
             : refusal->kind == QUOTA_QUEUED  ? " now"
                                              : "");
    json_t *problem = api_problem_encode(API_PROBLEM_QUOTA, detail, request->path, NULL);
    json_object_set_new(problem, "quota", json_string(name));
    return reply_problem_json(request, problem);
}
