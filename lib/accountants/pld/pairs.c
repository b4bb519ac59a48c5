/*
 * Converts a scheme's pairs (sampling/pairs.h) into pairs of one-dimensional Gaussian mixtures for a given column norm.
 * The mass of trimmed atoms is moved so that each estimate remains a bound on its side.
 *
 * SPDX-License-Identifier: GPL-3.0-or-later
 */
#include "lib/accountants/pld/pairs.h"

#include <assert.h>
#include <stdlib.h>

/* ------------------------------------------------------------ mixtures */

/* The shift of one step's mean by an example: `unit` times a draw from the law, in units of sigma. */
struct shifts {
    bool present;
    const struct eps__law *law;
    double unit;
};

/* N(0, 1) or, if shifts are present, the mixture of N(j unit, 1) over the atoms j of the law. Larger shifts dominate
 * smaller ones (TPS lemma 2.4), which decides where the mass of trimmed atoms goes for each estimate. */
static bool mixture_of(struct eps__mixture *mixture, const struct shifts *shifts, bool numerator,
                       enum eps__estimate estimate, double *lost)
{
    const struct eps__law *law = shifts->law;
    if (!shifts->present) {
        if (!eps__mixture_alloc(mixture, 1))
            return false;
        mixture->weight[0] = 1;
        mixture->whole = true;
        return true;
    }
    double trimmed = law->lost_low + law->lost_high;
    bool spare = law->first > 0 && trimmed > 0 && estimate == EPS__LOWER && !numerator;
    if (!eps__mixture_alloc(mixture, law->len + (spare ? 1 : 0)))
        return false;
    mixture->whole = true;
    for (size_t i = 0; i < law->len; i++) {
        mixture->weight[i] = law->weight[i];
        mixture->shift[i] = (double)(law->first + i) * shifts->unit;
    }
    if (numerator && estimate == EPS__UPPER) {
        mixture->weight[0] += law->lost_low;
        mixture->whole = law->lost_low == 0;
        mixture->missing = law->lost_high;
        *lost += law->lost_high;
    } else if (!numerator && estimate == EPS__LOWER) {
        mixture->weight[spare ? law->len : 0] += trimmed;
    } else {
        mixture->missing = trimmed;
    }
    return true;
}

static bool make_branch(struct eps__branch *branch, const struct eps__alternative *alternative,
                        enum eps_direction direction, double unit_lower, double unit_upper)
{
    for (enum eps__estimate estimate = EPS__UPPER; estimate <= EPS__LOWER; estimate++) {
        const struct eps__law *law = &alternative->law[estimate];
        double unit = estimate == EPS__UPPER ? unit_upper : unit_lower;
        const struct shifts with = {alternative->with > 0, law, alternative->with * unit};
        const struct shifts without = {alternative->without > 0, law, alternative->without * unit};
        bool remove = direction == EPS_REMOVE;
        struct eps__pair *pair = &branch->pair[estimate];
        branch->weight[estimate] = alternative->weight[estimate];
        pair->weight_error = law->weight_error;
        if (!mixture_of(&pair->numerator, remove ? &with : &without, true, estimate, &pair->lost) ||
            !mixture_of(&pair->denominator, remove ? &without : &with, false, estimate, &pair->lost))
            return false;
    }
    return true;
}

static bool make_side(struct eps__outcome_branches *side, const struct eps__outcome *outcome,
                      enum eps_direction direction, double unit_lower, double unit_upper)
{
    *side = (struct eps__outcome_branches){.probability = outcome->probability, .len = outcome->len};
    side->branches = calloc(outcome->len + 1, sizeof *side->branches);
    bool made = side->branches != NULL;
    for (size_t i = 0; i < outcome->len && made; i++)
        made = make_branch(&side->branches[i], &outcome->items[i], direction, unit_lower, unit_upper);
    return made;
}

static void clear_side(struct eps__outcome_branches *side)
{
    for (size_t i = 0; side->branches && i < side->len; i++)
        eps__branch_clear(&side->branches[i]);
    free(side->branches);
}

enum eps_status eps__step_pairs_add(const struct eps__step_sink *sink, const struct eps__step_pairs *pairs,
                                    enum eps_direction direction, double unit_lower, double unit_upper, uint64_t count)
{
    struct eps__outcome_branches often = {0}, rarely = {0};
    enum eps_status status = EPS_NO_MEMORY;
    assert(sink->outcomes || pairs->rarely.len == 0); /* a composition would leave the rare outcome out */
    if (make_side(&often, &pairs->often, direction, unit_lower, unit_upper) &&
        make_side(&rarely, &pairs->rarely, direction, unit_lower, unit_upper)) {
        if (sink->outcomes) {
            status = eps__outcomes_add(sink->outcomes, &often, &rarely, count);
        } else {
            assert(sink->times >= 1 && count <= UINT64_MAX / sink->times);
            status = eps__composition_add(sink->composition, often.branches, often.len, count * sink->times);
            often = (struct eps__outcome_branches){0}; /* taken over */
        }
    }
    clear_side(&often);
    clear_side(&rarely);
    return status;
}
