/*
 * What a participation implies for the columns of C, whichever rule bounds them.
 *
 * SPDX-License-Identifier: GPL-3.0-or-later
 */
#include "lib/strategy/sensitivity/sensitivity.h"

struct eps__target eps__target_told(const struct eps_mechanism *mechanism)
{
    if (mechanism->matrix.epochs <= 1)
        return (struct eps__target){false, false};
    return (struct eps__target){.separated = !eps__sampling_worst(mechanism).fixed,
                                .sampled = eps__sampling_random(mechanism)};
}

size_t eps__participation_starts(const struct eps__participation *participation, size_t n)
{
    size_t whole = n - (participation->epochs - 1) * participation->separation;
    size_t starts = whole > participation->separation ? whole : participation->separation;
    return starts < n ? starts : n;
}
