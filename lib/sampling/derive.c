/*
 * Participation figures derived from the sizes of batch and data set.
 *
 * A practitioner knows the batch; the analysis needs p or the number of bins. The rounding is part of the
 * contract: bins are dataset/batch rounded down, p is the nearest double to the exact quotient.
 *
 * SPDX-License-Identifier: GPL-3.0-or-later
 */
#include "lib/sampling/sampling.h"

#include <math.h>

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
    if (isnan(p))
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
