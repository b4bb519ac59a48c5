/*
 * What the laws of banded strategies share: the Gram matrix, and approximate orders for a starting point.
 *
 * SPDX-License-Identifier: GPL-3.0-or-later
 */
#ifndef EPS_ACCOUNTANTS_RENYI_BANDED_H
#define EPS_ACCOUNTANTS_RENYI_BANDED_H

#include "lib/accountants/renyi/law.h"
#include "lib/moments/laws/poisson.h"

/* The sizes of the Gram matrix, without its entries: the steps at which one part of the data set has its turn, the
 * bands that reach from one of them to another, p, and the number of steps whose entries differ from those of the step
 * before, approximately: those near the ends of Toeplitz blocks or, for other strategies, all steps. */
struct eps__banded_gram eps__banded_sizes(const struct eps__setting *setting);

/* Makes the Gram matrix over sigma^2 of a lower-triangular strategy whose entries are >= 0, by eps__banded_gram_make():
 * one that dominates those of all parts of the data set (A56). The caller clears it. EPS_NO_MEMORY and the statuses of
 * eps_strategy_band_row(). */
enum eps_status eps__banded_make(struct eps__banded_gram *banded, const struct eps__setting *setting, double sigma);

/* The operations and *bytes of eps__banded_make(), approximately. */
double eps__banded_operations(const struct eps__setting *setting, double *bytes);

/* Writes into mean[d] the mean over all steps of the matrix entries at distance d < banded->width. */
void eps__banded_means(const struct eps__banded_gram *banded, double *mean);

/* An approximation of ln E X^a under Poisson sampling with probability p < 1. It counts interactions between pairs of
 * steps only: k of the a copies take part in a step, and l others in another one at a distance d. */
double eps__banded_log_order(const struct eps__banded_gram *banded, const double *mean, double p, unsigned a);

#endif
