/*
 * Finds the row of the route table for a method and path, and handles what is the same for every route: 400 and 403 for
 * an unacceptable head, 401 and 403 without a key that permits the route, 404, 405 with Allow, OPTIONS, HEAD as GET,
 * 406, 413, 415, and 422 for the query.
 *
 * SPDX-License-Identifier: GPL-3.0-or-later
 */
#ifndef SERVER_HTTP_ROUTER_H
#define SERVER_HTTP_ROUTER_H

#include "server/http/request.h"

/* The number of rows of a table, which ends with a row without a method. */
size_t route_count(const struct route *routes);

/* Finds the route and decides whether the request is rejected before a body is read. request->malformed must be set. */
void router_begin(struct request *request);
/* Runs the handler, or sends the rejection. The body is complete. */
enum handled router_run(struct request *request);

#endif
