/*
 * The loss that the optimised Toeplitz families share, for one block of n steps: error times squared sensitivity,
 * both from first columns alone, with gradients by the adjoint method. For B = A C^-1 with first column b
 *
 *     error    mean_squared: sum of (1 - t/n) b_t^2        max_squared: sum of b_t^2 (the last step is the worst)
 *     square   sum over t of v_t^2, v_t = |c_t| + |c_{t-s}| + |c_{t-2s}| + ... (the `epochs` steps 0, s, 2s...)
 *              or, for c of either sign, the sum of |X_ij| over these steps i and j, X = C'C
 *
 * The first square is the sensitivity itself for fixed_order and C >= 0, and for min_separation once c is replaced by
 * the least non-increasing sequence above it (Kalinin and Lampert 2024, theorem 2); elsewhere a bound. The second is
 * the sensitivity for X >= 0, and elsewhere a bound that is never larger than the first (gram_rules.c). What the
 * optimiser minimises decides nothing about privacy: the sensitivity that is reported comes from sensitivity.c.
 *
 * Everything works on logarithms, so that differences are relative; the workload is scaled to a largest number of 1,
 * which shifts the logarithm of the loss and changes nothing else.
 *
 * SPDX-License-Identifier: GPL-3.0-or-later
 */
#ifndef EPS_STRATEGY_OPTIMISE_TOEPLITZ_LOSS_H
#define EPS_STRATEGY_OPTIMISE_TOEPLITZ_LOSS_H

#include "lib/numerics/lbfgs.h"
#include "lib/strategy/sensitivity/sensitivity.h"

struct eps__toeplitz_loss {
    const struct eps_context *context;
    struct eps_error *error;
    enum eps_status status; /* why a search was stopped; EPS_OK while none was */
    size_t n;
    double *workload; /* the first column of A, n numbers */
    double *window;   /* scratch: 3 n numbers */
    bool last_step;   /* max_squared */
    bool positive;    /* C must be: amplification needs it */
    bool majorant;    /* the schema is min_separation, or b_min_sep samples */
    bool either_sign; /* the square is the second one */
    bool negative;    /* C had a negative entry when it was last looked at */
    /* of the majorant: how far above the least one it may lie where |c| hardly falls; of |X_ij|: of its kink, over X_00 */
    double smoothing;
    double barrier; /* > 0: that times the mean of -ln c_t is added, and other C are outside the domain */
    size_t epochs, separation;
    size_t evaluations;
    double cost, unreported; /* multiplications of one evaluation, and since progress was last reported */
};

/* For the block of s (s->n, s->block and s->workload are set) and the job's objective and participation; target: what it is
 * told of the sampling.
 * EPS_INVALID for a workload that is zero; it must be Toeplitz. Release with eps__toeplitz_loss_clear() in any case. */
enum eps_status eps__toeplitz_loss_init(struct eps__toeplitz_loss *loss, const struct eps_context *context,
                                        struct eps_error *error, const struct eps_strategy *s,
                                        const struct eps_mechanism *mechanism, struct eps__target target);
void eps__toeplitz_loss_clear(struct eps__toeplitz_loss *loss);

/* ln error for B's first column b (n numbers); gradient (n numbers): with respect to b. */
double eps__toeplitz_log_error(const struct eps__toeplitz_loss *loss, double *gradient, const double *b);

/* ln square for C's first column c (len <= n numbers, the rest 0); gradient (len numbers): with respect to c. */
double eps__toeplitz_log_square(struct eps__toeplitz_loss *loss, double *gradient, const double *c, size_t len);

/* out = a/c as series, n numbers, a NULL for 1. False after polling or without memory; loss->status says why. */
bool eps__toeplitz_loss_quotient(struct eps__toeplitz_loss *loss, double *out, const double *a, const double *c,
                                 size_t len);

/* The gradient with respect to c (len numbers, added to out) of something whose gradient with respect to the quotient
 * q = a/c is `adjoint` (n numbers, overwritten). */
bool eps__toeplitz_quotient_gradient(struct eps__toeplitz_loss *loss, double *out, double *adjoint, const double *q,
                                     const double *c, size_t len);

/* out_j (j < len) += sum over t of x_t y_{t-j}, for n numbers each. */
void eps__toeplitz_correlate(double *out, size_t len, const double *x, const double *y, size_t n);

/*
 * Minimises the logarithm of a loss from x, to where no more than a thousandth of `gap` is expected to be gained; adds
 * to *iterations. A search that gets stuck keeps the best point it found; one with kinks (a majorant, or a sum of |X_ij|)
 * goes on through smooth losses. Most optima are non-negative by themselves; one that is not, and must be, is searched again from x behind a
 * logarithmic barrier that falls to a hundredth of the gap, unless x itself has a negative entry. Out: *value at x. Returns loss->status, or EPS_NO_MEMORY.
 */
enum eps_status eps__toeplitz_minimise(struct eps__toeplitz_loss *loss, double *x, double *value, size_t *iterations,
                                       size_t len, double gap, eps__objective_fn *objective, void *user);

#endif
