/*
 * What the laws share whose strategy is banded: its Gram matrix, and a starting point.
 *
 * SPDX-License-Identifier: GPL-3.0-or-later
 */
#ifndef EPS_ACCOUNTANTS_RENYI_BANDED_H
#define EPS_ACCOUNTANTS_RENYI_BANDED_H

#include "lib/accountants/renyi/law.h"
#include "lib/moments/laws/poisson.h"

/* The Gram matrix over sigma^2 of a lower-triangular strategy whose entries are >= 0, as eps__banded_gram_make() has
 * it. The caller clears it. EPS_NO_MEMORY. */
enum eps_status eps__banded_make(struct eps__banded_gram *banded, const struct eps__setting *setting, double sigma);

/* Steps that differ from those before: the ends of blocks that are Toeplitz, or any. */
double eps__banded_changes(const struct eps__setting *setting);

/* mean[d]: of the matrix' entries at that distance, over all steps; banded->width numbers. */
void eps__banded_means(const struct eps__banded_gram *banded, double *mean);

/* ln E X^a, about, under Poisson sampling with probability p < 1, were steps met by no more than one other: of a copies
 * k take a step, and l others one at a distance. */
double eps__banded_log_order(const struct eps__banded_gram *banded, const double *mean, double p, unsigned a);

#endif
