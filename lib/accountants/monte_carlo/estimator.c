/*
 * See estimator.h. For epsilon_j <= epsilon_k and c = e^(epsilon_j - epsilon_k), a draw in cell k has the value
 * w (1 - c e) = w (1 - e) + (1 - c) w e at epsilon_j. Neither term is negative.
 *
 * SPDX-License-Identifier: GPL-3.0-or-later
 */
#include "lib/accountants/monte_carlo/estimator.h"

#include <assert.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include <sleef.h>

#include "lib/numerics/bound.h"

double eps__mc_grid_at(const struct eps__mc_grid *grid, size_t k)
{
    return k > 0 ? grid->first + (double)k * grid->step : grid->first;
}

enum eps_status eps__mc_estimator_make(struct eps__mc_estimator *estimator, const struct eps__mc_grid *grid,
                                       enum eps__estimate estimate)
{
    assert(grid->len >= 1 && (grid->len == 1 || grid->step > 0));
    *estimator = (struct eps__mc_estimator){.grid = *grid, .estimate = estimate};
    double *numbers = calloc(EPS__MC_HEADER + grid->len * EPS__MC_SUMS, sizeof *numbers);
    estimator->sums = numbers ? numbers + EPS__MC_HEADER : NULL;
    return numbers ? EPS_OK : EPS_NO_MEMORY;
}

void eps__mc_estimator_clear(struct eps__mc_estimator *estimator)
{
    free(estimator->sums ? estimator->sums - EPS__MC_HEADER : NULL);
    estimator->sums = NULL;
}

void eps__mc_estimator_reset(struct eps__mc_estimator *estimator)
{
    memset(estimator->sums, 0, estimator->grid.len * EPS__MC_SUMS * sizeof *estimator->sums);
    estimator->count = 0;
    estimator->largest = 0;
}

/* The cell of a loss, which is at least grid->first. */
static size_t cell_of(const struct eps__mc_grid *grid, double loss)
{
    if (grid->len == 1)
        return 0;
    double place = (loss - grid->first) / grid->step;
    size_t k = place < (double)(grid->len - 1) ? (size_t)place : grid->len - 1;
    while (k > 0 && eps__mc_grid_at(grid, k) > loss) /* the division is rounded */
        k--;
    while (k + 1 < grid->len && eps__mc_grid_at(grid, k + 1) <= loss)
        k++;
    return k;
}

void eps__mc_estimator_add(struct eps__mc_estimator *estimator, const struct eps__mc_law *law, const double *loss,
                           const double *log_weight)
{
    for (size_t lane = 0; lane < EPS__LANES; lane++) {
        double own = eps__shift(estimator->estimate, loss[lane], law->loss_error);
        if (isnan(own) || isnan(log_weight[lane])) {
            estimator->largest = INFINITY; /* exceeds every bound on a value, so eps__mc_draw() fails */
            continue;
        }
        if (!(own > estimator->grid.first))
            continue;
        size_t k = cell_of(&estimator->grid, own);
        double w =
            law->tilted
                ? Sleef_cinz_expd1_u10purec(eps__shift(estimator->estimate, log_weight[lane], law->log_weight_error))
                : 1;
        double e = fmin(Sleef_cinz_expd1_u10purec(eps__mc_grid_at(&estimator->grid, k) - own), 1), value = w * (1 - e);
        double *sums = estimator->sums + k * EPS__MC_SUMS;
        sums[EPS__MC_VALUE] += value;
        sums[EPS__MC_REST] += w * e;
        sums[EPS__MC_VALUE_SQUARED] += value * value;
        sums[EPS__MC_VALUE_REST] += value * (w * e);
        sums[EPS__MC_REST_SQUARED] += w * e * (w * e);
        if (k > 0)
            value = w * (1 - Sleef_cinz_expd1_u10purec(estimator->grid.first - own));
        estimator->largest = value > estimator->largest ? value : estimator->largest;
    }
    estimator->count += EPS__LANES;
}

void eps__mc_estimator_join(struct eps__mc_estimator *estimator, const struct eps__mc_estimator *other)
{
    assert(estimator->grid.len == other->grid.len);
    for (size_t i = 0; i < estimator->grid.len * EPS__MC_SUMS; i++)
        estimator->sums[i] += other->sums[i];
    estimator->count += other->count;
    estimator->largest = fmax(estimator->largest, other->largest);
}

/* 1 - c for the points j and k, rounded to the estimator's side. */
static double part_of(const struct eps__mc_estimator *estimator, size_t j, size_t k)
{
    double apart = eps__mc_grid_at(&estimator->grid, k) - eps__mc_grid_at(&estimator->grid, j);
    return k > j ? eps__outward(estimator->estimate, -expm1(-eps__outward(estimator->estimate, apart, 4)), 4) : 0;
}

double eps__mc_estimator_mean(const struct eps__mc_estimator *estimator, size_t j)
{
    double total = 0;
    assert(estimator->count > 0 && j < estimator->grid.len);
    for (size_t k = j; k < estimator->grid.len; k++) {
        const double *sums = estimator->sums + k * EPS__MC_SUMS;
        total += sums[EPS__MC_VALUE] + part_of(estimator, j, k) * sums[EPS__MC_REST];
    }
    /* A27: each draw and each addition rounds once, relative to the sum; 1 - e has an absolute error. */
    double rounds = (double)estimator->count + (double)estimator->grid.len + 32, all = 0;
    for (size_t k = j; k < estimator->grid.len; k++)
        all += estimator->sums[k * EPS__MC_SUMS + EPS__MC_VALUE] + estimator->sums[k * EPS__MC_SUMS + EPS__MC_REST];
    double error = 8 * EPS__UNIT_ROUNDOFF * eps__raise(all, rounds);
    total = eps__shift(estimator->estimate, eps__outward(estimator->estimate, total, rounds), error);
    return fmax(eps__outward(estimator->estimate, total / (double)estimator->count, 4), 0);
}

double eps__mc_estimator_error(const struct eps__mc_estimator *estimator, size_t j)
{
    double squares = 0, count = (double)estimator->count, mean = eps__mc_estimator_mean(estimator, j);
    for (size_t k = j; k < estimator->grid.len; k++) {
        const double *sums = estimator->sums + k * EPS__MC_SUMS;
        double part = part_of(estimator, j, k);
        squares += sums[EPS__MC_VALUE_SQUARED] + 2 * part * sums[EPS__MC_VALUE_REST] +
                   part * part * sums[EPS__MC_REST_SQUARED];
    }
    return sqrt(fmax(squares / count - mean * mean, 0) / count);
}
