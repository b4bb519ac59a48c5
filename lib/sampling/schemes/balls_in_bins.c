/*
 * Balls in bins, also called random allocation: every example is in one batch of an epoch, drawn uniformly. The batch
 * is the same in every epoch, or drawn anew in each.
 *
 * SPDX-License-Identifier: GPL-3.0-or-later
 */
#include <assert.h>

#include "lib/sampling/forming/batches.h"
#include "lib/sampling/scheme.h"

static size_t bins(const struct eps_sampling *sampling)
{
    if (sampling->bins > 0)
        return sampling->bins;
    return sampling->batch_size > 0 ? (size_t)(sampling->dataset_size / sampling->batch_size) : 0;
}

static void check(struct eps__check *check, const struct eps_sampling *sampling)
{
    size_t n = check->n, len = bins(sampling);
    bool derived = eps__check_sizes(check, sampling, "bins", sampling->bins > 0);

    if (n == 0 || len == 0 || n % len == 0)
        return;
    eps__check_fail(check, derived ? "/sampling/batch_size" : "/sampling/bins",
                    "%s %zu bins, which do not divide n = %zu; the nearest n that works is %zu",
                    derived ? "gives" : "sets", len, n, eps__check_nearest_multiple(check, len));
}

/* With redraw, the bin of the next epoch may be the next step (S7). */
static struct eps__participation worst(const struct eps_mechanism *mechanism)
{
    size_t len = bins(&mechanism->sampling);
    if (mechanism->sampling.redraw && len > 0)
        return (struct eps__participation){.epochs = mechanism->n / len, .separation = 1, .shuffled = len};
    return (struct eps__participation){.epochs = mechanism->n, .separation = len, .fixed = true};
}

static struct eps__participation target(const struct eps_mechanism *mechanism)
{
    size_t len = bins(&mechanism->sampling);
    return (struct eps__participation){.epochs = len > 0 ? mechanism->n / len : 1, .separation = len};
}

static const struct eps__former *former(const struct eps_sampling *sampling)
{
    (void)sampling;
    return &eps__former_balls_in_bins;
}

static void assume(struct eps__sentences *list, const struct eps_sampling *sampling)
{
    eps__sentence(
        list,
        "each example is in one of the %zu batches of an epoch, drawn uniformly and independently of all others, "
        "%s; the strategy is public",
        bins(sampling), sampling->redraw ? "anew in every epoch" : "and in the same one in every epoch");
}

const struct eps__scheme eps__scheme_balls_in_bins = {
    .scheme = EPS_SCHEME_BALLS_IN_BINS,
    .name = "balls_in_bins",
    .served = true,
    .random = true,
    .check = check,
    .bins = bins,
    .worst = worst,
    .target = target,
    .former = former,
    .assume = assume,
};

struct eps_sampling eps__sampling_as_balls_in_bins(const struct eps_sampling *sampling, size_t bins)
{
    struct eps_sampling made = eps__sampling_default();
    assert(bins > 0 && !sampling->truncation && sampling->examples_per_user == 1);
    made.scheme = eps__scheme_balls_in_bins.scheme;
    made.bins = bins;
    made.dataset_size = sampling->dataset_size;
    return made;
}
