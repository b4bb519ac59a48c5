/*
 * What a sampling scheme implies without any draw: the quantities that follow from batch_size, dataset_size and epochs.
 * They are derived only here, so that checks, accountants and results agree.
 *
 * SPDX-License-Identifier: GPL-3.0-or-later
 */
#ifndef EPS_SAMPLING_SAMPLING_H
#define EPS_SAMPLING_SAMPLING_H

#include "lib/epsilon.h"
#include "lib/numerics/sum.h"

/* (k,b)-participation: at most `epochs` steps, exactly (fixed) or at least `separation` apart. If shuffled is not 0, an
 * example participates in one step of each of `epochs` epochs of `shuffled` steps, and separation is 1. */
struct eps__participation {
    size_t epochs;
    size_t separation;
    bool fixed;
    size_t shuffled;
};

/* The defaults of every member. */
struct eps_sampling eps__sampling_default(void);

/* Some sampling with a random or deterministic scheme whose worst-case pattern is fixed or not: a representative of all
 * schemes that share these two properties. */
struct eps_sampling eps__sampling_like(bool random, bool fixed);

/* Whether an example's participation is random; and whether the example participates in each round of its group
 * independently with probability p. */
bool eps__sampling_random(const struct eps_mechanism *mechanism);
bool eps__sampling_independent_rounds(const struct eps_mechanism *mechanism);

/* The worst-case participation: the largest sets of steps in which an example may participate. `epochs` is at most what
 * fits into n. */
struct eps__participation eps__sampling_worst(const struct eps_mechanism *mechanism);

/* The participation for which an optimised family optimises by default. A separation of 0 leaves the choice to the
 * caller. */
struct eps__participation eps__sampling_target(const struct eps_mechanism *mechanism);

/*
 * The participation probability in force: `p` if given, else derived so that the expected batch size is batch_size. NAN
 * for schemes without p, if neither is given, and if the derivation has no solution. A derived value may exceed 1,
 * which eps_job_check() refuses. The job's defaults must be filled in.
 */
double eps__sampling_probability(const struct eps_mechanism *mechanism);

/* The number of bins, which are the batches of an epoch: as given, or floor(dataset/batch). 0 for schemes without
 * bins. */
size_t eps__sampling_bins(const struct eps_mechanism *mechanism);

/*
 * The number of steps in mechanism->epochs passes over the data: ceil(epochs dataset/batch), rounded up to a multiple
 * of the number of bins if there are any. `epochs` is read as the decimal that was written: a quotient that is an
 * integer but for the rounding of the double counts as that integer. At most 2^53; 0 if the sizes or epochs are missing
 * or invalid.
 */
size_t eps__sampling_steps(const struct eps_mechanism *mechanism);

/*
 * Whether the sampling has the same law as a simpler scheme about which more is known; then *plainer is set to that
 * scheme. The participations have the same joint distribution, of each example and of all examples together, so what is
 * proven for the one holds for the other (S10). The job's defaults must be filled in, and the job must be checked.
 */
bool eps__sampling_plainer(struct eps_sampling *plainer, const struct eps_mechanism *mechanism);

/* Whether groups of examples take turns, and their number, which is 1 if they do not. */
bool eps__sampling_turns(const struct eps_mechanism *mechanism);
size_t eps__sampling_groups(const struct eps_mechanism *mechanism);

/* The number of parts of the data set that have a turn within n steps. delta is the largest over these parts. */
size_t eps__sampling_parts(const struct eps_mechanism *mechanism);

/*
 * Bounds on ln of the probability that the example (or no example of its user) makes a difference to any batch, in the
 * part of the data set with the most rounds. May be -INFINITY. In a truncated batch, the example makes a difference if
 * the batch contains it (sampling/truncation.h). For schemes with independent rounds; for schemes with a minimum
 * separation, a lower bound on the probability.
 */
struct eps__interval eps__sampling_log_never(const struct eps_mechanism *mechanism);

/* The event that an example never participates. `tossed`: its probability is known, and `log_never` bounds its
 * logarithm. `noise`: without the example, only noise is released. */
struct eps__absence {
    bool tossed, noise;
    struct eps__interval log_never;
};

struct eps__absence eps__sampling_absence(const struct eps_mechanism *mechanism);

/* The absence for no mechanism at all; and the absence after `times` more runs of another mechanism, each with
 * independent draws (S3). */
struct eps__absence eps__absence_nowhere(void);
void eps__absence_join(struct eps__absence *absence, const struct eps__absence *other, uint64_t times);

/* As eps__sampling_log_delta() and eps__sampling_epsilon(), from a known absence. */
struct eps__interval eps__absence_log_delta(const struct eps__absence *absence, enum eps_direction direction,
                                            double eps);
double eps__absence_epsilon(const struct eps__absence *absence, enum eps_direction direction, double log_delta);

/*
 * A bound on ln delta(eps), eps >= 0, that holds without any noise: outputs can differ only if the example participates
 * (S3). 0 if there is no such bound. Rounded outwards.
 */
struct eps__interval eps__sampling_log_delta(const struct eps_mechanism *mechanism, enum eps_direction direction,
                                             double eps);

/* The least eps at which that bound is at most log_delta, rounded up; INFINITY if there is none. */
double eps__sampling_epsilon(const struct eps_mechanism *mechanism, enum eps_direction direction, double log_delta);

/* The sizes of the parts of a data set of dataset_size > 0 examples: the floor and the ceiling of an equal share.
 * Returns how many sizes there are, 1 or 2. */
size_t eps__sampling_part_sizes(const struct eps_mechanism *mechanism, uint64_t sizes[2]);

/* The expected number of examples sampled in one step, before truncation and in the steady state. NAN if the size of
 * the data set is unknown. */
double eps__sampling_expected_batch(const struct eps_mechanism *mechanism);

#endif
