/*
 * The callbacks of libmicrohttpd: the lifecycle of a connection, and of a request from its head to its log line.
 *
 * SPDX-License-Identifier: GPL-3.0-or-later
 */
#include <limits.h>
#include <math.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "server/http/body.h"
#include "server/http/connections.h"
#include "server/http/daemon.h"
#include "server/http/forwarded.h"
#include "server/http/head.h"
#include "server/http/router.h"
#include "server/http/tls.h"
#include "server/ops/clock.h"
#include "server/ops/log.h"
#include "server/ops/metrics.h"

#define CONNECTION_MEMORY 32768 /* headers, and the size of a piece of a body */
#define MESSAGES_A_SECOND 10    /* messages of libmicrohttpd in the log */

/* ---------------------------------------------------------------- requests */

static void request_destroy(struct request *request)
{
    if (request->state_free)
        request->state_free(request->state);
    for (size_t i = 0; i < request->headers_len; i++)
        free(request->headers[i].value);
    if (request->reply_held)
        budget_give(&request->server->replies, request->reply_held);
    request_drop_body(request);
    free(request);
}

static struct connection *place_of(struct MHD_Connection *connection)
{
    return MHD_get_connection_info(connection, MHD_CONNECTION_INFO_SOCKET_CONTEXT)->socket_context;
}

