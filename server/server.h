/*
 * The parts of the running service, for all handlers. Immutable after the start, except for the budgets.
 *
 * SPDX-License-Identifier: GPL-3.0-or-later
 */
#ifndef SERVER_SERVER_H
#define SERVER_SERVER_H

#include "server/ops/budget.h"
#include "server/ops/config.h"

struct access;
struct broker;
struct cells;
struct store;
struct tls;
struct jobs;
struct keys;
struct ledger;
struct groups;
struct memory;
struct owners;
struct pool;
struct proxies;
struct pages;
struct waits;
struct watchdog;
struct works;
struct route;

struct server {
    const struct config *config;
    const struct route *routes; /* the route table; ends with a row without a method */
    struct access *access;      /* who may do what */
    struct ledger *ledger;      /* what each key has used */
    struct tls *tls;            /* NULL: requests are not encrypted */
    struct proxies *proxies;    /* the trusted ones */
    bool socket_lent;           /* the supervisor keeps the listening socket open for the next process */
    struct store *store;
    struct pool *pool;     /* the workers */
    struct cells *cells;   /* the processes that compute; NULL: this one does */
    struct broker *broker; /* to workers on other machines; NULL: there is none */
    struct pool *remote;   /* its threads wait for jobs at the broker; NULL likewise */
    struct pool *side;    /* four threads: open streams, and draw matrices (two at most); independent of running jobs */
    struct pool *streams; /* two threads: produce the next piece of each stream that has room */
    struct pool *gate;    /* one thread: decides whether a job is accepted, if that takes time */
    struct pool *bulk;    /* one thread: the same for jobs with large bodies, so that others need not wait for them */
    struct pool *lists;   /* one thread: pages of lists, and the documents of sweeps and plans */
    struct pages *pages;  /* of that thread: recently written pages */
    struct owners *owners;     /* of resources that were asked for */
    struct works *works;       /* the open works and their waiters */
    struct watchdog *watchdog; /* of the works; NULL: there is none */
    struct waits *waits;
    struct jobs *jobs;
    struct groups *groups;
    struct memory *rankings; /* of plans; see routes/groups/ranking.h */
    struct budget bodies;    /* in memory, of requests in progress */
    struct budget replies;   /* in memory, while they are sent */
    struct budget spool;     /* on disk, of matrices while they are written and sent */
    struct budget drawn;     /* in memory, of streams of batches and noise */
    struct budget divided;   /* jobs, whose draws are divided among workers */
    struct keys *keys;       /* of streams that can be resumed */
};

#endif
