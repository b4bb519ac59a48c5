/*
 * Searches a short table linearly, which takes about a microsecond.
 *
 * SPDX-License-Identifier: GPL-3.0-or-later
 */
#include "server/http/router.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "server/http/head.h"

#define ALLOW_SIZE 96

size_t route_count(const struct route *routes)
{
    size_t len = 0;
    while (routes[len].method)
        len++;
    return len;
}

/* Whether the path matches; writes the text that matches {..} to param. */
static bool pattern_match(const char *pattern, const char *path, char *param, size_t param_size)
{
    while (*pattern && *pattern != '{')
        if (*pattern++ != *path++)
            return false;
    if (!*pattern)
        return !*path;
    size_t len = strcspn(path, "/");
    if (!len || len >= param_size)
        return false;
    memcpy(param, path, len);
    param[len] = '\0';
    pattern += strcspn(pattern, "}") + 1;
    return strcmp(pattern, path + len) == 0;
}

/* The methods of a path in the format of Allow; "" if no route has this path. */
static void allowed_methods(const struct route *routes, const char *path, char allow[ALLOW_SIZE])
{
    char param[80];
    size_t len = 0;
    allow[0] = '\0';
    for (const struct route *route = routes; route->method; route++) {
        if (!pattern_match(route->pattern, path, param, sizeof param))
            continue;
        bool get = strcmp(route->method, "GET") == 0;
        len += (size_t)snprintf(allow + len, ALLOW_SIZE - len, "%s%s%s", len ? ", " : "", route->method,
                                get ? ", HEAD" : "");
    }
    if (len)
        snprintf(allow + len, ALLOW_SIZE - len, ", OPTIONS");
}

static bool is_media_type(const char *type, const char *name)
{
    size_t len = type ? strcspn(type, "; \t") : 0;
    return len == strlen(name) && strncasecmp(type, name, len) == 0;
}

/* Whether the route accepts the media type of the body. */
static bool takes_media_type(struct request *request)
{
    const char *type = request_header_value(request, MHD_HTTP_HEADER_CONTENT_TYPE);
    request->lines = (request->route->traits & ROUTE_LINES) && is_media_type(type, "application/x-ndjson");
    return request->lines || is_media_type(type, "application/json");
}

/* Whether a body is announced. An empty one needs no media type. */
static bool has_body(const struct request *request)
{
    return request->body_announced > 0 || request_header_value(request, MHD_HTTP_HEADER_TRANSFER_ENCODING);
}

/* The announced length; 0 if there is none. */
static uint64_t content_length(const struct request *request)
{
    const char *text = request_header_value(request, MHD_HTTP_HEADER_CONTENT_LENGTH);
    return text ? strtoull(text, NULL, 10) : 0;
}

static void find_route(struct request *request)
{
    const char *method = request->bodyless ? "GET" : request->method;
    request->route_index = SIZE_MAX;
    const struct route *routes = request->server->routes;
    for (const struct route *route = routes; route->method; route++) {
        if (strcmp(route->method, method) == 0 &&
            pattern_match(route->pattern, request->path, request->param, sizeof request->param)) {
            request->route = route;
            request->route_index = (size_t)(route - routes);
            return;
        }
    }
}

/* Whether the request may come from a page of another site, which could read the response or change something. A
 * browser hides the response to a GET from pages of another Origin; but a page whose host name has been made to point
 * to this machine has the same Origin. */
static const char *foreign(const struct request *request)
{
    bool changes =
        strcmp(request->method, MHD_HTTP_METHOD_POST) == 0 || strcmp(request->method, MHD_HTTP_METHOD_DELETE) == 0;
    return hosts_refusal(request->context->hosts, request_header_value(request, MHD_HTTP_HEADER_HOST),
                         changes ? request_header_value(request, MHD_HTTP_HEADER_ORIGIN) : NULL);
}

/* Returns false, with the errors, if the query is invalid. */
static bool query_passes(const struct request *request, struct api_errors *errors)
{
    query_check(request, errors);
    return !errors->len && !errors->out_of_memory;
}

