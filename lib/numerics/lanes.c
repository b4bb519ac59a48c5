/*
 * See lanes.h.
 *
 * SPDX-License-Identifier: GPL-3.0-or-later
 */
#include "lib/numerics/lanes.h"

#include <assert.h>
#include <math.h>

#include <Random123/philox.h>
#include <sleef.h>

enum { NORMALS, UNIFORMS }; /* what a counter's draw is marked with, above its 24 bits */

static philox4x32_ctr_t counter(const struct eps__stream *stream, uint32_t draw, uint32_t kind, uint32_t index)
{
    philox4x32_ctr_t at = {{index, draw | kind << 24, (uint32_t)stream->chunk, (uint32_t)(stream->chunk >> 32)}};
    philox4x32_key_t key = {{stream->key[0], stream->key[1]}};
    return philox4x32(at, key);
}

static uint64_t word(uint32_t low, uint32_t high)
{
    return (uint64_t)high << 32 | low;
}

void eps__normals(double *out, const struct eps__stream *stream, uint32_t draw, size_t first, size_t rows)
{
    assert(first % 2 == 0 && rows % 2 == 0 && draw % EPS__LANES == 0);
    for (size_t i = 0; i < rows; i += 2)
        for (uint32_t lane = 0; lane < EPS__LANES; lane++) {
            philox4x32_ctr_t bits = counter(stream, draw + lane, NORMALS, (uint32_t)((first + i) / 2));
            /* (0, 1], and a whole turn */
            double u = ((double)(word(bits.v[0], bits.v[1]) >> 1) + 0.5) * 0x1p-63;
            double turn = (double)(word(bits.v[2], bits.v[3]) >> 11) * 0x1p-52;
            double radius = sqrt(-2 * Sleef_cinz_logd1_u10purec(u));
            Sleef_double_2 at = Sleef_cinz_sincospid1_u35purec(turn);
            out[i * EPS__LANES + lane] = radius * at.y;
            out[(i + 1) * EPS__LANES + lane] = radius * at.x;
        }
}

double eps__uniform(const struct eps__stream *stream, uint32_t draw, size_t index)
{
    philox4x32_ctr_t bits = counter(stream, draw, UNIFORMS, (uint32_t)(index / 2));
    const uint32_t *half = bits.v + 2 * (index % 2);
    return ((double)(word(half[0], half[1]) >> 12) + 0.5) * 0x1p-52; /* exact: 53 bits */
}

void eps__exp_lanes(double *x, size_t rows)
{
    for (size_t i = 0; i < rows * EPS__LANES; i++)
        x[i] = Sleef_cinz_expd1_u10purec(x[i]);
}

void eps__log_lanes(double *x, size_t rows)
{
    for (size_t i = 0; i < rows * EPS__LANES; i++)
        x[i] = Sleef_cinz_logd1_u10purec(x[i]);
}

void eps__correlate_lanes(double *out, const double *y, const double *column, size_t stride, size_t width, size_t rows)
{
    for (size_t i = 0; i < rows; i++) {
        double sum[EPS__LANES] = {0};
        for (size_t d = 0; d < width; d++)
            for (size_t lane = 0; lane < EPS__LANES; lane++)
                sum[lane] = fma(column[i * stride + d], y[(i + d) * EPS__LANES + lane], sum[lane]);
        for (size_t lane = 0; lane < EPS__LANES; lane++)
            out[i * EPS__LANES + lane] = sum[lane];
    }
}
