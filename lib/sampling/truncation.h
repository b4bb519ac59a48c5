/*
 * Truncated batches (TPS; BMS appendix D): a batch larger than the limit B is replaced by a uniformly random subset of
 * B of its examples.
 *
 * SPDX-License-Identifier: GPL-3.0-or-later
 */
#ifndef EPS_SAMPLING_TRUNCATION_H
#define EPS_SAMPLING_TRUNCATION_H

#include "lib/epsilon.h"
#include "lib/numerics/sum.h"

/*
 * Whether the other N - 1 examples fill the batch is public and independent of the differing example. If they do not
 * (probability `open`), the differing example participates with probability p. If they do (probability `full`), it
 * replaces another example with probability q = (B/N) Pr[Binom(N,p) >= B+1] / Pr[Binom(N-1,p) >= B].
 */
struct eps__truncation {
    struct eps__interval open, full, q;
};

/* Proven intervals for dataset size N >= 1, limit B >= 1 and p in (0, 1]. full is [0, 0] if B >= N; open is [0, 0] if p
 * = 1 and B < N. */
struct eps__truncation eps__truncate(uint64_t dataset, double p, uint64_t limit);

#endif
