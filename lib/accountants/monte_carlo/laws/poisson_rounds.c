/*
 * See poisson_rounds.h.
 *
 * SPDX-License-Identifier: GPL-3.0-or-later
 */
#include "lib/accountants/monte_carlo/laws/poisson_rounds.h"

#include <assert.h>
#include <math.h>
#include <stdlib.h>

#include "lib/numerics/bound.h"
#include "lib/numerics/sum.h"
#include "lib/sampling/sampling.h"

size_t eps__mc_poisson_memory(const struct eps__setting *setting)
{
    size_t groups = eps__sampling_groups(&setting->job->mechanism);
    size_t memory = (eps_strategy_bands(setting->strategy) - 1) / groups;
    return memory > 0 ? memory : 1;
}

struct eps__banded_gram eps__mc_poisson_copies_of(size_t rounds, size_t memory, double p, bool alike)
{
    size_t width = memory + 1 < rounds ? memory + 1 : rounds;
    return (struct eps__banded_gram){.len = rounds, .width = width, .p = p, .changes = alike ? width : rounds};
}

size_t eps__mc_poisson_row(const struct eps__mc_poisson_rounds *rounds, size_t k)
{
    size_t after = rounds->coins.n - 1 - k;
    if (rounds->columns.stride > 0)
        return k;
    return after < rounds->rows ? after : rounds->rows - 1;
}

size_t eps__mc_poisson_rounds_before(const struct eps__mc_poisson_rounds *rounds, size_t row)
{
    return (row + rounds->groups - 1) / rounds->groups;
}

/* ------------------------------------------------------------ the columns of rounds */

/* G_k,k-d over the rows below n; 0 if there is no round k - d. */
static double product_of(const struct eps__mc_poisson_rounds *rounds, size_t k, size_t d)
{
    const struct eps__mc_columns *columns = &rounds->columns;
    size_t step = k * rounds->groups, shift = d * rounds->groups;
    if (columns->stride > 0 && d > k)
        return 0;
    const double *own = columns->entries + step * columns->stride;
    const double *before = columns->stride > 0 ? own - shift * columns->stride : own;
    double sum = 0;
    for (size_t e = 0; e + shift < columns->width && step + e < columns->n; e++)
        sum += own[e] * before[e + shift];
    return sum;
}

/* Fills in met and met_most. */
static enum eps_status make_products(struct eps__mc_poisson_rounds *rounds)
{
    size_t len = rounds->coins.n, memory = rounds->memory;
    rounds->rows = rounds->columns.stride > 0 || len < memory + 2 ? len : memory + 2;
    rounds->met = malloc(rounds->rows * memory * sizeof *rounds->met);
    if (!rounds->met)
        return EPS_NO_MEMORY;
    for (size_t row = 0; row < rounds->rows; row++) {
        size_t k = rounds->columns.stride > 0 ? row : len - 1 - row;
        double sum = 0;
        assert(eps__mc_poisson_row(rounds, k) == row);
        for (size_t d = 1; d <= memory; d++) {
            double met = product_of(rounds, k, d);
            rounds->met[row * memory + d - 1] = met;
            sum += met;
        }
        rounds->met_most = fmax(rounds->met_most, sum);
    }
    return EPS_OK;
}

enum eps_status eps__mc_poisson_rounds_make(struct eps__mc_poisson_rounds *rounds, const struct eps__setting *setting,
                                            double sigma, unsigned copies)
{
    const struct eps_mechanism *mechanism = &setting->job->mechanism;
    *rounds = (struct eps__mc_poisson_rounds){
        .groups = eps__sampling_groups(mechanism), .memory = eps__mc_poisson_memory(setting), .keep = 1 - setting->p};
    rounds->coins = (struct eps__b_min_sep_steps){
        .n = (mechanism->n - 1) / rounds->groups + 1, .separation = 1, .p = setting->p, .examples = 1};
    eps__b_min_sep_steps_fill(&rounds->coins);
    enum eps_status status = eps__mc_columns_make(&rounds->columns, setting, sigma, rounds->groups, copies);
    return status == EPS_OK ? make_products(rounds) : status;
}

