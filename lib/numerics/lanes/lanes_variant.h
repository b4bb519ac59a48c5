/*
 * The compilations of the loops over lanes (lanes_of.h), one for each instruction set. All give the same bits; the
 * tests compare those that the machine can run.
 *
 * SPDX-License-Identifier: GPL-3.0-or-later
 */
#ifndef EPS_NUMERICS_LANES_LANES_VARIANT_H
#define EPS_NUMERICS_LANES_LANES_VARIANT_H

#include "lib/numerics/lanes/lanes.h"

struct eps__lanes_variant {
    const char *name;
    void (*normals)(double *out, const struct eps__stream *stream, uint32_t draw, size_t first, size_t rows);
    void (*turn)(double *x, size_t rows);
    void (*uniforms)(double *out, const struct eps__stream *stream, uint32_t draw, size_t first, size_t rows);
    void (*exp)(double *x, size_t rows);
    void (*log)(double *x, size_t rows);
    void (*correlate)(double *out, const double *y, const double *column, size_t stride, size_t width, size_t rows);
    void (*mixture)(double *x, const double *half, const double *log_pick, unsigned terms, size_t rows);
    size_t (*recur)(double *ring, size_t separation, const double *factor, double keep, size_t from, size_t end);
    void (*coins)(double *now, const double *after, const double *weight, size_t states, double keep,
                  const double *own);
    void (*moves)(double *now, const double *after, const struct eps__lanes_moves *moves, const double *own,
                  double *range);
    void (*by_spectrum)(double *out, const double *y, const struct eps__spectrum *spectrum, size_t rows, double *work);
};

/* The purpose of a counter, stored above the 24 bits of its draw. */
enum { EPS__COUNTS_NORMALS, EPS__COUNTS_UNIFORMS };

/* In the order of width. The last one runs on every machine. */
extern const struct eps__lanes_variant eps__lanes_avx512, eps__lanes_avx2, eps__lanes_base;

/* Variant number i of those that this machine can run, the fastest first; NULL if there are fewer. */
const struct eps__lanes_variant *eps__lanes_variant(size_t i);

#endif
