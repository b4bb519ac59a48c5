/*
 * Participation figures derived from the sizes of batch and data set.
 *
 * A practitioner knows the batch and the passes over the data; the analysis needs p, the number of bins or of turns, and
 * the number of steps. The rounding is part of the contract: bins are dataset/batch rounded down, p is the nearest double
 * to the exact quotient.
 *
 * SPDX-License-Identifier: GPL-3.0-or-later
 */
#include "lib/sampling/sampling.h"

#include <math.h>

#define STEPS_MAX 0x1p53L

__extension__ typedef unsigned __int128 wide;

static bool has_sizes(const struct eps_sampling *sampling)
{
    return sampling->batch_size > 0 && sampling->dataset_size > 0;
}

double eps__sampling_probability(const struct eps_mechanism *mechanism)
{
    const struct eps_sampling *s = &mechanism->sampling;

    if (s->scheme == EPS_SCHEME_NONE || s->scheme == EPS_SCHEME_BALLS_IN_BINS)
        return NAN;
    if (!isnan(s->p))
        return s->p;
    if (!has_sizes(s))
        return NAN;
    double batch = (double)s->batch_size, dataset = (double)s->dataset_size;
    if (s->scheme == EPS_SCHEME_CYCLIC_POISSON)
        return s->groups > 0 ? (double)s->groups * batch / dataset : NAN;
    if (s->scheme == EPS_SCHEME_B_MIN_SEP) {
        /* p0/(1 - p0 (b-1)) with the dataset multiplied through: exact up to one rounding of each term */
        double waiting = s->separation > 0 ? batch * (double)(s->separation - 1) : NAN;
        return waiting < dataset ? batch / (dataset - waiting) : NAN;
    }
    return batch / dataset;
}

size_t eps__sampling_bins(const struct eps_mechanism *mechanism)
{
    const struct eps_sampling *s = &mechanism->sampling;

    if (s->scheme != EPS_SCHEME_BALLS_IN_BINS)
        return 0;
    if (s->bins > 0)
        return s->bins;
    return has_sizes(s) ? (size_t)(s->dataset_size / s->batch_size) : 0;
}

size_t eps__sampling_steps(const struct eps_mechanism *mechanism)
{
    const struct eps_sampling *s = &mechanism->sampling;

    if (!has_sizes(s) || s->batch_size > s->dataset_size || !(mechanism->epochs > 0))
        return 0;
    long double exact = (long double)mechanism->epochs * (long double)s->dataset_size / (long double)s->batch_size;
    if (!(exact < STEPS_MAX))
        return (size_t)STEPS_MAX;
    /* The double nearest to a decimal is off by half a unit: 2^-53. */
    long double nearest = roundl(exact);
    size_t steps = (size_t)fmaxl(fabsl(exact - nearest) <= exact * 0x1p-52L ? nearest : ceill(exact), 1);
    size_t bins = eps__sampling_bins(mechanism);
    return bins > 0 && steps % bins ? steps + (bins - steps % bins) : steps;
}

bool eps__sampling_turns(struct eps__turns *turns, const struct eps_mechanism *mechanism)
{
    const struct eps_sampling *s = &mechanism->sampling;

    if (s->scheme != EPS_SCHEME_NONE || !has_sizes(s) || s->batch_size > s->dataset_size || mechanism->n == 0)
        return false;
    /* Example j fills places j, j + dataset, ... of n batch places: the first one has most. Its (times-1)-th is before the
     * end: (times-1) dataset < n batch, so (times-1) floor(dataset/batch) < n. */
    wide places = (wide)mechanism->n * s->batch_size;
    turns->times = (size_t)((places + s->dataset_size - 1) / s->dataset_size);
    turns->apart = (size_t)(s->dataset_size / s->batch_size);
    turns->even = s->dataset_size % s->batch_size == 0;
    return true;
}

double eps__sampling_expected_batch(const struct eps_mechanism *mechanism)
{
    const struct eps_sampling *s = &mechanism->sampling;
    double dataset = (double)s->dataset_size;

    if (s->dataset_size == 0)
        return NAN;
    if (s->scheme == EPS_SCHEME_BALLS_IN_BINS) {
        size_t bins = eps__sampling_bins(mechanism);
        return bins > 0 ? dataset / (double)bins : NAN;
    }
    double p = eps__sampling_probability(mechanism);
    if (isnan(p) && s->scheme != EPS_SCHEME_NONE)
        return NAN;
    if (s->batch_size > 0)
        return (double)s->batch_size;
    if (s->scheme == EPS_SCHEME_CYCLIC_POISSON)
        return s->groups > 0 ? p * dataset / (double)s->groups : NAN;
    if (s->scheme == EPS_SCHEME_B_MIN_SEP)
        return s->separation > 0 ? dataset * p / (1.0 + p * (double)(s->separation - 1)) : NAN;
    return p * dataset;
}

size_t eps__sampling_groups(const struct eps_mechanism *mechanism)
{
    return mechanism->sampling.scheme == EPS_SCHEME_CYCLIC_POISSON ? mechanism->sampling.groups : 1;
}

size_t eps__sampling_part_sizes(const struct eps_mechanism *mechanism, uint64_t sizes[2])
{
    uint64_t groups = eps__sampling_groups(mechanism), dataset = mechanism->sampling.dataset_size;
    sizes[0] = dataset / groups;
    sizes[1] = sizes[0] + 1;
    return dataset % groups ? 2 : 1;
}
