/*
 * Content ids. Doubles are written byte by byte into a small buffer, so that the id does not depend on the machine's
 * byte order and hashing a million coefficients calls libsodium only once per 4 KiB.
 *
 * SPDX-License-Identifier: GPL-3.0-or-later
 */
#include "lib/numerics/hash.h"

#include <string.h>

static void store_le(uint8_t out[8], uint64_t value)
{
    for (int i = 0; i < 8; i++)
        out[i] = (uint8_t)(value >> (8 * i));
}

void eps__hash_init(struct eps__hash *hash, const char *tag)
{
    crypto_generichash_init(&hash->state, NULL, 0, EPS__HASH_BYTES);
    /* The NUL ends the tag, so that no tag is a prefix of another tag's input. */
    eps__hash_bytes(hash, tag, strlen(tag) + 1);
}

void eps__hash_bytes(struct eps__hash *hash, const void *bytes, size_t len)
{
    crypto_generichash_update(&hash->state, bytes, len);
}

void eps__hash_u64(struct eps__hash *hash, uint64_t value)
{
    uint8_t bytes[8];
    store_le(bytes, value);
    eps__hash_bytes(hash, bytes, sizeof bytes);
}

void eps__hash_doubles(struct eps__hash *hash, const double *values, size_t len)
{
    uint8_t buffer[512 * 8];
    while (len) {
        size_t chunk = len < 512 ? len : 512;
        for (size_t i = 0; i < chunk; i++) {
            double value = values[i] == 0 ? 0 : values[i];
            uint64_t bits;
            memcpy(&bits, &value, sizeof bits);
            store_le(buffer + 8 * i, bits);
        }
        eps__hash_bytes(hash, buffer, 8 * chunk);
        values += chunk;
        len -= chunk;
    }
}

void eps__hash_final(struct eps__hash *hash, uint8_t digest[EPS__HASH_BYTES])
{
    crypto_generichash_final(&hash->state, digest, EPS__HASH_BYTES);
}

void eps__hash_hex(char hex[EPS__HASH_HEX], const uint8_t digest[EPS__HASH_BYTES])
{
    sodium_bin2hex(hex, EPS__HASH_HEX, digest, EPS__HASH_BYTES);
}
