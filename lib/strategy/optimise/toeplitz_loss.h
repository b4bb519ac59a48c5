/*
 * The loss that the optimised Toeplitz families share, for one block of n steps: error times squared sensitivity, both
 * computed from first columns, with gradients by the adjoint method. For B = A C^-1 with first column b
 *
 *     error    mean_squared: sum of (1 - t/n) b_t^2        max_squared: sum of b_t^2 (the last step is the worst)
 *     square   sum over t of v_t^2, v_t = |c_t| + |c_{t-s}| + |c_{t-2s}| + ... (the `epochs` steps 0, s, 2s...)
 *              or, for c of either sign, the sum of |X_ij| over these steps i and j, X = C'C
 *
 * The first square is the sensitivity itself for fixed_order and C >= 0, and for min_separation if c is replaced by the
 * least non-increasing sequence above it (Kalinin and Lampert 2024, theorem 2); otherwise it is a bound. The second is
 * the sensitivity if X >= 0, and otherwise a bound that is never larger than the first (gram_rules.c). The optimiser's
 * loss does not affect privacy: the reported sensitivity comes from sensitivity.c.
 *
 * Losses are logarithms, so that differences are relative. The workload is scaled to a largest coefficient of 1, which
 * shifts the logarithm of the loss by a constant.
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
    enum eps_status status; /* why a search was stopped; EPS_OK if it was not */
    size_t n;
    double *workload; /* the first column of A, n numbers */
    double *window;   /* scratch: 3 n numbers */
    bool last_step;   /* max_squared */
    bool positive;    /* C must be non-negative, as amplification needs */
    bool majorant;    /* the schema is min_separation, or b_min_sep samples */
    bool either_sign; /* uses the second square */
    bool negative;    /* C had a negative entry at the last evaluation */
    /* smoothing: of the majorant, how far it may lie above the least one where |c| hardly falls; of |X_ij|, the width
     * of its kink relative to X_00 */
    double smoothing;
    double barrier; /* if > 0, this times the mean of -ln c_t is added, and the domain is c > 0 */
    size_t epochs, separation;
    size_t evaluations;
    double cost, unreported; /* multiplications of one evaluation, and since the last progress report */
};

/* Initialises the loss for the block of s (s->n, s->block and s->workload are set) and for the job's objective and
 * participation; target: what it may use of the sampling. The workload must be Toeplitz; EPS_INVALID if it is zero.
 * Release with eps__toeplitz_loss_clear(), also after a failure. */
enum eps_status eps__toeplitz_loss_init(struct eps__toeplitz_loss *loss, const struct eps_context *context,
                                        struct eps_error *error, const struct eps_strategy *s,
                                        const struct eps_mechanism *mechanism, struct eps__target target);
void eps__toeplitz_loss_clear(struct eps__toeplitz_loss *loss);

/* ln error for the first column b of B (n numbers); gradient: with respect to b (n numbers). */
double eps__toeplitz_log_error(const struct eps__toeplitz_loss *loss, double *gradient, const double *b);

/* ln square for the first column c of C (len <= n numbers, the rest 0); gradient: with respect to c (len numbers). */
double eps__toeplitz_log_square(struct eps__toeplitz_loss *loss, double *gradient, const double *c, size_t len);

/* out = a/c as series, n numbers; a NULL means 1. False: stopped or no memory, see loss->status. */
bool eps__toeplitz_loss_quotient(struct eps__toeplitz_loss *loss, double *out, const double *a, const double *c,
                                 size_t len);

/* Adds to out the gradient with respect to c (len numbers) of a function of the quotient q = a/c. `adjoint` (n numbers)
 * is its gradient with respect to q, and is overwritten. False: stopped, see loss->status. */
bool eps__toeplitz_quotient_gradient(struct eps__toeplitz_loss *loss, double *out, double *adjoint, const double *q,
                                     const double *c, size_t len);

/* out_j (j < len) += sum over t of x_t y_{t-j}, for n numbers each. */
void eps__toeplitz_correlate(double *out, size_t len, const double *x, const double *y, size_t n);

/* A search for the best of `len` numbers. */
struct eps__toeplitz_search {
    struct eps__toeplitz_loss *loss;
    eps__objective_fn *objective; /* the logarithm of the loss */
    void *user;
    size_t len;
    double gap;
    size_t *iterations; /* is added to */
};

/*
 * Minimises the logarithm of a loss from x, until the expected further gain is at most a thousandth of the gap. On
 * return x is the best point found, and *value its value. A search with kinks (a majorant, or a sum of |X_ij|)
 * continues through smoothed losses.
 *
 * Most optima are non-negative without a constraint. If C must be non-negative and the optimum is not, the search is
 * repeated from x behind a logarithmic barrier that decreases to a hundredth of the gap, unless x itself has a negative
 * entry. Returns loss->status or EPS_NO_MEMORY.
 */
enum eps_status eps__toeplitz_minimise(const struct eps__toeplitz_search *search, double *x, double *value);

#endif
