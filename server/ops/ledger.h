/*
 * What each key has used, and whether it may use more. An account begins with the first request of its key, or with a
 * stored job of it, and is kept until the process ends, so that reading the keys again loses no count. Quotas are not
 * part of it: they come with each request, from the line of its key.
 *
 * Requests and seconds are levels that sink at the rate of their quota; a request is served while there is room in
 * them. Without a quota they are empty. What is used beyond a quota (a computation may take longer than estimated) is a
 * debt: the level stays above the quota until it has sunk, so that in the long run a key computes for no more seconds
 * than its quota allows.
 *
 * Thread-safe. The mutexes of accounts are leaves.
 *
 * SPDX-License-Identifier: GPL-3.0-or-later
 */
#ifndef SERVER_OPS_LEDGER_H
#define SERVER_OPS_LEDGER_H

#include "server/ops/quota.h"

struct ledger;
struct account;

/* A part of the queue that is requested. */
struct ledger_place {
    size_t bytes;         /* of memory */
    double seconds;       /* estimated computing time */
    uint64_t free_places; /* of the whole queue, before this one */
    uint64_t free_bytes;  /* after this one */
};

/* A snapshot. */
struct account_usage {
    double used[QUOTA_KINDS]; /* requests and seconds: the level, and estimates; bytes: 0, the store knows them */
    uint64_t requests;        /* since the process started, as the next one */
    double seconds;
};

/* NULL: out of memory, as below. */
struct ledger *ledger_create(void);
void ledger_destroy(struct ledger *ledger);
/* The account of a key, by its id; "": of all requests without a key, which always exists. NULL: out of memory, which
 * cannot be if the key had an account before. */
struct account *ledger_account(struct ledger *ledger, const char *key);

/* Counts a request at `now` (monotonic seconds), unless the quota is used up: false with the refusal. */
bool account_request(struct account *account, const struct quota *quota, double now, struct quota_refusal *refusal);

/*
 * Whether the account may have this place in the queue: false with the refusal. Counts nothing; the caller holds the
 * mutex of the queue until account_wait() and account_hold().
 *
 * The account of a key may hold as many places, and as many bytes, as it leaves free. So however many keys fill their
 * part of the queue, there is room for another one.
 */
bool account_may_wait(struct account *account, const struct quota *quota, const struct ledger_place *place, double now,
                      struct quota_refusal *refusal);
/* Counts places in the queue; negative: they are given back. */
void account_wait(struct account *account, int places);
/* Counts memory and estimated seconds of jobs that are not final. */
void account_hold(struct account *account, int64_t bytes, double seconds);
/* Counts computing time. */
void account_compute(struct account *account, double seconds, double now);

/* Counts a stream, unless the quota is used up. */
bool account_open_stream(struct account *account, const struct quota *quota, struct quota_refusal *refusal);
void account_close_stream(struct account *account);

void account_read(struct account *account, const struct quota *quota, double now, struct account_usage *usage);

#endif
