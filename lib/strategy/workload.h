/*
 * The workload matrix A, as all parts of lib/strategy see it.
 *
 * SPDX-License-Identifier: GPL-3.0-or-later
 */
#ifndef EPS_STRATEGY_WORKLOAD_H
#define EPS_STRATEGY_WORKLOAD_H

#include <stdbool.h>
#include <stddef.h>

#include "lib/epsilon.h"

/* The workload A. For prefix_sum and momentum, A_tj = sum over s = j..t of decay^(t-s) eta_s momentum^(s-j), computed
 * by recursion; a list of coefficients gives any lower-triangular Toeplitz matrix. */
struct eps__workload {
    bool recursive;
    double momentum, decay;
    bool cooldown; /* eta differs from 1 in some step */
    double cooldown_start, cooldown_to;
    double *coefficients; /* not recursive: coefficients_len of them, owned */
    size_t coefficients_len;
    size_t n;
};

/* The default workload, which is prefix sums. */
struct eps_workload eps__workload_default(void);

/* Makes the workload of a mechanism. Release it with eps__workload_clear(), also after a failure. EPS_OK,
 * EPS_INVALID (a list of coefficients that is empty or longer than n) or EPS_NO_MEMORY. */
enum eps_status eps__workload_init(struct eps__workload *w, struct eps_error *error,
                                   const struct eps_mechanism *mechanism);
/* The workload of one block of n steps, as for a job with n steps. An optimised block is optimised for it. */
enum eps_status eps__workload_of_block(struct eps__workload *w, struct eps_error *error,
                                       const struct eps_mechanism *mechanism, size_t n);
void eps__workload_clear(struct eps__workload *w);
bool eps__workload_is_toeplitz(const struct eps__workload *w);
/* The learning rate eta_s: 1, decreasing in the cooldown. */
double eps__workload_rate(const struct eps__workload *w, size_t step);
/* The first len <= n coefficients of a Toeplitz workload. */
void eps__workload_coefficients(const struct eps__workload *w, double *out, size_t len);
/* The first len coefficients of a recursive workload's generating function to the power -power: -1/2 gives its square
 * root, 1/2 the inverse of that. */
void eps__workload_power(const struct eps__workload *w, double *out, size_t len, double power);
/* The first len coefficients of the inverse square root of a Toeplitz workload whose first coefficient is positive,
 * malloc'ed. */
enum eps_status eps__inverse_root(double **out, struct eps_error *error, const struct eps__workload *w, size_t len);
/* Writes row t: entries 0..t. */
void eps__workload_row(const struct eps__workload *w, double *out, size_t t);

#endif
