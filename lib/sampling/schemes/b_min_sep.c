/*
 * b-min-sep sampling: an example that waits is drawn with probability p, and one that was drawn sits out the next
 * separation - 1 steps.
 *
 * SPDX-License-Identifier: GPL-3.0-or-later
 */
#include <assert.h>
#include <math.h>

#include "lib/base/limits.h"
#include "lib/numerics/bound.h"
#include "lib/sampling/forming/batches.h"
#include "lib/sampling/scheme.h"

#define LEAST_QUOTIENT 1e-290 /* of p: under it doubles lose digits */

static void defaults(struct eps_mechanism *mechanism, size_t bands)
{
    struct eps_sampling *sampling = &mechanism->sampling;
    if (sampling->separation == 0)
        sampling->separation = bands < mechanism->n ? bands : 0;
    if (sampling->examples_per_user > 1)
        sampling->warm_start = false; /* multi-attribution is analysed from a cold start only */
}

/* p0/(1 - p0 (separation - 1)), p0 = batch/dataset, with the dataset multiplied through: exact up to one rounding of each
 * term. */
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
                        "is required: there is no matrix of a bandwidth under n to take it from");
    else if (sampling->separation > EPS__N_MOST)
        eps__check_fail(check, "/sampling/separation", "must lie in [1, %zu]", EPS__N_MOST);
    if (sampling->examples_per_user > 1 && sampling->warm_start)
        eps__check_fail(check, "/sampling/warm_start",
                        "must be false with examples_per_user over 1: only the cold start is analysed");
    if (!eps__check_probability(check, sampling) || sampling->separation == 0)
        return;
    /* p <= 1 exactly where the batch fits into dataset/separation: integers, no rounding */
    unsigned long long most = sampling->dataset_size / sampling->separation;
    if (sampling->batch_size > most)
        eps__check_fail(check, "/sampling/batch_size",
                        "cannot be reached: with p0 = batch_size/dataset_size, p = p0/(1 - p0 (separation-1)) leaves "
                        "(0, 1]; at most %llu with separation %zu",
                        most, sampling->separation);
}

/* In the steady state. */
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

/* p/(1 + (separation - 1) p), raised: of one step from a warm start, who waits and is drawn. */
static double drawn_first(const struct eps_sampling *sampling, double p)
{
    if (p < LEAST_QUOTIENT)
        return p; /* which is more */
    return fmin(eps__raise(p / (1 + (double)(sampling->separation - 1) * p), 6), p);
}

/*
 * Nobody sits out where the separation is 1, and one step leaves nothing to sit out; but from a warm start some do so at it, and of a
 * truncated batch that probability would have to be exact. Draws that are certain come after one wait, the same number of steps
 * apart ever after.
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
            "at each step each example is drawn independently of all others with probability p, and left out where any "
            "that shares a user with it, left out or not, was drawn in the %zu steps before; a user of fewer examples "
            "than the limit has empty ones beside them, drawn as others are; who shares examples is public, and an "
            "example that is removed is still drawn; p and the strategy are public",
            others);
    else
        eps__sentence(
            list,
            "each example is drawn independently of all others with probability p at each step, but not in the %zu "
            "steps after one in which it was; %s; p and the strategy are public",
            others,
            sampling->warm_start ? "its first step is one of a process that has run for long"
                                 : "at the first step every example may be drawn");
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
