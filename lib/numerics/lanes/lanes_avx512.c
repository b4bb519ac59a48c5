/*
 * Eight lanes at a time (lanes_of.h), for machines with AVX-512.
 *
 * The Makefile compiles only this file for such machines; lanes.c checks the processor before it calls.
 *
 * SPDX-License-Identifier: GPL-3.0-or-later
 */
#include "lib/numerics/lanes/lanes_variant.h"

#if defined __AVX512DQ__

#include <immintrin.h>
#include <sleef.h>

enum { WIDTH = 8, TILE = 8 };

typedef __m512d vec;
typedef __m512i words;

struct turned {
    vec sine, cosine;
};

#define exp_of Sleef_cinz_expd8_u10avx512fnofma
#define log_of Sleef_cinz_logd8_u10avx512fnofma

static inline struct turned turn_of(vec x)
{
    Sleef___m512d_2 at = Sleef_cinz_sincospid8_u35avx512fnofma(x);
    return (struct turned){at.x, at.y};
}

static inline vec load(const double *x)
{
    return _mm512_loadu_pd(x);
}

static inline void store(double *x, vec value)
{
    _mm512_storeu_pd(x, value);
}

static inline vec splat(double x)
{
    return _mm512_set1_pd(x);
}

static inline vec fuse(vec a, vec b, vec c)
{
    return _mm512_fmadd_pd(a, b, c);
}

static inline vec root(vec x)
{
    return _mm512_sqrt_pd(x);
}

static inline words spread(uint32_t x)
{
    return _mm512_set1_epi64(x);
}

static inline words above(uint32_t x)
{
    return _mm512_add_epi64(spread(x), _mm512_set_epi64(7, 6, 5, 4, 3, 2, 1, 0));
}

static inline words low_product(words a, words b)
{
    return _mm512_mul_epu32(a, b);
}

/* A shuffle of 32-bit halves, because a shift would compete with the multiplications for a port. */
static inline words high(words x)
{
    return _mm512_shuffle_epi32(x, 0xF5);
}

static inline words together(words low, words up)
{
    return _mm512_mask_blend_epi32(0x5555, _mm512_slli_epi64(up, 32), low);
}

static inline vec whole_63(words low, words up)
{
    return _mm512_cvtepu64_pd(_mm512_srli_epi64(together(low, up), 1));
}

static inline vec whole_53(words low, words up)
{
    return _mm512_cvtepu64_pd(_mm512_srli_epi64(together(low, up), 11));
}

static inline vec lesser(vec a, vec b)
{
    return _mm512_min_pd(a, b);
}

static inline vec greater(vec a, vec b)
{
    return _mm512_max_pd(a, b);
}

static inline int outside(vec x, double least, double most)
{
    return (_mm512_cmp_pd_mask(x, splat(least), _CMP_NGE_UQ) | _mm512_cmp_pd_mask(x, splat(most), _CMP_NLE_UQ)) != 0;
}

#include "lib/numerics/lanes/lanes_of.h"

const struct eps__lanes_variant eps__lanes_avx512 = LANES_VARIANT("avx512");

#endif
