/*
 * The table of the families, and functions on a matrix's row.
 *
 * SPDX-License-Identifier: GPL-3.0-or-later
 */
#include "lib/strategy/families/family.h"
#include "lib/strategy/strategy.h"

/* One row per family. */
/* clang-format off */
#define FAMILIES(row)        \
    row(identity)            \
    row(toeplitz)            \
    row(dense)               \
    row(square_root)         \
    row(inverse_square_root) \
    row(banded)              \
    row(banded_inverse)      \
    row(blt)                 \
    row(optimal)             \
    row(tree)                \
    row(fourier)             \
    row(stored)
/* clang-format on */

#define DECLARE(name) extern const struct eps__family eps__family_##name;
FAMILIES(DECLARE)

#define ADDRESS(name) &eps__family_##name,
static const struct eps__family *const table[] = {FAMILIES(ADDRESS)};

enum { ROWS = sizeof table / sizeof *table };

_Static_assert((int)ROWS == (int)EPS_FAMILY_COUNT, "each family must have one row");

static const struct eps__family *find(enum eps_family family)
{
    for (size_t i = 0; i < ROWS; i++)
        if (table[i]->family == family)
            return table[i];
    return NULL;
}

const struct eps__family *eps__family_of(const struct eps_matrix *matrix)
{
    static const struct eps__family unknown = {.family = EPS_FAMILY_COUNT};
    const struct eps__family *family = find(matrix->family);
    return family ? family : &unknown;
}

bool eps_serves_family(enum eps_family family)
{
    const struct eps__family *row = find(family);
    return row && (row->build || row->kept);
}

const char *eps_family_name(enum eps_family family)
{
    const struct eps__family *row = find(family);
    return row ? row->name : NULL;
}

bool eps__strategy_is_optimised(const struct eps_matrix *matrix)
{
    const struct eps__family *family = eps__family_of(matrix);
    return family->optimised && family->optimised(matrix);
}
