/*
 * What the laws of Poisson and cyclic Poisson sampling share where the strategy is banded: the columns of the rounds,
 * how much the columns of two rounds have in common, the rounds of a draw, and the drift. Under cyclic Poisson sampling
 * the rounds are those of the first part of the data set, which is the worst (A35).
 *
 * SPDX-License-Identifier: GPL-3.0-or-later
 */
#ifndef EPS_ACCOUNTANTS_MONTE_CARLO_LAWS_POISSON_ROUNDS_H
#define EPS_ACCOUNTANTS_MONTE_CARLO_LAWS_POISSON_ROUNDS_H

#include "lib/accountants/monte_carlo/law.h"
#include "lib/accountants/monte_carlo/laws/columns.h"
#include "lib/accountants/monte_carlo/laws/drift.h"
#include "lib/moments/laws/poisson.h"

struct eps__mc_poisson_rounds {
    struct eps__mc_columns columns;
    struct eps__b_min_sep_steps coins; /* one for each round */
    size_t groups;                     /* of the data set, which take turns */
    size_t memory;                     /* m, the number of earlier rounds that share rows with a round; at least 1 */
    size_t rows;                       /* rows of `met`; equal rounds share one */
    double *met;                       /* rows x memory; entry d - 1 of round k's row is G_k,k-d */
    double met_most;                   /* the largest sum of a row of met */
    double keep;                       /* 1 - p */
    struct eps__mc_drift drift;        /* the drift, if it is made; it is stored in columns.drift */
    double log_base;                   /* half the squared norm of columns.drift */
};

/* m under this setting. */
size_t eps__mc_poisson_memory(const struct eps__setting *setting);

/* The law of copies, without its matrix: each round is a step, and has a row of its own only where its columns
 * differ. */
struct eps__banded_gram eps__mc_poisson_copies_of(size_t rounds, size_t memory, double p, bool alike);

/* Makes the columns and what rounds have in common, for draws of up to `copies` copies. The caller clears, whatever the
 * status. EPS_OK, EPS_NO_MEMORY, or what reading the strategy returns. */
enum eps_status eps__mc_poisson_rounds_make(struct eps__mc_poisson_rounds *rounds, const struct eps__setting *setting,
                                            double sigma, unsigned copies);
void eps__mc_poisson_rounds_clear(struct eps__mc_poisson_rounds *rounds);

/* The row of `met` for round k. If all columns begin alike, only those of the last rounds are cut off and differ. */
size_t eps__mc_poisson_row(const struct eps__mc_poisson_rounds *rounds, size_t k);

/* The number of rounds whose first row is below `row`. */
size_t eps__mc_poisson_rounds_before(const struct eps__mc_poisson_rounds *rounds, size_t row);

/* The law of copies with its matrix, which the caller frees; banded->gram is NULL if there is no memory. */
void eps__mc_poisson_gram(struct eps__banded_gram *banded, const struct eps__mc_poisson_rounds *rounds);

/* Makes the drift for add, a multiple of the sum of the columns of all rounds (A45). EPS_OK, EPS_NO_MEMORY,
 * EPS_UNSUPPORTED (no drift is better than plain draws). */
enum eps_status eps__mc_poisson_drift(struct eps__mc_poisson_rounds *rounds, double eps);

/* The absolute error bound of ln w with this drift. */
double eps__mc_poisson_drift_error(const struct eps__mc_poisson_rounds *rounds);

/* Subtracts <v, y> over the rows of a tile, v the drift, if there is one: the part of these rows in
 * ln dQ/dR = |v|^2/2 - <v, y>. */
void eps__mc_poisson_add_weights(double *log_weight, const struct eps__mc_poisson_rounds *rounds, const double *y,
                                 size_t from, size_t end);

/* own = <c_k, y> - G_kk/2 for the round at this step; y begins with row `from`. */
void eps__mc_poisson_own(double *own, const struct eps__mc_poisson_rounds *rounds, const double *y, size_t step,
                         size_t from);

#endif
