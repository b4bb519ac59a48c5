/*
 * The dominating pairs known for one step of a scheme, for a column of norm 1 and before the norm is known: a scheme's row
 * (scheme.h) points at those of its step.
 *
 * SPDX-License-Identifier: GPL-3.0-or-later
 */
#ifndef EPS_SAMPLING_PAIRS_H
#define EPS_SAMPLING_PAIRS_H

#include "lib/numerics/sum.h"
#include "lib/sampling/law.h"

/* With a public probability, an example that takes part shifts the mean by `with` times a draw from the law, and the
 * other data set's example by -`without` times one. Probability and law by estimate. */
struct eps__alternative {
    double weight[2];
    struct eps__law law[2];
    double with, without;
};

/* One public outcome, and the alternatives that it leaves. */
struct eps__outcome {
    struct eps__interval probability;
    struct eps__alternative items[2];
    size_t len;
};

struct eps__step_pairs {
    struct eps__outcome often, rarely; /* rarely.len = 0: there is one outcome */
};

/* Which step it is. */
struct eps__step_setting {
    double p;         /* the participation probability in force; unused where there is none */
    uint64_t dataset; /* the examples of the part, where batches are truncated */
    size_t variant;
    double log_floor; /* atoms of a law below it may go */
};

enum { EPS__VARIANTS_MAX = 2 };

/* Bits 1u << enum eps_adjacency: all; and those under which there is nothing but noise where no example takes part. */
#define EPS__EVERY_ADJACENCY ((1u << EPS_ADJACENCY_COUNT) - 1)
#define EPS__AGAINST_NOISE (1u << EPS_ADJACENCY_ZERO_OUT | 1u << EPS_ADJACENCY_ADD_REMOVE)

/* The steps in which an example may take part are independent of each other given that each is one of these. */
struct eps__pairs {
    /* Adjacencies (bits 1u << enum eps_adjacency) for which pairs are known, of batches as drawn and of truncated ones. */
    unsigned drawn, truncated;
    /* Of those drawn: the pairs are the steps' own, and not only bounds (A49). */
    unsigned attained;
    /* How many examples of one user a step may draw at most: a last iterate sums up those of all steps. NULL: 1. */
    uint64_t (*amplitude)(const struct eps_mechanism *mechanism);
    /* How many pairs dominate a step of this mechanism, each of them by itself: the best one counts. At most
     * EPS__VARIANTS_MAX. NULL: 1. */
    size_t (*variants)(const struct eps_mechanism *mechanism);
    /* Release with eps__step_pairs_clear(), also after a failure. EPS_NO_MEMORY. */
    enum eps_status (*make)(struct eps__step_pairs *pairs, const struct eps_mechanism *mechanism,
                            const struct eps__step_setting *step);
};

void eps__step_pairs_clear(struct eps__step_pairs *pairs);

/* ---- shared by several schemes (pairs.c) ---- */

/* One more alternative, whose laws are Binomial(amplitude, p). EPS_NO_MEMORY. */
enum eps_status eps__outcome_add(struct eps__outcome *outcome, const struct eps__alternative *shape, uint64_t amplitude,
                                 struct eps__interval p, double log_floor);

/* Each example takes part independently with probability p. */
extern const struct eps__pairs eps__poisson_pairs;

#endif
