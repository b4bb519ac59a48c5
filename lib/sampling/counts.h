/*
 * Drawing how many others are drawn at each step of b-min-sep sampling: what a truncated batch depends on.
 *
 * SPDX-License-Identifier: GPL-3.0-or-later
 */
#ifndef EPS_SAMPLING_COUNTS_H
#define EPS_SAMPLING_COUNTS_H

#include "lib/sampling/participations.h"

#define EPS__OTHERS_MAX 0x1p40

/*
 * Of `others` <= EPS__OTHERS_MAX examples that are drawn independently of each other as `steps` say, one example a user: how many are drawn at each step,
 * into out[0], out[stride], ... Takes the stream's 3 n uniforms from number `first`.
 */
void eps__b_min_sep_counts(double *out, size_t stride, const struct eps__b_min_sep_steps *steps, double others,
                           const struct eps__stream *stream, uint32_t draw, size_t first);

/* The k with Pr[Binom(size, p) < k] <= u < Pr[Binom(size, p) <= k] in some fixed order of the k, mode first. u in (0, 1). */
double eps__binomial_of(double size, double p, double u);

#endif
