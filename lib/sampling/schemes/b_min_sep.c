/*
 * b-min-sep sampling: a waiting example is drawn with probability p, and a drawn one sits out the next separation - 1
 * steps.
 *
 * SPDX-License-Identifier: GPL-3.0-or-later
 */
#include <assert.h>
#include <math.h>

#include "lib/base/limits.h"
#include "lib/numerics/bound.h"
#include "lib/sampling/forming/batches.h"
#include "lib/sampling/scheme.h"

#define LEAST_QUOTIENT 1e-290 /* the least p at which the quotient below is computed; for a smaller p it loses digits */

static void defaults(struct eps_mechanism *mechanism, size_t bands)
{
    struct eps_sampling *sampling = &mechanism->sampling;
    if (sampling->separation == 0)
        sampling->separation = bands < mechanism->n ? bands : 0;
    if (sampling->examples_per_user > 1)
        sampling->warm_start = false; /* multi-attribution is analysed from a cold start only */
}

/* p0/(1 - p0 (separation - 1)) with p0 = batch/dataset, multiplied through by the dataset size: exact up to one
 * rounding of each term. */
static double probability(const struct eps_sampling *sampling)
{
    double batch = (double)sampling->batch_size, dataset = (double)sampling->dataset_size;
    double waiting = sampling->separation > 0 ? batch * (double)(sampling->separation - 1) : NAN;
    return waiting < dataset ? batch / (dataset - waiting) : NAN;
}

static void check(struct eps__check *check, const struct eps_sampling *sampling)
{
    if (sampling->separation == 0)
        eps__check_fail(check, "/sampling/separation",
                        "is required, because the strategy has no bandwidth below n to derive it from");
    else if (sampling->separation > EPS__N_MOST)
        eps__check_fail(check, "/sampling/separation", "must lie in [1, %zu]", EPS__N_MOST);
    if (sampling->examples_per_user > 1 && sampling->warm_start)
        eps__check_fail(check, "/sampling/warm_start",
                        "must be false if examples_per_user is over 1: only the cold start is analysed");
    if (!eps__check_probability(check, sampling) || sampling->separation == 0)
        return;
    /* p <= 1 if and only if the batch fits into dataset/separation; in integers, without rounding */
    unsigned long long most = sampling->dataset_size / sampling->separation;
    if (sampling->batch_size > most)
        eps__check_fail(check, "/sampling/batch_size",
                        "must be at most %llu with separation %zu: with p0 = batch_size/dataset_size, "
                        "p = p0/(1 - p0 (separation-1)) must lie in (0, 1]",
                        most, sampling->separation);
}

/* The expected batch size in the steady state. */
static double batch(const struct eps_sampling *sampling, double p)
{
    double dataset = (double)sampling->dataset_size;
    return sampling->separation > 0 ? dataset * p / (1.0 + p * (double)(sampling->separation - 1)) : NAN;
}

static struct eps__participation worst(const struct eps_mechanism *mechanism)
{
    return (struct eps__participation){.epochs = mechanism->n, .separation = mechanism->sampling.separation};
}

static struct eps__participation target(const struct eps_mechanism *mechanism)
{
    return (struct eps__participation){.epochs = 1, .separation = mechanism->sampling.separation};
}

/* p/(1 + (separation - 1) p), rounded up: the probability that an example waits at the first step of a warm start and
 * is drawn there. */
static double drawn_first(const struct eps_sampling *sampling, double p)
{
    if (p < LEAST_QUOTIENT)
        return p; /* a larger value, and so valid */
    return fmin(eps__raise(p / (1 + (double)(sampling->separation - 1) * p), 6), p);
}

/*
 * With separation 1 no example sits out, and with a single step sitting out has no effect. After a warm start some
 * examples sit out the first step, which changes p; a truncated batch would need that probability exactly. If p = 1, an
 * example is drawn every `separation` steps, and a warm start makes its first step uniform: balls in bins.
 */
static bool plainer(struct eps_sampling *plainer, const struct eps_mechanism *mechanism)
{
    const struct eps_sampling *sampling = &mechanism->sampling;
    double p = eps__sampling_probability(mechanism);
    size_t separation = sampling->separation;
    assert(separation >= 1 && (!sampling->warm_start || sampling->examples_per_user == 1));
    if (separation == 1 || (mechanism->n == 1 && !sampling->warm_start)) {
        *plainer = eps__sampling_as_poisson(sampling, p);
        return true;
    }
    if (!sampling->warm_start || sampling->truncation)
        return false;
    if (mechanism->n == 1)
        *plainer = eps__sampling_as_poisson(sampling, drawn_first(sampling, p));
    else if (p >= 1 && mechanism->n % separation == 0)
        *plainer = eps__sampling_as_balls_in_bins(sampling, separation);
    else
        return false;
    return true;
}

static const struct eps__former *former(const struct eps_sampling *sampling)
{
    return sampling->examples_per_user > 1 ? &eps__former_b_min_sep_users : &eps__former_b_min_sep;
}

static void assume(struct eps__sentences *list, const struct eps_sampling *sampling)
{
    size_t others = sampling->separation ? sampling->separation - 1 : 0;
    if (sampling->examples_per_user > 1) /* M23 */
        eps__sentence(
            list,
            "each example is drawn at each step independently with probability p, and left out of the batch if an "
            "example that shares a user with it was drawn in the %zu steps before, even if that one was left out; "
            "users are padded with empty examples, drawn alike, to examples_per_user; which users share examples is "
            "public, and a removed example is still drawn; p and the strategy are public",
            others);
    else
        eps__sentence(
            list,
            "each example is drawn independently of all others with probability p at each step, except in the %zu "
            "steps after one at which it was drawn; %s; p and the strategy are public",
            others,
            sampling->warm_start ? "sampling starts in its steady state (warm start)"
                                 : "every example may be drawn at the first step (cold start)");
}

const struct eps__scheme eps__scheme_b_min_sep = {
    .scheme = EPS_SCHEME_B_MIN_SEP,
    .name = "b_min_sep",
    .served = true,
    .random = true,
    .min_separation = true,
    .additions = 1u << EPS__TRUNCATION | 1u << EPS__EXAMPLES_PER_USER,
    .defaults = defaults,
    .check = check,
    .probability = probability,
    .batch = batch,
    .worst = worst,
    .target = target,
    .plainer = plainer,
    .former = former,
    .assume = assume,
};
