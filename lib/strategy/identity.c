/*
 * identity: independent noise, DP-SGD. It is the Toeplitz matrix with one coefficient, so it costs one number
 * whatever n is, and shares its id with every other way of asking for I.
 *
 * SPDX-License-Identifier: GPL-3.0-or-later
 */
#include <stdlib.h>

#include "lib/strategy/internal.h"

enum eps_status eps__build_identity(const struct eps_context *context, struct eps_strategy *s, struct eps_error *error,
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
