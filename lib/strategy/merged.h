/*
 * The merged matrix of an example that is in the same bin of every epoch: M = [m_0 .. m_{b-1}], m_i the sum over the epochs e
 * of column i + e b of C, which the example adds to the noise if bin i is its own (RA section 3). For C >= 0: every number
 * here is a sum of terms that are not negative, and so has a small relative error (F5).
 *
 * SPDX-License-Identifier: GPL-3.0-or-later
 */
#ifndef EPS_STRATEGY_MERGED_H
#define EPS_STRATEGY_MERGED_H

#include "lib/strategy/strategy.h"

/*
 * Row `row` < eps_strategy_rows() of M: out has `bins` numbers, a divisor of n. scratch: n numbers. Every column of C is
 * counted in one bin. Each number is within eps__merged_error() of itself. Cost O(bins + bandwidth), O(n) for trees.
 */
void eps__merged_row(const struct eps_strategy *strategy, double *out, size_t bins, size_t row, double *scratch);
double eps__merged_error(const struct eps_strategy *strategy, size_t bins);

/*
 * The Gram matrix M'M, bins x bins, both triangles. Out: *error: each number is within *error of itself, and 1e-300, of the
 * exact one. Cost O(rows min(bins, bandwidth)^2). EPS_OK, EPS_NO_MEMORY, EPS_CANCELED, EPS_TIMEOUT.
 */
EPS_MUST_USE enum eps_status eps__merged_gram(const struct eps_context *context, double *gram, double *error,
                                              const struct eps_strategy *strategy, size_t bins);

/* Whether C is one and the same block for every epoch of `bins` steps, so that no row of it reaches over an epoch: a multiple
 * of the identity, or stamps of which an epoch has a whole number. Then M'M is n/bins times one epoch's Gram matrix. */
bool eps__merged_repeats(const struct eps_strategy *strategy, size_t bins);

#endif
