/*
 * Running sums over draws, from which the mean of w (1 - e^(epsilon - l))_+ follows for every epsilon of a grid. No
 * computation subtracts one sum from another (A27).
 *
 * SPDX-License-Identifier: GPL-3.0-or-later
 */
#ifndef EPS_ACCOUNTANTS_MONTE_CARLO_ESTIMATOR_H
#define EPS_ACCOUNTANTS_MONTE_CARLO_ESTIMATOR_H

#include "lib/accountants/monte_carlo/law.h"

/* epsilon_k = first + k step, 0 <= k < len. A loss belongs to the cell of the largest epsilon_k that does not exceed
 * it. step > 0 where len > 1. */
struct eps__mc_grid {
    double first, step;
    size_t len;
};

double eps__mc_grid_at(const struct eps__mc_grid *grid, size_t k);

/* The sums over the draws of cell k, with e = e^(epsilon_k - l) in (0, 1]. */
enum eps__mc_sum {
    EPS__MC_VALUE,         /* w (1 - e) */
    EPS__MC_REST,          /* w e */
    EPS__MC_VALUE_SQUARED, /* w^2 (1 - e)^2 */
    EPS__MC_VALUE_REST,    /* w^2 (1 - e) e */
    EPS__MC_REST_SQUARED,  /* w^2 e^2 */
    EPS__MC_SUMS
};

struct eps__mc_estimator {
    struct eps__mc_grid grid;
    enum eps__estimate estimate; /* the direction in which errors of losses, weights and sums are rounded */
    uint64_t count;              /* of draws */
    double largest;              /* the largest w (1 - e^(epsilon_0 - l)) of a draw */
    double *sums; /* grid.len x EPS__MC_SUMS, preceded by EPS__MC_HEADER numbers that a stored block needs */
};
enum { EPS__MC_HEADER = 2 };

/* Makes an estimator without draws. The caller clears it, also after an error. EPS_OK, EPS_NO_MEMORY. */
enum eps_status eps__mc_estimator_make(struct eps__mc_estimator *estimator, const struct eps__mc_grid *grid,
                                       enum eps__estimate estimate);
void eps__mc_estimator_clear(struct eps__mc_estimator *estimator);
/* Discards all draws. */
void eps__mc_estimator_reset(struct eps__mc_estimator *estimator);

/* Adds EPS__LANES draws of the law. A loss or log weight that is NaN sets `largest` to infinity. */
void eps__mc_estimator_add(struct eps__mc_estimator *estimator, const struct eps__mc_law *law, const double *loss,
                           const double *log_weight);

/* Adds the draws of another estimator with the same grid and side. */
void eps__mc_estimator_join(struct eps__mc_estimator *estimator, const struct eps__mc_estimator *other);

/* The mean at epsilon_k, rounded to the estimator's side. Needs count > 0. */
double eps__mc_estimator_mean(const struct eps__mc_estimator *estimator, size_t k);
/* The standard error of this mean, approximately. */
double eps__mc_estimator_error(const struct eps__mc_estimator *estimator, size_t k);

#endif
