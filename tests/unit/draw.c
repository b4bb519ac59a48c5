/*
 * Weights are multiples of 2^-40 that sum to exactly one, so that a pair in doubles is a pair of probability laws.
 *
 * SPDX-License-Identifier: GPL-3.0-or-later
 */
#include "tests/unit/draw.h"

#include <math.h>

#include "tests/unit/exact.h"

/* Vigna's splitmix64. */
static uint64_t next(uint64_t *state)
{
    uint64_t z = *state += 0x9e3779b97f4a7c15u;
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
    return z ^ (z >> 31);
}

double draw_unit(uint64_t *state)
{
    return (double)(next(state) >> 11) * 0x1p-53;
}

double draw_between(uint64_t *state, double low, double high)
{
    return low + (high - low) * draw_unit(state);
}

double draw_log(uint64_t *state, double low, double high)
{
    return low * exp(log(high / low) * draw_unit(state));
}

uint64_t draw_below(uint64_t *state, uint64_t bound)
{
    return next(state) % bound;
}

static void draw_mixture(uint64_t *state, struct eps__mixture *mixture, double least_weight, double most_shift)
{
    double left = 1;
    mixture->len = 1 + draw_below(state, DRAW_ATOMS);
    bool still = draw_below(state, 3) > 0; /* whether there is an atom at zero */
    double scale = draw_below(state, 3) ? most_shift : draw_log(state, 1e-3, most_shift);
    for (size_t i = 0; i < mixture->len; i++) {
        double most = left - (double)(mixture->len - 1 - i) * least_weight;
        double weight = draw_log(state, least_weight, fmax(0.9 * most, 1.1 * least_weight));
        weight = nearbyint(weight * 0x1p40) * 0x1p-40;
        mixture->weight[mixture->len - 1 - i] = i + 1 == mixture->len ? left : weight;
        mixture->shift[mixture->len - 1 - i] = draw_between(state, 0, scale);
        left -= weight;
    }
    if (still)
        mixture->shift[draw_below(state, mixture->len)] = 0;
}

static void origin(struct eps__mixture *mixture)
{
    mixture->len = 1;
    mixture->weight[0] = 1;
    mixture->shift[0] = 0;
}

static void attach(struct draw_pair *drawn)
{
    drawn->pair =
        (struct eps__pair){.numerator = {.weight = drawn->numerator_weight, .shift = drawn->numerator_shift},
                           .denominator = {.weight = drawn->denominator_weight, .shift = drawn->denominator_shift}};
}

static double largest_shift(const struct eps__mixture *mixture)
{
    double largest = 0;
    for (size_t i = 0; i < mixture->len; i++)
        largest = fmax(largest, mixture->shift[i]);
    return largest;
}

void draw_pair(uint64_t *state, struct draw_pair *drawn, enum draw_kind kind, double least_weight, double most_shift)
{
    attach(drawn);
    struct eps__mixture *numerator = &drawn->pair.numerator, *denominator = &drawn->pair.denominator;
    draw_mixture(state, kind == DRAW_ADD ? denominator : numerator, least_weight, most_shift);
    if (kind == DRAW_GAUSSIAN) {
        numerator->len = 1;
        numerator->weight[0] = 1;
    }
    if (kind == DRAW_ANY)
        draw_mixture(state, denominator, least_weight, most_shift);
    else if (kind == DRAW_REPLACE) {
        denominator->len = numerator->len;
        for (size_t i = 0; i < numerator->len; i++) {
            denominator->weight[i] = numerator->weight[i];
            denominator->shift[i] = numerator->shift[i];
        }
    } else {
        origin(kind == DRAW_ADD ? numerator : denominator);
    }
    struct eps__mixture *moved = kind == DRAW_ADD ? denominator : numerator;
    if (largest_shift(moved) == 0)
        moved->shift[0] = draw_between(state, 0.05, 1) * most_shift;
}

void subsampled_pair(struct draw_pair *drawn, double p, double shift, bool add)
{
    attach(drawn);
    struct eps__mixture *moved = add ? &drawn->pair.denominator : &drawn->pair.numerator;
    origin(add ? &drawn->pair.numerator : &drawn->pair.denominator);
    moved->len = p < 1 ? 2 : 1;
    moved->weight[0] = p;
    moved->shift[0] = shift;
    moved->weight[1] = 1 - p;
    moved->shift[1] = 0;
}

enum eps_status build_pair(struct eps__pld *pld, const struct eps__pair *pair, const struct eps__pld_plan *plan,
                           enum eps__estimate estimate)
{
    const struct eps__branch branch = {.weight = {1, 1}, .pair = {*pair, *pair}};
    return eps__pld_build(NULL, pld, &branch, plan, 1, estimate);
}

void plan_for(struct eps__pld_plan *plan, const struct eps__pair *pair, double tilt, double total, double fraction)
{
    struct exact_power power = {pair, 1};
    struct exact_saddle step = exact_moments(&power, 1, tilt);
    double reach = largest_shift(&pair->numerator), z = reach, peak = -INFINITY, value, tail;
    *plan = (struct eps__pld_plan){
        .tilt = tilt, .log_norm = step.log_moment, .log_jump = INFINITY, .widest = 1, .cut = INFINITY};
    plan->spacing = fmin(fraction * step.deviation, 0.5 / (1 + tilt));
    plan->log_reference = log(0.4 / step.deviation);
    plan->log_small = -45 - log(total);
    plan->z_low = -8.5 - 0.3 * log(total);
    /* The upper end: where P's tail is negligible, tilted or not. */
    do {
        z += 0.5;
        tail = (double)logq(exact_normal_tail(z - reach)) + log(total);
        value = (double)exact_loss(pair, z) * tilt + tail;
        peak = fmax(peak, value);
    } while (z < reach + 30 && (value > fmin(step.log_moment, peak) - 45 || tail > -85));
    plan->z_high = z;
    /* A test needs at most 1e5 knots. */
    plan->spacing = fmax(plan->spacing, 1e-5 * (double)(exact_loss(pair, z) - exact_loss(pair, plan->z_low)));
    plan->fine_low = plan->z_low;
    plan->fine_high = plan->z_high;
}
