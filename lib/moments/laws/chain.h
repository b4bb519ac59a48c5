/*
 * Sums over multisets of bins of which only near ones interact: the moments of balls in bins with a cyclically banded
 * Gram matrix, of every order up to a highest one, in one pass (M10).
 *
 * SPDX-License-Identifier: GPL-3.0-or-later
 */
#ifndef EPS_MOMENTS_LAWS_CHAIN_H
#define EPS_MOMENTS_LAWS_CHAIN_H

#include "lib/moments/laws/bin_gram.h"
#include "lib/numerics/quad.h"

/* What is summed up: the entries of the Gram matrix at a cyclic distance under width, each less tau and at least 0. */
struct eps__chain {
    const struct eps__bin_gram *bins;
    size_t width; /* in [1, len/2 + 1] */
    double tau;   /* at least every entry at a cyclic distance of width or more */
    bool open;    /* and those at a distance of width or more, cyclic or not, are at most tau */
    unsigned most;
};

/* The chain of that width: its tau and whether it is open. */
struct eps__chain eps__chain_of(const struct eps__bin_gram *bins, size_t width, unsigned most);

/* The entry of two bins that is summed with. */
double eps__chain_entry(const struct eps__chain *chain, size_t i, size_t j);

/* Products and sums that it takes; the numbers that it keeps. */
double eps__chain_operations(const struct eps__chain *chain);
double eps__chain_numbers(const struct eps__chain *chain);

/* The largest `most` whose operations and numbers are within the limits, at most `highest`; at least 1. */
unsigned eps__chain_fit(struct eps__chain chain, unsigned highest, double operations, double numbers);

/*
 * The moments of order a <= chain->most: the mean over a draws of bins of exp(the sum over their pairs of the entry of
 * the two), which is E X^a where tau is 0. In quadruple precision: moments[a], each within *units of its roundoff of
 * itself. In double: bounds on ln of each, INFINITY and 0 where doubles do not reach. EPS_OK, EPS_NO_MEMORY,
 * EPS_CANCELED, EPS_TIMEOUT.
 */
enum eps_status eps__chain_quad(const struct eps_context *context, const struct eps__chain *chain, eps__quad *moments,
                                double *units);
enum eps_status eps__chain_double(const struct eps_context *context, const struct eps__chain *chain, double *log_upper,
                                  double *log_lower);

#endif
