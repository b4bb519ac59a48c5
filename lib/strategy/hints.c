/*
 * What a user should know about a strategy beside its numbers, in sentences for result.hints.
 *
 * SPDX-License-Identifier: GPL-3.0-or-later
 */
#include <stdio.h>

#include "lib/strategy/decoder.h"
#include "lib/strategy/families/family.h"

static void write_missing(char *out, size_t size, const struct eps_strategy *s)
{
    const double *inverse = NULL;
    bool found = eps__strategy_inverse(NULL, &inverse, NULL, s) == EPS_OK && inverse;
    snprintf(out, size,
             found
                 ? "error is null: the rows of A C^-1 span more orders of magnitude than doubles hold, or than can be "
                   "computed for so many steps"
                 : "error is null: C has no inverse that doubles can hold");
}

bool eps__strategy_hint(char *out, size_t size, const struct eps_strategy *strategy,
                        const struct eps_mechanism *mechanism, bool error_defined, size_t index)
{
    /* The gap asked for is not known of a stored factorisation. */
    if (!eps__family_of(&mechanism->matrix)->kept && strategy->optimality_gap > mechanism->matrix.gap && index-- == 0) {
        snprintf(
            out, size,
            "the loss of the factorisation is proven to be within %.2g of the least one, relative; matrix.gap asks for "
            "%.2g, which %zu iterations in double precision did not reach",
            strategy->optimality_gap, mechanism->matrix.gap, strategy->iterations);
        return true;
    }
    if (!error_defined && index == 0) {
        write_missing(out, size, strategy);
        return true;
    }
    return false;
}
