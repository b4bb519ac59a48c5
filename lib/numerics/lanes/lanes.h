/*
 * Sixteen draws side by side: counter-based random numbers, and the loops that every draw is made of.
 *
 * Everything here gives the same bits on every machine, for any number of threads, in any order: a number is a function of
 * the stream's key, its chunk, the draw within it and the number's own index; lanes never mix; products are fused or not as
 * written; and e^x, ln x, sin and cos are SLEEF's that do not depend on the machine.
 *
 * An array of lanes holds row after row of EPS__LANES numbers, one a draw.
 *
 * SPDX-License-Identifier: GPL-3.0-or-later
 */
#ifndef EPS_NUMERICS_LANES_LANES_H
#define EPS_NUMERICS_LANES_LANES_H

#include <stddef.h>
#include <stdint.h>

#include "lib/epsilon.h"

enum { EPS__LANES = 16 };

/* No standard normal drawn here is larger, nor the logarithm of a uniform smaller than -NORMAL_MOST^2/2. */
#define EPS__NORMAL_MOST 9.5

/* The random numbers of one chunk of draws: Philox 4x32-10 (Salmon, Moraes, Dror, Shaw 2011) under this key. */
struct eps__stream {
    uint32_t key[2];
    uint64_t chunk;
    /* Or NULL: whether draws of many rows are to end where they are, and be of no use. Once it says so, it does. */
    bool (*stop)(void *user);
    void *user;
};

static inline bool eps__stream_stops(const struct eps__stream *stream)
{
    return stream->stop && stream->stop(stream->user);
}

/*
 * Standard normals number first .. first + rows - 1 of the draws draw .. draw + EPS__LANES - 1, into `rows` rows; by Box and
 * Muller from uniforms of 64 bits, so that |z| < EPS__NORMAL_MOST. first and rows even, both under 2^32; draw a multiple of EPS__LANES
 * under 2^24.
 */
void eps__normals(double *out, const struct eps__stream *stream, uint32_t draw, size_t first, size_t rows);

/* Box and Muller's step alone, for uniforms of any source: of each pair of rows the first is in (0, 1] and the second, half a
 * turn's worth of 1, in [0, 2); they become two rows of standard normals. rows even. */
void eps__normals_turn(double *x, size_t rows);

/* Uniform number `index` of one draw, in (0, 1): (odd number) 2^-53, all equally likely. Independent of all normals. */
double eps__uniform(const struct eps__stream *stream, uint32_t draw, size_t index);

/* Uniforms number first .. first + rows - 1 of EPS__LANES draws, as eps__normals() has normals. */
void eps__uniforms(double *out, const struct eps__stream *stream, uint32_t draw, size_t first, size_t rows);

/* x <- e^x, ln x. Each within a unit and a half of roundoff (SLEEF's 1.0 ULP), where the result is a normal number; EXP: 0 under -744, INFINITY over 710. */
void eps__exp_lanes(double *x, size_t rows);
void eps__log_lanes(double *x, size_t rows);

/*
 * out[i] = sum over d < width of column[d] y[i + d], for i < rows: y has rows + width - 1 rows. Added by ascending d, each product
 * fused with its sum. With `stride`, row i has the column that begins at column + i stride.
 */
void eps__correlate_lanes(double *out, const double *y, const double *column, size_t stride, size_t width, size_t rows);

/* The spectrum of a column of `width` entries, for correlations through an FFT of len rows, a power of two. */
struct eps__spectrum {
    size_t len;    /* 0: there is none */
    double *turn;  /* cos, sin of 2 pi k/len */
    double *entry; /* conj(H)/len, real and imaginary parts, in the order in which the transform leaves them */
};

/* With len the least power of two from `least` on, at least `width` and 4. EPS_OK, EPS_NO_MEMORY. */
enum eps_status eps__spectrum_make(struct eps__spectrum *spectrum, const double *column, size_t width, size_t least);
void eps__spectrum_clear(struct eps__spectrum *spectrum);

/* What each of its results may be off by, in units of roundoff, for column entries that add up to 1 and |y| <= 1 (N8). */
double eps__spectrum_units(const struct eps__spectrum *spectrum);

/* What eps__correlate_lanes() gives with stride 0, by FFT: rows + width - 1 <= len. y has len rows, finite also where they count not;
 * work is len rows. */
void eps__correlate_by_spectrum(double *out, const double *y, const struct eps__spectrum *spectrum, size_t rows,
                                double *work);

/* x[i] <- sum over j = 1 .. terms of e^((j x[i] - j^2 half[i]) + log_pick[j - 1]), added by ascending j, nothing fused. */
void eps__mixture_lanes(double *x, const double *half, const double *log_pick, unsigned terms, size_t rows);

#define EPS__RECUR_LEAST 0x1p-600
#define EPS__RECUR_MOST 0x1p300

/*
 * f_i = keep f_(i+1) + factor[i - from] f_(i+separation) for i = end - 1 down to from, nothing fused. The ring has f_i in its row
 * i mod separation, at first of the steps end .. end + separation - 1. Stops after the first step i one of whose values is not within
 * EPS__RECUR_LEAST .. EPS__RECUR_MOST, and returns it; SIZE_MAX where there is none.
 */
size_t eps__recur_lanes(double *ring, size_t separation, const double *factor, double keep, size_t from, size_t end);

#endif
