/*
 * stored: a factorisation given by its id. lib/strategy/stored.c rebuilds it.
 *
 * SPDX-License-Identifier: GPL-3.0-or-later
 */
#include <string.h>

#include "lib/strategy/families/family.h"

void eps_matrix_stored(struct eps_matrix *matrix, const char *id)
{
    *matrix = (struct eps_matrix){.family = EPS_FAMILY_STORED, .normalization = EPS_NORMALIZATION_NONE, .stamps = 1};
    strncpy(matrix->stored_id, id, sizeof matrix->stored_id - 1);
}

static size_t bands(const struct eps_matrix *matrix, size_t block)
{
    (void)matrix;
    (void)block;
    return 0;
}

static void check(struct eps__check *check, const struct eps_matrix *matrix)
{
    if (strspn(matrix->stored_id, "0123456789abcdef") != 64 || matrix->stored_id[64] != '\0')
        eps__check_fail(check, "/matrix/id",
                        "must be 64 lower-case hexadecimal digits: a factorization.id of an earlier result");
}

const struct eps__family eps__family_stored = {
    .family = EPS_FAMILY_STORED,
    .name = "stored",
    .kept = true,
    .bands = bands,
    .check = check,
};
