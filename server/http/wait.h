/*
 * Suspended requests, which use memory but no thread. A suspended request is held by the code that will have its
 * result, and which resumes it. If that may take long, the request can be taken back from its holder: at a deadline,
 * when the client disconnects, or when the service stops. Thread-safe.
 *
 * SPDX-License-Identifier: GPL-3.0-or-later
 */
#ifndef SERVER_HTTP_WAIT_H
#define SERVER_HTTP_WAIT_H

#include "server/http/request.h"

struct waits;

/* Holders of requests that can be taken back. Both functions are called without a lock, and never concurrently for one
 * request. */
struct holder {
    /* Accepts the request and resumes it once, at any later time. Returns false if it does not accept; the request is
     * then resumed at once. */
    bool (*give)(void *user);
    /* Returns true if it has not resumed the request and will not; false if it has, or will. */
    bool (*take_back)(void *user);
};

struct waits *waits_create(void);
void waits_destroy(struct waits *waits);

/* Suspends the request, on its HTTP thread; `resume` runs after request_resume(). Returns false if the service is
 * stopping. */
bool request_suspend(struct request *request, request_handler *resume);
/* Resumes a suspended request. The caller must not use it afterwards. */
void request_resume(struct request *request);
/*
 * Gives a suspended request to a holder, and takes it back when the client disconnects and, unless the deadline
 * (monotonic seconds) is INFINITY, at the deadline or when the service stops. The caller must not use the request
 * afterwards; its handler finds out why it was resumed. user must live as long as the request.
 */
void request_give(struct request *request, const struct holder *holder, void *user, double deadline);

/* From now on nothing can be suspended, and requests with a deadline are resumed. */
void waits_stop(struct waits *waits);
bool waits_stopping(struct waits *waits);
/* After waits_stop(): waits until no request is suspended. The holders must still be running. Returns false if the
 * deadline (monotonic seconds) passes first. */
bool waits_drain(struct waits *waits, double deadline);

#endif
