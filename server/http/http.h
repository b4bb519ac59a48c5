/*
 * The HTTP service: libmicrohttpd, polled by a few threads of ours.
 *
 * SPDX-License-Identifier: GPL-3.0-or-later
 */
#ifndef SERVER_HTTP_HTTP_H
#define SERVER_HTTP_HTTP_H

#include "server/server.h"

struct http;

/* Serves what connects to the listening socket, which must outlive it and stays the caller's. NULL with a
 * message. */
struct http *http_start(struct server *server, int fd, char *message, size_t message_size);
/* No new connections. */
void http_quiesce(struct http *http);
/* Waits until no request is being answered, or the deadline (monotonic seconds). */
void http_drain(struct http *http, double deadline);
/* No connection may be suspended any more. */
void http_stop(struct http *http);

#endif
