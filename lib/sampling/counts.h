/*
 * Draws, for each step of b-min-sep sampling, the number of other examples in the batch. Truncation depends on it.
 *
 * SPDX-License-Identifier: GPL-3.0-or-later
 */
#ifndef EPS_SAMPLING_COUNTS_H
#define EPS_SAMPLING_COUNTS_H

#include "lib/numerics/quad.h"
#include "lib/sampling/participations.h"

#define EPS__OTHERS_MAX 0x1p40

/*
 * Of `others` <= EPS__OTHERS_MAX examples that are drawn independently of each other as `steps` say, one example a
 * user, the number that are drawn at each step, into out[0], out[stride], ... Uses 6 n uniforms of the stream, from
 * number `first` on.
 */
void eps__b_min_sep_counts(double *out, size_t stride, const struct eps__b_min_sep_steps *steps, double others,
                           const struct eps__stream *stream, uint32_t draw, size_t first);

/*
 * The binomial number that belongs to u in (0, 1): the probabilities Pr[Binom(size, chance) = k] are summed in a fixed
 * order of the numbers k, the mode first, and *k is the first one at which the sum exceeds u. Returns false if u is too
 * close to such a sum for double precision (S8).
 */
bool eps__binomial_of(double *k, double size, eps__quad chance, double u);

/* The same in quadruple precision, for u + (v - 1/2) 2^-52. */
double eps__binomial_closely(double size, eps__quad chance, double u, double v);

#endif
