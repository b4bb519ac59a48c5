/*
 * What the files of the banded kind share.
 *
 * SPDX-License-Identifier: GPL-3.0-or-later
 */
#ifndef EPS_STRATEGY_BANDED_H
#define EPS_STRATEGY_BANDED_H

#include "lib/strategy/internal.h"

/* Makes s banded with the given malloc'ed columns, which it takes: the last `stored` <= block columns of a block,
 * `width` numbers each from the diagonal down, zero where the block has ended; columns before them equal the first
 * stored one. stored == block, or stored >= width. */
void eps__banded_steal(struct eps_strategy *s, double *columns, size_t stored, size_t width);

static inline size_t eps__banded_stored(const struct eps_strategy *s)
{
    return s->entries_len / s->width;
}

/* Column j of a block, from the diagonal down: width numbers. */
static inline const double *eps__banded_column(const struct eps_strategy *s, size_t j)
{
    size_t stored = s->entries_len / s->width;
    return s->entries + (j + stored > s->block ? j + stored - s->block : 0) * s->width;
}

enum eps_status eps__banded_variance(const struct eps_context *context, double *out, struct eps_error *error,
                                     const struct eps_strategy *s, const double *inverse);

/*
 * The stochastic process x = C^-1 z of one block for unit white noise z, with the two that a recursive workload makes
 * of it: u' = momentum u + x, s' = decay s + eta u'. s_t is row t of B times z, so its variance is the row's squared
 * norm. The covariances of the last `bands` x with each other and with u and s follow from step to step in bands^2.
 */
struct eps__process {
    size_t bands;
    double momentum, decay;
    double *xx; /* bands x bands: of x_i and x_j at (i mod bands, j mod bands) */
    double *xu, *xs;
    struct eps__past past; /* variances and covariance of s and u */
    double *scratch;       /* 2 bands numbers */
};

/* False without memory. Release with eps__process_clear(). */
bool eps__process_init(struct eps__process *p, const struct eps__workload *w, size_t bands);
void eps__process_clear(struct eps__process *p);
void eps__process_restart(struct eps__process *p);
/* Step t of a block: the column of step t - d holds C_{t,t-d} at d. */
void eps__process_step(struct eps__process *p, const struct eps_strategy *s, size_t t, double eta);

/* The loss of a banded matrix with columns of norm 1, and its gradient: banded_loss.c. */
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

#endif
