/*
 * What determines a strategy before it is scaled: the matrix and the workload of a job, as bytes and back. The bytes
 * are both the key under which an optimised factorisation is cached and the way to build any factorisation again.
 *
 * Thread-compatible.
 *
 * SPDX-License-Identifier: GPL-3.0-or-later
 */
#ifndef EPS_STRATEGY_KEPT_RECIPE_H
#define EPS_STRATEGY_KEPT_RECIPE_H

#include "lib/epsilon.h"
#include "lib/strategy/kept/record.h"

/* A mechanism that owns its arrays; only n, matrix and workload are filled in, with normalization none. */
struct eps__recipe {
    struct eps_mechanism mechanism;
};

void eps__recipe_write(struct eps__record *out, const struct eps_mechanism *mechanism);
/* False: no recipe, or no memory. The caller clears it in any case. */
bool eps__recipe_read(struct eps__recipe *out, struct eps__record *from);
void eps__recipe_clear(struct eps__recipe *recipe);

#endif
