/*
 * A scheme for tests/check_toys.py: Poisson sampling with a share of the probability that the sizes give, a half by
 * default.
 *
 * SPDX-License-Identifier: GPL-3.0-or-later
 */
#include "lib/sampling/pairs.h"
#include "lib/sampling/scheme.h"

static void check(struct eps__check *check, const struct eps_sampling *sampling)
{
    eps__check_probability(check, sampling);
}

static double probability(const struct eps_sampling *sampling)
{
    return sampling->toy_thinning * (double)sampling->batch_size / (double)sampling->dataset_size;
}

static double batch(const struct eps_sampling *sampling, double p)
{
    return p * (double)sampling->dataset_size;
}

static struct eps__participation worst(const struct eps_mechanism *mechanism)
{
    return (struct eps__participation){.epochs = mechanism->n, .separation = 1, .fixed = true};
}

static void assume(struct eps__sentences *list, const struct eps_sampling *sampling)
{
    (void)sampling;
    eps__sentence(list, "each example is drawn by half a coin");
}

const struct eps__scheme eps__scheme_toy_half = {
    .scheme = EPS_SCHEME_TOY_HALF,
    .name = "toy_half",
    .served = true,
    .random = true,
    .independent_rounds = true,
    .check = check,
    .probability = probability,
    .batch = batch,
    .worst = worst,
    .pairs = &eps__poisson_pairs,
    .assume = assume,
};
