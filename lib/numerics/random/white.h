/*
 * Cryptographically secure white Gaussian noise: rows of independent N(0, sigma^2). Any row can be generated at any
 * time, in any order and repeatedly, with the same result. So a product with white noise does not have to store the
 * noise.
 *
 * SPDX-License-Identifier: GPL-3.0-or-later
 */
#ifndef EPS_NUMERICS_RANDOM_WHITE_H
#define EPS_NUMERICS_RANDOM_WHITE_H

#include <stddef.h>
#include <stdint.h>

#include "lib/numerics/random/chacha.h"

/* How many numbers of a row one stream of the key gives. */
enum { EPS__WHITE_TILE = 4096 };

/* Immutable while in use. Holds the key: call eps__white_clear() when done. */
struct eps__white {
    uint8_t key[EPS__CHACHA_KEY];
    double sigma;
};

/*
 * Writes numbers first .. first + count - 1 of row `row`. first is a multiple of EPS__WHITE_TILE, first + count <=
 * 2^40, row < 2^36.
 *
 * Box-Muller from ChaCha20. The uniform number of the radius lies in (0, 1], goes down to 2^-128 and has 53 significant
 * bits everywhere, so that the tail is right up to 13 sigma. The angle has 53 bits. Each number is off by a few units
 * of roundoff of its radius. As with every Gaussian in floating point, the numbers take finitely many values whose
 * density varies: see api/DRAWING.md on Mironov (2012).
 */
void eps__white_row(const struct eps__white *white, double *out, uint64_t row, size_t first, size_t count);

void eps__white_clear(struct eps__white *white);

#endif
