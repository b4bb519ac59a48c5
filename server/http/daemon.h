/*
 * A libmicrohttpd daemon that serves requests, and is driven by one thread of loops.c.
 *
 * SPDX-License-Identifier: GPL-3.0-or-later
 */
#ifndef SERVER_HTTP_DAEMON_H
#define SERVER_HTTP_DAEMON_H

#include <microhttpd.h>

#include "server/server.h"

/* What a daemon's callbacks know. It must outlive the daemon. */
struct daemon_context {
    struct server *server;
    int wake; /* an eventfd that its thread polls: written when a connection was resumed */
};

/* Serves what connects to the listening socket, at most so many connections; takes the socket. NULL: it does not
 * start, and the socket is still the caller's. */
struct MHD_Daemon *daemon_start(struct daemon_context *context, int fd, unsigned connections);
/* Every connection is a file descriptor: as many as may be. */
void daemon_raise_descriptors(void);

#endif
