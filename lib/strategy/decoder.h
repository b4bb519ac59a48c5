/*
 * The decoder B = A C^+ and the noise matrix C^+, and the operations on them that kinds with a square block share.
 *
 * SPDX-License-Identifier: GPL-3.0-or-later
 */
#ifndef EPS_STRATEGY_DECODER_H
#define EPS_STRATEGY_DECODER_H

#include <math.h>

#include "lib/strategy/kind.h"

/* Inner products for a recursive workload: bb = <b, b>, bu = <b, u>, uu = <u, u>, where b is a row of B and u the same
 * row of the momentum matrix times C^+, both restricted to earlier rows of C. With u' = momentum u and b' = decay b +
 * eta u', they follow from step to step without the rows. */
struct eps__past {
    double bb, bu, uu;
};

static inline void eps__past_step(struct eps__past *past, const struct eps__workload *w, double eta)
{
    double a = w->decay, m = w->momentum;
    double uu = m * m * past->uu, bu = a * m * past->bu;
    past->bb = a * a * past->bb + 2 * eta * bu + eta * eta * uu;
    past->bu = bu + eta * uu;
    past->uu = uu;
}

static inline bool eps__all_finite(const double *x, size_t n)
{
    for (size_t i = 0; i < n; i++)
        if (!isfinite(x[i]))
            return false;
    return true;
}

/* The inverse of a block, computed once and owned by the strategy. *out is NULL, and EPS_OK returned, if it is not
 * defined. */
enum eps_status eps__strategy_inverse(const struct eps_context *context, const double **out, struct eps_error *error,
                                      const struct eps_strategy *s);

/* The squared norms of the rows of B for blocks with a square C0. The inverse is given as its first column (toeplitz)
 * or as a matrix (dense). */
enum eps_status eps__toeplitz_variance(const struct eps_context *context, double *out, struct eps_error *error,
                                       const struct eps_strategy *s, const double *inverse);
enum eps_status eps__dense_variance(const struct eps_context *context, double *out, struct eps_error *error,
                                    const struct eps_strategy *s, const double *inverse);
/* Computes out = a C0^+, as many numbers as a block has rows, for a row a of `len` <= block numbers, zero beyond them.
 * work has twice as many numbers as out. False: no memory. */
typedef bool eps__solve_fn(const struct eps_strategy *s, double *out, const double *inverse, const double *a,
                           size_t len, double *work);
/* Row `row` of B: solve() is applied to each block of the row of A. */
enum eps_status eps__decoder_row_by_blocks(const struct eps_strategy *s, double *out, struct eps_error *error,
                                           const double *inverse, size_t row, eps__solve_fn *solve);
/* Row `row` of C^+: solve() applied to a unit vector. */
enum eps_status eps__noise_row_by_solving(const struct eps_strategy *s, double *out, struct eps_error *error,
                                          const double *inverse, size_t row, eps__solve_fn *solve);

#endif
