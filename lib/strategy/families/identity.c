/*
 * identity: independent noise, DP-SGD. It is the Toeplitz matrix with one coefficient, so it takes one number for any
 * n, and has the same id as any other request for the identity.
 *
 * SPDX-License-Identifier: GPL-3.0-or-later
 */
#include <stdlib.h>

#include "lib/strategy/failures.h"
#include "lib/strategy/families/family.h"
#include "lib/strategy/kinds/kinds.h"

static enum eps_status build(const struct eps_context *context, struct eps_strategy *s, struct eps_error *error,
                             const struct eps_mechanism *mechanism)
{
    (void)context;
    (void)mechanism;
    double *one = malloc(sizeof *one);
    if (!one)
        return eps__strategy_no_memory(error);
    *one = 1;
    eps__toeplitz_steal(s, one, 1);
    return EPS_OK;
}

static size_t bands(const struct eps_matrix *matrix, size_t block)
{
    (void)matrix;
    (void)block;
    return 1;
}

static size_t buffers(const struct eps_matrix *matrix, size_t n)
{
    (void)matrix;
    (void)n;
    return 0;
}

const struct eps__family eps__family_identity = {
    .family = EPS_FAMILY_IDENTITY,
    .name = "identity",
    .diagonal = true,
    .bands = bands,
    .build = build,
    .planned = eps__planned_once,
    .buffers = buffers,
};
