/*
 * Each tile of a row is one stream of ChaCha20, numbered by row and tile. SLEEF's functions give the same results on
 * every machine (numerics/lanes/lanes.h), so the noise does too.
 *
 * SPDX-License-Identifier: GPL-3.0-or-later
 */
#include "lib/numerics/random/white.h"

#include <sodium.h>
#include <string.h>

#include "lib/numerics/lanes/lanes.h"

__extension__ typedef unsigned __int128 wide;

/* PAIR: the numbers in two rows of lanes. PAIRS: pairs generated at a time. TILES_BITS: bits of a stream number that
 * hold the tile. */
enum { PAIR = 2 * EPS__LANES, PAIRS = 8, TILES_BITS = 28 };

_Static_assert(EPS__WHITE_TILE % (PAIR * PAIRS) == 0, "a tile must consist of whole blocks of normals");

/* Uniform in (0, 1]. Takes 64 bits, or 128 if fewer than 53 of the 64 are significant (probability 2^-11). */
static double uniform(struct eps__chacha *chacha)
{
    uint64_t bits = eps__chacha_bits(chacha);
    if (bits >> 53)
        return (double)bits * 0x1p-64;
    return (double)((wide)bits << 64 | eps__chacha_bits(chacha) | 1) * 0x1p-128;
}

/* Fills `pairs` pairs of rows of lanes with standard normals. */
static void fill(struct eps__chacha *chacha, double *out, size_t pairs)
{
    for (double *pair = out, *end = out + PAIR * pairs; pair < end; pair += PAIR) {
        for (size_t i = 0; i < EPS__LANES; i++)
            pair[i] = uniform(chacha);
        for (size_t i = EPS__LANES; i < PAIR; i++)
            pair[i] = 2 * eps__chacha_uniform(chacha);
    }
    eps__normals_turn(out, 2 * pairs);
}

void eps__white_row(const struct eps__white *white, double *out, uint64_t row, size_t first, size_t count)
{
    struct eps__chacha chacha;
    double normals[PAIR * PAIRS];
    for (size_t i = 0; i < count; i += PAIR * PAIRS) {
        if (i % EPS__WHITE_TILE == 0)
            eps__chacha_init(&chacha, white->key, row << TILES_BITS | (first + i) / EPS__WHITE_TILE);
        size_t len = count - i < PAIR * PAIRS ? count - i : PAIR * PAIRS;
        fill(&chacha, normals, (len - 1) / PAIR + 1);
        for (size_t k = 0; k < len; k++)
            out[i + k] = white->sigma * normals[k];
    }
    eps__chacha_clear(&chacha);
    sodium_memzero(normals, sizeof normals);
}

void eps__white_clear(struct eps__white *white)
{
    sodium_memzero(white, sizeof *white);
}
