/*
 * Poisson sampling: a draw of the user's examples against none, or against as many others (replace_one). A truncated batch:
 * a public coin says whether the others fill it; if they do, one more example is one instead of another (TPS theorems
 * 3.1, 3.3, 3.4). Where the batch is drawn alike for both data sets (zero_out, replace_one) there is a second pair for the
 * full batch: to show whether the example is in it leaves one Gaussian, or nothing (sampling/LEMMAS.md, L4). The first is
 * better where the example is seldom in, the second where it mostly is.
 *
 * SPDX-License-Identifier: GPL-3.0-or-later
 */
#include "lib/accountants/pld_pairs.h"

#include <stdlib.h>

#include "lib/sampling/sampling.h"
#include "lib/sampling/truncation.h"

/* ------------------------------------------------------------ mixtures */

/* How an example shifts the mean of one step: +- `unit` times a draw from the law, in units of sigma. */
struct shifts {
    bool present;
    const struct eps__law *law;
    double unit;
};

/* N(0, 1), or with shifts: the mixture over its atoms j of N(j unit, 1). Trimmed atoms go where they keep the estimate
 * on its side: larger shifts dominate smaller ones (TPS lemma 2.4). */
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

static bool make_side(struct eps__coin_side *side, const struct eps__outcome *outcome, enum eps_direction direction,
                      double unit_lower, double unit_upper)
{
    *side = (struct eps__coin_side){.probability = outcome->probability, .len = outcome->len};
    side->branches = calloc(outcome->len + 1, sizeof *side->branches);
    bool made = side->branches != NULL;
    for (size_t i = 0; i < outcome->len && made; i++)
        made = make_branch(&side->branches[i], &outcome->items[i], direction, unit_lower, unit_upper);
    return made;
}

static void clear_side(struct eps__coin_side *side)
{
    for (size_t i = 0; side->branches && i < side->len; i++)
        eps__branch_clear(&side->branches[i]);
    free(side->branches);
}

enum eps_status eps__step_pairs_add(struct eps__coins *coins, const struct eps__step_pairs *pairs,
                                    enum eps_direction direction, double unit_lower, double unit_upper, uint64_t count)
{
    struct eps__coin_side often = {0}, rarely = {0};
    enum eps_status status = EPS_NO_MEMORY;
    if (make_side(&often, &pairs->often, direction, unit_lower, unit_upper) &&
        make_side(&rarely, &pairs->rarely, direction, unit_lower, unit_upper))
        status = eps__coins_add(coins, &often, &rarely, count);
    clear_side(&often);
    clear_side(&rarely);
    return status;
}

/* ------------------------------------------------------------ alternatives */

uint64_t eps__largest_amplitude(const struct eps_mechanism *mechanism)
{
    uint64_t steps = mechanism->sampling.last_iterate ? mechanism->n : 1;
    if (!eps__sampling_random(mechanism))
        return 1;
    return steps * mechanism->sampling.examples_per_user;
}

size_t eps__step_variants(const struct eps_mechanism *mechanism)
{
    return mechanism->sampling.truncation && mechanism->adjacency != EPS_ADJACENCY_ADD_REMOVE ? 2 : 1;
}

static enum eps_status add_alternative(struct eps__outcome *outcome, const struct eps__alternative *shape,
                                       uint64_t amplitude, double p_lower, double p_upper, double log_floor)
{
    struct eps__alternative *made = &outcome->items[outcome->len++];
    *made = *shape;
    enum eps_status status = eps__binomial_law(&made->law[EPS__UPPER], amplitude, p_upper, log_floor);
    return status == EPS_OK ? eps__binomial_law(&made->law[EPS__LOWER], amplitude, p_lower, log_floor) : status;
}

/* The others do not fill the batch: Poisson sampling. */
static enum eps_status open_batch(struct eps__outcome *outcome, const struct eps_mechanism *mechanism, double p,
                                  double log_floor)
{
    bool replace = mechanism->adjacency == EPS_ADJACENCY_REPLACE_ONE;
    const struct eps__alternative open = {.weight = {1, 1}, .with = 1, .without = replace ? 1 : 0};
    return add_alternative(outcome, &open, 1, p, p, log_floor);
}

static enum eps_status full_batch(struct eps__outcome *outcome, const struct eps_mechanism *mechanism,
                                  struct eps__interval q, bool shown, double log_floor)
{
    static const double without[EPS_ADJACENCY_COUNT] = {
        [EPS_ADJACENCY_ZERO_OUT] = 1, [EPS_ADJACENCY_ADD_REMOVE] = 0, [EPS_ADJACENCY_REPLACE_ONE] = 2};
    if (!shown) {
        const struct eps__alternative full = {.weight = {1, 1}, .with = 2, .without = without[mechanism->adjacency]};
        return add_alternative(outcome, &full, 1, q.lower, q.upper, log_floor);
    }
    const struct eps__alternative in = {.weight = {q.upper, q.lower}, .with = without[mechanism->adjacency]},
                                  out = {.weight = {(1 - q.lower) * (1 + 0x1p-52), (1 - q.upper) * (1 - 0x1p-52)}};
    enum eps_status status = add_alternative(outcome, &in, 1, 1, 1, log_floor);
    return status == EPS_OK ? add_alternative(outcome, &out, 1, 0, 0, log_floor) : status;
}

static enum eps_status truncated_pairs(struct eps__step_pairs *pairs, const struct eps_mechanism *mechanism, double p,
                                       uint64_t dataset, size_t variant, double log_floor)
{
    struct eps__truncation t = eps__truncate(dataset, p, mechanism->sampling.max_batch_size);
    bool mostly_full = t.full.upper > t.open.upper;
    struct eps__outcome *open = mostly_full ? &pairs->rarely : &pairs->often,
                        *full = mostly_full ? &pairs->often : &pairs->rarely;
    enum eps_status status = EPS_OK;
    open->probability = t.open;
    full->probability = t.full;
    if (t.open.upper > 0)
        status = open_batch(open, mechanism, p, log_floor);
    if (status == EPS_OK && t.full.upper > 0)
        status = full_batch(full, mechanism, t.q, variant == 1, log_floor);
    return status;
}

enum eps_status eps__step_pairs_make(struct eps__step_pairs *pairs, const struct eps_mechanism *mechanism, double p,
                                     uint64_t dataset, size_t variant, double log_floor)
{
    *pairs = (struct eps__step_pairs){0};
    if (mechanism->sampling.truncation)
        return truncated_pairs(pairs, mechanism, p, dataset, variant, log_floor);
    /* Without sampling the sensitivity already holds the adjacency: one Gaussian against N(0, 1). */
    bool replace = eps__sampling_random(mechanism) && mechanism->adjacency == EPS_ADJACENCY_REPLACE_ONE;
    const struct eps__alternative plain = {.weight = {1, 1}, .with = 1, .without = replace ? 1 : 0};
    pairs->often.probability = (struct eps__interval){1, 1};
    return add_alternative(&pairs->often, &plain, eps__largest_amplitude(mechanism), p, p, log_floor);
}

static void clear_outcome(struct eps__outcome *outcome)
{
    for (size_t i = 0; i < outcome->len; i++)
        for (int estimate = 0; estimate < 2; estimate++)
            eps__law_clear(&outcome->items[i].law[estimate]);
    outcome->len = 0;
}

void eps__step_pairs_clear(struct eps__step_pairs *pairs)
{
    clear_outcome(&pairs->often);
    clear_outcome(&pairs->rarely);
}
