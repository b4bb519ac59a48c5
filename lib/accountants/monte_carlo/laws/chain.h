/*
 * Multisets of bins drawn bin by bin: how many of the draws that are left fall into the bin at hand, given the counts of the bins before it
 * that a later one meets (A32). So a band needs the counts of the last few bins, and a cyclic one those of the first few as well.
 *
 * Bins meet where the logarithm of their pair's weight is over tau, and then by what it is more. Every pair is told to have e^tau besides,
 * and a multiset that has less says so: it was drawn too often.
 *
 * SPDX-License-Identifier: GPL-3.0-or-later
 */
#ifndef EPS_ACCOUNTANTS_MONTE_CARLO_LAWS_CHAIN_H
#define EPS_ACCOUNTANTS_MONTE_CARLO_LAWS_CHAIN_H

#include <stdbool.h>

#include "lib/epsilon.h"
#include "lib/numerics/lanes/lanes.h"

enum { EPS__MC_CHAIN_LIVE = 24, EPS__MC_CHAIN_MOST = 24 };

struct eps__mc_chain {
    size_t bins;
    unsigned most; /* draws at most */
    double tau;
    /* [s][n]: the tuples of n numbers with a sum of at most s */
    size_t tuples[EPS__MC_CHAIN_MOST + 1][EPS__MC_CHAIN_LIVE + 2];
    double *gram;      /* where tau matters: bins x bins */
    uint32_t *live;    /* of each bin, those before it that it or a later one meets: EPS__MC_CHAIN_LIVE places */
    uint8_t *live_len; /* bins + 1 */
    size_t *start;     /* where its tables begin, one for each state, most + 1 numbers each: bins + 1 */
    double *ends;
    /* ln of b^-a times the sum of all sequences' weights, from above; INFINITY: not known */
    double log_moment[EPS__MC_CHAIN_MOST + 1];
};

/* gram_upper: bins x bins, the logarithms of the weights of pairs, >= 0. EPS_OK, the caller clears; EPS_UNSUPPORTED: too many bins meet for
 * more than two draws; EPS_NO_MEMORY. */
EPS_MUST_USE enum eps_status eps__mc_chain_make(struct eps__mc_chain *chain, const double *gram_upper, size_t bins,
                                                double tau);
void eps__mc_chain_clear(struct eps__mc_chain *chain);

/* `order` <= most bins, ascending. Returns ln of what their weight is over what they were drawn by, at most 0. */
double eps__mc_chain_draw(uint32_t *chosen, const struct eps__mc_chain *chain, unsigned order,
                          const struct eps__stream *stream, uint32_t draw);

#endif
