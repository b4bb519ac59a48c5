/*
 * Multisets of bins, drawn bin by bin: at each bin, a number of the remaining draws falls into it, given the counts of
 * the earlier bins that this bin or a later one meets (A32). A banded Gram matrix needs the counts of the last few
 * bins, a cyclic band those of the first few as well.
 *
 * Two bins meet if the logarithm of their pair's weight exceeds tau. The chain uses the excess over tau and multiplies
 * each pair by e^tau. A multiset with pairs below tau is therefore drawn too often; eps__mc_chain_draw() returns the
 * correction.
 *
 * SPDX-License-Identifier: GPL-3.0-or-later
 */
#ifndef EPS_ACCOUNTANTS_MONTE_CARLO_LAWS_CHAIN_H
#define EPS_ACCOUNTANTS_MONTE_CARLO_LAWS_CHAIN_H

#include <stdbool.h>

#include "lib/epsilon.h"
#include "lib/numerics/lanes/lanes.h"

enum {
    EPS__MC_CHAIN_LIVE = 24, /* live bins at a time, at most */
    EPS__MC_CHAIN_MOST = 24  /* draws, at most */
};

struct eps__mc_chain {
    size_t bins;
    unsigned most; /* the largest number of draws that the tables allow */
    double tau;
    /* tuples[s][n]: the number of tuples of n integers >= 0 with a sum of at most s */
    size_t tuples[EPS__MC_CHAIN_MOST + 1][EPS__MC_CHAIN_LIVE + 2];
    double *gram;   /* bins x bins, for the correction; NULL if tau is negligible */
    uint32_t *live; /* EPS__MC_CHAIN_LIVE for each bin: the live ones, which are earlier and meet it or a later one */
    uint8_t *live_len; /* their number at each bin; bins + 1 */
    size_t *start;     /* where the tables of each bin begin; bins + 1. Each state has a table of most + 1 numbers */
    double *ends;      /* the cumulative tables */
    /* ln of b^-a times the sum of the weights of all sequences of a draws, rounded up; INFINITY: not known */
    double log_moment[EPS__MC_CHAIN_MOST + 1];
};

/* The most numbers in the tables of a chain. */
#define EPS__MC_CHAIN_NUMBERS 1e6

/* Makes the tables, of at most `numbers` numbers. gram_upper: bins x bins, upper bounds >= 0 on the logarithms of the
 * weights of pairs. The caller clears if the status is EPS_OK. EPS_UNSUPPORTED: so many bins meet that only two draws
 * would fit; EPS_NO_MEMORY. */
EPS_MUST_USE enum eps_status eps__mc_chain_make(struct eps__mc_chain *chain, const double *gram_upper, size_t bins,
                                                double tau, double numbers);
void eps__mc_chain_clear(struct eps__mc_chain *chain);

/* Draws `order` <= most bins, in ascending order. Returns ln of a factor <= 1: the weight of this multiset over the one
 * that it was drawn by. */
double eps__mc_chain_draw(uint32_t *chosen, const struct eps__mc_chain *chain, unsigned order,
                          const struct eps__stream *stream, uint32_t draw);

#endif
