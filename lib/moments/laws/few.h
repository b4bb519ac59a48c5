/*
 * Upper bounds on sums over few copies under Poisson sampling, for any number of bands. The states of the chain of M18
 * are all subsets of the last steps, too many from about 9 bands on. Here a state holds only a few participations of
 * all copies together; the oldest ones beyond that are forgotten, for a payment that covers all they would still meet
 * (M31).
 *
 * SPDX-License-Identifier: GPL-3.0-or-later
 */
#ifndef EPS_MOMENTS_LAWS_FEW_H
#define EPS_MOMENTS_LAWS_FEW_H

#include "lib/moments/laws/groups.h"
#include "lib/moments/laws/poisson.h"

/* The most participations that a state of so many copies can hold if the sum is to take at most so many operations; 0:
 * none. Does not read the Gram matrix. */
unsigned eps__few_most(const struct eps__banded_gram *banded, unsigned copies, double operations);

/* The same, but no more than are of use where few are expected; 0 also where that is too few to prove anything. */
unsigned eps__few_held(const struct eps__banded_gram *banded, unsigned copies, double operations);

/* The number of states, about. */
double eps__few_states(size_t width, unsigned copies, unsigned held);

/* The estimated operations of a sum. Does not read the Gram matrix. */
double eps__few_operations(const struct eps__banded_gram *banded, unsigned copies, unsigned held);

/* The chain with states of 1 to eps__few_most() participations. Otherwise as `sum` of eps__copies. */
enum eps_status eps__few_sum(const struct eps_context *context, eps__quad *sum, double *units,
                             const struct eps__banded_gram *banded, unsigned copies, unsigned most, eps__quad times);

/* The sums over two or three copies. They refer to *banded. */
struct eps__copies eps__few_copies(const struct eps__banded_gram *banded);

#endif
