/*
 * What a sampling scheme implies without drawing anything: the figures that follow from batch_size and
 * dataset_size. One place, so that the checks, the accountants and the result never derive them differently.
 *
 * SPDX-License-Identifier: GPL-3.0-or-later
 */
#ifndef EPS_SAMPLING_SAMPLING_H
#define EPS_SAMPLING_SAMPLING_H

#include "lib/epsilon.h"

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

/* The number of groups that take turns: 1 where there are none. */
size_t eps__sampling_groups(const struct eps_mechanism *mechanism);

/*
 * poisson and cyclic_poisson without truncation: ln of delta(eps) as the noise goes to 0, rounded up. All is known once
 * the example takes part: remove: Pr[it does]; add: 1 - e^eps Pr[it does not]; replace_one: as remove.
 */
double eps__sampling_log_delta_without_noise(const struct eps_mechanism *mechanism, enum eps_direction direction,
                                             double eps);

/* The expected number of sampled examples of one step, before truncation (b_min_sep: in the steady state).
 * NAN where the dataset's size is not known. */
double eps__sampling_expected_batch(const struct eps_mechanism *mechanism);

#endif
