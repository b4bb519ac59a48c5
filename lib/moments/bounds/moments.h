/*
 * Bounds on delta from moments of the likelihood ratio X = P/Q under Q.
 *
 * delta_remove(eps) = E (X - e^eps)_+ is a call on X, delta_add(eps) = e^eps E (e^-eps - X)_+ a put. A polynomial that
 * is at least the payoff on [0, inf) has a mean that bounds it, and the moments give this mean. Finding the best
 * polynomial is the truncated moment problem. A single Renyi order corresponds to the polynomial c X^alpha.
 *
 * SPDX-License-Identifier: GPL-3.0-or-later
 */
#ifndef EPS_MOMENTS_BOUNDS_MOMENTS_H
#define EPS_MOMENTS_BOUNDS_MOMENTS_H

#include <stddef.h>

#include "lib/epsilon.h"
#include "lib/numerics/quad.h"

/* The highest order that is used; polynomials of higher degrees lose more digits than quadruple precision has. */
enum { EPS__MOMENTS_MAX = 24 };

/* Central moments of X under Q: mu_j = E (X - 1)^j, 0 <= j <= len, len >= 2. mu_j is within error[j] of central[j];
 * mu_0 = 1 and mu_1 = 0 are exact. */
struct eps__moments {
    size_t len;
    eps__quad *central; /* len + 1 numbers */
    eps__quad *error;   /* len + 1 numbers */
};

/* Allocates moments up to the order len and sets them to 1, 0, 0, ... without errors. The caller clears. EPS_OK,
 * EPS_NO_MEMORY (then nothing is held). */
enum eps_status eps__moments_alloc(struct eps__moments *moments, size_t len);
void eps__moments_clear(struct eps__moments *moments);

/* Sets all central moments from raw[j] = E X^j, 0 <= j <= len, each within `units` units of quadruple roundoff of
 * itself. The alternating sums cancel; the errors account for it. */
void eps__moments_centre(struct eps__moments *moments, const eps__quad *raw, double units);
/* The same with raw[j] within units[j]. */
void eps__moments_centre_each(struct eps__moments *moments, const eps__quad *raw, const double *units);
/* Drops all moments from the first one on whose error is too large to be of use. The variance is dropped only if it is
 * not finite; then len becomes 1. */
void eps__moments_keep_known(struct eps__moments *moments);

/*
 * *log_upper: ln of an upper bound on delta(eps), eps >= 0, that holds for every law of X >= 0 with these moments. It
 * is the mean of a polynomial that was proven to dominate the payoff, or a closed form.
 *
 * *log_lower: approximately ln of the delta that a law with these moments attains; -INFINITY if no such law was found.
 * It is unproven, and says how far the bound is from the best one for these moments, not anything about the mechanism.
 *
 * *used: the order of the highest moment that the bound rests on. Moments that are not finite are ignored. EPS_OK,
 * EPS_CANCELED, EPS_TIMEOUT.
 */
enum eps_status eps__moments_log_delta(const struct eps_context *context, const struct eps__moments *moments,
                                       enum eps_direction direction, double eps, double *log_upper, double *log_lower,
                                       size_t *used);

#endif
