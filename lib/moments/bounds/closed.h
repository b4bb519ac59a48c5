/*
 * Bounds from moments in closed form, which need no certificate: from two moments (Scarf), and from a single order.
 *
 * SPDX-License-Identifier: GPL-3.0-or-later
 */
#ifndef EPS_MOMENTS_BOUNDS_CLOSED_H
#define EPS_MOMENTS_BOUNDS_CLOSED_H

#include "lib/moments/bounds/moments.h"

/* ln of an upper bound on delta(eps), eps >= 0, from moments up to the order len; at most 0. *used: the order of the
 * highest moment that it rests on, 0 if none. */
double eps__moments_closed(const struct eps__moments *moments, size_t len, enum eps_direction direction, double eps,
                           size_t *used);

/* Rounds a logarithm in quadruple precision up to a double. */
double eps__moments_log_up(eps__quad log_value);

/* A lower bound on the distance of the kink from X = 1: e^eps - 1 to remove, 1 - e^-eps to add; eps >= 0. */
eps__quad eps__moments_distance(enum eps_direction direction, double eps);

#endif
