/*
 * Accepts connections. The threads of loops.c do this instead of libmicrohttpd, so that when a limit on connections or
 * file descriptors is reached, this module decides what to close, instead of a socket that stops accepting or a loop
 * that logs the error ten thousand times a second.
 *
 * SPDX-License-Identifier: GPL-3.0-or-later
 */
#ifndef SERVER_HTTP_DOOR_H
#define SERVER_HTTP_DOOR_H

#include <microhttpd.h>

#include "server/http/connections.h"

struct door {
    int listener; /* non-blocking */
    struct connections *connections;
    _Atomic double complained; /* monotonic seconds; initially -INFINITY */
};

/* Accepts one connection for the daemon that the calling thread drives, so that simultaneous connections are spread
 * over the threads. Returns the milliseconds to wait before listening again, which is 0 unless resources are
 * exhausted. */
int door_accept(struct door *door, struct MHD_Daemon *daemon);

#endif
