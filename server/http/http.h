/*
 * The HTTP service: libmicrohttpd, polled by a few threads of ours.
 *
 * SPDX-License-Identifier: GPL-3.0-or-later
 */
#ifndef SERVER_HTTP_HTTP_H
#define SERVER_HTTP_HTTP_H

#include "server/server.h"

struct http;

/* Listens and serves. url: "http://HOST:PORT" with the port that was bound. NULL with a message. */
struct http *http_start(struct server *server, char *url, size_t url_size, char *message, size_t message_size);
/* No new connections. */
void http_quiesce(struct http *http);
/* Waits until no request is being answered, at most so long. */
void http_drain(struct http *http, double seconds);
/* No connection may be suspended any more. */
void http_stop(struct http *http);

#endif
