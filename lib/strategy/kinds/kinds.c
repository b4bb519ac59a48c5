/*
 * The table of the kinds.
 *
 * SPDX-License-Identifier: GPL-3.0-or-later
 */
#include "lib/strategy/kinds/kinds.h"

#include <string.h>

static const struct eps__strategy_kind *const table[] = {
    &eps__strategy_toeplitz, &eps__strategy_dense, &eps__strategy_tree, &eps__strategy_fourier, &eps__strategy_banded,
};

const struct eps__strategy_kind *eps__kind_named(const char *name, size_t size)
{
    for (size_t i = 0; i < sizeof table / sizeof *table; i++)
        if (strncmp(table[i]->name, name, size) == 0)
            return table[i];
    return NULL;
}
