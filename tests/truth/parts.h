/*
 * What the files of mechanism.h have in common.
 *
 * SPDX-License-Identifier: GPL-3.0-or-later
 */
#ifndef TESTS_TRUTH_PARTS_H
#define TESTS_TRUTH_PARTS_H

#include "tests/truth/mechanism.h"
#include "tests/truth/steps.h"

enum { PATTERNS_MOST = 4096 };

/* sensitivity.c */
struct matrix matrix_of(const struct eps_mechanism *mechanism);
long double column_square(const struct matrix *c, size_t j);
void find_sensitivity(struct truth *truth);
bool is_b_min_sep(const struct eps_mechanism *mechanism);
/* Balls in bins: 0 for other schemes; the number of patterns, and the steps of one of them, a bit each: the same bin
 * in every epoch, or any. */
size_t bins_of(const struct eps_mechanism *mechanism);
size_t bin_patterns(const struct eps_mechanism *mechanism);
size_t bin_pattern(const struct eps_mechanism *mechanism, size_t index);

/* mechanism.c */
size_t groups_of(const struct truth *truth);
size_t rounds_of(const struct truth *truth, size_t part); /* of one of the groups */
long double log_choose(size_t n, size_t k);
long double log_binomial(size_t n, long double p, size_t k);
struct points bernoulli(long double p, long double at);
struct points origin(void);
/* With the example against without it, or the other way around: outputs mirrored, so that the loss rises again. */
struct branch directed(long double weight, struct points with, struct points without, enum eps_direction direction);
/* delta of the worst of the groups, all steps of which have this shape. */
struct enclosure worst_part(const struct truth *truth, const struct step *shape, double sigma, long double eps,
                            const struct effort *effort);

/* truncated.c: whether there is a table of pairs, and its delta. */
bool has_pairs(const struct truth *truth);
struct enclosure truncated_pairs(const struct truth *truth, enum eps_direction direction, long double eps, double sigma,
                                 const struct effort *effort);

#endif
