/*
 * What is kept of draws: sums from which the mean of w (1 - e^(epsilon - l))_+ follows for every epsilon of a grid, in numbers that are never
 * subtracted (A27).
 *
 * SPDX-License-Identifier: GPL-3.0-or-later
 */
#ifndef EPS_ACCOUNTANTS_MONTE_CARLO_TALLY_H
#define EPS_ACCOUNTANTS_MONTE_CARLO_TALLY_H

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
struct eps__mc_tally {
    struct eps__mc_grid grid;
    enum eps__estimate estimate;
    uint64_t count;
    double largest; /* of w (1 - e^(epsilon_0 - l)) */
    double *sums;   /* grid.len x EPS__MC_SUMS, with room for EPS__MC_HEADER numbers before them */
};
enum { EPS__MC_HEADER = 2 };

/* Nothing drawn yet. EPS_OK, EPS_NO_MEMORY. The caller clears. */
enum eps_status eps__mc_tally_make(struct eps__mc_tally *tally, const struct eps__mc_grid *grid,
                                   enum eps__estimate estimate);
void eps__mc_tally_clear(struct eps__mc_tally *tally);
/* Forgets what was drawn. */
void eps__mc_tally_reset(struct eps__mc_tally *tally);

/* EPS__LANES draws of the law. */
void eps__mc_tally_add(struct eps__mc_tally *tally, const struct eps__mc_law *law, const double *loss,
                       const double *log_weight);

/* What another tally of the same grid holds, beside one's own. */
void eps__mc_tally_join(struct eps__mc_tally *tally, const struct eps__mc_tally *other);

/* The mean at epsilon_k, rounded to its side. count over 0. */
double eps__mc_tally_mean(const struct eps__mc_tally *tally, size_t k);
/* Its standard error, about. */
double eps__mc_tally_error(const struct eps__mc_tally *tally, size_t k);

#endif
