/*
 * Where connections come in: accepted by the threads of loops.c and not by libmicrohttpd, so that a limit that is
 * reached (of connections, of file descriptors) is met with a decision rather than with a closed door, or with a loop
 * that complains of it ten thousand times a second.
 *
 * SPDX-License-Identifier: GPL-3.0-or-later
 */
#ifndef SERVER_HTTP_DOOR_H
#define SERVER_HTTP_DOOR_H

#include <microhttpd.h>

#include "server/http/connections.h"

struct door {
    int listener; /* does not block */
    struct connections *connections;
    _Atomic double complained; /* monotonic seconds; initially -INFINITY */
};

/* Accepts one connection for the daemon that the calling thread drives: what comes together is so shared by the
 * threads. Returns the milliseconds until it makes sense to listen again: 0 but where there is nothing to accept with. */
int door_accept(struct door *door, struct MHD_Daemon *daemon);

#endif
