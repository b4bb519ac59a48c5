/*
 * Moments of the residual of a mean: of Y = X e^(-<C a, y>), with sigma = 1, under the law in which y has the mean
 * t C a (M27). A scheme supplies the sums over its copies.
 *
 * SPDX-License-Identifier: GPL-3.0-or-later
 */
#ifndef EPS_MOMENTS_LAWS_RESIDUAL_H
#define EPS_MOMENTS_LAWS_RESIDUAL_H

#include "lib/moments/laws/poisson.h"
#include "lib/numerics/sum.h"

#define EPS__TILT_MOST 4.0 /* the largest tilt for which its rounding is counted (M27) */

/* The vector a, of numbers >= 0, and what follows from it. */
struct eps__mean {
    double *a;        /* [step] */
    eps__quad *met;   /* [step]: the inner product of the step's column and C a */
    eps__quad square; /* |C a|^2; with met, it is within `units` units of itself */
    double units;
    size_t changes; /* steps at which met changes, approximately */
};

/* Takes over `a`, which malloc() made, and frees it if the status is EPS_NO_MEMORY. The caller clears. */
enum eps_status eps__mean_make(struct eps__mean *mean, const struct eps__banded_gram *banded, double *a);
void eps__mean_clear(struct eps__mean *mean);

/* The sums of a scheme, and how many of them are computed. */
struct eps__residual_sums {
    /* *sum = N_j of M27 for j = order within *units units of quadruple roundoff of itself; not finite: unknown. tilt:
     * [step], (t - j) (G a)_i. exact: in quadruple precision, else in long double. EPS_OK, EPS_NO_MEMORY, EPS_CANCELED,
     * EPS_TIMEOUT. */
    enum eps_status (*sum)(const struct eps_context *context, eps__quad *sum, double *units, const void *law,
                           const eps__quad *tilt, unsigned order, bool exact);
    const void *law;
    size_t len;           /* steps */
    double drawn;         /* the most examples that a copy is drawn by */
    unsigned most, exact; /* the highest order, and the one up to which quadruple precision is affordable; 1: none */
    double spent, again;  /* the estimated operations of all orders, and of their repetition where it is needed */
};

struct eps__residual_moments {
    struct eps__laws laws;         /* the central moments of Y/E Y; len = 0: none is known */
    struct eps__interval log_mean; /* ln E Y; set if laws.len > 0 */
    double spent;                  /* estimated operations */
};

/* The caller clears residual->laws, whatever the status. Errors as above. */
enum eps_status eps__residual_moments_of(const struct eps_context *context, struct eps__residual_moments *residual,
                                         const struct eps__residual_sums *sums, const struct eps__mean *mean, double t);

#endif
