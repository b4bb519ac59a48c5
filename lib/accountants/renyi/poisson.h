/*
 * Plain Poisson sampling as renyi serves it, whatever the strategy: what is asked of the job, and the geometric means,
 * which need no more of the Gram matrix than its trace and its sum.
 *
 * SPDX-License-Identifier: GPL-3.0-or-later
 */
#ifndef EPS_ACCOUNTANTS_RENYI_POISSON_H
#define EPS_ACCOUNTANTS_RENYI_POISSON_H

#include "lib/accountants/renyi/law.h"

/* As in struct eps__renyi_law_class; serves: all but what concerns the strategy. */
bool eps__poisson_concerns(const struct eps__setting *setting, bool tree);
bool eps__poisson_serves(const struct eps__setting *setting, struct eps_error *error);

/* Fills in the geometric means: the first with p as it is, and with what is known where x = 0; further ones with
 * smaller probabilities. own, all: the trace of the Gram matrix over sigma^2 of len steps, and the sum of its entries.
 * */
void eps__poisson_geometrics(struct eps__renyi_law *law, size_t len, double p, struct eps__interval own,
                             struct eps__interval all);

/* n KL(Bernoulli(q) || Bernoulli(p)), 0 < q <= p < 1, between bounds; and a lower bound on (1 - p)^n such that 1 less
 * it is exact. */
struct eps__interval eps__poisson_divergence(double n, double p, double q);
double eps__poisson_never(double n, double p);

#endif
