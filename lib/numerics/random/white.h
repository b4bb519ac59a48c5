/*
 * White Gaussian noise that nobody can foresee: rows of independent N(0, sigma^2), any of which can be made at any
 * time, in any order, as often as it is needed, and is the same each time. So a product with white noise need not keep
 * the noise.
 *
 * SPDX-License-Identifier: GPL-3.0-or-later
 */
#ifndef EPS_NUMERICS_RANDOM_WHITE_H
#define EPS_NUMERICS_RANDOM_WHITE_H

#include <stddef.h>
#include <stdint.h>

#include "lib/numerics/random/chacha.h"

/* Numbers of a row that come from one stream of the key. */
enum { EPS__WHITE_TILE = 4096 };

/* Immutable while it is used. Holds the key: eps__white_clear() when done. */
struct eps__white {
    uint8_t key[EPS__CHACHA_KEY];
    double sigma;
};

/*
 * Numbers first .. first + count - 1 of row `row`: first a multiple of EPS__WHITE_TILE, first + count <= 2^40, row <
 * 2^36. By Box and Muller from ChaCha20: a radius from a uniform number of 53 leading bits wherever it lies in (0, 1],
 * down to 2^-128, so that the tail is right up to 13 sigma, and an angle of 53 bits. Each is off by a few units of
 * rounding of its radius. Like every Gaussian in floating point it takes finitely many values, not equally dense
 * everywhere: see api/DRAWING.md on Mironov (2012).
 */
void eps__white_row(const struct eps__white *white, double *out, uint64_t row, size_t first, size_t count);

void eps__white_clear(struct eps__white *white);

#endif
