/*
 * The loss of a banded matrix with columns of norm 1, with its gradient, and the search that minimises it.
 *
 * SPDX-License-Identifier: GPL-3.0-or-later
 */
#ifndef EPS_STRATEGY_OPTIMISE_BANDED_LOSS_H
#define EPS_STRATEGY_OPTIMISE_BANDED_LOSS_H

#include "lib/strategy/kinds/banded.h"

struct eps__banded_loss {
    const struct eps_context *context;
    struct eps_error *error;
    enum eps_status status; /* why an evaluation was not finished */
    struct eps_strategy c;  /* one block, all columns stored; borrows its workload */
    size_t evaluations;     /* so far; of about `expected` */
    double expected;
    double power;   /* the power mean of the variances that is minimised: 1, or large for their maximum */
    double *memory; /* what the arrays below are cut from */
    bool squares;   /* C has the squares of the variables: no entry is negative */
    double *variance, *weight, *norms;
    double *xx, *xu, *xs; /* by step and lag: covariances with x of so many steps before */
    double *adjoint;      /* bands x bands, and 7 bands */
    double *gradient;     /* with respect to the columns of norm 1 */
    double *rows;         /* other workloads: 3 n */
    struct eps__process process;
};

/* For one block of as many steps as the workload. Release with eps__banded_loss_clear() in any case. */
enum eps_status eps__banded_loss_init(struct eps__banded_loss *loss, const struct eps_context *context,
                                      struct eps_error *error, const struct eps__workload *workload, size_t bands);
void eps__banded_loss_clear(struct eps__banded_loss *loss);
/* An eps__objective_fn for the columns x (block x bands numbers, in the order of eps__banded_steal(), of any norm; or
 * their roots): the logarithm of the power mean of the row norms of B, C having these columns divided by their norms.
 */
bool eps__banded_log_loss(void *user, double *value, double *gradient, const double *x);
/* Divides the columns by their norms, which are written to norms; what lies beyond the end becomes zero. False where
 * a norm is zero or not finite. */
bool eps__banded_unit_columns(double *columns, double *norms, size_t n, size_t bands);

/* banded with toeplitz: false. */
enum eps_status eps__build_banded_columns(const struct eps_context *context, struct eps_strategy *s,
                                          struct eps_error *error, const struct eps_mechanism *mechanism);

#endif
