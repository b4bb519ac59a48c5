/*
 * Coins from a ChaCha20 stream: one of probability p, and how many fall tails before the first that falls heads, in the time of
 * one. What is drawn follows from the words that the stream gives, the same on every machine, and each outcome has the
 * probability that is claimed up to errors far under any delta (N9).
 *
 * SPDX-License-Identifier: GPL-3.0-or-later
 */
#ifndef EPS_NUMERICS_RANDOM_TOSSES_H
#define EPS_NUMERICS_RANDOM_TOSSES_H

#include <stdbool.h>

#include "lib/numerics/random/chacha.h"
#include "lib/numerics/quad.h"

/* One coin: 128 bits of the probability of heads, rounded down. Immutable. */
struct eps__coin {
    uint64_t high, low;
    bool sure;
};

/* p in [0, 1]. */
struct eps__coin eps__coin_make(eps__quad p);
/* True with probability p, less 2^-128 at most. One word, and with probability 2^-64 another. */
bool eps__coin_toss(const struct eps__coin *coin, struct eps__chacha *chacha);

/* Runs of tails of the coin p. Immutable. */
struct eps__tails {
    double inverse;  /* 1/ln(1 - p), within 6 u; -INFINITY for the least p */
    eps__quad exact; /* ln(1 - p) */
    bool sure;       /* p = 1 */
};

/* p in (0, 1]. */
struct eps__tails eps__tails_make(double p);
/*
 * How many tails come before the first heads, or `most` where they are more: k < most with probability p (1-p)^k, all of
 * these together within most 2^-106 (N9); most <= 2^40. Two words; none for p = 1.
 */
uint64_t eps__tails_count(const struct eps__tails *tails, struct eps__chacha *chacha, uint64_t most);

#endif
