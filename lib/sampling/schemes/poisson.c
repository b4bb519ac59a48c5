/*
 * Poisson sampling: at each step every example is drawn independently with probability p.
 *
 * SPDX-License-Identifier: GPL-3.0-or-later
 */
#include <assert.h>

#include "lib/sampling/forming/batches.h"
#include "lib/sampling/pairs.h"
#include "lib/sampling/scheme.h"

static void check(struct eps__check *check, const struct eps_sampling *sampling)
{
    eps__check_probability(check, sampling);
}

static double probability(const struct eps_sampling *sampling)
{
    return (double)sampling->batch_size / (double)sampling->dataset_size;
}

static double batch(const struct eps_sampling *sampling, double p)
{
    return p * (double)sampling->dataset_size;
}

static struct eps__participation worst(const struct eps_mechanism *mechanism)
{
    return (struct eps__participation){.epochs = mechanism->n, .separation = 1, .fixed = true};
}

static const struct eps__former *former(const struct eps_sampling *sampling)
{
    (void)sampling;
    return &eps__former_poisson;
}

static void assume(struct eps__sentences *list, const struct eps_sampling *sampling)
{
    (void)sampling;
    eps__sentence(list, "each example is drawn independently of all others, at each step with probability p; p and the "
                        "strategy are public");
}

const struct eps__scheme eps__scheme_poisson = {
    .scheme = EPS_SCHEME_POISSON,
    .name = "poisson",
    .served = true,
    .random = true,
    .independent_rounds = true,
    .additions = 1u << EPS__TRUNCATION | 1u << EPS__EXAMPLES_PER_USER | 1u << EPS__LAST_ITERATE,
    .together = 1u << EPS__EXAMPLES_PER_USER | 1u << EPS__LAST_ITERATE,
    .check = check,
    .probability = probability,
    .batch = batch,
    .worst = worst,
    .pairs = &eps__poisson_pairs,
    .former = former,
    .assume = assume,
};

struct eps_sampling eps__sampling_as_poisson(const struct eps_sampling *sampling, double p)
{
    struct eps_sampling poisson = eps__sampling_default();
    assert(p > 0 && p <= 1);
    poisson.scheme = eps__scheme_poisson.scheme;
    poisson.p = p;
    poisson.dataset_size = sampling->dataset_size;
    poisson.truncation = sampling->truncation;
    poisson.max_batch_size = sampling->max_batch_size;
    poisson.examples_per_user = sampling->examples_per_user;
    return poisson;
}
