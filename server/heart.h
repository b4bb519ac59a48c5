/*
 * The heart of the service: tells the supervisor (server/ops/supervisor.h) that the service works, as long as it does.
 *
 * SPDX-License-Identifier: GPL-3.0-or-later
 */
#ifndef SERVER_HEART_H
#define SERVER_HEART_H

#include "server/server.h"

struct heart;
struct http;

/*
 * Starts to beat, if the supervisor expects that. Each beat requires that since the last one
 *
 * - a row has been committed to the database, or could not be for lack of disk space: a restart frees none, and would
 *   lose the ends of jobs that wait for it;
 * - the watchdog of computations has looked at all of them, within the last seconds;
 * - no computation that it abandoned is left. One that computes for hours within the limits of its job is not
 *   abandoned;
 * - the mutex of every pool of threads could be taken;
 * - every HTTP thread has come round its loop.
 *
 * status: a line for the operator while all is well; borrowed. Returns NULL if memory or threads run out.
 */
struct heart *heart_start(struct server *server, struct http *http, const char *status);
/* Ends it; before anything else stops. NULL is allowed, as below. */
void heart_stop(struct heart *heart);
/* Frees it; when the store is closed, which may still have its last write. */
void heart_destroy(struct heart *heart);

#endif
