/*
 * Products of independent one-dimensional steps, and the hockey-stick divergence between two of them: the other half
 * of the truth. Shares no code with the library.
 *
 * SPDX-License-Identifier: GPL-3.0-or-later
 */
#ifndef TESTS_TRUTH_STEPS_H
#define TESTS_TRUTH_STEPS_H

#include "tests/truth/mixture.h"

enum { STEP_ATOMS = 257, STEP_BRANCHES = 3, STEPS_MAX = 16 };

/* A law on points, in units of the step's scale. */
struct points {
    size_t len;
    long double weight[STEP_ATOMS], at[STEP_ATOMS];
};

/* With a public probability, an output drawn from `over` or `under`, each with a standard normal added. */
struct branch {
    long double weight;
    struct points over, under;
};

struct step {
    size_t len;
    struct branch branches[STEP_BRANCHES];
    bool rising; /* no atom of any `over` below 0, none of `under` above: the loss rises with the output */
};

/* Each step has its shape and its scale; equal ones side by side are computed once. */
struct steps {
    size_t len;
    const struct step *shape[STEPS_MAX];
    long double scale[STEPS_MAX];
};

/* int (over - e^eps under)_+ of the product. Where a loss does not rise only the lower end is computed. */
struct enclosure steps_delta(const struct steps *steps, long double eps, const struct effort *effort);

#endif
