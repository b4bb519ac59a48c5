/*
 * A request that waits for a piece of work: the one place where the waiters of server/work/ and the suspended connections
 * of server/http/ meet.
 *
 * SPDX-License-Identifier: GPL-3.0-or-later
 */
#ifndef SERVER_ROUTES_WAITING_H
#define SERVER_ROUTES_WAITING_H

#include "server/http/wait.h"
#include "server/work/work.h"

/* Lasts as long as the request. */
struct watching {
    struct waiter waiter; /* resumes the request */
    struct request *request;
    const char *id;
};

void watching_init(struct watching *watching, struct request *request);
/* For a holder whose user is (or begins with) the watching. */
bool watching_take_back(void *watching);

/* The suspended request resumes when the resource of that id is final, or is not live, or at the deadline. The caller loses
 * it. */
void watch_end(struct watching *watching, struct request *request, const char *id, double deadline);

#endif
