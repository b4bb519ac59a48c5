/*
 * See tally.h. For epsilon_j <= epsilon_k and c = e^(epsilon_j - epsilon_k), a draw in cell k is worth w (1 - c e) = w (1 - e) + (1 - c) w e
 * at epsilon_j: neither term is negative.
 *
 * SPDX-License-Identifier: GPL-3.0-or-later
 */
#include "lib/accountants/monte_carlo/tally.h"

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

enum eps_status eps__mc_tally_make(struct eps__mc_tally *tally, const struct eps__mc_grid *grid,
                                   enum eps__estimate estimate)
{
    assert(grid->len >= 1 && (grid->len == 1 || grid->step > 0));
    *tally = (struct eps__mc_tally){.grid = *grid, .estimate = estimate};
    double *numbers = calloc(EPS__MC_HEADER + grid->len * EPS__MC_SUMS, sizeof *numbers);
    tally->sums = numbers ? numbers + EPS__MC_HEADER : NULL;
    return numbers ? EPS_OK : EPS_NO_MEMORY;
}

void eps__mc_tally_clear(struct eps__mc_tally *tally)
{
    free(tally->sums ? tally->sums - EPS__MC_HEADER : NULL);
    tally->sums = NULL;
}

void eps__mc_tally_reset(struct eps__mc_tally *tally)
{
    memset(tally->sums, 0, tally->grid.len * EPS__MC_SUMS * sizeof *tally->sums);
    tally->count = 0;
    tally->largest = 0;
}

/* The last cell that begins at most at the loss, which is at least the first one's. */
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

void eps__mc_tally_add(struct eps__mc_tally *tally, const struct eps__mc_law *law, const double *loss,
                       const double *log_weight)
{
    for (size_t lane = 0; lane < EPS__LANES; lane++) {
        double own = eps__shift(tally->estimate, loss[lane], law->loss_error);
        if (isnan(own) || isnan(log_weight[lane])) {
            tally->largest = INFINITY; /* more than any value may be */
            continue;
        }
        if (!(own > tally->grid.first))
            continue;
        size_t k = cell_of(&tally->grid, own);
        double w = law->tilted
                       ? Sleef_cinz_expd1_u10purec(eps__shift(tally->estimate, log_weight[lane], law->log_weight_error))
                       : 1;
        double e = fmin(Sleef_cinz_expd1_u10purec(eps__mc_grid_at(&tally->grid, k) - own), 1), value = w * (1 - e);
        double *sums = tally->sums + k * EPS__MC_SUMS;
        sums[EPS__MC_VALUE] += value;
        sums[EPS__MC_REST] += w * e;
        sums[EPS__MC_VALUE_SQUARED] += value * value;
        sums[EPS__MC_VALUE_REST] += value * (w * e);
        sums[EPS__MC_REST_SQUARED] += w * e * (w * e);
        if (k > 0)
            value = w * (1 - Sleef_cinz_expd1_u10purec(tally->grid.first - own));
        tally->largest = value > tally->largest ? value : tally->largest;
    }
    tally->count += EPS__LANES;
}

void eps__mc_tally_join(struct eps__mc_tally *tally, const struct eps__mc_tally *other)
{
    assert(tally->grid.len == other->grid.len);
    for (size_t i = 0; i < tally->grid.len * EPS__MC_SUMS; i++)
        tally->sums[i] += other->sums[i];
    tally->count += other->count;
    tally->largest = fmax(tally->largest, other->largest);
}

/* 1 - c, rounded to the tally's side. */
static double part_of(const struct eps__mc_tally *tally, size_t j, size_t k)
{
    double apart = eps__mc_grid_at(&tally->grid, k) - eps__mc_grid_at(&tally->grid, j);
    return k > j ? eps__outward(tally->estimate, -expm1(-eps__outward(tally->estimate, apart, 4)), 4) : 0;
}

double eps__mc_tally_mean(const struct eps__mc_tally *tally, size_t j)
{
    double total = 0;
    assert(tally->count > 0 && j < tally->grid.len);
    for (size_t k = j; k < tally->grid.len; k++) {
        const double *sums = tally->sums + k * EPS__MC_SUMS;
        total += sums[EPS__MC_VALUE] + part_of(tally, j, k) * sums[EPS__MC_REST];
    }
    /* A27: what was rounded on the way, by a draw and by an addition at most so often; 1 - e was rounded by a part of 1. */
    double rounds = (double)tally->count + (double)tally->grid.len + 32, all = 0;
    for (size_t k = j; k < tally->grid.len; k++)
        all += tally->sums[k * EPS__MC_SUMS + EPS__MC_VALUE] + tally->sums[k * EPS__MC_SUMS + EPS__MC_REST];
    double error = 8 * EPS__UNIT_ROUNDOFF * eps__raise(all, rounds);
    total = eps__shift(tally->estimate, eps__outward(tally->estimate, total, rounds), error);
    return fmax(eps__outward(tally->estimate, total / (double)tally->count, 4), 0);
}

double eps__mc_tally_error(const struct eps__mc_tally *tally, size_t j)
{
    double squares = 0, count = (double)tally->count, mean = eps__mc_tally_mean(tally, j);
    for (size_t k = j; k < tally->grid.len; k++) {
        const double *sums = tally->sums + k * EPS__MC_SUMS;
        double part = part_of(tally, j, k);
        squares += sums[EPS__MC_VALUE_SQUARED] + 2 * part * sums[EPS__MC_VALUE_REST] +
                   part * part * sums[EPS__MC_REST_SQUARED];
    }
    return sqrt(fmax(squares / count - mean * mean, 0) / count);
}
