/*
 * The parts of the running service, as every handler sees them. Immutable after the start, the budgets apart.
 *
 * SPDX-License-Identifier: GPL-3.0-or-later
 */
#ifndef SERVER_SERVER_H
#define SERVER_SERVER_H

#include "server/ops/budget.h"
#include "server/ops/config.h"

struct store;
struct jobs;
struct keys;
struct groups;
struct memory;
struct pool;
struct pages;
struct waits;
struct watchdog;
struct works;
struct route;

struct server {
    const struct config *config;
    const struct route *routes; /* the table; a row without a method ends it */
    struct store *store;
    struct pool *pool; /* computes */
    struct pool *side; /* four threads: open streams, and draw matrices, two at most; they wait for no job that runs */
    struct pool *streams; /* two threads: the next piece of each stream that has room */
    struct pool *gate;    /* one thread: decides whether a job is accepted, where that takes time */
    struct pool *bulk;    /* one thread: the same for jobs of large bodies, so that others need not wait for them */
    struct pool *lists;   /* one thread: pages of lists, and what sweeps and plans show */
    struct pages *pages;  /* that thread's: those it wrote last */
    struct works *works;  /* what is under way, and who waits for it */
    struct watchdog *watchdog; /* of what is under way; NULL: there is none */
    struct waits *waits;
    struct jobs *jobs;
    struct groups *groups;
    struct memory *rankings; /* of plans, see routes/groups/ranking.h */
    struct budget bodies;    /* in memory, of requests under way */
    struct budget replies;   /* in memory, while they are sent */
    struct budget spool;     /* on disk, of matrices while they are written and sent */
    struct budget drawn;     /* in memory, of what batches and noise are drawn from */
    struct keys *keys;       /* of streams that may be taken up again */
};

#endif
