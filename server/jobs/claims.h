/*
 * Who computes which factorisation. Jobs that differ in sigma or delta share an optimised matrix: the first one to
 * miss it in the cache claims its key, and the others wait until it is there rather than optimise beside it.
 * Thread-safe.
 *
 * SPDX-License-Identifier: GPL-3.0-or-later
 */
#ifndef SERVER_JOBS_CLAIMS_H
#define SERVER_JOBS_CLAIMS_H

#include <stdbool.h>
#include <stdint.h>

struct claims;

enum claim {
    CLAIM_OWN,   /* the caller's, now or before: compute it */
    CLAIM_FREED, /* another had it and is done: look into the cache once more */
    CLAIM_NONE   /* no memory, or stop() said so: go on without one */
};

struct claims *claims_create(void);
void claims_destroy(struct claims *claims);

/* Claims the key for the owner; where another owner has it, waits until it is released or stop(user) is true. */
enum claim claims_take(struct claims *claims, const uint8_t key[32], const void *owner, bool (*stop)(void *user),
                       void *user);
/* Releases one key of the owner, if it has it; key NULL: all of its keys. */
void claims_release(struct claims *claims, const uint8_t *key, const void *owner);

#endif
