/*
 * Bounds from the moments of the residual of a mean.
 *
 * Let Lambda = <a, y> for a vector a that is the mean of C x, or near it. Most of the privacy loss is Lambda, a
 * Gaussian. The residual Y = X e^(-Lambda) is near a constant, and its moments are known under tilted laws, in which y
 * has the mean t a. They bound how often Y is large where Lambda is large, and how often it is small where Lambda is
 * small (A50).
 *
 * SPDX-License-Identifier: GPL-3.0-or-later
 */
#ifndef EPS_ACCOUNTANTS_RENYI_RESIDUAL_H
#define EPS_ACCOUNTANTS_RENYI_RESIDUAL_H

#include "lib/accountants/renyi/bounds.h"

enum { EPS__RESIDUAL_LEVELS = 32 };

/* What is known of Y under one tilted law. */
struct eps__residual_law {
    double t;
    struct eps__interval square;   /* |a|^2, the variance of Lambda */
    double least;                  /* Y >= e^least, but for events of probability below DBL_MIN */
    struct eps__interval log_mean; /* ln E Y */
    struct eps__laws laws;         /* one, with the central moments of Y/E Y; none: not known */
};

/* Levels of Y, and bounds on how far it is beyond them. */
struct eps__residual {
    enum eps_direction direction;
    double t;
    struct eps__interval square;
    double level[EPS__RESIDUAL_LEVELS + 1];                    /* of ln Y; from about ln E Y on, away from it */
    struct eps__interval log_beyond[EPS__RESIDUAL_LEVELS + 1]; /* ln of the bounds under the tilted law, */
    struct eps__interval log_last[EPS__RESIDUAL_LEVELS + 1];   /* and under Q, for remove */
    unsigned moments;                                          /* the highest order in use */
};

/* Add: tilted->t <= 0, and tilted->least is known. Remove: tilted->t >= 1, plain->t is 0, and both have the same a.
 * Both laws have at least two moments. EPS_OK, EPS_CANCELED, EPS_TIMEOUT. */
enum eps_status eps__residual_make(const struct eps_context *context, struct eps__residual *residual,
                                   enum eps_direction direction, const struct eps__residual_law *tilted,
                                   const struct eps__residual_law *plain);

/* ln of the bound on delta(eps). */
double eps__residual_log_delta(const struct eps__residual *residual, enum eps__estimate estimate, double eps);

#endif
