/*
 * Moments of balls in bins with a cyclically banded Gram matrix: sums over multisets of bins of which only near ones
 * interact. One pass gives all orders up to a highest one (M10).
 *
 * SPDX-License-Identifier: GPL-3.0-or-later
 */
#ifndef EPS_MOMENTS_LAWS_CHAIN_H
#define EPS_MOMENTS_LAWS_CHAIN_H

#include "lib/moments/laws/bin_gram.h"
#include "lib/numerics/quad.h"

/* The matrix of the sums: entries of the Gram matrix at a cyclic distance below width, each less tau and at least 0;
 * all others are 0. */
struct eps__chain {
    const struct eps__bin_gram *bins;
    size_t width;  /* in [1, len/2 + 1] */
    double tau;    /* at least every entry at a cyclic distance of width or more */
    bool open;     /* at least every entry at a plain distance of width or more as well: no cycle */
    unsigned most; /* the highest order */
};

/* The chain of this width with the least tau. */
struct eps__chain eps__chain_of(const struct eps__bin_gram *bins, size_t width, unsigned most);

/* The entry of the matrix of the sums, rounded up. */
double eps__chain_entry(const struct eps__chain *chain, size_t i, size_t j);

/* Estimates: the products and sums of a pass, and the numbers that it holds. */
double eps__chain_operations(const struct eps__chain *chain);
double eps__chain_numbers(const struct eps__chain *chain);

/* The largest `most` <= highest whose operations and numbers are within the limits; at least 1. */
unsigned eps__chain_fit(struct eps__chain chain, unsigned highest, double operations, double numbers);

/*
 * The moments of order a <= chain->most: the mean over a draws of bins of exp(sum over their pairs of the pair's
 * entry). If tau is 0 this is E X^a. eps__chain_quad() computes moments[a] in quadruple precision, each within *units
 * units of roundoff of itself. eps__chain_double() computes bounds on their logarithms in double precision, INFINITY
 * and 0 if the range of doubles is too small. EPS_OK, EPS_NO_MEMORY, EPS_CANCELED, EPS_TIMEOUT.
 */
enum eps_status eps__chain_quad(const struct eps_context *context, const struct eps__chain *chain, eps__quad *moments,
                                double *units);
enum eps_status eps__chain_double(const struct eps_context *context, const struct eps__chain *chain, double *log_upper,
                                  double *log_lower);

#endif
