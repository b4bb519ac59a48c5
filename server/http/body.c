/*
 * Bodies are collected in a buffer that grows by doubling, up to the announced length if there is one. Memory is
 * counted before it is allocated.
 *
 * SPDX-License-Identifier: GPL-3.0-or-later
 */
#include "server/http/body.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#define SWALLOW_FACTOR 8   /* times --max-body: the number of bytes of a rejected body that are read */
#define SMALL_BODY 65536   /* bytes; bodies up to this size have part of the budget to themselves */
#define LARGE_SHARE 3 / 4  /* the part of the budget for larger bodies */
#define FIRST_PIECE 1024UL /* bytes */

void request_drop_body(struct request *request)
{
    if (request->body_capacity)
        budget_give(&request->server->bodies, request->body_capacity);
    free(request->body);
    request->body = NULL;
    request->body_len = request->body_capacity = 0;
}

static void refuse(struct request *request, enum api_problem problem)
{
    request->refused = problem;
    request_drop_body(request);
}

/* Makes room for `need` bytes and a NUL. Returns false if that is refused. */
static bool reserve(struct request *request, size_t need)
{
    struct server *server = request->server;
    uint64_t most = (request->body_announced ? request->body_announced : server->config->max_body) + 1;
    size_t capacity = request->body_capacity ? request->body_capacity : FIRST_PIECE;
    while (capacity < need)
        capacity *= 2;
    capacity = capacity > most ? (size_t)most : capacity;
    assert(capacity >= need);
    uint64_t limit = capacity > SMALL_BODY ? server->bodies.most * LARGE_SHARE : server->bodies.most;
    size_t more = capacity - request->body_capacity;
    if (!budget_take(&server->bodies, more, limit)) {
        refuse(request, API_PROBLEM_QUEUE_FULL);
        return false;
    }
    char *body = realloc(request->body, capacity);
    if (!body) {
        budget_give(&server->bodies, more);
        refuse(request, API_PROBLEM_INTERNAL);
        return false;
    }
    request->body = body;
    request->body_capacity = capacity;
    return true;
}

bool body_append(struct request *request, const char *data, size_t len)
{
    uint64_t limit = request->server->config->max_body;
    request->body_seen += len;
    if (request->body_seen > SWALLOW_FACTOR * limit)
        return false;
    if (request->refused != API_PROBLEM_COUNT || !(request->route->traits & ROUTE_BODY))
        return true;
    if (request->body_seen > limit) {
        refuse(request, API_PROBLEM_BODY_TOO_LARGE);
        return true;
    }
    if (request->body_len + len + 1 > request->body_capacity && !reserve(request, request->body_len + len + 1))
        return true;
    memcpy(request->body + request->body_len, data, len);
    request->body_len += len;
    request->body[request->body_len] = '\0';
    return true;
}

bool body_unwanted(const struct request *request)
{
    if (request->refused == API_PROBLEM_COUNT)
        return false;
    const char *expect = request_header_value(request, MHD_HTTP_HEADER_EXPECT);
    return request->refused == API_PROBLEM_MALFORMED_REQUEST || request->place->spare ||
           (expect && strcasecmp(expect, "100-continue") == 0) ||
           request->body_announced > SWALLOW_FACTOR * request->server->config->max_body;
}
