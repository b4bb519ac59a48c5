/*
 * The sums over copies for the residual of a mean under b-min-sep sampling (residual.h).
 *
 * SPDX-License-Identifier: GPL-3.0-or-later
 */
#ifndef EPS_MOMENTS_LAWS_B_MIN_SEP_RESIDUAL_H
#define EPS_MOMENTS_LAWS_B_MIN_SEP_RESIDUAL_H

#include "lib/moments/laws/b_min_sep.h"
#include "lib/moments/laws/residual.h"

/* The sums of the orders up to max_order (0: any) that `operations` allow. They borrow b_min_sep. mean_changes: the
 * number of steps at which the mean differs from that of the step before; 0: it is the same at all steps. */
struct eps__residual_sums eps__b_min_sep_residual_sums(const struct eps__b_min_sep *b_min_sep, size_t mean_changes,
                                                       double operations, unsigned max_order);

#endif
