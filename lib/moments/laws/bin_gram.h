/*
 * Balls in bins as its moments see it: an example is in one of b bins, drawn uniformly, and P = (1/b) sum_i N(m_i,
 * sigma^2 I), Q = N(0, sigma^2 I). With x_i = N(m_i)/N(0) at y ~ Q, X = P/Q is the mean of the x_i, lognormal numbers
 * of which the Gram matrix of the m_i / sigma tells all.
 *
 * A larger Gram matrix, entry by entry, is a larger delta in both directions (M8): so the matrix here is made of
 * doubles that are exact, at or above those of the mechanism, and what is computed from it owes nothing to the rounding
 * of the strategy.
 *
 * SPDX-License-Identifier: GPL-3.0-or-later
 */
#ifndef EPS_MOMENTS_LAWS_BIN_GRAM_H
#define EPS_MOMENTS_LAWS_BIN_GRAM_H

#include <stdbool.h>
#include <stddef.h>

#include "lib/epsilon.h"

/* The Gram matrix over sigma^2, symmetric, entries >= 0. */
struct eps__bin_gram {
    size_t len;
    double *diagonal; /* len numbers */
    double *gram;     /* len x len; NULL: nothing but the diagonal */
    size_t width;     /* in [1, len/2 + 1]: entries at a cyclic distance of width or more are 0 */
    bool open;        /* so are those at a distance of width or more, cyclic or not */
    double most;      /* the largest entry */
    size_t total;     /* how many bins there are: len, unless one stands for several */
    size_t *count; /* for how many each stands, with the diagonal's entry between two of them, too; NULL: for itself */
    double *own;   /* and what is added to that between each of them and itself */
};

/*
 * From the Gram matrix of the m_i (len x len; NULL: all but its diagonal is 0; diagonal NULL: the matrix has it), each
 * entry within `error` of itself of the exact one, and 1e-300. *bins needs no clearing where this fails. EPS_NO_MEMORY.
 */
enum eps_status eps__bin_gram_make(struct eps__bin_gram *bins, const double *gram, const double *diagonal, size_t len,
                                   double error, double sigma);

/*
 * Neighbouring bins taken together, about `size` >= 2 of them, such that the matrix dominates that of the bins entry by
 * entry (M15); it need not be one of inner products. As eps__bin_gram_make().
 */
enum eps_status eps__bin_gram_gather(struct eps__bin_gram *gathered, const struct eps__bin_gram *bins, size_t size);
void eps__bin_gram_clear(struct eps__bin_gram *bins);

static inline double eps__bin_gram_entry(const struct eps__bin_gram *bins, size_t i, size_t j)
{
    return i == j ? bins->diagonal[i] : bins->gram ? bins->gram[i * bins->len + j] : 0;
}

/* The steps from one bin to the other, the shorter way round. */
static inline size_t eps__bin_distance(size_t len, size_t i, size_t j)
{
    size_t apart = i > j ? i - j : j - i;
    return apart < len - apart ? apart : len - apart;
}

#endif
