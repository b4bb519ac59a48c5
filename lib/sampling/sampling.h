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

/* (k,b)-participation: at most `epochs` steps, exactly (fixed) or at least `separation` apart. Or, where shuffled is not 0, in
 * each of `epochs` epochs of so many steps one of them; then separation is 1. */
struct eps__participation {
    size_t epochs;
    size_t separation;
    bool fixed;
    size_t shuffled;
};

/* What is meant where nothing is said. */
struct eps_sampling eps__sampling_default(void);

/* A sampling whose worst patterns are fixed or not, random or none: any that is like it. */
struct eps_sampling eps__sampling_like(bool random, bool fixed);

/* Whether an example's participation is drawn at all; and whether it takes part in each round of its
 * group independently with probability p. */
bool eps__sampling_random(const struct eps_mechanism *mechanism);
bool eps__sampling_independent_rounds(const struct eps_mechanism *mechanism);

/* The largest set of steps in which an example may take part: no more epochs than fit into n. */
struct eps__participation eps__sampling_worst(const struct eps_mechanism *mechanism);

/* The participation that an optimised family aims at unless told otherwise; a separation of 0 is to be chosen. */
struct eps__participation eps__sampling_target(const struct eps_mechanism *mechanism);

/*
 * The participation probability in force: `p` as given, or derived so that the expected batch is batch_size. NAN for schemes
 * without one, and where neither is given or the derivation has no solution. A derived value may exceed 1: eps_job_check()
 * refuses that. The job's defaults must have been filled in.
 */
double eps__sampling_probability(const struct eps_mechanism *mechanism);

/* The batches of one epoch, of which an example is in one, given or floor(dataset/batch). 0 for schemes without. */
size_t eps__sampling_bins(const struct eps_mechanism *mechanism);

/*
 * The steps of mechanism->epochs passes over the data: ceil(epochs dataset/batch), with bins the next multiple of
 * theirs. An epochs that is a decimal counts as that decimal: where the quotient is an integer but for the rounding of
 * the double, it is that integer. At most 2^53; 0 where the sizes or epochs are missing or wrong.
 */
size_t eps__sampling_steps(const struct eps_mechanism *mechanism);

/*
 * Whether the mechanism's sampling has the law of a plainer one, of which more is known: then *plainer is that one. Who takes part
 * when is distributed alike, each example's draws and those of all together, so that what is proven of the one holds of the other
 * (S10). The job's defaults must have been filled in, and it must have been checked.
 */
bool eps__sampling_plainer(struct eps_sampling *plainer, const struct eps_mechanism *mechanism);

/* Whether groups of examples take turns, and how many they are: 1 where there are none. */
bool eps__sampling_turns(const struct eps_mechanism *mechanism);
size_t eps__sampling_groups(const struct eps_mechanism *mechanism);

/* The parts of the data set that have their turn within n steps: delta is the largest of theirs. */
size_t eps__sampling_parts(const struct eps_mechanism *mechanism);

/*
 * ln of the probability that the example (or none of its user's) never makes a difference to any batch, in the part of the
 * data set that has the most rounds: between bounds, -INFINITY included. Of a truncated batch it makes one where it is in
 * it (sampling/truncation.h). Schemes of independent rounds; where who was drawn sits out, what it is at least.
 */
struct eps__interval eps__sampling_log_never(const struct eps_mechanism *mechanism);

/* Who takes part in nothing: `tossed` where the probability of it is known, `log_never` then its ln between bounds; `noise`
 * where, without the example, there is nothing but noise. */
struct eps__absence {
    bool tossed, noise;
    struct eps__interval log_never;
};

struct eps__absence eps__sampling_absence(const struct eps_mechanism *mechanism);

/* Of no mechanism at all; and of another one beside, run so many times, each with draws of its own (S3). */
struct eps__absence eps__absence_nowhere(void);
void eps__absence_join(struct eps__absence *absence, const struct eps__absence *other, uint64_t times);

/* eps__sampling_log_delta() and _epsilon() of what is known. */
struct eps__interval eps__absence_log_delta(const struct eps__absence *absence, enum eps_direction direction,
                                            double eps);
double eps__absence_epsilon(const struct eps__absence *absence, enum eps_direction direction, double log_delta);

/*
 * A bound on ln delta(eps) that no noise is needed for, eps >= 0, 0 where there is none: what differs at all differs with
 * the probability of taking part (S3). Rounded up or down.
 */
struct eps__interval eps__sampling_log_delta(const struct eps_mechanism *mechanism, enum eps_direction direction,
                                             double eps);

/* The least eps from which that bound is at most ln delta, rounded up; INFINITY if it never is. */
double eps__sampling_epsilon(const struct eps_mechanism *mechanism, enum eps_direction direction, double log_delta);

/* The sizes of the parts of a data set of dataset_size > 0 examples: floor and ceil of its share. Returns 1 or 2. */
size_t eps__sampling_part_sizes(const struct eps_mechanism *mechanism, uint64_t sizes[2]);

/* The expected number of sampled examples of one step, before truncation (in the steady state).
 * NAN where the dataset's size is not known. */
double eps__sampling_expected_batch(const struct eps_mechanism *mechanism);

#endif