/* Why a request that has a route is rejected. */
static enum api_problem judge(struct request *request)
{
    const struct route *route = request->route;
    struct api_errors errors = {0};
    int offer = negotiate(request_header_value(request, MHD_HTTP_HEADER_ACCEPT), route->produces);
    if (offer < 0)
        return API_PROBLEM_NOT_ACCEPTABLE;
    request->offer = (size_t)offer;
    if ((route->traits & ROUTE_BODY) && request->body_announced > request->server->config->max_body)
        return API_PROBLEM_BODY_TOO_LARGE;
    if ((route->traits & ROUTE_BODY) && !takes_media_type(request))
        return has_body(request) ? API_PROBLEM_MEDIA_TYPE : API_PROBLEM_MALFORMED_JSON;
    bool passes = query_passes(request, &errors);
    api_errors_clear(&errors);
    if (!passes)
        return API_PROBLEM_INVALID_JOB;
    return API_PROBLEM_COUNT;
}

/* Counts the request of a key that is permitted. Returns why it is refused. */
static enum api_problem count(struct request *request)
{
    if (request->route->scope == ACCESS_ANYONE)
        return API_PROBLEM_COUNT;
    request->account = ledger_account(request->server->ledger, request->client.id);
    if (!request->account)
        return API_PROBLEM_INTERNAL;
    return account_request(request->account, &request->client.quota, clock_monotonic(), &request->refusal)
               ? API_PROBLEM_COUNT
               : API_PROBLEM_QUOTA;
}

/* Whether the key of the request, if one is needed, permits the route. */
static bool permitted(struct request *request)
{
    request->verdict =
        access_judge(request->server->access, request_header_value(request, MHD_HTTP_HEADER_AUTHORIZATION),
                     request->route->scope, &request->client);
    return request->verdict == ACCESS_GRANTED;
}

void router_begin(struct request *request)
{
    find_route(request);
    if (request->malformed) {
        request->refused = API_PROBLEM_MALFORMED_REQUEST;
        return;
    }
    request->body_announced = content_length(request);
    if ((request->place->spare || request->crowded) && !(request->route && (request->route->traits & ROUTE_VITAL)))
        request->refused = API_PROBLEM_QUEUE_FULL;
    else if (foreign(request))
        request->refused = API_PROBLEM_FORBIDDEN;
    else if (!request->route)
        request->refused = API_PROBLEM_NOT_FOUND; /* or 405, or OPTIONS; decided when the reply is built */
    else if (!permitted(request))
        request->refused =
            request->verdict == ACCESS_TOO_NARROW ? API_PROBLEM_INSUFFICIENT_SCOPE : API_PROBLEM_UNAUTHENTICATED;
    else if ((request->refused = count(request)) == API_PROBLEM_COUNT)
        request->refused = judge(request);
}

static enum handled reply_no_route(struct request *request)
{
    char allow[ALLOW_SIZE];
    allowed_methods(request->server->routes, request->path, allow);
    if (!allow[0]) {
        return reply_problem(request, API_PROBLEM_NOT_FOUND,
                             "no resource has this path; GET /v1 links to the available ones");
    }
    reply_header(request, MHD_HTTP_HEADER_ALLOW, "%s", allow);
    if (strcmp(request->method, MHD_HTTP_METHOD_OPTIONS) == 0)
        return reply_empty(request, 204);
    return reply_problem(request, API_PROBLEM_METHOD, "this path supports %s", allow);
}

static enum handled reply_not_acceptable(struct request *request)
{
    char offers[256];
    size_t len = 0;
    offers[0] = '\0';
    for (const char *const *offer = request->route->produces; *offer && len < sizeof offers; offer++)
        len += (size_t)snprintf(offers + len, sizeof offers - len, "%s%s", len ? ", " : "", *offer);
    return reply_problem(request, API_PROBLEM_NOT_ACCEPTABLE, "this resource is available as %s", offers);
}

