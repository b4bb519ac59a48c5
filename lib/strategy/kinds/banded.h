/*
 * Banded blocks: how they are made and read, and the process that their decoder and optimiser step through.
 *
 * SPDX-License-Identifier: GPL-3.0-or-later
 */
#ifndef EPS_STRATEGY_KINDS_BANDED_H
#define EPS_STRATEGY_KINDS_BANDED_H

#include "lib/strategy/decoder.h"

/* Makes s banded with the given malloc'ed columns, of which it takes ownership: the last `stored` <= block columns of a
 * block, `width` numbers each from the diagonal down, zero past the end of the block. Columns before them equal the
 * first stored one. stored == block, or stored >= width. */
void eps__banded_steal(struct eps_strategy *s, double *columns, size_t stored, size_t width);

static inline size_t eps__banded_stored(const struct eps_strategy *s)
{
    return s->entries_len / s->width;
}

/* Column j of a block from the diagonal down: width numbers. */
static inline const double *eps__banded_column(const struct eps_strategy *s, size_t j)
{
    size_t stored = s->entries_len / s->width;
    return s->entries + (j + stored > s->block ? j + stored - s->block : 0) * s->width;
}

enum eps_status eps__banded_variance(const struct eps_context *context, double *out, struct eps_error *error,
                                     const struct eps_strategy *s, const double *inverse);

/*
 * The stochastic process x = C^-1 z of one block for unit white noise z, and two processes that a recursive workload
 * derives from it: u' = momentum u + x, s' = decay s + eta u'. s_t is row t of B times z, so its variance is the
 * squared norm of that row. The covariances of the last `bands` values of x with each other and with u and s follow
 * from step to step in O(bands^2).
 */
struct eps__process {
    size_t bands;
    double momentum, decay;
    double *xx; /* bands x bands: the covariance of x_i and x_j at (i mod bands, j mod bands) */
    double *xu, *xs;
    struct eps__past past; /* variances and covariance of s and u */
    double *scratch;       /* 2 bands numbers */
};

/* False: no memory. Release it with eps__process_clear(). */
bool eps__process_init(struct eps__process *p, const struct eps__workload *w, size_t bands);
void eps__process_clear(struct eps__process *p);
/* Returns to the state before step 0 of a block. */
void eps__process_restart(struct eps__process *p);
/* Advances to step t of a block: the column of step t - d holds C_{t,t-d} at d. */
void eps__process_step(struct eps__process *p, const struct eps_strategy *s, size_t t, double eta);

/* An entry of the Gram matrix of a banded block, within gram_error as `gram` is. */
double eps__banded_gram(const struct eps_strategy *s, size_t i, size_t j);

/* Divides each column of a Toeplitz block by its norm, which makes the block banded. */
enum eps_status eps__normalise_columns(struct eps_strategy *s, struct eps_error *error);
#endif
