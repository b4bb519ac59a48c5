/*
 * Moments under Poisson sampling. An example takes part in each of n steps independently with probability p, so x in
 * {0,1}^n, and X = P/Q = E_x e^{u_x} with u_x = <C x, y>/sigma^2 - |C x|^2/(2 sigma^2) at y ~ Q. Only the Gram matrix
 * of C over sigma^2 matters. If it is banded, E X^a is a sum along a chain of n steps, whose states record in which of
 * the last steps each of a copies of x took part (M18).
 *
 * SPDX-License-Identifier: GPL-3.0-or-later
 */
#ifndef EPS_MOMENTS_LAWS_POISSON_H
#define EPS_MOMENTS_LAWS_POISSON_H

#include "lib/moments/laws/balls_in_bins.h"

enum {
    EPS__POISSON_WIDTH_MAX = 12,  /* more bands have too many states */
    EPS__POISSON_MOMENTS_MAX = 16 /* further moments improve bounds little and cost more to use than to compute */
};

struct eps__banded_gram {
    size_t len;     /* steps */
    size_t width;   /* >= 1; entries at a distance of width or more are 0 */
    double p;       /* the participation probability, in [0, 1] */
    double *gram;   /* [i][d], d < width: the entry of steps i and i - d; if d > i, any number >= 0 */
    size_t changes; /* the number of steps whose row differs from the one before, the first step included */
    double times;   /* a factor of the entries (M22); 0: none */
};

/* An upper bound on the entry of steps i and i - d times the factor, within 4 units of it. */
double eps__banded_entry(const struct eps__banded_gram *banded, size_t i, size_t d);

/*
 * Makes a matrix that dominates the exact one; its entries are doubles that count as exact (M17). gram: len x width as
 * above, 0 if d > i; each entry is within a relative error of `error`, plus 1e-300, of the exact one. The caller clears
 * if the status is EPS_OK. EPS_OK, EPS_NO_MEMORY.
 */
enum eps_status eps__banded_gram_make(struct eps__banded_gram *banded, const double *gram, size_t len, size_t width,
                                      double p, double error, double sigma);
void eps__banded_gram_clear(struct eps__banded_gram *banded);

/* An upper bound on the exponent of copies that meet wherever they can, if each takes part at most once in any
 * `separation` successive steps (M22). */
double eps__banded_meetings(const struct eps__banded_gram *banded, size_t separation, unsigned copies);

/* The first step after i whose row differs from that of step i, or len. */
size_t eps__banded_alike(const struct eps__banded_gram *banded, size_t i);

/* The estimated operations of E X^a. changes: as in eps__banded_gram. */
double eps__poisson_operations(size_t len, size_t width, size_t changes, unsigned a);

/*
 * *raw = E X^a, a >= 2, within *units units of quadruple roundoff of itself; not finite if it is not known. tilt:
 * [step], each participation of a copy at the step has the further factor e^tilt, as M27 needs it, and a >= 1; NULL:
 * none. exact: computes in quadruple precision, else in long double. EPS_OK, EPS_NO_MEMORY, EPS_CANCELED, EPS_TIMEOUT.
 */
enum eps_status eps__poisson_raw(const struct eps_context *context, eps__quad *raw, double *units,
                                 const struct eps__banded_gram *banded, const eps__quad *tilt, unsigned a, bool exact);

/* The highest order up to `limit` whose sums fit, if all of them take at most `operations`; 1: none. changes: as in
 * eps__banded_gram. *spent: the estimated operations. */
unsigned eps__poisson_tilted_most(const struct eps__banded_gram *banded, size_t changes, double operations,
                                  unsigned limit, double *spent);

/*
 * Computes bounds on ln E X^a and central moments: of order 2 if it takes at most `second` operations, and of higher
 * orders up to max_order (0: any) as long as all take at most `operations`. If nothing is known, laws->len = 0 and
 * orders->log_upper[2] = INFINITY. orders or laws may be NULL. The caller clears both. Errors as above; nothing is held
 * unless EPS_OK.
 */
enum eps_status eps__poisson_moments(const struct eps_context *context, struct eps__orders *orders,
                                     struct eps__laws *laws, const struct eps__banded_gram *banded, double second,
                                     double operations, unsigned max_order);

#endif
