/*
 * The matrix from which families make those that other code asks them for.
 *
 * SPDX-License-Identifier: GPL-3.0-or-later
 */
#include "lib/base/members.h"
#include "lib/strategy/families/family.h"

struct eps_matrix eps__matrix_default(void)
{
    struct eps_matrix matrix;
    eps__members_init(&eps__matrix_object, &matrix);
    return matrix;
}
