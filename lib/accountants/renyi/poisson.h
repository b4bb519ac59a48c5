/*
 * Plain Poisson sampling under renyi, independent of the kind of strategy: the conditions on the job, and the geometric
 * means, which depend only on the trace and the sum of the Gram matrix.
 *
 * SPDX-License-Identifier: GPL-3.0-or-later
 */
#ifndef EPS_ACCOUNTANTS_RENYI_POISSON_H
#define EPS_ACCOUNTANTS_RENYI_POISSON_H

#include "lib/accountants/renyi/law.h"

/* As in struct eps__renyi_law_class. eps__poisson_serves() checks everything except the strategy. */
bool eps__poisson_concerns(const struct eps__setting *setting, bool tree);
bool eps__poisson_serves(const struct eps__setting *setting, struct eps_error *error);

/* Fills in the geometric means of *law: the first one with probability p and the term for x = 0, further ones with
 * smaller probabilities. `own` and `all` are the trace and the sum of all entries of the Gram matrix over sigma^2 of
 * `len` steps. */
void eps__poisson_geometrics(struct eps__renyi_law *law, size_t len, double p, struct eps__interval own,
                             struct eps__interval all);

/* The participation probability of law->geometrics[index]. */
double eps__poisson_geometric_p(double p, size_t index);

/* Bounds on n KL(Bernoulli(q) || Bernoulli(p)), 0 < q <= p < 1. */
struct eps__interval eps__poisson_divergence(double n, double p, double q);

/* A lower bound v on (1 - p)^n for which 1 - v is exact in double precision. */
double eps__poisson_never(double n, double p);

#endif
