/*
 * Linear search in a short table: it is read in a microsecond and in the order in which it was written.
 *
 * SPDX-License-Identifier: GPL-3.0-or-later
 */
#include "server/http/router.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#define ALLOW_SIZE 96

size_t route_count(void)
{
    size_t len = 0;
    while (route_table[len].method) {
        len++;
    }
    return len;
}

/* Whether the path fits; what stands for {..} goes to param. */
static bool pattern_match(const char *pattern, const char *path, char *param, size_t param_size)
{
    while (*pattern && *pattern != '{') {
        if (*pattern++ != *path++) {
            return false;
        }
    }
    if (!*pattern) {
        return !*path;
    }
    size_t len = strcspn(path, "/");
    if (!len || len >= param_size) {
        return false;
    }
    memcpy(param, path, len);
    param[len] = '\0';
    pattern += strcspn(pattern, "}") + 1;
    return strcmp(pattern, path + len) == 0;
}

/* The methods of a path, as Allow lists them; "" if nothing has this path. */
static void allowed_methods(const char *path, char allow[ALLOW_SIZE])
{
    char param[80];
    size_t len = 0;
    allow[0] = '\0';
    for (const struct route *route = route_table; route->method; route++) {
        if (!pattern_match(route->pattern, path, param, sizeof param)) {
            continue;
        }
        bool get = strcmp(route->method, "GET") == 0;
        len += (size_t)snprintf(allow + len, ALLOW_SIZE - len, "%s%s%s", len ? ", " : "", route->method,
                                get ? ", HEAD" : "");
    }
    if (len) {
        snprintf(allow + len, ALLOW_SIZE - len, ", OPTIONS");
    }
}

static bool json_media_type(const char *type)
{
    if (!type) {
        return false;
    }
    size_t len = strcspn(type, "; \t");
    return len == strlen("application/json") && strncasecmp(type, "application/json", len) == 0;
}

/* The declared length; 0 if there is none. */
static uint64_t content_length(const struct request *request)
{
    const char *text = request_header_value(request, MHD_HTTP_HEADER_CONTENT_LENGTH);
    return text ? strtoull(text, NULL, 10) : 0;
}

void router_begin(struct request *request)
{
    const char *method = request->bodyless ? "GET" : request->method;
    request->refused = API_PROBLEM_COUNT;
    for (const struct route *route = route_table; route->method; route++) {
        if (strcmp(route->method, method) == 0 &&
            pattern_match(route->pattern, request->path, request->param, sizeof request->param)) {
            request->route = route;
            request->route_index = (size_t)(route - route_table);
            break;
        }
    }
    const struct route *route = request->route;
    if (!route) {
        request->refused = API_PROBLEM_NOT_FOUND; /* or 405, or OPTIONS: told apart when the reply is due */
        request->route_index = SIZE_MAX;
        return;
    }
    int offer = negotiate(request_header_value(request, MHD_HTTP_HEADER_ACCEPT), route->produces);
    if (offer < 0) {
        request->refused = API_PROBLEM_NOT_ACCEPTABLE;
        return;
    }
    request->offer = (size_t)offer;
    if (!route->takes_body) {
        return;
    }
    if (content_length(request) > request->server->config->max_body) {
        request->refused = API_PROBLEM_BODY_TOO_LARGE;
    } else if (!json_media_type(request_header_value(request, MHD_HTTP_HEADER_CONTENT_TYPE))) {
        request->refused = API_PROBLEM_MEDIA_TYPE;
    }
}

static enum handled reply_no_route(struct request *request)
{
    char allow[ALLOW_SIZE];
    allowed_methods(request->path, allow);
    if (!allow[0]) {
        return reply_problem(request, API_PROBLEM_NOT_FOUND, "nothing has this path; GET /v1 links to what there is");
    }
    reply_header(request, MHD_HTTP_HEADER_ALLOW, "%s", allow);
    if (strcmp(request->method, MHD_HTTP_METHOD_OPTIONS) == 0) {
        return reply_empty(request, 204);
    }
    return reply_problem(request, API_PROBLEM_METHOD, "this path takes %s", allow);
}

static enum handled reply_not_acceptable(struct request *request)
{
    char offers[256];
    size_t len = 0;
    offers[0] = '\0';
    for (const char *const *offer = request->route->produces; *offer && len < sizeof offers; offer++) {
        len += (size_t)snprintf(offers + len, sizeof offers - len, "%s%s", len ? ", " : "", *offer);
    }
    return reply_problem(request, API_PROBLEM_NOT_ACCEPTABLE, "this resource has %s", offers);
}

enum handled router_run(struct request *request)
{
    switch (request->refused) {
    case API_PROBLEM_COUNT:
        return request->route->handler(request);
    case API_PROBLEM_NOT_FOUND:
        return reply_no_route(request);
    case API_PROBLEM_NOT_ACCEPTABLE:
        return reply_not_acceptable(request);
    case API_PROBLEM_BODY_TOO_LARGE:
        return reply_problem(request, API_PROBLEM_BODY_TOO_LARGE, "a body may have at most %llu bytes",
                             (unsigned long long)request->server->config->max_body);
    case API_PROBLEM_MEDIA_TYPE:
        return reply_problem(request, API_PROBLEM_MEDIA_TYPE,
                             "send the body as Content-Type: application/json (curl --json does)");
    default:
        return reply_problem(request, request->refused, "out of memory");
    }
}
