/*
 * The cost of a strategy, estimated from the job alone: its family forecasts the shape of C, and its kind turns that
 * into operations and bytes.
 *
 * SPDX-License-Identifier: GPL-3.0-or-later
 */
#ifndef EPS_STRATEGY_COST_H
#define EPS_STRATEGY_COST_H

#include <math.h>

#include "lib/epsilon.h"

struct eps__cost {
    double operations, bytes;
};

struct eps__strategy_kind;

/* What is known of C before it is computed. */
struct eps__forecast {
    const struct eps__strategy_kind *kind;
    double n, block, stamps;
    double bands; /* an upper bound; 1: diagonal */
    bool nonnegative;
    bool inverse_known; /* the first column of the inverse needs no further work */
    double stored;      /* banded: the number of distinct columns */
};

/* The forecast for the job's strategy. */
struct eps__forecast eps__strategy_forecast(const struct eps_mechanism *mechanism);

/* The operations of a product of two series, of n and of len terms: the cheaper of term by term and by transforms, of
 * which Newton's iterations take a few. */
static inline double eps__product_cost(double n, double len)
{
    return fmin(n * len, 60 * n * (log2(n) + 1));
}

/* The operations for the Gram matrix of k columns that are expanded; *numbers: the numbers that they take. */
static inline double eps__columns_gram_cost(const struct eps__forecast *c, double k, double *numbers)
{
    *numbers = k * c->block;
    return 8 * k * c->bands;
}

/* Adds the cost of the row bound, which uses every row of the Gram matrix. */
static inline void eps__row_bound_cost(struct eps__cost *cost, const struct eps__forecast *c)
{
    double m = c->block;
    cost->operations += m * m * c->bands + 100 * m * c->bands + 100 * c->n;
    cost->bytes += 8 * (3 * m * m + 4 * c->n);
}

/* Adds the cost of a bound that passes over the steps once. */
static inline void eps__pass_cost(struct eps__cost *cost, const struct eps__forecast *c)
{
    cost->operations += 40 * c->n;
    cost->bytes += 32 * c->n;
}

static inline bool eps__workload_given(const struct eps_workload *w)
{
    return w->type == EPS_WORKLOAD_TOEPLITZ;
}

static inline bool eps__workload_cools(const struct eps_workload *w)
{
    return w->type == EPS_WORKLOAD_MOMENTUM && w->cooldown;
}

#endif
