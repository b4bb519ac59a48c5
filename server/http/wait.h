/*
 * Suspended connections: each costs memory only, never a thread. A suspended request is held by someone who will have
 * news, and resumes it. Where that may take long, it can be asked for it back: at a deadline, when the client hangs up,
 * when the service stops. Thread-safe.
 *
 * SPDX-License-Identifier: GPL-3.0-or-later
 */
#ifndef SERVER_HTTP_WAIT_H
#define SERVER_HTTP_WAIT_H

#include "server/http/request.h"

struct waits;

/* Who takes requests that it can be asked for. Both are called without a lock, and never at once for one request. */
struct holder {
    /* Takes it: resumes it once, from now on at any time. False: it does not, and the request resumes at once. */
    bool (*give)(void *user);
    /* True: it has not resumed it and will not. False: it has, or will. */
    bool (*take_back)(void *user);
};

struct waits *waits_create(void);
void waits_destroy(struct waits *waits);

/* Suspends the request, on its HTTP thread; `resume` runs after request_resume(). False: the service is stopping. */
bool request_suspend(struct request *request, request_handler *resume);
/* Resumes a suspended request, by whoever has it. The caller loses it. */
void request_resume(struct request *request);
/*
 * Gives a suspended request to a holder, and asks for it back when the client hangs up, and unless the deadline (monotonic
 * seconds) is INFINITY, at the deadline or when the service stops. The caller loses it; what it resumes with is for the
 * handler to see. user must last as long as the request.
 */
void request_give(struct request *request, const struct holder *holder, void *user, double deadline);

/* From now on nothing is suspended, and whoever has a deadline resumes. */
void waits_stop(struct waits *waits);
bool waits_stopping(struct waits *waits);
/* After waits_stop(): waits until nothing is suspended any more. Whoever holds a request must still be running. False:
 * something is, at the deadline (monotonic seconds). */
bool waits_drain(struct waits *waits, double deadline);

#endif
