/*
 * Plain Poisson sampling as its moments see it: an example takes part in each of n steps independently with probability
 * p, x in {0,1}^n, and u_x = <C x, y>/sigma^2 - |C x|^2/(2 sigma^2) at y ~ Q makes X = P/Q = E_x e^{u_x}. Of C only its
 * Gram matrix over sigma^2 counts, and where it is banded, E X^a is a sum along a chain: a copies of x go step after
 * step, and remember which of the last steps they took (M18).
 *
 * SPDX-License-Identifier: GPL-3.0-or-later
 */
#ifndef EPS_MOMENTS_LAWS_POISSON_H
#define EPS_MOMENTS_LAWS_POISSON_H

#include "lib/moments/laws/balls_in_bins.h"

/* More bands do not fit whatever is spent; more moments than so many cost more to be used than to be had, and gain
 * little. */
enum { EPS__POISSON_WIDTH_MAX = 12, EPS__POISSON_MOMENTS_MAX = 16 };

struct eps__banded_gram {
    size_t len;     /* steps */
    size_t width;   /* >= 1: entries at a distance of width or more are 0 */
    double p;       /* in [0, 1] */
    double *gram;   /* [i][d], d < width: the entry of steps i and i - d; where d > i, any number >= 0 */
    size_t changes; /* how many steps differ from the one before */
};

/*
 * From the Gram matrix (len x width, as above; 0 where d > i), each entry within `error` of itself of the exact one,
 * and 1e-300: one that dominates, made of doubles that are exact (M17). *banded needs no clearing where this fails.
 * EPS_NO_MEMORY.
 */
enum eps_status eps__banded_gram_make(struct eps__banded_gram *banded, const double *gram, size_t len, size_t width,
                                      double p, double error, double sigma);
void eps__banded_gram_clear(struct eps__banded_gram *banded);

/* About the operations that E X^a costs, where `changes` of `len` steps differ from the one before. */
double eps__poisson_operations(size_t len, size_t width, size_t changes, unsigned a);

/* E X^a, a >= 2, by numbers of quadruple precision (exact) or by long doubles: within *units of the roundoff of
 * quadruple precision of itself; what is no number is not known. EPS_OK, EPS_NO_MEMORY, EPS_CANCELED, EPS_TIMEOUT. */
enum eps_status eps__poisson_raw(const struct eps_context *context, eps__quad *raw, double *units,
                                 const struct eps__banded_gram *banded, unsigned a, bool exact);

/*
 * ln E X^a from above and below, and the central moments: the second one if it takes at most `second` operations,
 * further ones as long as all take at most `operations`, of an order of at most max_order (0: any). laws->len = 0,
 * orders->log_upper[2] = INFINITY where there is none. orders, laws: either may be NULL; the caller clears. EPS_OK and
 * as above; nothing is held unless EPS_OK.
 */
enum eps_status eps__poisson_moments(const struct eps_context *context, struct eps__orders *orders,
                                     struct eps__laws *laws, const struct eps__banded_gram *banded, double second,
                                     double operations, unsigned max_order);

#endif
