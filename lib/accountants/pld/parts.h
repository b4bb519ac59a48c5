/*
 * The parts of a data set in groups that take turns: each is a mechanism of its own, whose privacy is that of its rounds' column
 * norms. A data set without groups is one part.
 *
 * SPDX-License-Identifier: GPL-3.0-or-later
 */
#ifndef EPS_ACCOUNTANTS_PLD_PARTS_H
#define EPS_ACCOUNTANTS_PLD_PARTS_H

#include "lib/accountants/accountant.h"
#include "lib/accountants/pld/pairs.h"

/* Norms that differ by less than this, relative to the tolerance, count as one, taken at its two ends. */
#define EPS__SAME_NORM 1e-3

/* The column norms of the rounds in which one part takes its turn, largest first, each of so many rounds. */
struct eps__pld_part {
    double *norms;
    size_t len;
    size_t times;
};

struct eps__pld_parts {
    struct eps__pld_part *items;
    size_t len;
};

/* Every part that may be the worst. False without memory; else the caller clears them. */
bool eps__pld_parts_find(struct eps__pld_parts *parts, const struct eps__setting *setting);
void eps__pld_parts_clear(struct eps__pld_parts *parts);

/* All steps of one part at sigma, or the one step that there is. EPS_NO_MEMORY. */
enum eps_status eps__pld_part_compose(const struct eps__step_sink *sink, const struct eps__setting *setting,
                                      const struct eps__step_pairs *pairs, enum eps_direction direction, double sigma,
                                      const struct eps__pld_part *part);

#endif
