/*
 * Runs of tails by inversion: with U uniform, ln U/ln(1 - p) is at least k with probability (1 - p)^k. It is computed
 * in doubles, with an error bound. In the rare case that the bound leaves more than one integer possible, it is
 * computed again in quadruple precision from 128 bits of U.
 *
 * SPDX-License-Identifier: GPL-3.0-or-later
 */
#include "lib/numerics/random/tosses.h"

#include <assert.h>
#include <math.h>

#define UNIT 0x1p-53

struct eps__coin eps__coin_make(eps__quad p)
{
    assert(p >= 0 && p <= 1);
    struct eps__coin coin = {.sure = p >= 1};
    if (!coin.sure) {
        eps__quad upper = p * 0x1p64;
        coin.high = (uint64_t)upper;
        coin.low = (uint64_t)((upper - (eps__quad)coin.high) * 0x1p64);
    }
    return coin;
}

bool eps__coin_toss(const struct eps__coin *coin, struct eps__chacha *chacha)
{
    uint64_t word = eps__chacha_bits(chacha);
    if (coin->sure || word != coin->high)
        return coin->sure || word < coin->high;
    return eps__chacha_bits(chacha) < coin->low;
}

struct eps__tails eps__tails_make(double p)
{
    assert(p > 0 && p <= 1);
    if (p == 1)
        return (struct eps__tails){.sure = true};
    return (struct eps__tails){.inverse = 1 / log1p(-p), .exact = log1pq(-(eps__quad)p)};
}

/* Computes the count in quadruple precision. U is the middle of the cell that the 128 bits select. */
static uint64_t count_exactly(const struct eps__tails *tails, uint64_t high, uint64_t low, uint64_t most)
{
    eps__quad uniform = (((eps__quad)high * 0x1p64 + (eps__quad)low) + 0.5) * 0x1p-128;
    eps__quad count = logq(uniform) / tails->exact;
    return count < (eps__quad)most ? (uint64_t)count : most;
}

uint64_t eps__tails_count(const struct eps__tails *tails, struct eps__chacha *chacha, uint64_t most)
{
    assert(most <= UINT64_C(1) << 40);
    if (tails->sure)
        return 0;
    /* Always draw both words, so that later draws do not depend on the C library's log(). */
    uint64_t high = eps__chacha_bits(chacha), low = eps__chacha_bits(chacha);
    double uniform = ((double)(high >> 12) + 0.5) * 0x1p-52; /* exact; it differs from U by less than 2^-53 */
    double count = log(uniform) * tails->inverse;
    double off = 16 * UNIT * count - 1.1 * UNIT / uniform * tails->inverse; /* N9 */
    if (uniform > 0x1p-40) {
        if (count - off >= (double)most)
            return most;
        double below = floor(count - off);
        if (below >= 0 && below == floor(count + off))
            return (uint64_t)below;
    }
    return count_exactly(tails, high, low, most);
}
