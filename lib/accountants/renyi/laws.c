/*
 * The class of a mechanism's law: the first of law.h's table that it concerns.
 *
 * SPDX-License-Identifier: GPL-3.0-or-later
 */
#include "lib/accountants/renyi/law.h"

#define ADDRESS(name) &eps__renyi_##name,
static const struct eps__renyi_law_class *const classes[] = {EPS__RENYI_LAW_CLASSES(ADDRESS)};

const struct eps__renyi_law_class *eps__renyi_law_class_of(const struct eps__setting *setting)
{
    for (size_t i = 0; i < sizeof classes / sizeof *classes; i++)
        if (classes[i]->concerns(setting))
            return classes[i];
    return NULL;
}
