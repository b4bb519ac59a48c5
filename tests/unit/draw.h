/*
 * Random dominating pairs and discretisation plans for the property tests, from a state that the caller seeds and
 * prints, with the same result on every machine.
 *
 * SPDX-License-Identifier: GPL-3.0-or-later
 */
#ifndef TESTS_UNIT_DRAW_H
#define TESTS_UNIT_DRAW_H

#include <stdint.h>

#include "lib/pld/pld.h"

enum { DRAW_ATOMS = 6 };

/* A pair and its arrays: do not copy. */
struct draw_pair {
    double numerator_weight[DRAW_ATOMS], numerator_shift[DRAW_ATOMS];
    double denominator_weight[DRAW_ATOMS], denominator_shift[DRAW_ATOMS];
    struct eps__pair pair;
};

enum draw_kind { DRAW_REMOVE, DRAW_ADD, DRAW_REPLACE, DRAW_ANY, DRAW_GAUSSIAN, DRAW_KINDS };

double draw_unit(uint64_t *state); /* in [0, 1) */
double draw_between(uint64_t *state, double low, double high);
double draw_log(uint64_t *state, double low, double high); /* log-uniform */
uint64_t draw_below(uint64_t *state, uint64_t bound);
void draw_pair(uint64_t *state, struct draw_pair *drawn, enum draw_kind kind, double least_weight, double most_shift);

/* The pair of N(shift, 1) with probability p, else N(0, 1), against N(0, 1); or the two exchanged. */
void subsampled_pair(struct draw_pair *drawn, double p, double shift, bool add);

/* eps__pld_build() for a step of this one pair. */
enum eps_status build_pair(struct eps__pld *pld, const struct eps__pair *pair, const struct eps__pld_plan *plan,
                           enum eps__estimate estimate);

/* A sensible plan for composing `total` such steps at a tilt, `fraction` of a tilted deviation as the spacing. */
void plan_for(struct eps__pld_plan *plan, const struct eps__pair *pair, double tilt, double total, double fraction);

#endif