void eps__mc_poisson_rounds_clear(struct eps__mc_poisson_rounds *rounds)
{
    eps__mc_columns_clear(&rounds->columns);
    free(rounds->met);
    rounds->met = NULL;
}

void eps__mc_poisson_gram(struct eps__banded_gram *banded, const struct eps__mc_poisson_rounds *rounds)
{
    size_t len = rounds->coins.n;
    *banded = eps__mc_poisson_copies_of(len, rounds->memory, rounds->coins.p, rounds->columns.stride == 0);
    banded->gram = malloc(len * banded->width * sizeof *banded->gram);
    for (size_t k = 0; banded->gram && k < len; k++) {
        banded->gram[k * banded->width] = 2 * rounds->columns.half[k * rounds->groups];
        for (size_t d = 1; d < banded->width; d++)
            banded->gram[k * banded->width + d] = rounds->met[eps__mc_poisson_row(rounds, k) * rounds->memory + d - 1];
    }
}

/* ------------------------------------------------------------ the drift */

enum eps_status eps__mc_poisson_drift(struct eps__mc_poisson_rounds *rounds, double eps)
{
    struct eps__mc_columns *columns = &rounds->columns;
    struct eps__sum own = {0}, all = {0}, square = {0};
    double units = (double)columns->width + 64, most = 0;
    columns->drift = calloc(columns->n, sizeof *columns->drift);
    if (!columns->drift)
        return EPS_NO_MEMORY;
    for (size_t step = 0; step < columns->n; step += rounds->groups) {
        eps__sum_add(&own, 2 * columns->half[step]);
        for (size_t e = 0; e < columns->width && step + e < columns->n; e++)
            columns->drift[step + e] += columns->entries[step * columns->stride + e];
    }
    for (size_t r = 0; r < columns->n; r++)
        eps__sum_add(&all, columns->drift[r] * columns->drift[r]);
    struct eps__mc_rounds choice = {.len = (double)rounds->coins.n,
                                    .p = rounds->coins.p,
                                    .own = eps__raise(eps__sum_value(&own), units),
                                    .all = eps__raise(eps__sum_value(&all), 2 * units)};
    if (!eps__mc_drift_choose_poisson(&rounds->drift, &choice, eps))
        return EPS_UNSUPPORTED;
    for (size_t r = 0; r < columns->n; r++) {
        columns->drift[r] *= -rounds->drift.tilt * rounds->drift.q;
        eps__sum_add(&square, columns->drift[r] * columns->drift[r]);
        most = fmax(most, -columns->drift[r]);
    }
    rounds->log_base = 0.5 * eps__sum_value(&square);
    columns->reach = eps__raise(columns->reach + most, 8);
    return EPS_OK;
}

double eps__mc_poisson_drift_error(const struct eps__mc_poisson_rounds *rounds)
{
    const struct eps__mc_columns *columns = &rounds->columns;
    double sum = 0, n = (double)columns->n;
    for (size_t r = 0; r < columns->n; r++)
        sum -= columns->drift[r];
    return eps__raise(
        (n + (double)columns->width + 64) * EPS__UNIT_ROUNDOFF * (sum * columns->reach + rounds->log_base), 2 * n + 64);
}

/* ------------------------------------------------------------ a draw */

void eps__mc_poisson_add_weights(double *log_weight, const struct eps__mc_poisson_rounds *rounds, const double *y,
                                 size_t from, size_t end)
{
    const double *drift = rounds->columns.drift;
    for (size_t r = from; drift && r < end; r++)
        for (size_t lane = 0; lane < EPS__LANES; lane++)
            log_weight[lane] -= drift[r] * y[(r - from) * EPS__LANES + lane];
}

void eps__mc_poisson_own(double *own, const struct eps__mc_poisson_rounds *rounds, const double *y, size_t step,
                         size_t from)
{
    const struct eps__mc_columns *columns = &rounds->columns;
    eps__correlate_lanes(own, y + (step - from) * EPS__LANES, columns->entries + step * columns->stride, 0,
                         columns->width, 1);
    for (size_t lane = 0; lane < EPS__LANES; lane++)
        own[lane] -= columns->half[step];
}
