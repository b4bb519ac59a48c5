/*
 * Cryptographically secure random numbers: the key stream of ChaCha20 (libsodium) under a 256-bit key. Noise that is
 * released and batches that are formed are drawn from here; simulations draw from counters instead
 * (numerics/lanes/lanes.h).
 *
 * The numbers depend only on the key, the stream and how many were drawn before, on every machine. Different streams of
 * one key are as good as independent.
 *
 * SPDX-License-Identifier: GPL-3.0-or-later
 */
#ifndef EPS_NUMERICS_RANDOM_CHACHA_H
#define EPS_NUMERICS_RANDOM_CHACHA_H

#include <stddef.h>
#include <stdint.h>

#define EPS__CHACHA_KEY 32 /* bytes */

enum { EPS__CHACHA_WORDS = 128 }; /* generated at a time: 16 blocks, of which libsodium computes eight in parallel */

/* Thread-compatible. Holds the key and key stream not yet drawn: call eps__chacha_clear() when done. */
struct eps__chacha {
    uint8_t key[EPS__CHACHA_KEY];
    uint8_t stream[8];
    uint64_t block; /* the next block to generate; a stream has 2^64 of them, so it never runs out */
    size_t used;    /* words already drawn */
    uint64_t words[EPS__CHACHA_WORDS];
};

/* Starts a stream of the key at its beginning. Copies the key. */
void eps__chacha_init(struct eps__chacha *chacha, const uint8_t key[EPS__CHACHA_KEY], uint64_t stream);

/* 64 random bits: the next 8 bytes of the key stream, little-endian. */
uint64_t eps__chacha_bits(struct eps__chacha *chacha);

/* A multiple of 2^-53 in [0, 1), all equally likely. Draws one word. */
double eps__chacha_uniform(struct eps__chacha *chacha);

/* An integer in [0, n), all exactly equally likely; n >= 1. Draws one word, and another with probability below
 * n/2^64. */
uint64_t eps__chacha_below(struct eps__chacha *chacha, uint64_t n);

/* Wipes the key and the words. The object may be initialised again. */
void eps__chacha_clear(struct eps__chacha *chacha);

#endif
