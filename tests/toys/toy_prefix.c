/*
 * A family for tests/check_toys.py: the Toeplitz matrix with the two bands 1 and 1/2.
 *
 * SPDX-License-Identifier: GPL-3.0-or-later
 */
#include <stdlib.h>

#include "lib/strategy/failures.h"
#include "lib/strategy/families/family.h"
#include "lib/strategy/kinds/kinds.h"

static size_t bands(const struct eps_matrix *matrix, size_t block)
{
    (void)matrix;
    return block < 2 ? block : 2;
}

static enum eps_status build(const struct eps_context *context, struct eps_strategy *s, struct eps_error *error,
                             const struct eps_mechanism *mechanism)
{
    (void)context;
    double *column = malloc(2 * sizeof *column);
    if (!column)
        return eps__strategy_no_memory(error);
    column[0] = 1;
    column[1] = mechanism->matrix.toy_tail;
    eps__toeplitz_steal(s, column, bands(&mechanism->matrix, s->block));
    return EPS_OK;
}

static void forecast(struct eps__forecast *c, const struct eps_mechanism *mechanism)
{
    (void)mechanism;
    c->bands = 2;
}

const struct eps__family eps__family_toy_prefix = {
    .family = EPS_FAMILY_TOY_PREFIX,
    .name = "toy_prefix",
    .bands = bands,
    .build = build,
    .forecast = forecast,
};
