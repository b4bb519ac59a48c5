/*
 * What is kept of draws: sums from which the mean of w (1 - e^(epsilon - l))_+ follows for every epsilon of a grid, in numbers that are never
 * subtracted (A27).
 *
 * SPDX-License-Identifier: GPL-3.0-or-later
 */
#ifndef EPS_ACCOUNTANTS_MONTE_CARLO_ESTIMATOR_H
#define EPS_ACCOUNTANTS_MONTE_CARLO_ESTIMATOR_H

#include "lib/accountants/monte_carlo/law.h"

/* epsilon_k = first + k step, 0 <= k < len; a loss is in the cell of the largest one that it is not under. step over 0 where len > 1. */
struct eps__mc_grid {
    double first, step;
    size_t len;
};

double eps__mc_grid_at(const struct eps__mc_grid *grid, size_t k);

/* Of one cell: sums over its draws, e = e^(epsilon_k - l) in (0, 1]. */
enum eps__mc_sum {
    EPS__MC_VALUE,         /* w (1 - e) */
    EPS__MC_REST,          /* w e */
    EPS__MC_VALUE_SQUARED, /* w^2 (1 - e)^2 */
    EPS__MC_VALUE_REST,    /* w^2 (1 - e) e */
    EPS__MC_REST_SQUARED,  /* w^2 e^2 */
    EPS__MC_SUMS
};

/* From which side: what losses, weights and sums may be off by counts upwards, or downwards. */
struct eps__mc_estimator {
    struct eps__mc_grid grid;
    enum eps__estimate estimate;
    uint64_t count;
    double largest; /* of w (1 - e^(epsilon_0 - l)) */
    double *sums;   /* grid.len x EPS__MC_SUMS, with room for EPS__MC_HEADER numbers before them */
};
enum { EPS__MC_HEADER = 2 };

/* Nothing drawn yet. EPS_OK, EPS_NO_MEMORY. The caller clears. */
enum eps_status eps__mc_estimator_make(struct eps__mc_estimator *estimator, const struct eps__mc_grid *grid,
                                       enum eps__estimate estimate);
void eps__mc_estimator_clear(struct eps__mc_estimator *estimator);
/* Forgets what was drawn. */
void eps__mc_estimator_reset(struct eps__mc_estimator *estimator);

/* EPS__LANES draws of the law. */
void eps__mc_estimator_add(struct eps__mc_estimator *estimator, const struct eps__mc_law *law, const double *loss,
                           const double *log_weight);

/* Adds what another estimator of the same grid holds. */
void eps__mc_estimator_join(struct eps__mc_estimator *estimator, const struct eps__mc_estimator *other);

/* The mean at epsilon_k, rounded to its side. count over 0. */
double eps__mc_estimator_mean(const struct eps__mc_estimator *estimator, size_t k);
/* Its standard error, about. */
double eps__mc_estimator_error(const struct eps__mc_estimator *estimator, size_t k);

#endif
