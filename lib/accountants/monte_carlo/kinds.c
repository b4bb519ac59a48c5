/*
 * The table of what Monte Carlo draws from: one row a kind.
 *
 * SPDX-License-Identifier: GPL-3.0-or-later
 */
#include "lib/accountants/monte_carlo/law.h"

/* clang-format off */
#define KINDS(row)     \
    row(truncated)     \
    row(b_min_sep)     \
    row(balls_in_bins) \
    row(poisson)
/* clang-format on */

#define ADDRESS(name) &eps__mc_##name,
static const struct eps__mc_kind *const kinds[] = {KINDS(ADDRESS)};

const struct eps__mc_kind *eps__mc_kind_of(const struct eps_mechanism *mechanism)
{
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++)
        if (kinds[i]->concerns(mechanism))
            return kinds[i];
    return NULL;
}
