/*
 * What one step of an unrelated-rows mechanism may be: dominating pairs for a column of norm 1, before the norm is known.
 *
 * SPDX-License-Identifier: GPL-3.0-or-later
 */
#ifndef EPS_ACCOUNTANTS_PLD_PAIRS_H
#define EPS_ACCOUNTANTS_PLD_PAIRS_H

#include "lib/pld/coins.h"
#include "lib/sampling/law.h"

/* With a public probability, an example that takes part shifts the mean by `with` times a draw from the law, and the
 * other data set's example by -`without` times one. Probability and law by estimate. */
struct eps__alternative {
    double weight[2];
    struct eps__law law[2];
    double with, without;
};

/* One outcome of a public coin, and the alternatives that it leaves. */
struct eps__outcome {
    struct eps__interval probability;
    struct eps__alternative items[2];
    size_t len;
};

struct eps__step_pairs {
    struct eps__outcome often, rarely; /* rarely.len = 0: there is no coin */
};

/* How many pairs dominate a step of this mechanism, each of them by itself: the best one counts. 1 or 2. */
size_t eps__step_variants(const struct eps_mechanism *mechanism);

/* How many examples of one user a step may draw at most: the last iterate sums up those of all steps. */
uint64_t eps__largest_amplitude(const struct eps_mechanism *mechanism);

/* The pairs of variant `variant`. dataset: the number of examples in the part, where batches are truncated. log_floor: atoms
 * of a law below it may go. Release with eps__step_pairs_clear(), also after a failure. EPS_NO_MEMORY. */
enum eps_status eps__step_pairs_make(struct eps__step_pairs *pairs, const struct eps_mechanism *mechanism, double p,
                                     uint64_t dataset, size_t variant, double log_floor);
void eps__step_pairs_clear(struct eps__step_pairs *pairs);

/* `count` steps of one column norm, which in units of sigma lies between the two units. EPS_NO_MEMORY. */
enum eps_status eps__step_pairs_add(struct eps__coins *coins, const struct eps__step_pairs *pairs,
                                    enum eps_direction direction, double unit_lower, double unit_upper, uint64_t count);

#endif
