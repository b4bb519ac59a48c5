/*
 * Moments under b-min-sep sampling. An example that waits is drawn with probability p; one that was drawn sits out the
 * next b - 1 steps. If C has at most b bands, a copy of the example meets the last drawing of another copy only while
 * that copy sits out. So a state needs only how long each of a copies still sits out, and E X^a is a sum backward in
 * time (M23). With more bands, and one example per user, a state holds the copies' histories (M29).
 *
 * SPDX-License-Identifier: GPL-3.0-or-later
 */
#ifndef EPS_MOMENTS_LAWS_B_MIN_SEP_H
#define EPS_MOMENTS_LAWS_B_MIN_SEP_H

#include "lib/moments/laws/groups.h"
#include "lib/moments/laws/histories.h"
#include "lib/moments/laws/poisson.h"

/* The highest order; further orders cost more to use than to compute. */
enum { EPS__B_MIN_SEP_ORDERS_MAX = 16 };

struct eps__b_min_sep {
    struct eps__banded_gram banded; /* the Gram matrix and p */
    size_t separation;              /* b >= 1 */
    unsigned examples;              /* k >= 1 examples of one user; the gradients of those drawn together add up */
    bool warm;                      /* warm start: sampling begins in its steady state; requires examples = 1 */
    const eps__quad *tilt;          /* [step]: ln of a factor of each example that is drawn there (M27); NULL: none */
};

/*
 * The estimated operations of E X^a; INFINITY if it is not feasible. *numbers: the numbers that it holds. Does not read
 * the Gram matrix.
 */
double eps__b_min_sep_operations(const struct eps__b_min_sep *b_min_sep, unsigned a, double *numbers);

/* What quadruple precision takes, as a multiple of long double. */
#define EPS__B_MIN_SEP_QUAD_COST 12.0

/* *raw = E X^a, a >= 1, within *units units of quadruple roundoff of itself; not finite if it is not known. Where
 * numbers may leave the range of doubles, they are long doubles instead. EPS_OK, EPS_NO_MEMORY, EPS_CANCELED,
 * EPS_TIMEOUT. */
enum eps_status eps__b_min_sep_raw(const struct eps_context *context, eps__quad *raw, double *units,
                                   const struct eps__b_min_sep *b_min_sep, unsigned a, enum eps__precision precision);

/* Raw moments of one law: raw[a] = E X^a within units[a] units of quadruple roundoff of itself, 2 <= a <= most, and 1
 * for a < 2. Start from eps__b_min_sep_none. */
struct eps__b_min_sep_moments {
    eps__quad raw[EPS__B_MIN_SEP_ORDERS_MAX + 1];
    double units[EPS__B_MIN_SEP_ORDERS_MAX + 1];
    unsigned most;
};
extern const struct eps__b_min_sep_moments eps__b_min_sep_none;

/* The orders that limits on operations allow. Those up to `most` are computed at once, up to `exact` in quadruple
 * precision, else in long double; those up to `limit` one by one where they are of use, in double. */
struct eps__b_min_sep_plan {
    unsigned exact, most, limit; /* 1: none */
    double at_once;              /* the estimated operations up to `most` without quadruple precision, */
    double spent, further;       /* with it, and of the orders beyond */
};

/* Plans the orders up to max_order (0: any): as many at once as take at most `operations`, together with those that
 * follow at most `further`. */
struct eps__b_min_sep_plan eps__b_min_sep_plan_of(const struct eps__b_min_sep *b_min_sep, double operations,
                                                  double further, unsigned max_order);

/* Computes the moments up to the order `to`, as far as they are not known yet. Moments that were computed stay,
 * whatever the status. EPS_OK, EPS_NO_MEMORY, EPS_CANCELED, EPS_TIMEOUT. */
enum eps_status eps__b_min_sep_extend(const struct eps_context *context, struct eps__b_min_sep_moments *moments,
                                      const struct eps__b_min_sep *b_min_sep, const struct eps__b_min_sep_plan *plan,
                                      unsigned to);

/* The sums over few copies, in doubles. They refer to *b_min_sep. */
struct eps__copies eps__b_min_sep_copies(const struct eps__b_min_sep *b_min_sep);

/*
 * waits[i]: the probability that the user waits (does not sit out) at step i < banded.len, if examples are drawn with
 * probability q from the first step on; the history of a warm start has the law for banded.p. The result is the same on
 * every machine. Returns the relative error bound of each.
 */
double eps__b_min_sep_waits(const struct eps__b_min_sep *b_min_sep, double q, double *waits);

#endif
