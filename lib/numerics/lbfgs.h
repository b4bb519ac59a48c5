/*
 * Minimising a function of many variables with its gradient: limited-memory BFGS (Nocedal and Wright, "Numerical
 * Optimization", algorithm 7.5), for losses of strategies.
 *
 * Our own and not GSL's vector_bfgs2, on evidence that `make bench` prints: on the losses of the banded inverse family
 * that one, which keeps no more than the last pair of steps, takes 7 to 35 times the evaluations to the same value (41
 * against 518 at n = 1024 and 8 bands). Here the memory is chosen by the caller, a point outside the domain is simply a
 * value of INFINITY, and the line search asks for no more than the weak Wolfe conditions, by bracketing: it ends at kinks
 * as well (Lewis and Overton 2013, "Nonsmooth optimization via quasi-Newton methods"), where a majorant's maximum changes
 * hands.
 *
 * SPDX-License-Identifier: GPL-3.0-or-later
 */
#ifndef EPS_NUMERICS_LBFGS_H
#define EPS_NUMERICS_LBFGS_H

#include <stdbool.h>
#include <stddef.h>

/* The value at x (n numbers) and, where it is finite, the gradient; INFINITY or NAN outside the domain. False ends
 * the search at once: the caller knows why (canceled, no memory). The place to poll. */
typedef bool eps__objective_fn(void *user, double *value, double *gradient, const double *x);

struct eps__lbfgs {
    size_t memory;         /* pairs kept; 0: 10 */
    size_t max_iterations; /* 0: 1000 */
    /* Stop when, both, the quadratic model expects no more than this from the whole way to its minimum, and the last
     * few iterations together gained no more. Absolute: give the logarithm of a loss and it is a relative gap. */
    double tolerance;
};

enum eps__lbfgs_end {
    EPS__LBFGS_CONVERGED,
    EPS__LBFGS_STALLED, /* no step along the steepest descent lowers the value, or hardly any: a kink, or rounding */
    EPS__LBFGS_LIMIT,   /* max_iterations */
    EPS__LBFGS_STOPPED, /* the objective said so */
    EPS__LBFGS_DOMAIN,  /* no finite value where the search was to begin */
    EPS__LBFGS_NO_MEMORY,
};

/*
 * Minimises from x (n >= 1 numbers). In-out: x, the best point seen, whatever the end. Out: *value there (if it was
 * evaluated at all), *iterations. Deterministic; nothing is allocated but at the start, (2 memory + 6) n numbers.
 */
enum eps__lbfgs_end eps__lbfgs_minimise(const struct eps__lbfgs *options, double *x, double *value, size_t *iterations,
                                        size_t n, eps__objective_fn *objective, void *user);

#endif
