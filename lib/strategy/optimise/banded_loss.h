/*
 * The loss of a banded matrix with columns of norm 1 and its gradient, and the search that minimises it.
 *
 * SPDX-License-Identifier: GPL-3.0-or-later
 */
#ifndef EPS_STRATEGY_OPTIMISE_BANDED_LOSS_H
#define EPS_STRATEGY_OPTIMISE_BANDED_LOSS_H

#include "lib/strategy/kinds/banded.h"

struct eps__banded_loss {
    const struct eps_context *context;
    struct eps_error *error;
    enum eps_status status; /* why an evaluation failed */
    struct eps_strategy c;  /* one block with all columns stored; borrows its workload */
    size_t evaluations;     /* so far; about `expected` in all */
    double expected;
    double power;   /* the exponent of the power mean of variances: 1, or large for the maximum */
    double *memory; /* backs the arrays below */
    bool squares;   /* the entries of C are squares of the variables, so none is negative */
    double *variance, *weight, *norms;
    double *xx, *xu, *xs; /* by step and lag: covariances with the x that many steps earlier */
    double *adjoint;      /* bands x bands, and 7 bands */
    double *gradient;     /* with respect to the normalised columns */
    double *rows;         /* for other workloads: 3 n */
    struct eps__process process;
};

/* For one block with the steps of the workload. Release with eps__banded_loss_clear(), also after a failure. */
enum eps_status eps__banded_loss_init(struct eps__banded_loss *loss, const struct eps_context *context,
                                      struct eps_error *error, const struct eps__workload *workload, size_t bands);
void eps__banded_loss_clear(struct eps__banded_loss *loss);
/* An eps__objective_fn of the columns x (block x bands numbers, in the order of eps__banded_steal(), of any norm; or
 * their square roots): the logarithm of the power mean of the row norms of B, where C has these columns divided by
 * their norms. */
bool eps__banded_log_loss(void *user, double *value, double *gradient, const double *x);
/* Divides the columns by their norms, which are written to norms; sets numbers past the end of the block to zero. False
 * if a norm is zero or not finite. */
bool eps__banded_unit_columns(double *columns, double *norms, size_t n, size_t bands);

/* The builder of family banded with toeplitz: false. */
enum eps_status eps__build_banded_columns(const struct eps_context *context, struct eps_strategy *s,
                                          struct eps_error *error, const struct eps_mechanism *mechanism);

#endif
