/*
 * The class of a mechanism's law: the first of law.h's table that it concerns.
 *
 * SPDX-License-Identifier: GPL-3.0-or-later
 */
#include "lib/accountants/monte_carlo/law.h"

#define ADDRESS(name) &eps__mc_##name,
static const struct eps__mc_law_class *const classes[] = {EPS__MC_LAW_CLASSES(ADDRESS)};

const struct eps__mc_law_class *eps__mc_law_class_of(const struct eps_mechanism *mechanism)
{
    for (size_t i = 0; i < sizeof classes / sizeof *classes; i++)
        if (classes[i]->concerns(mechanism))
            return classes[i];
    return NULL;
}
