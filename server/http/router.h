/*
 * From method and path to a row of the route table, and all that is the same for every route: 400 and 403 for a head
 * that cannot be trusted, 404, 405 with Allow, OPTIONS, HEAD as GET, 406, 413, 415, 422 for the query.
 *
 * SPDX-License-Identifier: GPL-3.0-or-later
 */
#ifndef SERVER_HTTP_ROUTER_H
#define SERVER_HTTP_ROUTER_H

#include "server/http/request.h"

/* The rows of a table; one without a method ends it. */
size_t route_count(const struct route *routes);

/* Finds the route; sets what was refused before any body is read. request->malformed is known. */
void router_begin(struct request *request);
/* Runs the handler, or replies what was refused. The body is complete. */
enum handled router_run(struct request *request);

#endif
