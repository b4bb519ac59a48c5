/*
 * Four lanes at a time (lanes_of.h), for machines with AVX2 and FMA.
 *
 * The Makefile compiles only this file for such machines; lanes.c checks the processor before it calls.
 *
 * SPDX-License-Identifier: GPL-3.0-or-later
 */
#include "lib/numerics/lanes/lanes_variant.h"

#if defined __AVX2__

#include <immintrin.h>
#include <sleef.h>

enum { WIDTH = 4, TILE = 4 };

typedef __m256d vec;
typedef __m256i words;

struct turned {
    vec sine, cosine;
};

#define exp_of Sleef_cinz_expd4_u10avx
#define log_of Sleef_cinz_logd4_u10avx

static inline struct turned turn_of(vec x)
{
    Sleef___m256d_2 at = Sleef_cinz_sincospid4_u35avx(x);
    return (struct turned){at.x, at.y};
}

static inline vec load(const double *x)
{
    return _mm256_loadu_pd(x);
}

static inline void store(double *x, vec value)
{
    _mm256_storeu_pd(x, value);
}

static inline vec splat(double x)
{
    return _mm256_set1_pd(x);
}

static inline vec fuse(vec a, vec b, vec c)
{
    return _mm256_fmadd_pd(a, b, c);
}

static inline vec root(vec x)
{
    return _mm256_sqrt_pd(x);
}

static inline words spread(uint32_t x)
{
    return _mm256_set1_epi64x(x);
}

static inline words above(uint32_t x)
{
    return _mm256_add_epi64(spread(x), _mm256_set_epi64x(3, 2, 1, 0));
}

static inline words low_product(words a, words b)
{
    return _mm256_mul_epu32(a, b);
}

static inline words high(words x)
{
    return _mm256_srli_epi64(x, 32);
}

/* The upper 32 bits times 2^32 plus the lower 32: both parts are exact, and the sum rounds once. */
static inline vec number(words whole)
{
    const words over = _mm256_castpd_si256(splat(0x1p52));
    vec low = _mm256_castsi256_pd(_mm256_blend_epi32(over, whole, 0x55)) - splat(0x1p52);
    vec up = _mm256_castsi256_pd(high(whole) ^ over) - splat(0x1p52);
    return up * splat(0x1p32) + low;
}

static inline words together(words low, words up)
{
    return _mm256_blend_epi32(_mm256_slli_epi64(up, 32), low, 0x55);
}

static inline vec whole_63(words low, words up)
{
    return number(_mm256_srli_epi64(together(low, up), 1));
}

static inline vec whole_53(words low, words up)
{
    return number(_mm256_srli_epi64(together(low, up), 11));
}

static inline vec lesser(vec a, vec b)
{
    return _mm256_min_pd(a, b);
}

static inline vec greater(vec a, vec b)
{
    return _mm256_max_pd(a, b);
}

static inline int outside(vec x, double least, double most)
{
    return _mm256_movemask_pd(_mm256_or_pd(_mm256_cmp_pd(x, splat(least), _CMP_NGE_UQ),
                                           _mm256_cmp_pd(x, splat(most), _CMP_NLE_UQ))) != 0;
}

#include "lib/numerics/lanes/lanes_of.h"

const struct eps__lanes_variant eps__lanes_avx2 = LANES_VARIANT("avx2");

#endif
