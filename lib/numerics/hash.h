/*
 * Content ids: BLAKE2b (libsodium's generichash) over numbers in a fixed byte order, so that an id is the same on every
 * machine.
 *
 * SPDX-License-Identifier: GPL-3.0-or-later
 */
#ifndef EPS_NUMERICS_HASH_H
#define EPS_NUMERICS_HASH_H

#include <sodium.h>
#include <stddef.h>
#include <stdint.h>

#define EPS__HASH_BYTES 32
#define EPS__HASH_HEX 65 /* 64 digits and a NUL */

/* Thread-compatible. Needs no cleanup. */
struct eps__hash {
    crypto_generichash_state state;
};

/* Starts a hash. `tag` names what is hashed and in which form, so that ids of different things never collide. */
void eps__hash_init(struct eps__hash *hash, const char *tag);
/* Hashes len bytes. */
void eps__hash_bytes(struct eps__hash *hash, const void *bytes, size_t len);
/* Hashes an integer as 8 bytes, little-endian. */
void eps__hash_u64(struct eps__hash *hash, uint64_t value);
/* Hashes doubles as little-endian IEEE 754, -0 as 0. Does not hash len: the caller does, unless it is implied. */
void eps__hash_doubles(struct eps__hash *hash, const double *values, size_t len);
/* Ends the hash and writes its digest. */
void eps__hash_final(struct eps__hash *hash, uint8_t digest[EPS__HASH_BYTES]);

/* Writes a digest as a lower-case hexadecimal string with a NUL. */
void eps__hash_hex(char hex[EPS__HASH_HEX], const uint8_t digest[EPS__HASH_BYTES]);

#endif
