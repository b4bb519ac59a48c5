/*
 * Sixteen draws side by side: counter-based random numbers, and the loops that every draw consists of.
 *
 * Everything here gives the same bits on every machine, for any number of threads and in any order. A random number is
 * a function of the stream's key, its chunk, the draw within the chunk and the number's own index. Lanes never mix.
 * Products are fused with sums exactly where the code says so. e^x, ln x, sin and cos are SLEEF's, in the versions that
 * do not depend on the machine.
 *
 * An array of lanes holds rows of EPS__LANES numbers, one number for each draw.
 *
 * SPDX-License-Identifier: GPL-3.0-or-later
 */
#ifndef EPS_NUMERICS_LANES_LANES_H
#define EPS_NUMERICS_LANES_LANES_H

#include <stddef.h>
#include <stdint.h>

#include "lib/epsilon.h"
#include "lib/numerics/bound.h"

enum { EPS__LANES = 16 };

/* Every standard normal drawn here is smaller than this in size, and the logarithm of the uniform behind it is at least
 * -EPS__NORMAL_MOST^2/2. */
#define EPS__NORMAL_MOST 9.5

/* The random numbers of one chunk of draws: Philox 4x32-10 (Salmon, Moraes, Dror, Shaw 2011) under this key. */
struct eps__stream {
    uint32_t key[2];
    uint64_t chunk;
    /* NULL, or returns true to abandon a draw of many rows, whose results are then unusable. Once true, it stays
     * true. */
    bool (*stop)(void *user);
    void *user;
};

static inline bool eps__stream_stops(const struct eps__stream *stream)
{
    return stream->stop && stream->stop(stream->user);
}

/*
 * Writes standard normals number first .. first + rows - 1 of the draws draw .. draw + EPS__LANES - 1, into `rows`
 * rows. Box-Muller from uniforms of 64 bits, so that |z| < EPS__NORMAL_MOST. first and rows are even and below 2^32;
 * draw is a multiple of EPS__LANES below 2^24.
 */
void eps__normals(double *out, const struct eps__stream *stream, uint32_t draw, size_t first, size_t rows);

/* The Box-Muller transform of uniforms from any source. Of each pair of rows, the first is uniform in (0, 1] (the
 * radius) and the second in [0, 2) (the angle in half turns); they become two rows of standard normals. rows is
 * even. */
void eps__normals_turn(double *x, size_t rows);

/* Uniform number `index` of one draw, in (0, 1): an odd multiple of 2^-53, all equally likely. Independent of all
 * normals. */
double eps__uniform(const struct eps__stream *stream, uint32_t draw, size_t index);

/* A uniform number in (0, 1) whose relative resolution is the same for small numbers as for large ones (M26): one below
 * 1/16 is replaced by 1/16 of the next. Takes the draw's numbers from *used on, and advances it. */
double eps__uniform_fine(const struct eps__stream *stream, uint32_t draw, size_t *used);

/* Writes uniforms number first .. first + rows - 1 of EPS__LANES draws. The arguments are as for eps__normals(). */
void eps__uniforms(double *out, const struct eps__stream *stream, uint32_t draw, size_t first, size_t rows);

/* x <- e^x or x <- ln x. The relative error is at most two units of roundoff (SLEEF's 1.0 ULP) if the result is a
 * normal number. e^x is 0 below -744 and INFINITY above 710. */
void eps__exp_lanes(double *x, size_t rows);
void eps__log_lanes(double *x, size_t rows);

/* eps__exp_bound() of each number with its own error. */
void eps__exp_bound_lanes(enum eps__estimate estimate, double *x, const double *error, size_t rows);

/* out[i] = sum over d < width of column[d] y[i + d], for i < rows; y has rows + width - 1 rows. Adds in the order of d,
 * and fuses each product with its sum. With stride > 0, row i uses the column that begins at column + i stride. */
void eps__correlate_lanes(double *out, const double *y, const double *column, size_t stride, size_t width, size_t rows);

/* The spectrum of a column of `width` entries, for correlations by an FFT of len rows, a power of two. */
struct eps__spectrum {
    size_t len;    /* 0 if there is no spectrum */
    double *turn;  /* cos and sin of 2 pi k/len */
    double *entry; /* conj(H)/len, real and imaginary parts, in the order of the transform's output */
};

/* Computes the spectrum with len the least power of two that is at least `least`, `width` and 4. Returns EPS_OK or
 * EPS_NO_MEMORY. Release with eps__spectrum_clear(). */
enum eps_status eps__spectrum_make(struct eps__spectrum *spectrum, const double *column, size_t width, size_t least);
void eps__spectrum_clear(struct eps__spectrum *spectrum);

/* The absolute error of each result of eps__correlate_by_spectrum(), in units of roundoff, for column entries whose
 * sizes add up to 1 and |y| <= 1 (N8). */
double eps__spectrum_units(const struct eps__spectrum *spectrum);

/* Computes by FFT what eps__correlate_lanes() computes with stride 0; rows + width - 1 <= len. y has len rows, which
 * are finite even where they do not contribute. work: len rows of scratch space. */
void eps__correlate_by_spectrum(double *out, const double *y, const struct eps__spectrum *spectrum, size_t rows,
                                double *work);

/* x[i] <- sum over j = 1 .. terms of e^((j x[i] - j^2 half[i]) + log_pick[j - 1]). Adds in the order of j; fuses
 * nothing. */
void eps__mixture_lanes(double *x, const double *half, const double *log_pick, unsigned terms, size_t rows);

#define EPS__RECUR_LEAST 0x1p-600
#define EPS__RECUR_MOST 0x1p300

/*
 * Computes f_i = keep f_(i+1) + factor[i - from] f_(i+separation) for i = end - 1 down to from; fuses nothing. The ring
 * holds f_i in its row i mod separation; on entry these are the steps end .. end + separation - 1. Stops after the
 * first step with a value outside EPS__RECUR_LEAST .. EPS__RECUR_MOST and returns its index; returns SIZE_MAX if there
 * is none.
 */
size_t eps__recur_lanes(double *ring, size_t separation, const double *factor, double keep, size_t from, size_t end);

/*
 * One step of a recursion whose states are the last coins: bit 0 of a state is the newest one. For each of `states`, a
 * power of two >= 2, now[s] = keep after[2 s mod states] + weight[s] (own after[2 s mod states + 1]). Fuses nothing.
 * The oldest coin of s is dropped; it concerns weight[s] alone. now and after do not overlap. own: one row.
 */
void eps__coins_lanes(double *now, const double *after, const double *weight, size_t states, double keep,
                      const double *own);

/* The states of a recursion over the last few participations: state s becomes none[s] after a step without one, and
 * taken[s] after a step with one, which weighs weight[s]. */
struct eps__lanes_moves {
    const uint32_t *none, *taken;
    const double *weight;
    size_t states;
    double keep;
};

/* One step of it: for each state, now[s] = keep after[none[s]] + weight[s] (own after[taken[s]]). Fuses nothing. The
 * numbers of `after` are above 0 and finite; `now` does not overlap them. own: one row. range: two rows, which become
 * the least and the largest number of `now` in each lane. */
void eps__moves_lanes(double *now, const double *after, const struct eps__lanes_moves *moves, const double *own,
                      double *range);

#endif
