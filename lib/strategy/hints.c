/*
 * Hints on a strategy, as sentences for result.hints.
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
             found ? "error is null: the rows of A C^-1 span too many orders of magnitude to be computed in double "
                     "precision"
                   : "error is null: C has no inverse in double precision");
}

bool eps__strategy_hint(char *out, size_t size, const struct eps_strategy *strategy,
                        const struct eps_mechanism *mechanism, bool error_defined, size_t index)
{
    /* The gap that was requested for a stored factorisation is not known. */
    if (!eps__family_of(&mechanism->matrix)->kept && strategy->optimality_gap > mechanism->matrix.gap && index-- == 0) {
        snprintf(
            out, size,
            "the loss of the factorisation is proven to be within a relative gap of %.2g of the optimum; matrix.gap "
            "requests %.2g, which %zu iterations in double precision did not reach",
            strategy->optimality_gap, mechanism->matrix.gap, strategy->iterations);
        return true;
    }
    if (!error_defined && index == 0) {
        write_missing(out, size, strategy);
        return true;
    }
    return false;
}
