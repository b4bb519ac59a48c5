/*
 * A request that waits for a piece of work. This connects the waiters of server/work/ to the suspended requests of
 * server/http/.
 *
 * SPDX-License-Identifier: GPL-3.0-or-later
 */
#ifndef SERVER_ROUTES_WAITING_H
#define SERVER_ROUTES_WAITING_H

#include "server/http/wait.h"
#include "server/work/work.h"

/* Must live as long as the request. */
struct watching {
    struct waiter waiter; /* resumes the request */
    struct request *request;
    const char *id;
};

void watching_init(struct watching *watching, struct request *request);
/* For a holder whose user is a struct that begins with the watching. */
bool watching_take_back(void *watching);

/* Resumes the suspended request when the resource with that id is final or not live, or at the deadline. The caller
 * must not use the request afterwards. */
void watch_end(struct watching *watching, struct request *request, const char *id, double deadline);

#endif
