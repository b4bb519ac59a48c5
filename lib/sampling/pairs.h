/*
 * The dominating pairs that are known for one step of a scheme, for a column of norm 1. A scheme's row (scheme.h)
 * points to the pairs of its step.
 *
 * SPDX-License-Identifier: GPL-3.0-or-later
 */
#ifndef EPS_SAMPLING_PAIRS_H
#define EPS_SAMPLING_PAIRS_H

#include "lib/numerics/sum.h"
#include "lib/sampling/law.h"

/* With a public probability, an example that participates shifts the mean by `with` times a draw from the law; in the
 * other data set, its counterpart shifts it by -`without` times a draw. Probability and law are indexed by estimate. */
struct eps__alternative {
    double weight[2];
    struct eps__law law[2];
    double with, without;
};

/* One public outcome and the alternatives that remain given it. */
struct eps__outcome {
    struct eps__interval probability;
    struct eps__alternative items[2];
    size_t len;
};

struct eps__step_pairs {
    struct eps__outcome often, rarely; /* rarely.len = 0: there is only one outcome */
};

/* The step for which pairs are made. */
struct eps__step_setting {
    double p;         /* the participation probability in force; unused by schemes without one */
    uint64_t dataset; /* the number of examples of the part, if batches are truncated */
    size_t variant;
    double log_floor; /* atoms with a log probability below it may be omitted */
};

enum { EPS__VARIANTS_MAX = 2 };

/* Sets of adjacencies, as bits 1u << enum eps_adjacency: all of them; and those under which a step in which the example
 * is absent releases only noise. */
#define EPS__EVERY_ADJACENCY ((1u << EPS_ADJACENCY_COUNT) - 1)
#define EPS__AGAINST_NOISE (1u << EPS_ADJACENCY_ZERO_OUT | 1u << EPS_ADJACENCY_ADD_REMOVE)

/* The pairs of a scheme. They are for single steps: given the pairs, the steps in which an example may participate are
 * independent. */
struct eps__pairs {
    /* Adjacencies (bits 1u << enum eps_adjacency) for which pairs are known, for batches as drawn and for truncated
     * ones. */
    unsigned drawn, truncated;
    /* The adjacencies in `drawn` whose pairs are attained by the steps and not only bounds (A49). */
    unsigned attained;
    /* The most examples of one user that a step can draw. With last_iterate, one step stands for the sum of all steps.
     * NULL: 1. */
    uint64_t (*amplitude)(const struct eps_mechanism *mechanism);
    /* The number of pairs that each dominate a step of this mechanism, of which the best one may be used: at most
     * EPS__VARIANTS_MAX. NULL: 1. */
    size_t (*variants)(const struct eps_mechanism *mechanism);
    /* Makes the pairs of a step. Release them with eps__step_pairs_clear(), also after a failure. EPS_OK or
     * EPS_NO_MEMORY. */
    enum eps_status (*make)(struct eps__step_pairs *pairs, const struct eps_mechanism *mechanism,
                            const struct eps__step_setting *step);
};

void eps__step_pairs_clear(struct eps__step_pairs *pairs);

/* ---- shared by several schemes (pairs.c) ---- */

/* Appends an alternative whose laws are Binomial(amplitude, p). EPS_OK or EPS_NO_MEMORY. */
enum eps_status eps__outcome_add(struct eps__outcome *outcome, const struct eps__alternative *shape, uint64_t amplitude,
                                 struct eps__interval p, double log_floor);

/* Poisson sampling: each example participates independently with probability p. */
extern const struct eps__pairs eps__poisson_pairs;

#endif
