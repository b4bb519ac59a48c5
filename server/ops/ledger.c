/*
 * See ledger.h. An account knows the last quotas that came with a request, because its levels sink by them also while
 * there is no request.
 *
 * SPDX-License-Identifier: GPL-3.0-or-later
 */
#include "server/ops/ledger.h"

#include <assert.h>
#include <math.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "server/ops/access.h"
#include "server/ops/map.h"

#define QUEUE_SECONDS 5   /* to wait for a place or a stream: nobody knows when one is given back */
#define WAIT_SECONDS 3600 /* the longest wait that is told */

/* What sinks by itself. */
struct level {
    double used;
    double at;     /* monotonic seconds of the last change */
    uint64_t most; /* of the last quota; 0: none, and nothing is added */
};

struct account {
    struct map_node node; /* in the ledger, by id */
    char id[ACCESS_ID_SIZE];
    pthread_mutex_t mutex;
    struct level requests, seconds;
    double pending; /* estimated seconds of jobs that are not final */
    uint64_t places, bytes, streams;
    uint64_t requests_total;
    double seconds_total;
};

struct ledger {
    pthread_mutex_t mutex; /* of the map */
    struct map accounts;
    struct account nobody; /* of requests without a key */
};

static void account_init(struct account *account, const char *id)
{
    snprintf(account->id, sizeof account->id, "%s", id);
    pthread_mutex_init(&account->mutex, NULL);
}

struct ledger *ledger_create(void)
{
    struct ledger *ledger = calloc(1, sizeof *ledger);
    if (ledger) {
        pthread_mutex_init(&ledger->mutex, NULL);
        account_init(&ledger->nobody, "");
    }
    return ledger;
}

void ledger_destroy(struct ledger *ledger)
{
    if (!ledger)
        return;
    for (size_t i = 0; i < ledger->accounts.capacity; i++) {
        struct map_node *node = ledger->accounts.buckets[i];
        while (node) {
            struct account *account = MAP_ENTRY(node, struct account, node);
            node = node->next;
            pthread_mutex_destroy(&account->mutex);
            free(account);
        }
    }
    map_clear(&ledger->accounts);
    pthread_mutex_destroy(&ledger->nobody.mutex);
    pthread_mutex_destroy(&ledger->mutex);
    free(ledger);
}

static struct account *create_locked(struct ledger *ledger, const char *key)
{
    struct account *account = calloc(1, sizeof *account);
    if (!account)
        return NULL;
    account_init(account, key);
    if (!map_insert(&ledger->accounts, &account->node, account->id)) {
        pthread_mutex_destroy(&account->mutex);
        free(account);
        return NULL;
    }
    return account;
}

struct account *ledger_account(struct ledger *ledger, const char *key)
{
    if (!key[0])
        return &ledger->nobody;
    pthread_mutex_lock(&ledger->mutex);
    struct map_node *node = map_find(&ledger->accounts, key);
    struct account *account = node ? MAP_ENTRY(node, struct account, node) : create_locked(ledger, key);
    pthread_mutex_unlock(&ledger->mutex);
    return account;
}

/* ---------------------------------------------------------------- levels */

static double rate(const struct level *level, enum quota_kind kind)
{
    return (double)level->most / quota_window(kind);
}

/* Lets it sink, by the former quota, to what it is now. */
static void sink(struct level *level, enum quota_kind kind, double now)
{
    if (now > level->at) {
        level->used = fmax(0, level->used - (now - level->at) * rate(level, kind));
        level->at = now;
    }
}

static void add(struct level *level, double amount)
{
    if (level->most)
        level->used += amount;
}

/* The level follows this quota from now on. Without one it is empty. */
static void follow(struct level *level, enum quota_kind kind, const struct quota *quota, double now)
{
    sink(level, kind, now);
    level->most = quota->most[kind];
    if (!level->most)
        level->used = 0;
}

/* Whether `more` fit into the quota. */
static bool fits(struct level *level, enum quota_kind kind, const struct quota *quota, double more, double now,
                 struct quota_refusal *refusal)
{
    follow(level, kind, quota, now);
    double left = (double)level->most - level->used;
    if (!level->most || more <= left)
        return true;
    double wait = ceil(fmax(1, (more - left) / rate(level, kind)));
    *refusal = (struct quota_refusal){.kind = kind,
                                      .most = level->most,
                                      .left = left > 0 ? (uint64_t)left : 0,
                                      .seconds = wait < WAIT_SECONDS ? (unsigned)wait : WAIT_SECONDS};
    return false;
}

