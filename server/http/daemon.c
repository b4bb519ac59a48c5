/*
 * libmicrohttpd's callbacks: a request's life from its headers to its log line. Bodies are collected up to the
 * limit; what is over it is read and thrown away (to a point), so that a client that sends first and reads later
 * sees the 413 rather than a broken pipe.
 *
 * SPDX-License-Identifier: GPL-3.0-or-later
 */
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/resource.h>

#include "server/http/daemon.h"
#include "server/http/router.h"
#include "server/ops/clock.h"
#include "server/ops/log.h"
#include "server/ops/metrics.h"

#define SWALLOW_FACTOR 8        /* times --max-body: what is read of a body that is refused */
#define CONNECTION_MEMORY 32768 /* headers, and the piece of a body that is read at a time */
#define IDLE_SECONDS 75U        /* of a connection between requests, or slow within one */

static void request_destroy(struct request *request)
{
    if (request->state_free) {
        request->state_free(request->state);
    }
    for (size_t i = 0; i < request->headers_len; i++) {
        free(request->headers[i].value);
    }
    free(request->body);
    free(request);
}

static struct request *request_create(const struct daemon_context *context, struct MHD_Connection *connection,
                                      const char *url, const char *method)
{
    struct request *request = calloc(1, sizeof *request);
    if (request) {
        request->server = context->server;
        request->wake = context->wake;
        request->connection = connection;
        request->method = method;
        request->path = url;
        request->bodyless = strcmp(method, MHD_HTTP_METHOD_HEAD) == 0;
        request->started = clock_monotonic();
        metric_add(METRIC_HTTP_IN_FLIGHT, 1);
        router_begin(request);
    }
    return request;
}

/* Keeps a piece of the body, or marks the request refused and drops all of it. */
static void body_append(struct request *request, const char *data, size_t len)
{
    uint64_t limit = request->server->config->max_body;
    request->body_seen += len;
    if (request->refused != API_PROBLEM_COUNT || !request->route->takes_body) {
        return;
    }
    if (request->body_seen > limit) {
        request->refused = API_PROBLEM_BODY_TOO_LARGE;
        free(request->body);
        request->body = NULL;
        request->body_len = request->body_capacity = 0;
        return;
    }
    if (request->body_len + len + 1 > request->body_capacity) {
        size_t capacity = request->body_capacity ? 2 * request->body_capacity : 1024;
        while (capacity < request->body_len + len + 1) {
            capacity *= 2;
        }
        char *body = realloc(request->body, capacity);
        if (!body) {
            request->refused = API_PROBLEM_INTERNAL;
            return;
        }
        request->body = body;
        request->body_capacity = capacity;
    }
    memcpy(request->body + request->body_len, data, len);
    request->body_len += len;
    request->body[request->body_len] = '\0';
}

/* Before the body: true where waiting for it makes no sense, so that the reply goes out at once. */
static bool reply_early(const struct request *request)
{
    if (request->refused == API_PROBLEM_COUNT) {
        return false;
    }
    const char *expect = request_header_value(request, MHD_HTTP_HEADER_EXPECT);
    const char *length = request_header_value(request, MHD_HTTP_HEADER_CONTENT_LENGTH);
    return (expect && strcasecmp(expect, "100-continue") == 0) ||
           (length && strtoull(length, NULL, 10) > SWALLOW_FACTOR * request->server->config->max_body);
}

static enum MHD_Result result_of(enum handled handled)
{
    return handled == HANDLED_LOST ? MHD_NO : MHD_YES;
}

static enum MHD_Result on_request(void *cls, struct MHD_Connection *connection, const char *url, const char *method,
                                  const char *version, const char *upload, size_t *upload_size, void **con_cls)
{
    struct request *request = *con_cls;
    (void)version;
    if (!request) {
        request = request_create(cls, connection, url, method);
        *con_cls = request;
        if (!request) {
            return MHD_NO;
        }
        return reply_early(request) ? result_of(router_run(request)) : MHD_YES;
    }
    if (*upload_size) {
        body_append(request, upload, *upload_size);
        *upload_size = 0;
        return request->body_seen > SWALLOW_FACTOR * request->server->config->max_body ? MHD_NO : MHD_YES;
    }
    request_handler *resume = request->resume;
    request->resume = NULL;
    return result_of(resume ? resume(request) : router_run(request));
}

static void log_request(const struct request *request, double seconds, enum MHD_RequestTerminationCode code)
{
    char path[512];
    char method[32];
    if (!log_enabled(LOG_LEVEL_INFO)) {
        return;
    }
    log_event(LOG_LEVEL_INFO, "request", "method=%s path=%s status=%d bytes=%zu ms=%.3f%s%s%s",
              log_quote(method, sizeof method, request->method), log_quote(path, sizeof path, request->path),
              request->status, request->reply_bytes, seconds * 1e3, request->job[0] ? " job=" : "", request->job,
              code == MHD_REQUEST_TERMINATED_COMPLETED_OK ? "" : " broken=true");
}

static void on_completed(void *cls, struct MHD_Connection *connection, void **con_cls,
                         enum MHD_RequestTerminationCode code)
{
    struct request *request = *con_cls;
    (void)cls;
    (void)connection;
    if (!request) {
        return;
    }
    double seconds = clock_monotonic() - request->started;
    metric_request(request->route_index, request->status, seconds);
    metric_add(METRIC_HTTP_IN_FLIGHT, -1);
    log_request(request, seconds, code);
    request_destroy(request);
    *con_cls = NULL;
}

/* What libmicrohttpd has to say about clients, in our form. */
static void on_message(void *cls, const char *format, va_list args)
{
    char message[512];
    char quoted[600];
    (void)cls;
    vsnprintf(message, sizeof message, format, args);
    message[strcspn(message, "\n")] = '\0';
    log_event(LOG_LEVEL_WARN, "PEER", "detail=%s", log_quote(quoted, sizeof quoted, message));
}

void daemon_raise_descriptors(void)
{
    struct rlimit limit;
    if (getrlimit(RLIMIT_NOFILE, &limit) == 0 && limit.rlim_cur < limit.rlim_max) {
        limit.rlim_cur = limit.rlim_max;
        setrlimit(RLIMIT_NOFILE, &limit);
    }
}

struct MHD_Daemon *daemon_start(struct daemon_context *context, int fd, unsigned connections)
{
    return MHD_start_daemon(MHD_USE_EPOLL | MHD_ALLOW_SUSPEND_RESUME | MHD_USE_ERROR_LOG | MHD_USE_TURBO, 0, NULL, NULL,
                            on_request, context, MHD_OPTION_EXTERNAL_LOGGER, on_message, NULL, MHD_OPTION_LISTEN_SOCKET,
                            fd, MHD_OPTION_CONNECTION_LIMIT, connections, MHD_OPTION_CONNECTION_TIMEOUT, IDLE_SECONDS,
                            MHD_OPTION_CONNECTION_MEMORY_LIMIT, (size_t)CONNECTION_MEMORY, MHD_OPTION_NOTIFY_COMPLETED,
                            on_completed, NULL, MHD_OPTION_END);
}
