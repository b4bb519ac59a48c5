/*
 * The Gram matrix of balls in bins. An example is in one of b bins, drawn uniformly: P = (1/b) sum_i N(m_i, sigma^2 I)
 * and Q = N(0, sigma^2 I). X = P/Q is the mean of x_i = N(m_i)/N(0) at y ~ Q. The x_i are lognormal, and the Gram
 * matrix of the m_i / sigma determines their joint law.
 *
 * A Gram matrix that is larger entry by entry has a larger delta in both directions (M8). The entries here are doubles
 * that are at least those of the mechanism and count as exact, so later computations need not account for the rounding
 * of the strategy.
 *
 * SPDX-License-Identifier: GPL-3.0-or-later
 */
#ifndef EPS_MOMENTS_LAWS_BIN_GRAM_H
#define EPS_MOMENTS_LAWS_BIN_GRAM_H

#include <stdbool.h>
#include <stddef.h>

#include "lib/epsilon.h"

/* The Gram matrix over sigma^2: symmetric, with entries >= 0. Each row stands for one bin, or for a group of bins. */
struct eps__bin_gram {
    size_t len;       /* rows */
    double *diagonal; /* len numbers */
    double *gram;     /* len x len, diagonal included; NULL: the matrix is diagonal */
    size_t width;     /* in [1, len/2 + 1]; entries at a cyclic distance of width or more are 0 */
    bool open;        /* entries at a plain distance of width or more are 0 as well */
    double most;      /* the largest entry */
    size_t total;     /* the number of bins; len unless rows are groups */
    size_t *count;    /* the bins of each group, whose diagonal entry is that of two different bins; NULL: no groups */
    double excess;    /* of a matrix of eps__bin_gram_make(): an entry exceeds the exact one by at most this multiple of
                       * itself or, on the diagonal, of the sum of its row, and 1e-299 */
    double shared;    /* s^2 of M28, if eps__bin_gram_share() was called; else 0 */
    double *own;      /* for groups: what is added to this between a bin and itself */
};

/*
 * Makes a matrix that dominates the exact one. gram: the Gram matrix of the m_i, len x len, or NULL if it is
 * diagonal; diagonal: its diagonal, or NULL to take it from gram. Each entry is within a relative error of `error`,
 * plus 1e-300, of the exact one. The caller clears if the status is EPS_OK. EPS_OK, EPS_NO_MEMORY.
 */
enum eps_status eps__bin_gram_make(struct eps__bin_gram *bins, const double *gram, const double *diagonal, size_t len,
                                   double error, double sigma);

/*
 * Makes groups of about `size` >= 2 neighbouring bins. The matrix of the groups dominates that of the bins entry by
 * entry (M15), but need not be positive semidefinite. The caller clears if the status is EPS_OK. EPS_OK, EPS_NO_MEMORY.
 */
enum eps_status eps__bin_gram_gather(struct eps__bin_gram *gathered, const struct eps__bin_gram *bins, size_t size);
void eps__bin_gram_clear(struct eps__bin_gram *bins);

static inline double eps__bin_gram_entry(const struct eps__bin_gram *bins, size_t i, size_t j)
{
    return i == j ? bins->diagonal[i] : bins->gram ? bins->gram[i * bins->len + j] : 0;
}

/* The cyclic distance of two bins. */
static inline size_t eps__bin_distance(size_t len, size_t i, size_t j)
{
    size_t apart = i > j ? i - j : j - i;
    return apart < len - apart ? apart : len - apart;
}

#endif
