/*
 * ChaCha20 as Bernstein defined it, with a 64-bit stream number and a 64-bit counter, so that a stream never runs out.
 * (RFC 8439 gives 32 bits of the counter to the nonce.)
 *
 * SPDX-License-Identifier: GPL-3.0-or-later
 */
#include "lib/numerics/random/chacha.h"

#include <endian.h>
#include <sodium.h>
#include <string.h>

__extension__ typedef unsigned __int128 product;

enum { BLOCKS = EPS__CHACHA_WORDS / 8 };

_Static_assert(EPS__CHACHA_KEY == crypto_stream_chacha20_KEYBYTES, "EPS__CHACHA_KEY must be libsodium's key length");
_Static_assert(sizeof((struct eps__chacha *)0)->stream == crypto_stream_chacha20_NONCEBYTES,
               "stream must have libsodium's nonce length");

void eps__chacha_init(struct eps__chacha *chacha, const uint8_t key[EPS__CHACHA_KEY], uint64_t stream)
{
    uint64_t little = htole64(stream);
    memcpy(chacha->key, key, sizeof chacha->key);
    memcpy(chacha->stream, &little, sizeof little);
    chacha->block = 0;
    chacha->used = EPS__CHACHA_WORDS;
}

static void refill(struct eps__chacha *chacha)
{
    unsigned char *bytes = (unsigned char *)chacha->words;
    memset(bytes, 0, sizeof chacha->words);
    crypto_stream_chacha20_xor_ic(bytes, bytes, sizeof chacha->words, chacha->stream, chacha->block, chacha->key);
    chacha->block += BLOCKS;
    chacha->used = 0;
}

uint64_t eps__chacha_bits(struct eps__chacha *chacha)
{
    if (chacha->used == EPS__CHACHA_WORDS)
        refill(chacha);
    return le64toh(chacha->words[chacha->used++]);
}

double eps__chacha_uniform(struct eps__chacha *chacha)
{
    return (double)(eps__chacha_bits(chacha) >> 11) * 0x1p-53;
}

/* The upper half of a random word times n. Each result comes from floor(2^64/n) or ceil(2^64/n) words; rejecting a
 * lower half below 2^64 mod n removes the surplus words (Lemire 2019). */
uint64_t eps__chacha_below(struct eps__chacha *chacha, uint64_t n)
{
    product wide = (product)eps__chacha_bits(chacha) * n;
    if ((uint64_t)wide < n) {
        uint64_t surplus = -n % n;
        while ((uint64_t)wide < surplus)
            wide = (product)eps__chacha_bits(chacha) * n;
    }
    return (uint64_t)(wide >> 64);
}

void eps__chacha_clear(struct eps__chacha *chacha)
{
    sodium_memzero(chacha, sizeof *chacha);
}
