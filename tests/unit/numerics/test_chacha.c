/*
 * Random numbers from ChaCha20: the key stream compared with RFC 8439 and libsodium, and integers below a limit, which
 * are all equally likely.
 *
 * SPDX-License-Identifier: GPL-3.0-or-later
 */
#include <math.h>
#include <sodium.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "lib/numerics/random/chacha.h"
#include "tests/unit/test.h"

/* The words of one block, drawn one after another from the start of the stream. */
static void draw_block(uint64_t words[8], const uint8_t key[32], uint64_t stream, size_t block)
{
    struct eps__chacha chacha;
    eps__chacha_init(&chacha, key, stream);
    for (size_t b = 0; b <= block; b++)
        for (size_t i = 0; i < 8; i++)
            words[i] = eps__chacha_bits(&chacha);
    eps__chacha_clear(&chacha);
}

static void assert_block(const uint8_t key[32], uint64_t stream, size_t block, const char *hex)
{
    uint64_t words[8];
    uint8_t bytes[64];
    char text[129];
    draw_block(words, key, stream, block);
    for (size_t i = 0; i < sizeof bytes; i++)
        bytes[i] = (uint8_t)(words[i / 8] >> (8 * (i % 8)));
    sodium_bin2hex(text, sizeof text, bytes, sizeof bytes);
    assert_string_equal(text, hex);
}

/* RFC 8439, appendix A.1: the vectors whose counter is small. The last four bytes of its nonce are the upper half
 * of the stream. */
TEST(key_stream_is_that_of_the_rfc)
{
    uint8_t zero[32] = {0}, one[32] = {0}, ff[32] = {0};
    one[31] = 1;
    ff[1] = 0xff;
    assert_block(zero, 0, 0,
                 "76b8e0ada0f13d90405d6ae55386bd28bdd219b8a08ded1aa836efcc8b770dc7"
                 "da41597c5157488d7724e03fb8d84a376a43b8f41518a11cc387b669b2ee6586");
    assert_block(zero, 0, 1,
                 "9f07e7be5551387a98ba977c732d080dcb0f29a048e3656912c6533e32ee7aed"
                 "29b721769ce64e43d57133b074d839d531ed1f28510afb45ace10a1f4b794d6f");
    assert_block(one, 0, 1,
                 "3aeb5224ecf849929b9d828db1ced4dd832025e8018b8160b82284f3c949aa5a"
                 "8eca00bbb4a73bdad192b5c42f73f2fd4e273644c8b36125a64addeb006c13a0");
    assert_block(ff, 0, 2,
                 "72d54dfbf12ec44b362692df94137f328fea8da73990265ec1bbbea1ae9af0ca"
                 "13b25aa26cb4a648cb9b9d1be65b2c0924a66c54d545ec1b7374f4872e99f096");
    assert_block(zero, UINT64_C(0x0200000000000000), 0,
                 "c2c64d378cd536374ae204b9ef933fcd1a8b2288b3dfa49672ab765b54ee27c7"
                 "8a970e0e955c14f3a88e741b97c286f75f8fc299e8148362fa198a39531bed6d");
}

/* Over many refills the words are those of one long call, and uniforms are their upper 53 bits; each stream is
 * independent. */
TEST(words_go_on_from_block_to_block)
{
    enum { WORDS = 5 * EPS__CHACHA_WORDS + 3 };
    static uint8_t bytes[8 * WORDS];
    uint8_t key[32], nonce[8] = {0xef, 0xcd, 0xab, 0x89, 0x67, 0x45, 0x23, 0x01};
    for (size_t i = 0; i < sizeof key; i++)
        key[i] = (uint8_t)(7 * i + 1);
    crypto_stream_chacha20(bytes, sizeof bytes, nonce, key);

    struct eps__chacha chacha, other;
    eps__chacha_init(&chacha, key, UINT64_C(0x0123456789abcdef));
    eps__chacha_init(&other, key, UINT64_C(0x0123456789abcdf0));
    for (size_t i = 0; i < WORDS; i++) {
        uint64_t word = 0;
        for (size_t j = 0; j < 8; j++)
            word |= (uint64_t)bytes[8 * i + j] << (8 * j);
        if (i % 2)
            assert_true(eps__chacha_bits(&chacha) == word);
        else
            assert_true(eps__chacha_uniform(&chacha) == ldexp((double)(word >> 11), -53));
        assert_true(eps__chacha_bits(&other) != word);
    }
    eps__chacha_clear(&other);
    eps__chacha_clear(&chacha);
    static const struct eps__chacha wiped;
    assert_memory_equal(&chacha, &wiped, sizeof wiped);
}

/* Counts compared with a uniform law: chi-square with `cells` - 1 degrees of freedom has mean cells - 1 and variance 2
 * (cells - 1); six standard deviations are exceeded by chance once in 10^7, and the key is fixed. */
static void assert_uniform(const size_t *counts, size_t cells, size_t draws)
{
    double expected = (double)draws / (double)cells, square = 0, freedom = (double)(cells - 1);
    for (size_t i = 0; i < cells; i++)
        square += ((double)counts[i] - expected) * ((double)counts[i] - expected) / expected;
    assert_true(fabs(square - freedom) <= 6 * sqrt(2 * freedom));
}

TEST(integers_under_a_limit_are_equally_likely)
{
    enum { DRAWS = 300000, CELLS = 60 };
    static const uint8_t key[32] = "integers under a limit";
    struct eps__chacha chacha;
    eps__chacha_init(&chacha, key, 0);
    for (size_t i = 0; i < 100; i++)
        assert_int_equal(eps__chacha_below(&chacha, 1), 0);
    size_t few[CELLS] = {0}, many[CELLS] = {0}, thirds[3] = {0};
    /* Without rejection, where 2^64 words share 3 2^62 results, every third result would get two of them, the others
     * one. */
    const uint64_t limit = UINT64_C(3) << 62;
    for (size_t i = 0; i < DRAWS; i++) {
        few[eps__chacha_below(&chacha, CELLS)]++;
        uint64_t large = eps__chacha_below(&chacha, limit);
        many[large / (limit / CELLS)]++;
        thirds[large % 3]++;
    }
    assert_uniform(few, CELLS, DRAWS);
    assert_uniform(many, CELLS, DRAWS);
    assert_uniform(thirds, 3, DRAWS);
    eps__chacha_clear(&chacha);
}
