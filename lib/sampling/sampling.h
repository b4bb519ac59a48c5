/*
 * What a sampling scheme implies without drawing anything: the figures that follow from batch_size, dataset_size and
 * epochs. One place, so that the checks, the accountants and the result never derive them differently.
 *
 * SPDX-License-Identifier: GPL-3.0-or-later
 */
#ifndef EPS_SAMPLING_SAMPLING_H
#define EPS_SAMPLING_SAMPLING_H

#include "lib/epsilon.h"
#include "lib/numerics/sum.h"

/*
 * The participation probability in force: `p` as given, or derived so that the expected batch is batch_size:
 *   poisson         batch/dataset
 *   cyclic_poisson  groups * batch/dataset
 *   b_min_sep       p0/(1 - p0 (separation - 1)), p0 = batch/dataset
 * NAN for none and balls_in_bins, and where neither is given or the derivation has no solution. A derived value
 * may exceed 1: eps_job_check() refuses that. The job's defaults must have been filled in.
 */
double eps__sampling_probability(const struct eps_mechanism *mechanism);

/* balls_in_bins: the batches of one epoch: `bins` as given, or floor(dataset/batch). 0 elsewhere. */
size_t eps__sampling_bins(const struct eps_mechanism *mechanism);

/*
 * The steps of mechanism->epochs passes over the data: ceil(epochs dataset/batch), for balls_in_bins the next multiple of
 * its bins. An epochs that is a decimal counts as that decimal: where the quotient is an integer but for the rounding of
 * the double, it is that integer. At most 2^53; 0 where the sizes or epochs are missing or wrong.
 */
size_t eps__sampling_steps(const struct eps_mechanism *mechanism);

/*
 * Scheme none with sizes: batches of batch_size are filled with the examples in a fixed order that begins anew where it
 * ends. Then an example takes part at most ceil(n batch/dataset) times in n steps, and its participations are
 * floor(dataset/batch) steps apart or one more; (times - 1) apart + 1 <= n.
 */
struct eps__turns {
    size_t times, apart;
    bool even; /* apart is exact */
};

/* False where the sizes are missing or wrong. */
bool eps__sampling_turns(struct eps__turns *turns, const struct eps_mechanism *mechanism);

/* The number of groups that take turns: 1 where there are none. */
size_t eps__sampling_groups(const struct eps_mechanism *mechanism);

/*
 * ln of the probability that the example (or none of its user's) never makes a difference to any batch, in the part of the
 * data set that has the most rounds: between bounds, -INFINITY included. Of a truncated batch it makes one where it is in
 * it (sampling/truncation.h). Schemes poisson and cyclic_poisson.
 */
struct eps__interval eps__sampling_log_never(const struct eps_mechanism *mechanism);

/*
 * A bound on ln delta(eps) that no noise is needed for, eps >= 0, 0 where there is none: what differs at all differs with
 * the probability of taking part (L3). Rounded up or down.
 */
struct eps__interval eps__sampling_log_delta(const struct eps_mechanism *mechanism, enum eps_direction direction,
                                             double eps);

/* The least eps from which that bound is at most ln delta, rounded up; INFINITY if it never is. */
double eps__sampling_epsilon(const struct eps_mechanism *mechanism, enum eps_direction direction, double log_delta);

/* The sizes of the parts of a data set of dataset_size > 0 examples: floor and ceil of its share. Returns 1 or 2. */
size_t eps__sampling_part_sizes(const struct eps_mechanism *mechanism, uint64_t sizes[2]);

/* The expected number of sampled examples of one step, before truncation (b_min_sep: in the steady state).
 * NAN where the dataset's size is not known. */
double eps__sampling_expected_batch(const struct eps_mechanism *mechanism);

#endif
