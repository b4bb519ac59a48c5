/*
 * Bounds from moments in closed form, which need no certificate: two moments (Scarf), and each order by itself.
 *
 * SPDX-License-Identifier: GPL-3.0-or-later
 */
#ifndef EPS_MOMENTS_BOUNDS_CLOSED_H
#define EPS_MOMENTS_BOUNDS_CLOSED_H

#include "lib/moments/bounds/moments.h"

/* ln of a bound on delta(eps) from moments up to the order len, and the order of the highest one that it rests on. */
double eps__moments_closed(const struct eps__moments *moments, size_t len, enum eps_direction direction, double eps,
                           size_t *used);

/* A quad's logarithm as a double that is not under it. */
double eps__moments_log_up(eps__quad log_value);

/* At most |e^eps - 1|, and at most |e^-eps - 1|, for eps >= 0: distances of the kink from X = 1. */
eps__quad eps__moments_distance(enum eps_direction direction, double eps);

#endif
