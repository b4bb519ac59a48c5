/*
 * MMCC by its definition (figures 1 and 2, appendix A), for few steps: what the accountant must find in the add
 * direction, and what it must lie between in the other.
 *
 * SPDX-License-Identifier: GPL-3.0-or-later
 */
#ifndef TESTS_TRUTH_MMCC_DEFINITION_H
#define TESTS_TRUTH_MMCC_DEFINITION_H

#include "tests/truth/mechanism.h"

/* The tail bound on a participation's loss, of which delta_1 over the number of pairs may be exceeded. */
enum mmcc_tail {
    MMCC_EXACT, /* the quantile of the sum itself: no valid bound is smaller */
    MMCC_SPLIT, /* the paper's: half of it for the noise, half for the participations */
};

/*
 * delta_1 and the delta(eps) of the rows composed, of the worst part: [0] rows, [1] without delta_1 where there is no
 * bad event. For a lower-triangular C >= 0 under poisson or cyclic_poisson.
 */
struct enclosure mmcc_delta(const struct truth *truth, enum eps_direction direction, enum mmcc_tail tail,
                            long double delta1, double eps, double sigma, const struct effort *effort);

/* M: pairs of a row and an entry with something above it, of the part that has the most. */
size_t mmcc_pairs(const struct truth *truth);

#endif
