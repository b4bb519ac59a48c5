/*
 * Coin tosses from a ChaCha20 stream: a single toss with probability p of heads, and the number of tails before the
 * first heads, which takes as long as one toss. The results depend only on the words of the stream, on every machine.
 * Their probabilities differ from the exact ones by errors far below any delta (N9).
 *
 * SPDX-License-Identifier: GPL-3.0-or-later
 */
#ifndef EPS_NUMERICS_RANDOM_TOSSES_H
#define EPS_NUMERICS_RANDOM_TOSSES_H

#include <stdbool.h>

#include "lib/numerics/random/chacha.h"
#include "lib/numerics/quad.h"

/* A coin: the probability of heads, rounded down to 128 bits. Immutable. */
struct eps__coin {
    uint64_t high, low;
    bool sure;
};

/* Makes a coin that falls heads with probability p in [0, 1]. */
struct eps__coin eps__coin_make(eps__quad p);
/* Tosses a coin: true (heads) with probability p, or up to 2^-128 less. Draws one word, and another with probability
 * 2^-64. */
bool eps__coin_toss(const struct eps__coin *coin, struct eps__chacha *chacha);

/* The lengths of runs of tails of a coin. Immutable. */
struct eps__tails {
    double inverse;  /* 1/ln(1 - p), to within 6u; -INFINITY for the smallest p */
    eps__quad exact; /* ln(1 - p) */
    bool sure;       /* p = 1 */
};

/* p in (0, 1], the probability of heads. */
struct eps__tails eps__tails_make(double p);
/* The number of tails before the first heads, or `most` if there are more. Each k < most has probability p (1-p)^k,
 * with a total error below most 2^-107 (N9). most <= 2^40. Draws two words, or none for p = 1. */
uint64_t eps__tails_count(const struct eps__tails *tails, struct eps__chacha *chacha, uint64_t most);

#endif
