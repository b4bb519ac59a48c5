/*
 * Truncated batches (TPS; BMS appendix D): a batch that came out larger than the limit B is replaced by
 * a uniformly random subset of B of its examples.
 *
 * SPDX-License-Identifier: GPL-3.0-or-later
 */
#ifndef EPS_SAMPLING_TRUNCATION_H
#define EPS_SAMPLING_TRUNCATION_H

#include "lib/epsilon.h"
#include "lib/numerics/sum.h"

/*
 * Whether the other N - 1 examples fill the batch is public and independent of the one that differs. If they do not
 * (probability `open`), that one takes part with probability p; if they do (`full`), it takes part, in the place of
 * another one, with probability q = (B/N) Pr[Binom(N,p) >= B+1] / Pr[Binom(N-1,p) >= B].
 */
struct eps__truncation {
    struct eps__interval open, full, q;
};

/* dataset N >= 1, limit B >= 1, p in (0, 1]. Proven intervals; full is [0, 0] for B >= N, open for p = 1 and B < N. */
struct eps__truncation eps__truncate(uint64_t dataset, double p, uint64_t limit);

#endif
