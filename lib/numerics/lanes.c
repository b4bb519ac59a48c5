/*
 * See lanes.h. The loops are in lanes_of.h, compiled once for each set of instructions; which one serves is asked of the machine at
 * each call, so that nothing is kept.
 *
 * SPDX-License-Identifier: GPL-3.0-or-later
 */
#include "lib/numerics/lanes_variant.h"

#include <Random123/philox.h>

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

double eps__uniform(const struct eps__stream *stream, uint32_t draw, size_t index)
{
    philox4x32_ctr_t at = {{(uint32_t)(index / 2), draw | (uint32_t)EPS__COUNTS_UNIFORMS << 24, (uint32_t)stream->chunk,
                            (uint32_t)(stream->chunk >> 32)}};
    philox4x32_key_t key = {{stream->key[0], stream->key[1]}};
    philox4x32_ctr_t bits = philox4x32(at, key);
    const uint32_t *half = bits.v + 2 * (index % 2);
    return ((double)(((uint64_t)half[1] << 32 | half[0]) >> 11) + 0.5) * 0x1p-53;
}

void eps__exp_lanes(double *x, size_t rows)
{
    eps__lanes_variant(0)->exp(x, rows);
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
