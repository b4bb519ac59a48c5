/*
 * The keys of streams that may be taken up again: what was begun under one goes on under it, by the stream's id, until nobody has
 * read it for a while. They are in memory alone, in pages that are kept out of core dumps and, where the system lets so much be
 * locked, of swap; a key is wiped when it is dropped. So nothing is left of them once the service has ended.
 *
 * An id is drawn beside the key and says nothing of it; but who has the id can have the stream read out. One key is for one
 * request: each has a digest of what it was asked for, and goes to none that differs, for what two strategies or two sizes
 * make of one key gives both away.
 *
 * There is room for KEYS_MOST, of which KEYS_OF_ONE for those of one address that nobody reads. Where there is none left, the one
 * that nobody has read for longest is dropped. Thread-safe.
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

/* A reader's hold of a stream. */
struct keys_hold {
    char id[KEYS_ID];
    uint64_t turn; /* 0: none; a stream's readers count up */
};

enum keys_status { KEYS_FOUND, KEYS_UNKNOWN, KEYS_DIFFERENT };

/* seconds: for how long the key of a stream is kept that nobody reads; 0: none is kept. NULL: out of memory. */
struct keys *keys_create(double seconds);
void keys_destroy(struct keys *keys);

/* Keeps the key of a stream that begins, and draws its id. address: the client's. reader: what the next one is told of this one, not 0.
 * Where it cannot be kept, hold->turn is 0 and hold->id is "". */
void keys_keep(struct keys *keys, struct keys_hold *hold, const uint8_t key[KEYS_KEY],
               const uint8_t digest[KEYS_DIGEST], const char *address, uint64_t reader);

/*
 * The key of the stream hold->id, for another reader. KEYS_UNKNOWN: it is not kept; KEYS_DIFFERENT: what it was kept for has
 * another digest; both leave the key and hold->turn unset. *before: the last reader, if it still holds the stream, which from now on it
 * does not, else 0.
 */
enum keys_status keys_take(struct keys *keys, struct keys_hold *hold, uint8_t key[KEYS_KEY],
                           const uint8_t digest[KEYS_DIGEST], uint64_t reader, uint64_t *before);

/* The reader has gone. */
void keys_leave(struct keys *keys, const struct keys_hold *hold);

/* Drops what nobody has read for too long. To be called again and again. */
void keys_expire(struct keys *keys);

#endif