static enum handled reply_query(struct request *request)
{
    struct api_errors errors = {0};
    query_check(request, &errors);
    json_t *problem = api_problem_encode(API_PROBLEM_INVALID_JOB, NULL, request->path, &errors);
    api_errors_clear(&errors);
    return reply_problem_json(request, problem);
}

static enum handled reply_no_room(struct request *request)
{
    return request->place->spare || request->crowded
               ? reply_problem(request, API_PROBLEM_QUEUE_FULL,
                               "the maximum number of connections is reached, from this address or in total")
               : reply_problem(request, API_PROBLEM_QUEUE_FULL, "the memory for request bodies is in use");
}

/* As RFC 6750 has it. */
static enum handled reply_no_access(struct request *request)
{
    static const char *const details[] = {
        [ACCESS_GRANTED] = "",
        [ACCESS_NO_KEY] = "this service requires a key: send it as Authorization: Bearer KEY",
        [ACCESS_MALFORMED] = "the Authorization header is not Bearer followed by a key",
        [ACCESS_WRONG_KEY] = "the service does not know this key",
    };
    const char *scope = access_scope_name(request->route->scope);
    if (request->verdict == ACCESS_TOO_NARROW) {
        reply_header(request, MHD_HTTP_HEADER_WWW_AUTHENTICATE,
                     "Bearer realm=\"epsilond\", error=\"insufficient_scope\", scope=\"%s\"", scope);
        return reply_problem(request, API_PROBLEM_INSUFFICIENT_SCOPE, "this request needs a key of scope %s", scope);
    }
    reply_header(request, MHD_HTTP_HEADER_WWW_AUTHENTICATE, "Bearer realm=\"epsilond\"%s",
                 request->verdict == ACCESS_WRONG_KEY ? ", error=\"invalid_token\"" : "");
    return reply_problem(request, API_PROBLEM_UNAUTHENTICATED, "%s", details[request->verdict]);
}

enum handled router_run(struct request *request)
{
    const char *hidden;
    switch (request->refused) {
    case API_PROBLEM_COUNT:
        hidden = request->route->hidden ? request->route->hidden(request) : NULL;
        return hidden ? reply_problem(request, API_PROBLEM_NOT_FOUND, "%s", hidden) : request->route->handler(request);
    case API_PROBLEM_MALFORMED_REQUEST:
        return reply_problem(request, API_PROBLEM_MALFORMED_REQUEST, "%s", request->malformed);
    case API_PROBLEM_UNAUTHENTICATED:
    case API_PROBLEM_INSUFFICIENT_SCOPE:
        return reply_no_access(request);
    case API_PROBLEM_QUOTA:
        return reply_quota(request, &request->refusal);
    case API_PROBLEM_FORBIDDEN:
        return reply_problem(request, API_PROBLEM_FORBIDDEN, "%s", foreign(request));
    case API_PROBLEM_INVALID_JOB:
        return reply_query(request);
    case API_PROBLEM_QUEUE_FULL:
        return reply_no_room(request);
    case API_PROBLEM_NOT_FOUND:
        return reply_no_route(request);
    case API_PROBLEM_NOT_ACCEPTABLE:
        return reply_not_acceptable(request);
    case API_PROBLEM_BODY_TOO_LARGE:
        return reply_problem(request, API_PROBLEM_BODY_TOO_LARGE, "the body exceeds the limit of %llu bytes",
                             (unsigned long long)request->server->config->max_body);
    case API_PROBLEM_MALFORMED_JSON:
        return reply_problem(request, API_PROBLEM_MALFORMED_JSON,
                             "line 1, column 1: the body is empty: send a JSON object, as Content-Type: "
                             "application/json (curl --json does)");
    case API_PROBLEM_MEDIA_TYPE:
        return reply_problem(request, API_PROBLEM_MEDIA_TYPE,
                             "send the body as Content-Type: application/json (curl --json does)%s",
                             request->route->traits & ROUTE_LINES ? ", or application/x-ndjson" : "");
    default:
        return reply_problem(request, request->refused, "out of memory");
    }
}
