/*
 * Suspended connections. Every one is on one list; most with a deadline that a thread keeps, and some on a
 * topic (a job) whose end resumes them. A suspended connection costs memory only, never a thread. Thread-safe.
 *
 * SPDX-License-Identifier: GPL-3.0-or-later
 */
#ifndef SERVER_HTTP_WAIT_H
#define SERVER_HTTP_WAIT_H

#include "server/http/request.h"
#include "server/jobs/pool.h"

struct waits;

/* Who waits for one thing. Zero-initialise; wake it before it goes. */
struct wait_topic {
    struct request *first;
};

struct waits *waits_create(void);
void waits_destroy(struct waits *waits);

/* Suspends the request, on its HTTP thread; `resume` runs after request_resume(). False: the service is stopping. */
bool request_suspend(struct request *request, request_handler *resume);
/* Resumes a request that is suspended and on no topic. The caller loses it. */
void request_resume(struct request *request);
/* Submits the task, which will resume the suspended request, or put it on a topic. When the client hangs up first,
 * request->gone is set; and if no thread has begun the task, none will: the request resumes at once. The caller loses
 * both. */
void request_submit(struct request *request, struct pool *pool, struct pool_task *task);
/* Puts a suspended request on a topic: resumed by waits_wake() or at the deadline (monotonic seconds), or at once
 * when the client hangs up or the service stops. The caller loses it. */
void request_wait_on(struct request *request, struct wait_topic *topic, double deadline);
/* Resumes all on the topic. */
void waits_wake(struct waits *waits, struct wait_topic *topic);

/* From now on nothing is suspended and whoever is on a topic resumes. */
void waits_stop(struct waits *waits);
/* After waits_stop(): waits until nothing is suspended any more. Whoever holds a request must still be running. False:
 * something is, at the deadline (monotonic seconds). */
bool waits_drain(struct waits *waits, double deadline);

#endif
