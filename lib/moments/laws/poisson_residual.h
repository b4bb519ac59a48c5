/*
 * The sums over copies for the residual of a mean under Poisson sampling (residual.h).
 *
 * SPDX-License-Identifier: GPL-3.0-or-later
 */
#ifndef EPS_MOMENTS_LAWS_POISSON_RESIDUAL_H
#define EPS_MOMENTS_LAWS_POISSON_RESIDUAL_H

#include "lib/moments/laws/poisson.h"
#include "lib/moments/laws/residual.h"

/* The sums of the orders up to max_order (0: any) that a limit on operations allows. They borrow banded. mean: NULL to
 * know the costs alone. */
struct eps__residual_sums eps__poisson_residual_sums(const struct eps__banded_gram *banded,
                                                     const struct eps__mean *mean, unsigned max_order);

#endif
