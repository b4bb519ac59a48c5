/*
 * The merged matrix of an example that is in the same bin in every epoch: M = [m_0 .. m_{b-1}], where m_i is the sum
 * over the epochs e of column i + e b of C. The example adds m_i to the noise if it is in bin i (RA section 3). If C >=
 * 0, every number here is a sum of non-negative terms and has a small relative error (F5).
 *
 * SPDX-License-Identifier: GPL-3.0-or-later
 */
#ifndef EPS_STRATEGY_MERGED_H
#define EPS_STRATEGY_MERGED_H

#include "lib/strategy/strategy.h"

/*
 * Row `row` < eps_strategy_rows() of M. out gets `bins` numbers; bins divides n. scratch: n numbers. Every column of C
 * is counted in one bin. The relative error of each number is at most eps__merged_error(). Cost O(bins + bandwidth),
 * for trees O(n).
 */
void eps__merged_row(const struct eps_strategy *strategy, double *out, size_t bins, size_t row, double *scratch);
double eps__merged_error(const struct eps_strategy *strategy, size_t bins);

/*
 * The Gram matrix M'M, bins x bins, both triangles. *error: a bound on the relative error of each number, besides an
 * absolute error of 1e-300. Cost O(rows min(bins, bandwidth)^2). EPS_OK, EPS_NO_MEMORY, EPS_CANCELED or EPS_TIMEOUT.
 */
EPS_MUST_USE enum eps_status eps__merged_gram(const struct eps_context *context, double *gram, double *error,
                                              const struct eps_strategy *strategy, size_t bins);

/* Whether C consists of equal blocks, one for each epoch of `bins` steps, so that no row spans two epochs: a multiple
 * of the identity, or a whole number of stamps per epoch. Then M'M is n/bins times the Gram matrix of one epoch. */
bool eps__merged_repeats(const struct eps_strategy *strategy, size_t bins);

#endif
