/*
 * The tilted law R for draws of balls in bins, for an integer order a: Z R = P^a Q^(1-a) is a mixture of the laws
 * N(sum_c f_(i_c), I) over all sequences of bins i_1 .. i_a, with weights b^-a e^(sum over pairs c < d of
 * <f_(i_c), f_(i_d)>) (RA section 3). The draws have these weights up to rounding, and their density is at least
 * P^a Q^(1-a)/Z everywhere, with the Z that is reported (A32).
 *
 * SPDX-License-Identifier: GPL-3.0-or-later
 */
#ifndef EPS_ACCOUNTANTS_MONTE_CARLO_LAWS_MULTISETS_H
#define EPS_ACCOUNTANTS_MONTE_CARLO_LAWS_MULTISETS_H

#include "lib/accountants/monte_carlo/laws/chain.h"
#include "lib/accountants/monte_carlo/laws/factor.h"

enum { EPS__MC_ORDER_MAX = 64 };

struct eps__mc_multisets {
    size_t bins;
    unsigned order;    /* a */
    double log_moment; /* ln Z, rounded up */
    double *any;       /* cumulative table of all bins with equal weights */
    double any_sum;    /* its sum */
    /* For a = 2. The weight of a pair is e^g = 1 + (e^g - 1), g the inner product of its vectors. */
    double part[2];    /* cumulative table of the two parts of the weight */
    double *row;       /* cumulative table of the first bin, for the second part */
    size_t *start;     /* bins + 1 numbers: where the partners of each bin begin */
    uint32_t *partner; /* bins that share a coordinate with it, itself included */
    double *ends;      /* a cumulative table of the partners of each bin */
    /* For any a, if the vectors are orthogonal and of one length: cumulative tables of how many of the remaining draws
     * fall into one bin with the first of them, by the number of bins in use and of remaining draws. NULL: not used. */
    double *together;
    /* For several a, if few bins meet each other. chain.ends NULL: not used. */
    struct eps__mc_chain chain;
};

/*
 * Makes the tables for the order with the least bound on values at eps, among those that take about as many operations
 * as given (0: no limit). gram_upper: as made by eps__mc_factor_make(). The caller clears if the status is EPS_OK.
 * EPS_OK, EPS_UNSUPPORTED (no moment is finite), EPS_NO_MEMORY.
 */
EPS_MUST_USE enum eps_status eps__mc_multisets_make(struct eps__mc_multisets *sets, const struct eps__mc_factor *factor,
                                                    const double *gram_upper, double eps, double operations);
void eps__mc_multisets_clear(struct eps__mc_multisets *sets);

/* Draws sets->order bins. Returns ln of a factor <= 1 that the draw's weight has to be multiplied by. */
double eps__mc_multisets_draw(uint32_t *chosen, const struct eps__mc_multisets *sets, const struct eps__stream *stream,
                              uint32_t draw);

/* ln of the maximum of Z e^(-(a-1) l) (1 - e^(eps - l)) over l, rounded up. */
double eps__mc_tilted_log_most(unsigned order, double log_moment, double eps);

#endif
