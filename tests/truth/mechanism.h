/*
 * From a job to the truth: its matrix by its definition, who takes part by enumeration, delta(eps) of the two laws of
 * the outputs in either direction. Of the library only optimised matrices are taken.
 *
 * SPDX-License-Identifier: GPL-3.0-or-later
 */
#ifndef TESTS_TRUTH_MECHANISM_H
#define TESTS_TRUTH_MECHANISM_H

#include "lib/epsilon.h"
#include "tests/truth/mixture.h"
#include "tests/unit/matrices.h"

enum truth_kind {
    TRUTH_GAUSSIAN, /* no sampling: one Gaussian of the sensitivity */
    TRUTH_STEPS,    /* rounds on disjoint rows: a product of one-dimensional steps */
    TRUTH_MIXTURE,  /* all patterns of participation */
    TRUTH_NONE      /* too many patterns, or nothing known to hold it against */
};

struct truth {
    const struct eps_mechanism *mechanism;
    enum truth_kind kind;
    struct matrix c;
    long double sensitivity_lower, sensitivity_upper; /* of all steps of the worst pattern */
    long double p;
};

/* The mechanism is borrowed. Release with truth_close(). */
struct truth truth_open(const struct eps_mechanism *mechanism);
void truth_close(struct truth *truth);

/* Whether an accountant is expected to find this delta itself, and not only a bound on it. */
bool truth_is_tight(const struct truth *truth);

/*
 * delta(eps) of the mechanism at this sigma. lower: no reported delta may lie under it, for either the mechanism does
 * this to some data sets, or no pair is known that could do better. upper: what the best known pair, or the closed
 * form, gives; 1 where it is not known.
 */
struct enclosure truth_delta(const struct truth *truth, enum eps_direction direction, double eps, double sigma,
                             const struct effort *effort);

/* Truncated batches: what the mechanism does to small data sets, over those tried; 0 where it is not computed. */
long double truth_attack(const struct truth *truth, enum eps_direction direction, double eps, double sigma,
                         const struct effort *effort);

/* delta of N(mu, 1) against N(0, 1). */
long double truth_gaussian(long double mu, long double eps);

/* delta <= Pr[the example ever takes part], and for add less Pr[it never does] e^eps. */
long double truth_presence(const struct truth *truth, enum eps_direction direction, double eps);

/* The shift in units of sigma that no pattern exceeds, batches coupled: the bound without amplification. */
long double truth_unamplified(const struct truth *truth);

#endif
