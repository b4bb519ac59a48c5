/*
 * Coins and runs of tails from ChaCha20: their frequencies compared with the law, for every size of p, and the integers
 * that doubles leave in doubt, compared with quadruple precision.
 *
 * SPDX-License-Identifier: GPL-3.0-or-later
 */
#include <endian.h>
#include <math.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "lib/numerics/random/tosses.h"
#include "tests/unit/test.h"

enum { DRAWS = 400000 };

static const uint8_t key[32] = "coins and runs of tails";

static void assert_near(size_t count, size_t draws, double p)
{
    double mean = (double)draws * p, deviation = sqrt(mean * (1 - p));
    if (fabs((double)count - mean) > 6 * deviation + 1) /* once in 5e8 by chance; the key is fixed */
        fail_msg("%zu of %zu, where %.6g are expected", count, draws, mean);
}

TEST(coins_fall_as_often_as_they_should)
{
    static const double ps[] = {0, 1e-300, 1e-4, 1 / 3.0, 0.5, 0.999, 1 - 0x1p-53, 1};
    struct eps__chacha chacha;
    eps__chacha_init(&chacha, key, 0);
    for (size_t i = 0; i < sizeof ps / sizeof *ps; i++) {
        struct eps__coin coin = eps__coin_make(ps[i]);
        size_t heads = 0;
        for (size_t d = 0; d < DRAWS; d++)
            heads += eps__coin_toss(&coin, &chacha);
        assert_near(heads, DRAWS, ps[i]);
    }
    /* The bits: 2^-64 + 2^-128 has one bit in the first word, and one in the second. */
    struct eps__coin coin = eps__coin_make((eps__quad)0x1p-64 + (eps__quad)0x1p-128);
    assert_true(coin.high == 1 && coin.low == 1);
}

__extension__ typedef unsigned __int128 wide;

/* The words that the next draw uses. */
static void give(struct eps__chacha *chacha, wide words)
{
    eps__chacha_init(chacha, key, 0);
    chacha->used = EPS__CHACHA_WORDS - 2;
    chacha->words[EPS__CHACHA_WORDS - 2] = htole64((uint64_t)(words >> 64));
    chacha->words[EPS__CHACHA_WORDS - 1] = htole64((uint64_t)words);
}

/* N9. Pearson's statistic over the counts that are expected at least ten times, and the rest. */
TEST(tails_come_as_often_as_they_should)
{
    static const double ps[] = {0x1p-20, 1e-3, 0.02, 0.3, 0.5, 0.9, 1 - 0x1p-20};
    enum { CELLS = 200 };
    struct eps__chacha chacha;
    eps__chacha_init(&chacha, key, 1);
    for (size_t i = 0; i < sizeof ps / sizeof *ps; i++) {
        struct eps__tails tails = eps__tails_make(ps[i]);
        /* Cells of several integers, such that about CELLS of them contain nearly everything. */
        uint64_t width = (uint64_t)ceil(10 / (ps[i] * CELLS)), counts[CELLS + 1] = {0}, most = width * CELLS;
        for (size_t d = 0; d < DRAWS; d++)
            counts[eps__tails_count(&tails, &chacha, most) / width]++;
        double square = 0, rest = 0, left = 0, freedom = -1;
        for (size_t c = 0; c <= CELLS; c++) {
            double from = exp((double)(c * width) * log1p(-ps[i]));
            double expected = DRAWS * (c < CELLS ? -from * expm1((double)width * log1p(-ps[i])) : from);
            if (expected < 10) {
                rest += expected;
                left += (double)counts[c];
                continue;
            }
            square += ((double)counts[c] - expected) * ((double)counts[c] - expected) / expected;
            freedom++;
        }
        if (rest > 1) {
            square += (left - rest) * (left - rest) / rest;
            freedom++;
        } else {
            assert_true(left <= 25);
        }
        if (square > freedom + 6 * sqrt(2 * freedom) + 20)
            fail_msg("p = %g: chi-square %.1f of %.0f", ps[i], square, freedom);
    }
    struct eps__tails certain = eps__tails_make(1), never = eps__tails_make(5e-324);
    assert_int_equal(eps__tails_count(&certain, &chacha, 1), 0);
    for (size_t d = 0; d < 1000; d++)
        assert_int_equal(eps__tails_count(&never, &chacha, 1000), 1000);
}

/* N9. Words around (1-p)^k, which doubles cannot distinguish: above it there are k - 1 tails, below it k. */
TEST(doubts_are_settled_exactly)
{
    static const double ps[] = {1e-9, 1e-3, 0.25, 0.7};
    const wide near = (wide)1 << 40; /* 2^-88, over all errors at the edge */
    struct eps__chacha chacha;
    for (size_t i = 0; i < sizeof ps / sizeof *ps; i++) {
        struct eps__tails tails = eps__tails_make(ps[i]);
        for (uint64_t k = 1; k <= 40; k++) {
            struct eps__coin bits = eps__coin_make(expq((eps__quad)k * log1pq(-(eps__quad)ps[i])));
            wide edge = (wide)bits.high << 64 | bits.low;
            give(&chacha, edge + near);
            assert_int_equal(eps__tails_count(&tails, &chacha, 1000), k - 1);
            give(&chacha, edge - near);
            assert_int_equal(eps__tails_count(&tails, &chacha, 1000), k);
            give(&chacha, edge - near);
            assert_int_equal(eps__tails_count(&tails, &chacha, k - 1), k - 1);
            assert_int_equal(chacha.used, EPS__CHACHA_WORDS); /* two words, whatever they are */
        }
    }
    /* The smallest and largest words. */
    struct eps__tails tails = eps__tails_make(0.5);
    give(&chacha, ~(wide)0);
    assert_int_equal(eps__tails_count(&tails, &chacha, 1000), 0);
    give(&chacha, 0);
    assert_int_equal(eps__tails_count(&tails, &chacha, 1000), 129);
    give(&chacha, 0);
    assert_int_equal(eps__tails_count(&tails, &chacha, 100), 100);
}
