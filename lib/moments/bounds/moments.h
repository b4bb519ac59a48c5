/*
 * From moments to delta: what exact moments of the likelihood ratio X = P/Q under Q say of the two hockey-stick
 * divergences.
 *
 * delta_remove(eps) = E (X - e^eps)_+ is a call on X, delta_add(eps) = e^eps E (e^-eps - X)_+ a put. Any polynomial
 * that is at least the payoff on [0, inf) bounds it by its own mean, which the moments give; the best one is the
 * truncated moment problem. A single Renyi order is the polynomial c X^alpha.
 *
 * SPDX-License-Identifier: GPL-3.0-or-later
 */
#ifndef EPS_MOMENTS_BOUNDS_MOMENTS_H
#define EPS_MOMENTS_BOUNDS_MOMENTS_H

#include <stddef.h>

#include "lib/epsilon.h"
#include "lib/numerics/quad.h"

/* No more moments than this are used: beyond it their polynomials lose more digits than quadruple precision has. */
enum { EPS__MOMENTS_MAX = 24 };

/* Central moments of X under Q: mu_j = E (X - 1)^j for 0 <= j <= len, within error[j] of central[j]; mu_0 = 1 and mu_1
 * = 0, both exact. 2 <= len. */
struct eps__moments {
    size_t len;
    eps__quad *central; /* len + 1 of them, as of error */
    eps__quad *error;
};

/* Room for moments up to the order len: 1, 0, 0, ... without error. EPS_NO_MEMORY, and then nothing is held. The caller
 * clears. */
enum eps_status eps__moments_alloc(struct eps__moments *moments, size_t len);
void eps__moments_clear(struct eps__moments *moments);

/* All of them from raw[j] = E X^j, 0 <= j <= len, each within so many units of quadruple roundoff of itself: an alternating
 * sum, whose error counts what cancels. */
void eps__moments_centre(struct eps__moments *moments, const eps__quad *raw, double units);
/* Likewise, raw[j] within units[j]. */
void eps__moments_centre_each(struct eps__moments *moments, const eps__quad *raw, const double *units);
/* Those from the first on that is not known well enough to be of use are forgotten; the variance only where it is no number, and
 * then len is 1. */
void eps__moments_keep_known(struct eps__moments *moments);

/*
 * ln of what delta(eps), eps >= 0, is at most for every law of X >= 0 with these moments: the mean of a polynomial that
 * was proven to dominate the payoff. *log_lower: ln of what the best such bound from as many moments is at least,
 * about, as a law that was found attains it (unproven; for saying how much better a search could be, not about the
 * mechanism); -INFINITY where none was found. *used: the order of the highest moment that the bound rests on. Moments
 * that no law has (a large error[]) are left out. EPS_OK, EPS_CANCELED, EPS_TIMEOUT.
 */
enum eps_status eps__moments_log_delta(const struct eps_context *context, const struct eps__moments *moments,
                                       enum eps_direction direction, double eps, double *log_upper, double *log_lower,
                                       size_t *used);

#endif
