/*
 * A libmicrohttpd daemon that serves requests, driven by one thread of loops.c.
 *
 * SPDX-License-Identifier: GPL-3.0-or-later
 */
#ifndef SERVER_HTTP_DAEMON_H
#define SERVER_HTTP_DAEMON_H

#include <microhttpd.h>

#include "server/server.h"

struct connections;
struct hosts;

/* The context of the callbacks of a daemon. It must outlive the daemon. */
struct daemon_context {
    struct server *server;
    struct connections *connections;
    const struct hosts *hosts;
    int wake; /* an eventfd that the thread polls; written when a connection was resumed */
};

/* Serves the connections that are added to it. Returns NULL if it does not start. */
struct MHD_Daemon *daemon_start(struct daemon_context *context);

#endif
