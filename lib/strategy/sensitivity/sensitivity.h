/*
 * The rules that bound a sensitivity, from the Gram matrix of one pattern to all patterns of separated steps.
 *
 * SPDX-License-Identifier: GPL-3.0-or-later
 */
#ifndef EPS_STRATEGY_SENSITIVITY_SENSITIVITY_H
#define EPS_STRATEGY_SENSITIVITY_SENSITIVITY_H

#include "lib/strategy/kind.h"

/* The longest pattern whose Gram matrix is formed. */
enum { EPS__GRAM_STEPS_MAX = 4096 };

/* What some optimisers use of the sampling besides matrix.epochs and separation. Both are false for a single epoch,
 * where they hardly matter and jobs of all schemes share an optimum, and for families that do not use them. */
struct eps__target {
    bool separated; /* participations are at least, not exactly, `separation` apart */
    bool sampled;   /* participation is random: amplification needs C >= 0 */
};
/* What the mechanism's sampling tells them. */
struct eps__target eps__target_told(const struct eps_mechanism *mechanism);
/* The number of starting points of fixed_order patterns. */
size_t eps__participation_starts(const struct eps__participation *participation, size_t n);

/* The square of the sensitivity under a participation, without the factors for adjacency and amplitude. */
enum eps_status eps__participation_square(const struct eps_context *context, struct eps__square *out,
                                          struct eps_error *error, const struct eps_strategy *s,
                                          const struct eps__participation *participation);

/* The best bound for one pattern with the k x k Gram matrix x, taken as exact. If the cheapest rule shows that the
 * square is at most `floor`, its bound is returned. False: no memory. */
bool eps__gram_square(struct eps__square *out, const double *x, size_t k, double floor);

/* The maximum of the sum of <g_i, g_j> x_ij over unit vectors g_i: upper is proven (INFINITY if no proof was found),
 * lower is attained. False: no memory. */
bool eps__semidefinite_square(struct eps__interval *out, const double *x, size_t k);
/* A proven upper bound on that maximum from the multipliers d: the sum of d + shift, for a shift with which diag(d +
 * shift) - x is proven positive semidefinite. INFINITY if no shift worked. work has k * k numbers, values k. */
double eps__semidefinite_certify(const double *x, const double *d, size_t k, double *work, double *values);

/* The bound for min_separation. Columns of one pattern may overlap. */
enum eps_status eps__min_separation_square(const struct eps_context *context, struct eps__square *out,
                                           struct eps_error *error, const struct eps_strategy *s,
                                           const struct eps__participation *participation);
/* An upper bound on the largest sum of at most k of x[0..n-1] >= 0 at least b apart, tight but for rounding. best and
 * taken: scratch of n + 1 each. */
double eps__separated_bound(const double *x, size_t n, size_t k, size_t b, double *best, uint32_t *taken);
/* The relative error of eps__separated_bound() for sums of up to `terms` numbers. */
double eps__separated_error(size_t terms);
/* Bounds for min_separation, as operations of kinds: from the row of the Gram matrix of each column; and, for Toeplitz
 * blocks, from a majorant whose worst pattern is known. */
enum eps_status eps__row_bound(const struct eps_context *context, struct eps__square *out, struct eps_error *error,
                               const struct eps_strategy *s, const struct eps__participation *participation);
enum eps_status eps__majorant_bound(const struct eps_context *context, struct eps__square *out, struct eps_error *error,
                                    const struct eps_strategy *s, const struct eps__participation *participation);

/* The bound for one step in each of participation->epochs epochs of participation->shuffled steps. */
enum eps_status eps__shuffled_square(const struct eps_context *context, struct eps__square *out,
                                     struct eps_error *error, const struct eps_strategy *s,
                                     const struct eps__participation *participation);

/* out[u] = sum of |c[u - i b]| over 0 <= i < k, for u < n, with c zero from len on. The relative error is at most 4
 * units of rounding. False: no memory. */
bool eps__strided_window(double *out, size_t n, const double *c, size_t len, size_t k, size_t b);

#endif
