/*
 * Lanes one by one (lanes_of.h), for every machine: fma() is the C library's, which is right everywhere and slow where the machine
 * has no such instruction.
 *
 * SPDX-License-Identifier: GPL-3.0-or-later
 */
#include "lib/numerics/lanes_variant.h"

#include <math.h>

#include <sleef.h>

enum { WIDTH = 1, TILE = 1 };

typedef double vec;
typedef uint64_t words;

struct turned {
    vec sine, cosine;
};

#define exp_of Sleef_cinz_expd1_u10purec
#define log_of Sleef_cinz_logd1_u10purec

static inline struct turned turn_of(vec x)
{
    Sleef_double_2 at = Sleef_cinz_sincospid1_u35purec(x);
    return (struct turned){at.x, at.y};
}

static inline vec load(const double *x)
{
    return *x;
}

static inline void store(double *x, vec value)
{
    *x = value;
}

static inline vec splat(double x)
{
    return x;
}

static inline vec fuse(vec a, vec b, vec c)
{
    return fma(a, b, c);
}

static inline vec root(vec x)
{
    return sqrt(x);
}

static inline words spread(uint32_t x)
{
    return x;
}

static inline words above(uint32_t x)
{
    return x;
}

static inline words low_product(words a, words b)
{
    return (a & UINT32_MAX) * (b & UINT32_MAX);
}

static inline words high(words x)
{
    return x >> 32;
}

static inline vec whole_63(words low, words up)
{
    return (double)((up << 32 | (low & UINT32_MAX)) >> 1);
}

static inline vec whole_53(words low, words up)
{
    return (double)((up << 32 | (low & UINT32_MAX)) >> 11);
}

static inline int outside(vec x, double least, double most)
{
    return !(x >= least && x <= most);
}

#include "lib/numerics/lanes_of.h"

const struct eps__lanes_variant eps__lanes_base = LANES_VARIANT("base");
