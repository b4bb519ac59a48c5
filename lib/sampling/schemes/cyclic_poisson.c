/*
 * Cyclic Poisson sampling (amplified BandMF): the examples are split into groups that take turns. At its group's turn,
 * each example is drawn independently with probability p.
 *
 * SPDX-License-Identifier: GPL-3.0-or-later
 */
#include <math.h>

#include "lib/sampling/forming/batches.h"
#include "lib/sampling/pairs.h"
#include "lib/sampling/scheme.h"

static void defaults(struct eps_mechanism *mechanism, size_t bands)
{
    if (mechanism->sampling.groups == 0)
        mechanism->sampling.groups = bands < mechanism->n ? bands : 0;
}

static double probability(const struct eps_sampling *sampling)
{
    double batch = (double)sampling->batch_size, dataset = (double)sampling->dataset_size;
    return sampling->groups > 0 ? (double)sampling->groups * batch / dataset : NAN;
}

static void check(struct eps__check *check, const struct eps_sampling *sampling)
{
    if (sampling->groups == 0)
        eps__check_fail(check, "/sampling/groups",
                        "is required, because the strategy has no bandwidth below n to derive it from");
    else if (sampling->dataset_size > 0 && sampling->groups > sampling->dataset_size)
        eps__check_fail(check, "/sampling/groups", "must be at most dataset_size, %llu",
                        (unsigned long long)sampling->dataset_size);
    if (!eps__check_probability(check, sampling) || sampling->groups == 0)
        return;
    /* p <= 1 if and only if the batch fits into dataset/groups; in integers, without rounding */
    unsigned long long most = sampling->dataset_size / sampling->groups;
    if (sampling->batch_size > most)
        eps__check_fail(check, "/sampling/batch_size",
                        "makes p = groups * batch_size/dataset_size = %.6g exceed 1: use at most %llu with %zu groups",
                        probability(sampling), most, sampling->groups);
}

static size_t groups(const struct eps_sampling *sampling)
{
    return sampling->groups;
}

static double batch(const struct eps_sampling *sampling, double p)
{
    return sampling->groups > 0 ? p * (double)sampling->dataset_size / (double)sampling->groups : NAN;
}

static struct eps__participation worst(const struct eps_mechanism *mechanism)
{
    return (struct eps__participation){.epochs = mechanism->n, .separation = mechanism->sampling.groups, .fixed = true};
}

/* A single group has every turn. */
static bool plainer(struct eps_sampling *plainer, const struct eps_mechanism *mechanism)
{
    if (mechanism->sampling.groups != 1)
        return false;
    *plainer = eps__sampling_as_poisson(&mechanism->sampling, eps__sampling_probability(mechanism));
    return true;
}

static const struct eps__former *former(const struct eps_sampling *sampling)
{
    (void)sampling;
    return &eps__former_cyclic_poisson;
}

static void assume(struct eps__sentences *list, const struct eps_sampling *sampling)
{
    if (sampling->truncation)
        /* Whether a batch is full depends on the size of its group (S5). */
        eps__sentence(list,
                      "the data set is split, independently of the examples' values, into %zu groups of %llu%s "
                      "examples, and each example is drawn independently with probability p at each turn of its group; "
                      "p and the strategy are public",
                      sampling->groups, (unsigned long long)(sampling->dataset_size / sampling->groups),
                      sampling->dataset_size % sampling->groups ? " or one more" : "");
    else
        eps__sentence(list,
                      "each example is put into one of %zu groups independently of its value and of all others, and is "
                      "drawn independently with probability p at each turn of its group; p and the strategy are "
                      "public",
                      sampling->groups);
}

const struct eps__scheme eps__scheme_cyclic_poisson = {
    .scheme = EPS_SCHEME_CYCLIC_POISSON,
    .name = "cyclic_poisson",
    .served = true,
    .random = true,
    .independent_rounds = true,
    .additions = 1u << EPS__TRUNCATION,
    .defaults = defaults,
    .check = check,
    .probability = probability,
    .batch = batch,
    .groups = groups,
    .worst = worst,
    .plainer = plainer,
    .pairs = &eps__poisson_pairs,
    .former = former,
    .assume = assume,
};
