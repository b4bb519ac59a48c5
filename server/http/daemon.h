/*
 * A libmicrohttpd daemon that serves requests, and is driven by one thread of loops.c.
 *
 * SPDX-License-Identifier: GPL-3.0-or-later
 */
#ifndef SERVER_HTTP_DAEMON_H
#define SERVER_HTTP_DAEMON_H

#include <microhttpd.h>

#include "server/server.h"

struct connections;
struct hosts;

/* What a daemon's callbacks know. It must outlive the daemon. */
struct daemon_context {
    struct server *server;
    struct connections *connections;
    const struct hosts *hosts;
    int wake; /* an eventfd that its thread polls: written when a connection was resumed */
};

/* Serves the connections that are added to it. NULL: it does not start. */
struct MHD_Daemon *daemon_start(struct daemon_context *context);

#endif
