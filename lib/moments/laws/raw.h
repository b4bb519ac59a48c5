/*
 * From raw moments E X^a to the bounds and moments that accountants use.
 *
 * SPDX-License-Identifier: GPL-3.0-or-later
 */
#ifndef EPS_MOMENTS_LAWS_RAW_H
#define EPS_MOMENTS_LAWS_RAW_H

#include "lib/moments/laws/balls_in_bins.h"

/*
 * From raw[a] = E X^a for 0 <= a <= most, each within units[a] units of quadruple roundoff of itself (raw[0] = raw[1] =
 * 1; unknown moments are not finite), sets bounds on ln E X^a in *orders, and the central moments of one law, of orders
 * up to moments_max, in *laws. If no moment is known, orders->log_upper[2] = INFINITY and laws->len = 0. orders or laws
 * may be NULL. The caller clears both. EPS_OK, EPS_NO_MEMORY (then nothing is held).
 */
enum eps_status eps__raw_tell(struct eps__orders *orders, struct eps__laws *laws, const eps__quad *raw,
                              const double *units, unsigned most, unsigned moments_max);

#endif