/* Sets the id of the request for the log and the reply: that of the client, if it needs no quotes in the log. */
static void name_request(struct request *request)
{
    static const char characters[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_.:/+@";
    const char *given = request_header_value(request, REQUEST_ID_HEADER);
    size_t len = given ? strspn(given, characters) : 0;
    if (len && len < sizeof request->id && !given[len])
        memcpy(request->id, given, len + 1);
    else
        uuid_next(request->id);
}

static enum MHD_Result on_forwarded(void *cls, enum MHD_ValueKind kind, const char *name, const char *value)
{
    (void)kind;
    if (strcasecmp(name, MHD_HTTP_HEADER_FORWARDED) == 0)
        forwarded_add(cls, value ? value : "");
    return MHD_YES;
}

/* Finds the client of a request that comes from a trusted proxy. */
static void find_client(struct request *request)
{
    struct forwarded forwarded = {.len = 0};
    MHD_get_connection_values(request->connection, MHD_HEADER_KIND, on_forwarded, &forwarded);
    const struct sockaddr *client = forwarded_client(&forwarded, request->server->proxies);
    if (forwarded.malformed)
        request->malformed = "the Forwarded header of the proxy is malformed (RFC 7239), or lists too many proxies";
    else if (client)
        request->crowded = !connections_serve(request->context->connections, request->place, client);
}

static struct request *request_create(const struct daemon_context *context, struct MHD_Connection *connection,
                                      const char *url, const char *method, const char *version)
{
    struct request *request = calloc(1, sizeof *request);
    if (request) {
        request->context = context;
        request->server = context->server;
        request->connection = connection;
        request->place = place_of(connection);
        request->method = method;
        request->path = url;
        request->bodyless = strcmp(method, MHD_HTTP_METHOD_HEAD) == 0;
        request->started = clock_monotonic();
        name_request(request);
        metric_add(METRIC_HTTP_IN_FLIGHT, 1);
        connection_receiving(request->place, request->server->config->request_seconds);
        request->malformed = head_refusal(request, version);
        if (request->place->proxy && !request->malformed)
            find_client(request);
        router_begin(request);
    }
    return request;
}

static enum MHD_Result result_of(enum handled handled)
{
    return handled == HANDLED_LOST ? MHD_NO : MHD_YES;
}

static enum MHD_Result on_request(void *cls, struct MHD_Connection *connection, const char *url, const char *method,
                                  const char *version, const char *upload, size_t *upload_size, void **con_cls)
{
    struct request *request = *con_cls;
    if (!request) {
        request = request_create(cls, connection, url, method, version);
        *con_cls = request;
        if (!request)
            return MHD_NO;
        return body_unwanted(request) ? result_of(router_run(request)) : MHD_YES;
    }
    if (*upload_size) {
        size_t len = *upload_size;
        *upload_size = 0;
        return body_append(request, upload, len) ? MHD_YES : MHD_NO;
    }
    connection_busy(request->place, INFINITY); /* a suspended request has a deadline of its own */
    request_handler *resume = request->resume;
    request->resume = NULL;
    return result_of(resume ? resume(request) : router_run(request));
}

static void log_request(const struct request *request, double seconds, enum MHD_RequestTerminationCode code)
{
    char path[512];
    char method[32];
    if (!log_enabled(LOG_LEVEL_INFO))
        return;
    log_event(LOG_LEVEL_INFO, "request", "request=%s client=%s%s%s method=%s path=%s status=%d bytes=%zu ms=%.3f%s%s%s",
              request->id, request->place->client, request->client.id[0] ? " key=" : "", request->client.id,
              log_quote(method, sizeof method, request->method), log_quote(path, sizeof path, request->path),
              request->status, request->reply_bytes, seconds * 1e3, request->job[0] ? " job=" : "", request->job,
              code == MHD_REQUEST_TERMINATED_COMPLETED_OK ? "" : " broken=true");
}

static void on_completed(void *cls, struct MHD_Connection *connection, void **con_cls,
                         enum MHD_RequestTerminationCode code)
{
    struct request *request = *con_cls;
    const struct daemon_context *context = cls;
    (void)connection;
    if (!request)
        return;
    connection_idle(context->connections, request->place);
    double seconds = clock_monotonic() - request->started;
    metric_request(request->route_index, request->status, seconds, request->id);
    metric_add(METRIC_HTTP_IN_FLIGHT, -1);
    log_request(request, seconds, code);
    connections_served(context->connections, request->place);
    request_destroy(request);
    *con_cls = NULL;
}

/* ---------------------------------------------------------------- connections */

static void on_connection(void *cls, struct MHD_Connection *connection, void **socket_context,
                          enum MHD_ConnectionNotificationCode code)
{
    const struct daemon_context *context = cls;
    int fd = MHD_get_connection_info(connection, MHD_CONNECTION_INFO_CONNECTION_FD)->connect_fd;
    if (code == MHD_CONNECTION_NOTIFY_STARTED)
        *socket_context = connections_find(context->connections, fd);
    else
        connections_remove(context->connections, fd);
}

/* Records the target as it was sent, up to a NUL. What libmicrohttpd shows later is decoded and ends at %00. */
static void *on_target(void *cls, const char *target, struct MHD_Connection *connection)
{
    (void)cls;
    struct connection *place = place_of(connection);
    place->bad_target = !target_valid(target);
    place->target_len = strlen(target);
    return NULL;
}

/* Limits the number of messages in a second; *missed: the number suppressed in the previous one. */
static bool may_speak(unsigned *missed)
{
    static _Atomic int64_t second;
    static _Atomic unsigned said;
    int64_t now = (int64_t)clock_monotonic();
    int64_t before = atomic_load(&second);
    *missed = 0;
    if (now != before && atomic_compare_exchange_strong(&second, &before, now)) {
        unsigned count = atomic_exchange(&said, 0);
        *missed = count > MESSAGES_A_SECOND ? count - MESSAGES_A_SECOND : 0;
    }
    return atomic_fetch_add(&said, 1) < MESSAGES_A_SECOND;
}

/* Logs messages of libmicrohttpd about clients, in our format and at a limited rate. */
static void on_message(void *cls, const char *format, va_list args)
{
    char message[512];
    char quoted[600];
    unsigned missed;
    (void)cls;
    if (!may_speak(&missed))
        return;
    if (missed)
        log_event(LOG_LEVEL_WARN, "PEER", "not_said=%u", missed);
    vsnprintf(message, sizeof message, format, args);
    message[strcspn(message, "\n")] = '\0';
    log_event(LOG_LEVEL_WARN, "PEER", "detail=%s", log_quote(quoted, sizeof quoted, message));
}

#define FLAGS (MHD_USE_EPOLL | MHD_ALLOW_SUSPEND_RESUME | MHD_USE_ERROR_LOG | MHD_USE_TURBO | MHD_USE_NO_LISTEN_SOCKET)

/* Limits and deadlines are enforced by connections.h; those of libmicrohttpd are set so that they do not interfere. */
#define OPTIONS(context)                                                                                             \
    MHD_OPTION_EXTERNAL_LOGGER, on_message, NULL, MHD_OPTION_CONNECTION_LIMIT, (unsigned)INT_MAX,                    \
        MHD_OPTION_CONNECTION_MEMORY_LIMIT, (size_t)CONNECTION_MEMORY, MHD_OPTION_URI_LOG_CALLBACK, on_target, NULL, \
        MHD_OPTION_NOTIFY_CONNECTION, on_connection, context, MHD_OPTION_NOTIFY_COMPLETED, on_completed, context

struct MHD_Daemon *daemon_start(struct daemon_context *context)
{
    if (!context->server->tls)
        return MHD_start_daemon(FLAGS, 0, NULL, NULL, on_request, context, OPTIONS(context), MHD_OPTION_END);
    return MHD_start_daemon(FLAGS | MHD_USE_TLS, 0, NULL, NULL, on_request, context, OPTIONS(context),
                            MHD_OPTION_HTTPS_CERT_CALLBACK, tls_choose, MHD_OPTION_HTTPS_PRIORITIES, TLS_PRIORITIES,
                            MHD_OPTION_END);
}
