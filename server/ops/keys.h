/*
 * The keys of streams that can be resumed by their id until they have had no reader for some time. They are only in
 * memory, in pages that are excluded from core dumps and, if the system allows locking that much, from swap; a key is
 * wiped when it is dropped. Nothing is left of them after the service has ended.
 *
 * An id is drawn independently of the key and reveals nothing about it, but anyone who has the id can read the stream.
 * A key is for one request: each is stored with a digest of its request, and is not given to a different one, because
 * the outputs for two strategies or sizes from one key would reveal both.
 *
 * There is room for KEYS_MOST, of which KEYS_OF_ONE may belong to streams without a reader of one address. If there is
 * no room, the stream that has been without a reader for the longest time is dropped. Thread-safe.
 *
 * SPDX-License-Identifier: GPL-3.0-or-later
 */
#ifndef SERVER_OPS_KEYS_H
#define SERVER_OPS_KEYS_H

#include <stddef.h>
#include <stdint.h>

#define KEYS_KEY 32    /* bytes */
#define KEYS_ID 65     /* 64 hexadecimal digits and NUL */
#define KEYS_DIGEST 32 /* bytes */
#define KEYS_MOST 4096
#define KEYS_OF_ONE 512

struct keys;

/* The right of a reader to a stream. */
struct keys_hold {
    char id[KEYS_ID];
    uint64_t turn; /* 0: none; counts the readers of a stream */
};

enum keys_status { KEYS_FOUND, KEYS_UNKNOWN, KEYS_DIFFERENT };

/* seconds: how long the key of a stream without a reader is kept; 0: no keys are kept. NULL: out of memory. */
struct keys *keys_create(double seconds);
void keys_destroy(struct keys *keys);

/* Stores the key of a new stream and draws its id. address: of the client. reader: a value, not 0, that is passed to
 * the next reader. If it cannot be stored, hold->turn is 0 and hold->id is "". */
void keys_keep(struct keys *keys, struct keys_hold *hold, const uint8_t key[KEYS_KEY],
               const uint8_t digest[KEYS_DIGEST], const char *address, uint64_t reader);

/*
 * The key of the stream hold->id, for another reader. KEYS_UNKNOWN: it is not stored; KEYS_DIFFERENT: it was stored
 * with another digest; neither sets the key or hold->turn. *before: the previous reader if it still had the stream,
 * which it loses; otherwise 0.
 */
enum keys_status keys_take(struct keys *keys, struct keys_hold *hold, uint8_t key[KEYS_KEY],
                           const uint8_t digest[KEYS_DIGEST], uint64_t reader, uint64_t *before);

/* The reader has left. */
void keys_leave(struct keys *keys, const struct keys_hold *hold);

/* Drops the keys of streams that have had no reader for too long. Call periodically. */
void keys_expire(struct keys *keys);

#endif
