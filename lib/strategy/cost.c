/*
 * See cost.h. The estimates count the loops of the family and the kind, each within a small factor, and are meant as
 * upper estimates: a job near the limits should be refused with figures rather than stopped by a timeout.
 *
 * SPDX-License-Identifier: GPL-3.0-or-later
 */
#include <math.h>

#include "lib/strategy/families/family.h"
#include "lib/strategy/kinds/kinds.h"
#include "lib/strategy/sensitivity/sensitivity.h"

struct eps__forecast eps__strategy_forecast(const struct eps_mechanism *mechanism)
{
    const struct eps__family *family = eps__family_of(&mechanism->matrix);
    double n = (double)mechanism->n, stamps = mechanism->matrix.stamps ? (double)mechanism->matrix.stamps : 1;
    struct eps__forecast c = {.kind = &eps__strategy_toeplitz,
                              .n = n,
                              .block = n / stamps,
                              .stamps = stamps,
                              .bands = 1,
                              .nonnegative = true};
    if (family->forecast)
        family->forecast(&c, mechanism);
    return c;
}

/* The rules for one Gram matrix: eigenvalues, and the ascent to its limit. */
static double gram_rules(double k)
{
    double eigenvalues = k <= 1024 ? 30 * k * k * k : k * k;
    return eigenvalues + (k <= 512 ? fmin(2e3 * k * k * sqrt(2 * k), 2e9) : 0);
}

static void add_fixed_order(struct eps__cost *cost, const struct eps__forecast *c,
                            const struct eps__participation *participation, double starts)
{
    double k = (double)participation->epochs, numbers;
    if (c->nonnegative || k > EPS__GRAM_STEPS_MAX) {
        c->kind->fixed_order_cost(cost, c, participation, starts);
        return;
    }
    double gram = c->kind->gram_cost(c, k, &numbers);
    cost->operations += (c->kind->first_is_worst && c->stamps <= 1 ? 1 : starts) * (gram + gram_rules(k));
    cost->bytes += 8 * (4 * k * k + numbers);
}

static void add_sensitivity(struct eps__cost *cost, const struct eps__forecast *c,
                            const struct eps_mechanism *mechanism)
{
    struct eps__participation participation = eps__sampling_worst(mechanism);
    if (participation.shuffled) { /* Gram matrices: a whole block once, or by distances */
        double width = fmin(2 * c->bands, c->block);
        cost->operations += fmin(c->n * width, 1e9) + fmin(c->bands * c->bands, 1e9);
        cost->bytes += 8 * (fmin(c->block * c->block, 2048.0 * 2048.0) + 2 * c->bands);
    }
    double starts = (double)eps__participation_starts(&participation, mechanism->n);
    if (participation.epochs == 1 || c->bands <= (double)participation.separation) {
        cost->operations +=
            4 * c->n + (participation.fixed || c->stamps <= 1 ? 0 : 2 * c->n * (double)participation.epochs);
        cost->bytes += participation.fixed ? 0 : 24 * c->n;
    } else if (participation.fixed) {
        add_fixed_order(cost, c, &participation, starts);
    } else {
        c->kind->min_separation_cost(cost, c);
    }
}

void eps__strategy_cost(const struct eps_mechanism *mechanism, double *operations, double *bytes)
{
    const struct eps__family *family = eps__family_of(&mechanism->matrix);
    struct eps__forecast c = eps__strategy_forecast(mechanism);
    double numbers = c.kind->numbers(&c);
    struct eps__cost cost = {20 * numbers, 24 * numbers};
    if (family->cost)
        family->cost(&cost, &c, mechanism);
    add_sensitivity(&cost, &c, mechanism);
    c.kind->error_cost(&cost, &c, &mechanism->workload);
    if (family->cost_before)
        family->cost_before(&cost, &c, mechanism);
    *operations = cost.operations;
    *bytes = cost.bytes;
}
