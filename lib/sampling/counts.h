/*
 * Draws, for each step of b-min-sep sampling, the number of other examples in the batch. Truncation depends on it.
 *
 * SPDX-License-Identifier: GPL-3.0-or-later
 */
#ifndef EPS_SAMPLING_COUNTS_H
#define EPS_SAMPLING_COUNTS_H

#include "lib/sampling/participations.h"

#define EPS__OTHERS_MAX 0x1p40

/*
 * Draws the number of sampled examples at each step, of `others` <= EPS__OTHERS_MAX examples that are drawn
 * independently of each other under `steps`, with one example per user. Writes the counts to out[0], out[stride], ...
 * Uses 3 n uniforms of the stream, from number `first` on.
 */
void eps__b_min_sep_counts(double *out, size_t stride, const struct eps__b_min_sep_steps *steps, double others,
                           const struct eps__stream *stream, uint32_t draw, size_t first);

/* A Binom(size, p) variable by inversion of one uniform u in (0, 1): the k with Pr[K before k] <= u < Pr[K before or at
 * k], in a fixed order of the values that starts at the mode. */
double eps__binomial_of(double size, double p, double u);

#endif
