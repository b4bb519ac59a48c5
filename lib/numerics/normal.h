/*
 * The normal distribution without cancellation: Mills' ratio, logarithms of tails, and the privacy profile of one
 * Gaussian mechanism.
 *
 * SPDX-License-Identifier: GPL-3.0-or-later
 */
#ifndef EPS_NUMERICS_NORMAL_H
#define EPS_NUMERICS_NORMAL_H

#include "lib/numerics/bound.h"

#define EPS__LOG_SQRT_2PI 0.91893853320467274178

/* Mills' ratio Pr[Z > x] / phi(x) of a standard normal Z, for x > -37. The relative error is at most EPS__MILLS_ERROR,
 * and 2 x^2 2^-53 more for x < 0 (N1). */
double eps__mills(double x);
#define EPS__MILLS_ERROR 4e-15

/* ln Pr[Z > x] for any x. The absolute error is at most EPS__LOG_TAIL_ERROR(x) (N1). */
double eps__log_normal_tail(double x);
#define EPS__LOG_TAIL_ERROR(x) (EPS__MILLS_ERROR + 2 * EPS__UNIT_ROUNDOFF * (x) * (x))

/* ln Pr[left < Z <= left + width], width > 0, without cancellation however small the width is. Out: *error, a bound on
 * the absolute error (N5). */
double eps__normal_log_mass(double left, double width, double *error);

/* The x with ln Pr[Z > x] = log_tail, log_tail < 0, to about 1e-12. For choosing limits, never for a bound. NAN for
 * NAN. */
double eps__normal_tail_quantile(double log_tail);

/*
 * ln delta(eps) of N(mu, 1) against N(0, 1), delta = Phi(mu/2 - eps/mu) - e^eps Phi(-mu/2 - eps/mu) (MEMF section 2;
 * Balle and Wang 2018, theorem 8). mu > 0, any finite eps. Out: *error, a bound on the absolute error of the logarithm.
 * Returns -INFINITY if ln delta itself is out of range, which does not happen for eps/mu < 1e150; NAN with an infinite
 * error if mu or eps is NAN.
 */
double eps__gaussian_log_delta(double mu, double eps, double *error);

#endif
