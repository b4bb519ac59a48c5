/*
 * Random jobs, the same for the same state on every machine. What a job is like is said by knobs: how long it is, how
 * often what, and whether rules are broken. Members that need not fit others are drawn by the tables (members.h).
 *
 * SPDX-License-Identifier: GPL-3.0-or-later
 */
#ifndef TESTS_GENERATE_JOB_H
#define TESTS_GENERATE_JOB_H

#include <stdbool.h>

#include "tests/generate/members.h"

enum { GENERATE_SMALL_STEPS = 9 };

struct span {
    double low, high;
};

struct knobs {
    struct {
        double share; /* of the jobs */
        size_t most;
    } steps[4];
    /* Weights. The methods are of each scheme. */
    unsigned char schemes[EPS_SCHEME_COUNT], families[EPS_FAMILY_COUNT], workloads[EPS_WORKLOAD_COUNT];
    unsigned char methods[EPS_SCHEME_COUNT][EPS_ACCOUNTANT_COUNT];
    struct span noise[2], delta[2], epsilon[2]; /* of most jobs, and of the others */
    double least_p;
    uint64_t dataset_most;
    struct drawing members, tuning;
    /* How often */
    double broken;   /* a rule is broken, each */
    double served;   /* what is known to be refused by all is left out */
    double signs[2]; /* there are negative entries: without sampling, with it */
    double far;      /* an entry has any order of magnitude */
    double omitted;  /* what follows from the matrix is left to follow from it */
    double sizes;    /* sizes are given, not what follows from them */
    double passes;   /* epochs are then given in the place of n */
    double truncation, user, cooldown, target, stamps, curve;
    double phases, largest;
    uint64_t users_most;
    bool extreme; /* all members are drawn once more, out to the ends */
    bool stores;  /* nearly all matrices that are stored are to be computed first */
};

/* So small that who takes part can be enumerated, and of what is served; valid. */
extern const struct knobs generate_small;
/* All the vocabulary; valid by construction, with the members that are not drawn left out. */
extern const struct knobs generate_ordinary, generate_phases;
/* Out to the edges of the ranges, with a rule broken now and then; and out to the ends of what doubles hold. */
extern const struct knobs generate_wild, generate_extreme;

struct generated {
    struct eps_job job; /* without its defaults */
    struct eps_phase *phases;
    bool stored; /* the matrix is to be computed first, and asked for by its id */
};

/* Release with generated_free(). */
void generate_job(struct generated *generated, const struct knobs *knobs, uint64_t *state);

/* The state of a seed: streams of neighbouring seeds have nothing in common. */
uint64_t generate_state(uint64_t seed);
void generated_free(struct generated *generated);

#endif
