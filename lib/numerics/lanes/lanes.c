/*
 * See lanes.h. The loops are in lanes_of.h, which is compiled three times: here one lane at a time, for every machine
 * (fma() is then the C library's, correct everywhere but slow without the instruction), and with vectors in
 * lanes_avx2.c and lanes_avx512.c. Each call asks the processor which variant to use, so that there is no global state.
 *
 * SPDX-License-Identifier: GPL-3.0-or-later
 */
#include "lib/numerics/lanes/lanes_variant.h"

#include <math.h>

#include <Random123/philox.h>
#include <sleef.h>

/* ------------------------------------------------------------ one lane at a time */

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

static inline vec lesser(vec a, vec b)
{
    return a < b ? a : b;
}

static inline vec greater(vec a, vec b)
{
    return a > b ? a : b;
}

static inline int outside(vec x, double least, double most)
{
    return !(x >= least && x <= most);
}

#include "lib/numerics/lanes/lanes_of.h"

const struct eps__lanes_variant eps__lanes_base = LANES_VARIANT("base");

/* ------------------------------------------------------------ the choice */

const struct eps__lanes_variant *eps__lanes_variant(size_t i)
{
#if defined __x86_64__
    if (__builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512dq") && i-- == 0)
        return &eps__lanes_avx512;
    if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") && i-- == 0)
        return &eps__lanes_avx2;
#endif
    return i == 0 ? &eps__lanes_base : NULL;
}

void eps__normals(double *out, const struct eps__stream *stream, uint32_t draw, size_t first, size_t rows)
{
    eps__lanes_variant(0)->normals(out, stream, draw, first, rows);
}

void eps__normals_turn(double *x, size_t rows)
{
    eps__lanes_variant(0)->turn(x, rows);
}

double eps__uniform(const struct eps__stream *stream, uint32_t draw, size_t index)
{
    philox4x32_ctr_t at = {{(uint32_t)(index / 2), draw | (uint32_t)EPS__COUNTS_UNIFORMS << 24, (uint32_t)stream->chunk,
                            (uint32_t)(stream->chunk >> 32)}};
    philox4x32_key_t key = {{stream->key[0], stream->key[1]}};
    philox4x32_ctr_t bits = philox4x32(at, key);
    const uint32_t *half = bits.v + 2 * (index % 2);
    return ((double)(((uint64_t)half[1] << 32 | half[0]) >> 12) + 0.5) * 0x1p-52; /* exact: 53 bits */
}

double eps__uniform_fine(const struct eps__stream *stream, uint32_t draw, size_t *used)
{
    double scale = 1, u = eps__uniform(stream, draw, (*used)++);
    while (u < 0x1p-4 && scale > 0x1p-600) {
        scale *= 0x1p-4;
        u = eps__uniform(stream, draw, (*used)++);
    }
    return scale * u;
}

void eps__uniforms(double *out, const struct eps__stream *stream, uint32_t draw, size_t first, size_t rows)
{
    eps__lanes_variant(0)->uniforms(out, stream, draw, first, rows);
}

void eps__exp_lanes(double *x, size_t rows)
{
    eps__lanes_variant(0)->exp(x, rows);
}

void eps__exp_bound_lanes(enum eps__estimate estimate, double *x, const double *error, size_t rows)
{
    for (size_t from = 0; from < rows * EPS__LANES; from += EPS__LANES) {
        double power[EPS__LANES];
        for (size_t i = 0; i < EPS__LANES; i++)
            power[i] = eps__shift(estimate, x[from + i], error[from + i]);
        eps__exp_lanes(power, 1);
        for (size_t i = 0; i < EPS__LANES; i++) {
            double bound = eps__exp_outward(estimate, x[from + i], power[i]);
            EPS__VERIFY(
                eps__verify_exp(x[from + i], bound, estimate == EPS__UPPER ? error[from + i] : -error[from + i]));
            x[from + i] = bound;
        }
    }
}

void eps__log_lanes(double *x, size_t rows)
{
    eps__lanes_variant(0)->log(x, rows);
}

void eps__correlate_lanes(double *out, const double *y, const double *column, size_t stride, size_t width, size_t rows)
{
    eps__lanes_variant(0)->correlate(out, y, column, stride, width, rows);
}

void eps__mixture_lanes(double *x, const double *half, const double *log_pick, unsigned terms, size_t rows)
{
    eps__lanes_variant(0)->mixture(x, half, log_pick, terms, rows);
}

size_t eps__recur_lanes(double *ring, size_t separation, const double *factor, double keep, size_t from, size_t end)
{
    return eps__lanes_variant(0)->recur(ring, separation, factor, keep, from, end);
}

void eps__coins_lanes(double *now, const double *after, const double *weight, size_t states, double keep,
                      const double *own)
{
    eps__lanes_variant(0)->coins(now, after, weight, states, keep, own);
}

void eps__moves_lanes(double *now, const double *after, const struct eps__lanes_moves *moves, const double *own,
                      double *range)
{
    eps__lanes_variant(0)->moves(now, after, moves, own, range);
}

void eps__correlate_by_spectrum(double *out, const double *y, const struct eps__spectrum *spectrum, size_t rows,
                                double *work)
{
    eps__lanes_variant(0)->by_spectrum(out, y, spectrum, rows, work);
}
