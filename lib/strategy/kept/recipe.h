/*
 * What determines a strategy before it is scaled: the matrix and the workload of a job, written as bytes and read back.
 * The bytes are the key under which an optimised factorisation is cached, and the means to rebuild any factorisation.
 *
 * Thread-compatible.
 *
 * SPDX-License-Identifier: GPL-3.0-or-later
 */
#ifndef EPS_STRATEGY_KEPT_RECIPE_H
#define EPS_STRATEGY_KEPT_RECIPE_H

#include "lib/epsilon.h"
#include "lib/strategy/kept/record.h"

/* A mechanism that owns its arrays. Only n, matrix, workload and some sampling are filled in, with normalization
 * none. */
struct eps__recipe {
    struct eps_mechanism mechanism;
};

/* Appends the recipe of a mechanism to a record. */
void eps__recipe_write(struct eps__record *out, const struct eps_mechanism *mechanism);
/* False: not a recipe, or no memory. The caller clears it in either case. */
bool eps__recipe_read(struct eps__recipe *out, struct eps__record *from);
void eps__recipe_clear(struct eps__recipe *recipe);

#endif
