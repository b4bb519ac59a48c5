/*
 * A table that is searched linearly: it is small, and the other cost of a stream is much larger.
 *
 * SPDX-License-Identifier: GPL-3.0-or-later
 */
#include "server/ops/keys.h"

#include <netinet/in.h>
#include <pthread.h>
#include <sodium.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "server/ops/clock.h"

/* A stream, if turn > 0. */
struct kept {
    uint64_t turn;
    uint64_t reader; /* 0: it has left */
    double left;     /* when it left (monotonic seconds) */
    uint8_t id[(KEYS_ID - 1) / 2];
    uint8_t digest[KEYS_DIGEST];
    char address[INET6_ADDRSTRLEN];
};

struct keys {
    pthread_mutex_t mutex;
    double seconds;
    uint8_t (*secrets)[KEYS_KEY]; /* KEYS_MOST of them */
    struct kept table[KEYS_MOST];
};

struct keys *keys_create(double seconds)
{
    struct keys *keys = calloc(1, sizeof *keys);
    if (!keys)
        return NULL;
    keys->secrets = sodium_allocarray(KEYS_MOST, sizeof *keys->secrets);
    if (!keys->secrets) {
        free(keys);
        return NULL;
    }
    pthread_mutex_init(&keys->mutex, NULL);
    keys->seconds = seconds;
    return keys;
}

void keys_destroy(struct keys *keys)
{
    if (keys) {
        sodium_free(keys->secrets); /* which wipes them */
        pthread_mutex_destroy(&keys->mutex);
        sodium_memzero(keys, sizeof *keys);
        free(keys);
    }
}

static void drop_locked(struct keys *keys, size_t at)
{
    sodium_memzero(keys->secrets[at], sizeof keys->secrets[at]);
    sodium_memzero(&keys->table[at], sizeof keys->table[at]);
}

/* A free slot, or KEYS_MOST if every stream has a reader. */
static size_t make_room_locked(struct keys *keys, const char *address)
{
    size_t empty = KEYS_MOST, longest = KEYS_MOST, of_one = 0, own = KEYS_MOST;
    for (size_t i = 0; i < KEYS_MOST; i++) {
        const struct kept *kept = &keys->table[i];
        if (!kept->turn) {
            empty = i;
        } else if (!kept->reader) {
            longest = longest == KEYS_MOST || kept->left < keys->table[longest].left ? i : longest;
            if (strcmp(kept->address, address) == 0) {
                of_one++;
                own = own == KEYS_MOST || kept->left < keys->table[own].left ? i : own;
            }
        }
    }
    if (of_one < KEYS_OF_ONE && empty < KEYS_MOST)
        return empty;
    size_t dropped = of_one < KEYS_OF_ONE ? longest : own;
    if (dropped < KEYS_MOST)
        drop_locked(keys, dropped);
    return dropped;
}

void keys_keep(struct keys *keys, struct keys_hold *hold, const uint8_t key[KEYS_KEY],
               const uint8_t digest[KEYS_DIGEST], const char *address, uint64_t reader)
{
    *hold = (struct keys_hold){.turn = 0};
    pthread_mutex_lock(&keys->mutex);
    size_t at = keys->seconds > 0 ? make_room_locked(keys, address) : KEYS_MOST;
    if (at < KEYS_MOST) {
        struct kept *kept = &keys->table[at];
        hold->turn = kept->turn = 1;
        kept->reader = reader;
        randombytes_buf(kept->id, sizeof kept->id);
        memcpy(kept->digest, digest, sizeof kept->digest);
        snprintf(kept->address, sizeof kept->address, "%s", address);
        memcpy(keys->secrets[at], key, sizeof keys->secrets[at]);
        sodium_bin2hex(hold->id, sizeof hold->id, kept->id, sizeof kept->id);
    }
    pthread_mutex_unlock(&keys->mutex);
}

/* The slot of a stream, or KEYS_MOST. The time taken does not reveal how much of an id is right. */
static size_t find_locked(const struct keys *keys, const char *text)
{
    uint8_t id[(KEYS_ID - 1) / 2];
    size_t len;
    if (sodium_hex2bin(id, sizeof id, text, strlen(text), NULL, &len, NULL) != 0 || len != sizeof id)
        return KEYS_MOST;
    for (size_t i = 0; i < KEYS_MOST; i++)
        if (keys->table[i].turn && sodium_memcmp(keys->table[i].id, id, sizeof id) == 0)
            return i;
    return KEYS_MOST;
}

enum keys_status keys_take(struct keys *keys, struct keys_hold *hold, uint8_t key[KEYS_KEY],
                           const uint8_t digest[KEYS_DIGEST], uint64_t reader, uint64_t *before)
{
    enum keys_status status = KEYS_UNKNOWN;
    hold->turn = *before = 0;
    pthread_mutex_lock(&keys->mutex);
    size_t at = find_locked(keys, hold->id);
    if (at < KEYS_MOST) {
        struct kept *kept = &keys->table[at];
        status = memcmp(kept->digest, digest, sizeof kept->digest) == 0 ? KEYS_FOUND : KEYS_DIFFERENT;
        if (status == KEYS_FOUND) {
            memcpy(key, keys->secrets[at], sizeof keys->secrets[at]);
            *before = kept->reader;
            kept->reader = reader;
            hold->turn = ++kept->turn;
        }
    }
    pthread_mutex_unlock(&keys->mutex);
    return status;
}

void keys_leave(struct keys *keys, const struct keys_hold *hold)
{
    if (!hold->turn)
        return;
    pthread_mutex_lock(&keys->mutex);
    size_t at = find_locked(keys, hold->id);
    if (at < KEYS_MOST && keys->table[at].turn == hold->turn) {
        keys->table[at].reader = 0;
        keys->table[at].left = clock_monotonic();
    }
    pthread_mutex_unlock(&keys->mutex);
}

void keys_expire(struct keys *keys)
{
    double now = clock_monotonic();
    if (!keys)
        return;
    pthread_mutex_lock(&keys->mutex);
    for (size_t i = 0; i < KEYS_MOST; i++) {
        const struct kept *kept = &keys->table[i];
        if (kept->turn && !kept->reader && kept->left + keys->seconds <= now)
            drop_locked(keys, i);
    }
    pthread_mutex_unlock(&keys->mutex);
}
