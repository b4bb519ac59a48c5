/*
 * The table of the classes of laws. The first row that concerns a mechanism serves it, so truncated precedes b_min_sep.
 *
 * SPDX-License-Identifier: GPL-3.0-or-later
 */
#include "lib/accountants/monte_carlo/law.h"

/* clang-format off */
#define CLASSES(row)     \
    row(truncated)     \
    row(b_min_sep)     \
    row(balls_in_bins) \
    row(poisson)
/* clang-format on */

#define ADDRESS(name) &eps__mc_##name,
static const struct eps__mc_law_class *const classes[] = {CLASSES(ADDRESS)};

const struct eps__mc_law_class *eps__mc_law_class_of(const struct eps_mechanism *mechanism)
{
    for (size_t i = 0; i < sizeof classes / sizeof *classes; i++)
        if (classes[i]->concerns(mechanism))
            return classes[i];
    return NULL;
}
