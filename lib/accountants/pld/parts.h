/*
 * The parts of a data set whose groups take turns. Each part is a separate mechanism, and its privacy depends on the
 * column norms of its rounds. A data set without groups is one part.
 *
 * SPDX-License-Identifier: GPL-3.0-or-later
 */
#ifndef EPS_ACCOUNTANTS_PLD_PARTS_H
#define EPS_ACCOUNTANTS_PLD_PARTS_H

#include "lib/accountants/accountant.h"
#include "lib/accountants/pld/pairs.h"

/* Norms whose relative difference is less than this multiple of the tolerance form one class. The upper estimate takes
 * the largest norm of a class, the lower estimate the least. */
#define EPS__SAME_NORM 1e-3

/* The rounds of one part. */
struct eps__pld_part {
    double *norms; /* column norms in descending order */
    size_t len;
    size_t times; /* the number of rounds per norm */
};

struct eps__pld_parts {
    struct eps__pld_part *items;
    size_t len;
};

/* Finds every part that may be the worst. Returns false if memory runs out; else the caller clears *parts. */
bool eps__pld_parts_find(struct eps__pld_parts *parts, const struct eps__setting *setting);
void eps__pld_parts_clear(struct eps__pld_parts *parts);

/* Adds all steps of one part at sigma. Without sampling, and for a last iterate, this is a single step.
 * EPS_NO_MEMORY. */
enum eps_status eps__pld_part_compose(const struct eps__step_sink *sink, const struct eps__setting *setting,
                                      const struct eps__step_pairs *pairs, enum eps_direction direction, double sigma,
                                      const struct eps__pld_part *part);

#endif
