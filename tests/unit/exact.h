/*
 * The slow, independent reference of the numerical tests: hockey-stick curves in quadruple precision, and compositions
 * by Laplace inversion in extended precision. It shares no code with the library except the struct of a pair.
 *
 * SPDX-License-Identifier: GPL-3.0-or-later
 */
#ifndef TESTS_UNIT_EXACT_H
#define TESTS_UNIT_EXACT_H

#include <stddef.h>
#include <stdint.h>

#include "lib/pld/pairs/pair.h"

/* libquadmath by hand: clang has no header for it. */
extern __float128 expq(__float128 x);
extern __float128 expm1q(__float128 x);
extern __float128 logq(__float128 x);
extern __float128 log1pq(__float128 x);
extern __float128 erfcq(__float128 x);
extern __float128 sqrtq(__float128 x);
extern __float128 lgammaq(__float128 x);

/* Pr[Z > x]. */
__float128 exact_normal_tail(__float128 x);

/* delta(eps) of N(mu, 1) against N(0, 1); eps <= 1e4, and eps/mu + mu/2 <= 140. */
__float128 exact_gaussian_delta(__float128 mu, __float128 eps);

/* L(z) of the pair. */
__float128 exact_loss(const struct eps__pair *pair, __float128 z);

/* delta(eps) of the pair, its lost probability left out: any eps. Relative error under 1e-25. */
__float128 exact_delta(const struct eps__pair *pair, __float128 eps);

struct exact_power {
    const struct eps__pair *pair;
    uint64_t count;
};

/* ln of the composition's delta(eps) and a bound, by its own convergence, on the absolute error of that logarithm;
 * INFINITY where the inversion did not converge. */
struct exact_answer {
    double log_delta, error;
};
struct exact_answer exact_composition(const struct exact_power *powers, size_t len, double eps);

/* The moments of the composition under a given tilt (exact_moments()), or under the tilt at which its mean is eps
 * (exact_saddle(); tilt 0 if the mean is above eps). */
struct exact_saddle {
    double tilt, mean, deviation, log_moment;
};
struct exact_saddle exact_moments(const struct exact_power *powers, size_t len, double tilt);
struct exact_saddle exact_saddle(const struct exact_power *powers, size_t len, double eps);

#endif
