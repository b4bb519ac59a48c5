/*
 * b-min-sep sampling as its moments see it: an example that waits is drawn with probability p, and one that was drawn
 * sits out the next b - 1 steps. Where the bands of C are at most b, two copies of it meet only while one of them sits
 * out, so that a copies are told apart by how long each still does, and E X^a is a sum forward in time (M23).
 *
 * SPDX-License-Identifier: GPL-3.0-or-later
 */
#ifndef EPS_MOMENTS_LAWS_B_MIN_SEP_H
#define EPS_MOMENTS_LAWS_B_MIN_SEP_H

#include "lib/moments/laws/poisson.h"

/* More orders than these cost more to be used than to be had. */
enum { EPS__B_MIN_SEP_ORDERS_MAX = 16 };

struct eps__b_min_sep {
    struct eps__banded_gram banded; /* the Gram matrix, of at most `separation` bands, and p */
    size_t separation;              /* b >= 1 */
    unsigned examples;              /* of one user: k >= 1; of those that are drawn together each is added */
    bool warm;                      /* the first step is one of a process that has run for long; then examples = 1 */
};

/*
 * About the operations that E X^a costs, with so many times the memory of a number: of the members, those that are no
 * pointers are read. INFINITY where it is out of the question.
 */
double eps__b_min_sep_operations(const struct eps__b_min_sep *b_min_sep, unsigned a, double *numbers);

/* How numbers are held: with 64 bits, or with 113 at QUAD_COST times the time. */
enum eps__b_min_sep_precision { EPS__B_MIN_SEP_LONG, EPS__B_MIN_SEP_QUAD };
#define EPS__B_MIN_SEP_QUAD_COST 12.0

/* *raw = E X^a, a >= 2, within *units of quadruple roundoff of itself; what is no number is not known. EPS_OK,
 * EPS_NO_MEMORY, EPS_CANCELED, EPS_TIMEOUT. */
enum eps_status eps__b_min_sep_raw(const struct eps_context *context, eps__quad *raw, double *units,
                                   const struct eps__b_min_sep *b_min_sep, unsigned a,
                                   enum eps__b_min_sep_precision precision);

/* How many orders so many operations allow, of at most max_order (0: any), 1 where there are none; *spent: what they
 * take. */
unsigned eps__b_min_sep_fits(const struct eps__b_min_sep *b_min_sep, double operations, unsigned max_order,
                             double *spent);

/* Those orders, and the central moments that they are (raw.h). Nothing is held unless EPS_OK. */
enum eps_status eps__b_min_sep_moments(const struct eps_context *context, struct eps__orders *orders,
                                       struct eps__laws *laws, const struct eps__b_min_sep *b_min_sep,
                                       double operations, unsigned max_order);

/*
 * waits[i]: the probability that the user's examples wait at step i < banded.len, where they are drawn with probability
 * q from the first step on (what was before it is by banded.p): the same on every machine. Returns what each is off by,
 * relatively.
 */
double eps__b_min_sep_waits(const struct eps__b_min_sep *b_min_sep, double q, double *waits);

#endif
