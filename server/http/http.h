/*
 * The HTTP service: libmicrohttpd, polled by a few threads of ours.
 *
 * SPDX-License-Identifier: GPL-3.0-or-later
 */
#ifndef SERVER_HTTP_HTTP_H
#define SERVER_HTTP_HTTP_H

#include <stdbool.h>

#include "server/server.h"

struct http;

/* Serves connections to the listening socket, which the caller owns and which must outlive the service. Returns NULL
 * with a message. */
struct http *http_start(struct server *server, int fd, char *message, size_t message_size);
/* Whether every thread has come round its loop since the last call, or the start. For one caller at a time. */
bool http_turns(struct http *http);
/* Stops accepting connections. */
void http_quiesce(struct http *http);
/* Waits until no request is in progress, or until the deadline (monotonic seconds). */
void http_drain(struct http *http, double deadline);
/* Requires that no connection is suspended. */
void http_stop(struct http *http);

#endif
