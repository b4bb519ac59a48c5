/*
 * Moments of the residual of a mean under b-min-sep sampling: of Y = X e^(-<C a, y>), with sigma = 1, under the law in
 * which y has the mean t C a (M27).
 *
 * SPDX-License-Identifier: GPL-3.0-or-later
 */
#ifndef EPS_MOMENTS_LAWS_B_MIN_SEP_RESIDUAL_H
#define EPS_MOMENTS_LAWS_B_MIN_SEP_RESIDUAL_H

#include "lib/moments/laws/b_min_sep.h"
#include "lib/numerics/sum.h"

/* The vector a, of numbers >= 0, and what follows from it. */
struct eps__b_min_sep_mean {
    double *a;        /* [step] */
    eps__quad *met;   /* [step]: the inner product of the step's column and C a */
    eps__quad square; /* |C a|^2; with met, it is within mean_units units of itself */
    double units;
    size_t changes; /* steps at which met changes, approximately */
};

/* Takes over `a`, which malloc() made, and frees it if the status is EPS_NO_MEMORY. The caller clears. */
enum eps_status eps__b_min_sep_mean_make(struct eps__b_min_sep_mean *mean, const struct eps__banded_gram *banded,
                                         double *a);
void eps__b_min_sep_mean_clear(struct eps__b_min_sep_mean *mean);

struct eps__b_min_sep_residual {
    struct eps__laws laws;         /* the central moments of Y/E Y; len = 0: none is known */
    struct eps__interval log_mean; /* ln E Y; set if laws.len > 0 */
    double spent;                  /* estimated operations */
};

/* The moments of the orders up to max_order (0: any) that `operations` allow. The caller clears residual->laws,
 * whatever the status. EPS_OK, EPS_NO_MEMORY, EPS_CANCELED, EPS_TIMEOUT. */
enum eps_status eps__b_min_sep_residual(const struct eps_context *context, struct eps__b_min_sep_residual *residual,
                                        const struct eps__b_min_sep *b_min_sep, const struct eps__b_min_sep_mean *mean,
                                        double t, double operations, unsigned max_order);

#endif
