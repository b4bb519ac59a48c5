/*
 * Mixtures of Gaussians in a few dimensions, and the hockey-stick divergence between two of them: one half of the
 * truth that the random mechanisms are held against. Shares no code with the library.
 *
 * SPDX-License-Identifier: GPL-3.0-or-later
 */
#ifndef TESTS_TRUTH_MIXTURE_H
#define TESTS_TRUTH_MIXTURE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* sum_i e^log_weight_i N(at_i, I); the weights sum to 1. */
struct mixture {
    size_t len, dimension;
    long double *log_weight;
    long double *at; /* len x dimension */
};

struct mixture mixture_new(size_t len, size_t dimension);
void mixture_free(struct mixture *mixture);

/* What is known of a delta: it lies in [lower, upper]. */
struct enclosure {
    long double lower, upper;
};

/* How hard to try. */
struct effort {
    size_t samples;         /* Monte Carlo: how many */
    size_t quadrature_most; /* up to how many dimensions are integrated */
    uint64_t seed;
    long double floor; /* of delta: what is far under it need not be resolved */
    long double width; /* relative, that is narrow enough */
    size_t cells_most; /* of a grid of losses; 0: 2^14 */
    bool lower_only;   /* upper is not looked at */
};

/* Pr[Z > x] for a standard normal Z, and its logarithm for any x. */
long double normal_tail(long double x);
long double log_normal_tail(long double x);

/* Beyond this epsilon e^eps times a tail is no long double: nothing is known there. */
#define TRUTH_EPSILON_MOST 5000.0L

/*
 * int (over - e^eps under)_+ . There must be a direction along which no atom of `over` lies below the origin and none
 * of `under` above it, as with atoms C x against -C x' for C with non-negative inner products of its columns: along
 * it the privacy loss rises, and the integral has a closed form. Up to quadrature_most dimensions both ends are
 * within the convergence of a trapezoid sum, and a millionth; beyond, lower holds but with probability 1e-10, and
 * upper is 1.
 */
struct enclosure mixture_delta(const struct mixture *over, const struct mixture *under, long double eps,
                               const struct effort *effort);

#endif
