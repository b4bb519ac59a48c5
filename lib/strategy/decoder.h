/*
 * The decoder B = A C^+ and the noise C^+, and what kinds with a square block share of them.
 *
 * SPDX-License-Identifier: GPL-3.0-or-later
 */
#ifndef EPS_STRATEGY_DECODER_H
#define EPS_STRATEGY_DECODER_H

#include <math.h>

#include "lib/strategy/kind.h"

/* Of a row b of B and the row u of the momentum matrix times C^+, for a recursive workload, over some rows of C:
 * what follows from step to step without knowing them. u' = momentum u and b' = decay b + eta u'. */
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

/* The inverse of a block, kept with the strategy: NULL and EPS_OK where it is not defined. */
enum eps_status eps__strategy_inverse(const struct eps_context *context, const double **out, struct eps_error *error,
                                      const struct eps_strategy *s);

/* Of blocks with a square C0: its inverse is at hand as first column (toeplitz) or matrix (dense). */
enum eps_status eps__toeplitz_variance(const struct eps_context *context, double *out, struct eps_error *error,
                                       const struct eps_strategy *s, const double *inverse);
enum eps_status eps__dense_variance(const struct eps_context *context, double *out, struct eps_error *error,
                                    const struct eps_strategy *s, const double *inverse);
/* out = a C0^+ (as many numbers as a block has rows) for the row a of `len` <= block numbers, zero beyond; work has
 * twice as many numbers. False without memory. */
typedef bool eps__solve_fn(const struct eps_strategy *s, double *out, const double *inverse, const double *a,
                           size_t len, double *work);
/* Row `row` of B: the row of A, block by block from the right through solve(). */
enum eps_status eps__decoder_row_by_blocks(const struct eps_strategy *s, double *out, struct eps_error *error,
                                           const double *inverse, size_t row, eps__solve_fn *solve);
/* Row `row` of C^+ the same way: that of a unit vector. */
enum eps_status eps__noise_row_by_solving(const struct eps_strategy *s, double *out, struct eps_error *error,
                                          const double *inverse, size_t row, eps__solve_fn *solve);

#endif
