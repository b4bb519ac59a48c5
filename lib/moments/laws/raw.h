/*
 * From E X^a to what bounds are made of.
 *
 * SPDX-License-Identifier: GPL-3.0-or-later
 */
#ifndef EPS_MOMENTS_LAWS_RAW_H
#define EPS_MOMENTS_LAWS_RAW_H

#include "lib/moments/laws/balls_in_bins.h"

/*
 * From raw[a] = E X^a, 0 <= a <= most, raw[0] = raw[1] = 1, each within units[a] of quadruple roundoff of itself (no number: not known):
 * ln E X^a from above and below, and one law's central moments, at most moments_max of them. laws->len = 0 and orders->log_upper[2] =
 * INFINITY where there is none. orders, laws: either may be NULL; the caller clears. EPS_NO_MEMORY, and then nothing is held.
 */
enum eps_status eps__raw_tell(struct eps__orders *orders, struct eps__laws *laws, const eps__quad *raw,
                              const double *units, unsigned most, unsigned moments_max);

#endif
