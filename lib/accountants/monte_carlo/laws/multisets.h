/*
 * The law R that draws of balls in bins are tilted to, for an integer order a: P^a Q^(1-a) = Z R is a mixture of the N(sum_c f_(i_c), I) over
 * all sequences of bins i_1 .. i_a, with weights b^-a e^(sum over pairs c < d of <f_(i_c), f_(i_d)>) (RA section 3). What is drawn has these
 * weights but for roundings, and is nowhere less than P^a Q^(1-a)/Z, with the Z that is told (A32).
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
    double log_moment; /* ln Z, from above */
    double *any;       /* cumulative table of all bins, alike */
    double any_sum;
    /* a = 2: pairs whose weight is e^g = 1 + (e^g - 1), by the first part or by the second. */
    double part[2];
    double *row;       /* which bin is the first */
    size_t *start;     /* where its partners begin: bins + 1 */
    uint32_t *partner; /* those with g > 0 */
    double *ends;      /* a cumulative table of them for each bin */
    /* Of orthogonal vectors of one length, any a: how many of the draws that are left fall together with the first of them, by how many are left
     * and how many bins are in use. */
    double *together;
    /* Where few bins meet, as many as the tables allow. */
    struct eps__mc_chain chain;
};

/*
 * Of the order for which log_most(eps) is least. gram_upper: as of eps__mc_factor_make(). EPS_OK, the caller clears; EPS_UNSUPPORTED: no moment
 * is finite; EPS_NO_MEMORY.
 */
EPS_MUST_USE enum eps_status eps__mc_multisets_make(struct eps__mc_multisets *sets, const struct eps__mc_factor *factor,
                                                    const double *gram_upper, double eps);
void eps__mc_multisets_clear(struct eps__mc_multisets *sets);

/* The bins of one draw: `order` of them. Returns ln of what the draw's weight has to be multiplied by, at most 0. */
double eps__mc_multisets_draw(uint32_t *chosen, const struct eps__mc_multisets *sets, const struct eps__stream *stream,
                              uint32_t draw);

/* ln of the most that Z e^(-(a-1) l) (1 - e^(eps - l)) can be, from above. */
double eps__mc_tilted_log_most(unsigned order, double log_moment, double eps);

#endif
