/*
 * Random numbers that nobody can foresee: the key stream of ChaCha20 (libsodium) under a 256-bit key. What is released or
 * formed draws from here; what is only computed draws from counters (numerics/lanes/lanes.h).
 *
 * Everything follows from key, stream and how much was drawn before, the same on every machine. Different streams of one key
 * are as good as independent.
 *
 * SPDX-License-Identifier: GPL-3.0-or-later
 */
#ifndef EPS_NUMERICS_RANDOM_CHACHA_H
#define EPS_NUMERICS_RANDOM_CHACHA_H

#include <stddef.h>
#include <stdint.h>

#define EPS__CHACHA_KEY 32 /* bytes */

enum { EPS__CHACHA_WORDS = 128 }; /* made at a time: 16 blocks, which libsodium makes eight side by side */

/* Thread-compatible. Holds the key and what was not drawn yet: eps__chacha_clear() when done. */
struct eps__chacha {
    uint8_t key[EPS__CHACHA_KEY];
    uint8_t stream[8];
    uint64_t block; /* the next one to be made; a stream of 2^64 blocks never ends */
    size_t used;    /* of words */
    uint64_t words[EPS__CHACHA_WORDS];
};

/* The key is copied. */
void eps__chacha_init(struct eps__chacha *chacha, const uint8_t key[EPS__CHACHA_KEY], uint64_t stream);

/* 64 random bits: the next 8 bytes of the key stream, little-endian. */
uint64_t eps__chacha_bits(struct eps__chacha *chacha);

/* A multiple of 2^-53 in [0, 1), all equally likely. One word. */
double eps__chacha_uniform(struct eps__chacha *chacha);

/* An integer in [0, n), all exactly equally likely; n >= 1. One word, and another with probability under n/2^64. */
uint64_t eps__chacha_below(struct eps__chacha *chacha, uint64_t n);

/* Wipes it. What is wiped may be initialised again. */
void eps__chacha_clear(struct eps__chacha *chacha);

#endif