bool account_request(struct account *account, const struct quota *quota, double now, struct quota_refusal *refusal)
{
    pthread_mutex_lock(&account->mutex);
    bool served = fits(&account->requests, QUOTA_REQUESTS, quota, 1, now, refusal);
    if (served) {
        add(&account->requests, 1);
        account->requests_total++;
    }
    pthread_mutex_unlock(&account->mutex);
    return served;
}

void account_compute(struct account *account, double seconds, double now)
{
    pthread_mutex_lock(&account->mutex);
    sink(&account->seconds, QUOTA_SECONDS, now);
    add(&account->seconds, seconds);
    account->seconds_total += seconds;
    pthread_mutex_unlock(&account->mutex);
}

/* ---------------------------------------------------------------- the queue */

static bool refuse(struct quota_refusal *refusal, enum quota_kind kind, uint64_t most)
{
    *refusal = (struct quota_refusal){.kind = kind, .most = most, .seconds = QUEUE_SECONDS};
    return false;
}

/* The places that the account may have: of its quota, and as many as it leaves free. */
static uint64_t places_most(const struct account *account, const struct quota *quota, const struct ledger_place *place)
{
    uint64_t part = account->id[0] ? (account->places + place->free_places) / 2 : UINT64_MAX;
    uint64_t most = quota->most[QUOTA_QUEUED];
    return most && most < part ? most : part;
}

static bool may_wait_locked(struct account *account, const struct quota *quota, const struct ledger_place *place,
                            double now, struct quota_refusal *refusal)
{
    uint64_t most = places_most(account, quota, place);
    if (account->places > 0 && account->places >= most)
        return refuse(refusal, QUOTA_QUEUED, most);
    if (account->id[0] && account->bytes > 0 && account->bytes > place->free_bytes)
        return refuse(refusal, QUOTA_QUEUED, account->places);
    if (!fits(&account->seconds, QUOTA_SECONDS, quota, 0, now, refusal))
        return false;
    /* A job that alone exceeds the quota may run, but nothing beside it. */
    double pending = account->pending > 0 ? account->pending + place->seconds : 0;
    if (fits(&account->seconds, QUOTA_SECONDS, quota, pending, now, refusal))
        return true;
    refusal->seconds = QUEUE_SECONDS; /* the estimates may be too long */
    return false;
}

bool account_may_wait(struct account *account, const struct quota *quota, const struct ledger_place *place, double now,
                      struct quota_refusal *refusal)
{
    pthread_mutex_lock(&account->mutex);
    bool may = may_wait_locked(account, quota, place, now, refusal);
    pthread_mutex_unlock(&account->mutex);
    return may;
}

void account_wait(struct account *account, int places)
{
    pthread_mutex_lock(&account->mutex);
    assert(places >= 0 || account->places >= (uint64_t)-places);
    account->places += (uint64_t)places;
    pthread_mutex_unlock(&account->mutex);
}

void account_hold(struct account *account, int64_t bytes, double seconds)
{
    pthread_mutex_lock(&account->mutex);
    assert(bytes >= 0 || account->bytes >= (uint64_t)-bytes);
    account->bytes += (uint64_t)bytes;
    account->pending = account->bytes ? fmax(0, account->pending + seconds) : 0; /* no rounding is left over */
    pthread_mutex_unlock(&account->mutex);
}

/* ---------------------------------------------------------------- streams */

bool account_open_stream(struct account *account, const struct quota *quota, struct quota_refusal *refusal)
{
    uint64_t most = quota->most[QUOTA_STREAMS];
    pthread_mutex_lock(&account->mutex);
    bool may = !most || account->streams < most;
    account->streams += may;
    pthread_mutex_unlock(&account->mutex);
    return may || refuse(refusal, QUOTA_STREAMS, most);
}

void account_close_stream(struct account *account)
{
    pthread_mutex_lock(&account->mutex);
    assert(account->streams > 0);
    account->streams--;
    pthread_mutex_unlock(&account->mutex);
}

/* ---------------------------------------------------------------- reading */

void account_read(struct account *account, const struct quota *quota, double now, struct account_usage *usage)
{
    pthread_mutex_lock(&account->mutex);
    follow(&account->requests, QUOTA_REQUESTS, quota, now);
    follow(&account->seconds, QUOTA_SECONDS, quota, now);
    *usage = (struct account_usage){.requests = account->requests_total, .seconds = account->seconds_total};
    usage->used[QUOTA_REQUESTS] = account->requests.used;
    usage->used[QUOTA_QUEUED] = (double)account->places;
    usage->used[QUOTA_SECONDS] = account->seconds.used + account->pending;
    usage->used[QUOTA_STREAMS] = (double)account->streams;
    pthread_mutex_unlock(&account->mutex);
}
