/*
 * A short list under one mutex: there are no more claims than computations that run. Who waits looks up every tenth
 * of a second whether it is still wanted.
 *
 * SPDX-License-Identifier: GPL-3.0-or-later
 */
#include "server/jobs/claims.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define LOOK_NS 100000000L

struct entry {
    uint8_t key[32];
    const void *owner;
    struct entry *next;
};

struct claims {
    pthread_mutex_t mutex;
    pthread_cond_t released;
    struct entry *first;
};

struct claims *claims_create(void)
{
    struct claims *claims = calloc(1, sizeof *claims);
    if (claims) {
        pthread_condattr_t monotonic;
        pthread_mutex_init(&claims->mutex, NULL);
        pthread_condattr_init(&monotonic);
        pthread_condattr_setclock(&monotonic, CLOCK_MONOTONIC);
        pthread_cond_init(&claims->released, &monotonic);
        pthread_condattr_destroy(&monotonic);
    }
    return claims;
}

void claims_destroy(struct claims *claims)
{
    if (!claims) {
        return;
    }
    while (claims->first) {
        struct entry *entry = claims->first;
        claims->first = entry->next;
        free(entry);
    }
    pthread_cond_destroy(&claims->released);
    pthread_mutex_destroy(&claims->mutex);
    free(claims);
}

static struct entry *find_locked(struct claims *claims, const uint8_t key[32])
{
    struct entry *entry = claims->first;
    while (entry && memcmp(entry->key, key, 32) != 0) {
        entry = entry->next;
    }
    return entry;
}

static enum claim claim_locked(struct claims *claims, const uint8_t key[32], const void *owner)
{
    struct entry *entry = calloc(1, sizeof *entry);
    if (!entry) {
        return CLAIM_NONE;
    }
    memcpy(entry->key, key, 32);
    entry->owner = owner;
    entry->next = claims->first;
    claims->first = entry;
    return CLAIM_OWN;
}

static void wait_locked(struct claims *claims)
{
    struct timespec until;
    clock_gettime(CLOCK_MONOTONIC, &until);
    until.tv_nsec += LOOK_NS;
    if (until.tv_nsec >= 1000000000L) {
        until.tv_nsec -= 1000000000L;
        until.tv_sec++;
    }
    pthread_cond_timedwait(&claims->released, &claims->mutex, &until);
}

enum claim claims_take(struct claims *claims, const uint8_t key[32], const void *owner, bool (*stop)(void *user),
                       void *user)
{
    bool waited = false;
    enum claim claim = CLAIM_NONE;
    pthread_mutex_lock(&claims->mutex);
    for (;;) {
        const struct entry *entry = find_locked(claims, key);
        if (!entry) {
            claim = waited ? CLAIM_FREED : claim_locked(claims, key, owner);
            break;
        }
        if (entry->owner == owner) {
            claim = CLAIM_OWN;
            break;
        }
        if (stop(user)) {
            break;
        }
        waited = true;
        wait_locked(claims);
    }
    pthread_mutex_unlock(&claims->mutex);
    return claim;
}

void claims_release(struct claims *claims, const uint8_t *key, const void *owner)
{
    pthread_mutex_lock(&claims->mutex);
    struct entry **link = &claims->first;
    while (*link) {
        struct entry *entry = *link;
        if (entry->owner == owner && (!key || memcmp(entry->key, key, 32) == 0)) {
            *link = entry->next;
            free(entry);
        } else {
            link = &entry->next;
        }
    }
    pthread_cond_broadcast(&claims->released);
    pthread_mutex_unlock(&claims->mutex);
}
