/*
 * How far y is drawn from 0, against the mean of C x, so that what counts in the add direction of Poisson sampling is
 * drawn often.
 *
 * SPDX-License-Identifier: GPL-3.0-or-later
 */
#ifndef EPS_ACCOUNTANTS_MONTE_CARLO_LAWS_POISSON_DRIFT_H
#define EPS_ACCOUNTANTS_MONTE_CARLO_LAWS_POISSON_DRIFT_H

#include <stdbool.h>
#include <stddef.h>

/* P/Q >= exp(<a, y> - mean), a = q times the sum of the columns, for participation probabilities q <= p (A18); y is
 * drawn from N(-times a, 1). */
struct eps__mc_poisson_drift {
    double q, times;
    double mean, square; /* the mean above and |a|^2, rounded up */
    double slack;        /* of log_most: what the roundings of a value may add; set by the law */
};

/* The q and the drift whose values are least at eps: own is the sum of the columns' squares, all the square of their sum, both rounded
 * up. False where no drift helps. */
bool eps__mc_poisson_drift_choose(struct eps__mc_poisson_drift *drift, double rounds, double p, double own, double all,
                                  double eps);

/* ln of what a value is at most at eps, rounded up (A45). */
double eps__mc_poisson_drift_log_most(const struct eps__mc_poisson_drift *drift, double eps);

#endif
