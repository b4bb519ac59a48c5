/*
 * Minimisation of a function of many variables from values and gradients by limited-memory BFGS (Nocedal and Wright,
 * "Numerical Optimization", algorithm 7.5). It minimises the losses of strategies.
 *
 * Why not GSL's vector_bfgs2: it keeps only the last pair of steps, and on the losses of the banded inverse family it
 * needs 7 to 35 times as many evaluations for the same value (518 against 41 at n = 1024 with 8 bands; `make bench`
 * prints these figures). Here the caller chooses the memory, a point outside the domain is a value of INFINITY, and the
 * line search brackets a point that satisfies the weak Wolfe conditions. Such a search also terminates at kinks (Lewis
 * and Overton 2013, "Nonsmooth optimization via quasi-Newton methods"), where a majorant's maximum passes from one term
 * to another.
 *
 * SPDX-License-Identifier: GPL-3.0-or-later
 */
#ifndef EPS_NUMERICS_LBFGS_H
#define EPS_NUMERICS_LBFGS_H

#include <stdbool.h>
#include <stddef.h>

/* Writes the value at x (n numbers) and, if it is finite, the gradient. Outside the domain the value is INFINITY or
 * NAN. Returning false stops the search at once (canceled, out of memory). The objective is the place to poll. */
typedef bool eps__objective_fn(void *user, double *value, double *gradient, const double *x);

struct eps__lbfgs {
    size_t memory;         /* pairs of steps kept; 0 means 10 */
    size_t max_iterations; /* 0 means 1000 */
    /* The search has converged when both the decrease that the quadratic model predicts for a full step and the
     * decrease of the last five iterations together are at most this. Absolute: if the value is the logarithm of a
     * loss, it is a relative gap. */
    double tolerance;
};

enum eps__lbfgs_end {
    EPS__LBFGS_CONVERGED,
    EPS__LBFGS_STALLED, /* no step along the steepest descent lowers the value noticeably: a kink, or rounding */
    EPS__LBFGS_LIMIT,   /* reached max_iterations */
    EPS__LBFGS_STOPPED, /* the objective returned false */
    EPS__LBFGS_DOMAIN,  /* the value at the starting point is not finite */
    EPS__LBFGS_NO_MEMORY,
};

/*
 * Minimises the objective from x (n >= 1 numbers). In-out: x, on return the best point seen, whatever the outcome. Out:
 * *value, the value there (unless the first evaluation failed); *iterations. Deterministic. Allocates 2 memory (n + 1)
 * + 4 n numbers once, at the start.
 */
enum eps__lbfgs_end eps__lbfgs_minimise(const struct eps__lbfgs *options, double *x, double *value, size_t *iterations,
                                        size_t n, eps__objective_fn *objective, void *user);

#endif
