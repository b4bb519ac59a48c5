/*
 * The rules by which a sensitivity is bounded, from one pattern's Gram matrix to any pattern of separated steps.
 *
 * SPDX-License-Identifier: GPL-3.0-or-later
 */
#ifndef EPS_STRATEGY_SENSITIVITY_SENSITIVITY_H
#define EPS_STRATEGY_SENSITIVITY_SENSITIVITY_H

#include "lib/strategy/kind.h"

/* Longest pattern whose Gram matrix is formed. */
enum { EPS__GRAM_STEPS_MAX = 4096 };

/* What some optimisers are told of the sampling, beside the job's matrix.epochs and separation; both false for a single
 * epoch, where they hardly matter and jobs of every scheme share an optimum, and for families that are told nothing. */
struct eps__target {
    bool separated; /* several steps at least, not exactly, so far apart */
    bool sampled;   /* the job samples: amplification needs C >= 0 */
};
struct eps__target eps__target_told(const struct eps_mechanism *mechanism);
/* The number of starting points of fixed_order patterns. */
size_t eps__participation_starts(const struct eps__participation *participation, size_t n);

/* The square of the sensitivity under a participation, adjacency and amplitude apart. */
enum eps_status eps__participation_square(const struct eps_context *context, struct eps__square *out,
                                          struct eps_error *error, const struct eps_strategy *s,
                                          const struct eps__participation *participation);

/* The best rule for one pattern with the Gram matrix x (k x k, taken as exact); where the cheapest rule shows that
 * the square is at most `floor`, that one. False without memory. */
bool eps__gram_square(struct eps__square *out, const double *x, size_t k, double floor);

/* max sum of <g_i, g_j> x_ij over unit vectors g_i: upper is proven (INFINITY where no proof was found), lower
 * attained. False without memory. */
bool eps__semidefinite_square(struct eps__interval *out, const double *x, size_t k);
/* A proven upper bound on that maximum from the multipliers d: the sum of d + shift, where diag(d + shift) - x is
 * proven positive semidefinite. INFINITY where no shift worked. work has k * k numbers, values k. */
double eps__semidefinite_certify(const double *x, const double *d, size_t k, double *work, double *values);

/* min_separation where columns of one pattern overlap. */
enum eps_status eps__min_separation_square(const struct eps_context *context, struct eps__square *out,
                                           struct eps_error *error, const struct eps_strategy *s,
                                           const struct eps__participation *participation);
/* An upper bound on the largest sum of at most k of x[0..n-1] >= 0 at least b apart, tight but for rounding.
 * best and taken: scratch of n + 1. */
double eps__separated_bound(const double *x, size_t n, size_t k, size_t b, double *best, uint32_t *taken);
/* What eps__separated_bound() may be off by, relative, for sums of up to `terms` numbers. */
double eps__separated_error(size_t terms);
/* Bounds for it, as operations of kinds: by each column's own row of the Gram matrix; and Toeplitz, by a majorant whose worst
 * pattern is known. */
enum eps_status eps__row_bound(const struct eps_context *context, struct eps__square *out, struct eps_error *error,
                               const struct eps_strategy *s, const struct eps__participation *participation);
enum eps_status eps__majorant_bound(const struct eps_context *context, struct eps__square *out, struct eps_error *error,
                                    const struct eps_strategy *s, const struct eps__participation *participation);

/* One step in each of participation->epochs epochs of participation->shuffled steps. */
enum eps_status eps__shuffled_square(const struct eps_context *context, struct eps__square *out,
                                     struct eps_error *error, const struct eps_strategy *s,
                                     const struct eps__participation *participation);

/* out[u] = sum of |c[u - i b]| over 0 <= i < k, for u < n, with c zero from len on. Each has a relative error of at
 * most 4 units of rounding. False without memory. */
bool eps__strided_window(double *out, size_t n, const double *c, size_t len, size_t k, size_t b);

#endif
