/*
 * The matrix A of the queries, as every part of the room sees it.
 *
 * SPDX-License-Identifier: GPL-3.0-or-later
 */
#ifndef EPS_STRATEGY_WORKLOAD_H
#define EPS_STRATEGY_WORKLOAD_H

#include <stdbool.h>
#include <stddef.h>

#include "lib/epsilon.h"

/* The matrix A. prefix_sum and momentum are A_tj = sum over s = j..t of decay^(t-s) eta_s momentum^(s-j) and are
 * handled by their recursion; a list of coefficients is any lower-triangular Toeplitz matrix. */
struct eps__workload {
    bool recursive;
    double momentum, decay;
    bool cooldown; /* eta is not 1 throughout */
    double cooldown_start, cooldown_to;
    double *coefficients; /* not recursive: coefficients_len of them, owned */
    size_t coefficients_len;
    size_t n;
};

/* Prefix sums: every member of a workload at its default. */
struct eps_workload eps__workload_default(void);

enum eps_status eps__workload_init(struct eps__workload *w, struct eps_error *error,
                                   const struct eps_mechanism *mechanism);
/* That of one block of n steps, as a job of so many steps would have it: what an optimised block is the best for. */
enum eps_status eps__workload_of_block(struct eps__workload *w, struct eps_error *error,
                                       const struct eps_mechanism *mechanism, size_t n);
void eps__workload_clear(struct eps__workload *w);
bool eps__workload_is_toeplitz(const struct eps__workload *w);
/* eta_s: 1, or falling in the cooldown. */
double eps__workload_rate(const struct eps__workload *w, size_t step);
/* The first len <= n coefficients of a Toeplitz workload. */
void eps__workload_coefficients(const struct eps__workload *w, double *out, size_t len);
/* The first len coefficients of a recursive workload's series to the power -power: -1/2 is its root, 1/2 the root's
 * inverse. */
void eps__workload_power(const struct eps__workload *w, double *out, size_t len, double power);
/* The first len numbers of a Toeplitz workload's inverse square root, malloc'ed; a positive first coefficient. */
enum eps_status eps__inverse_root(double **out, struct eps_error *error, const struct eps__workload *w, size_t len);
/* Row t: entries 0..t into out. */
void eps__workload_row(const struct eps__workload *w, double *out, size_t t);

#endif
