/*
 * The pairs of Poisson sampling. Untruncated: a draw of the user's examples against none, or against as many other
 * examples (replace_one).
 *
 * Truncated: a public outcome says whether the other examples fill the batch. If they do, one more example replaces
 * another (TPS theorems 3.1, 3.3, 3.4). If the batch is drawn alike for both data sets (zero_out, replace_one), the
 * full batch has a second pair: revealing whether the example is in the batch leaves one Gaussian, or no difference
 * (S4). The first pair is better if the example is seldom in the batch, the second if it mostly is.
 *
 * SPDX-License-Identifier: GPL-3.0-or-later
 */
#include "lib/sampling/pairs.h"

#include <assert.h>

#include "lib/sampling/truncation.h"

enum eps_status eps__outcome_add(struct eps__outcome *outcome, const struct eps__alternative *shape, uint64_t amplitude,
                                 struct eps__interval p, double log_floor)
{
    assert(outcome->len < sizeof outcome->items / sizeof *outcome->items);
    struct eps__alternative *made = &outcome->items[outcome->len++];
    *made = *shape;
    enum eps_status status = eps__binomial_law(&made->law[EPS__UPPER], amplitude, p.upper, log_floor);
    return status == EPS_OK ? eps__binomial_law(&made->law[EPS__LOWER], amplitude, p.lower, log_floor) : status;
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

/* ------------------------------------------------------------ Poisson */

static uint64_t poisson_amplitude(const struct eps_mechanism *mechanism)
{
    uint64_t steps = mechanism->sampling.last_iterate ? mechanism->n : 1;
    return steps * mechanism->sampling.examples_per_user;
}

static size_t poisson_variants(const struct eps_mechanism *mechanism)
{
    return mechanism->sampling.truncation && mechanism->adjacency != EPS_ADJACENCY_ADD_REMOVE ? 2 : 1;
}

/* An untruncated batch, or a truncated one that the other examples do not fill. */
static enum eps_status open_batch(struct eps__outcome *outcome, const struct eps_mechanism *mechanism,
                                  uint64_t amplitude, const struct eps__step_setting *step)
{
    bool replace = mechanism->adjacency == EPS_ADJACENCY_REPLACE_ONE;
    const struct eps__alternative open = {.weight = {1, 1}, .with = 1, .without = replace ? 1 : 0};
    return eps__outcome_add(outcome, &open, amplitude, (struct eps__interval){step->p, step->p}, step->log_floor);
}

static enum eps_status full_batch(struct eps__outcome *outcome, const struct eps_mechanism *mechanism,
                                  struct eps__interval q, bool shown, double log_floor)
{
    static const double without[EPS_ADJACENCY_COUNT] = {
        [EPS_ADJACENCY_ZERO_OUT] = 1, [EPS_ADJACENCY_ADD_REMOVE] = 0, [EPS_ADJACENCY_REPLACE_ONE] = 2};
    if (!shown) {
        const struct eps__alternative full = {.weight = {1, 1}, .with = 2, .without = without[mechanism->adjacency]};
        return eps__outcome_add(outcome, &full, 1, q, log_floor);
    }
    const struct eps__alternative in = {.weight = {q.upper, q.lower}, .with = without[mechanism->adjacency]},
                                  out = {.weight = {(1 - q.lower) * (1 + 0x1p-52), (1 - q.upper) * (1 - 0x1p-52)}};
    enum eps_status status = eps__outcome_add(outcome, &in, 1, (struct eps__interval){1, 1}, log_floor);
    return status == EPS_OK ? eps__outcome_add(outcome, &out, 1, (struct eps__interval){0, 0}, log_floor) : status;
}

static enum eps_status truncated_make(struct eps__step_pairs *pairs, const struct eps_mechanism *mechanism,
                                      const struct eps__step_setting *step)
{
    struct eps__truncation t = eps__truncate(step->dataset, step->p, mechanism->sampling.max_batch_size);
    bool mostly_full = t.full.upper > t.open.upper;
    struct eps__outcome *open = mostly_full ? &pairs->rarely : &pairs->often,
                        *full = mostly_full ? &pairs->often : &pairs->rarely;
    enum eps_status status = EPS_OK;
    open->probability = t.open;
    full->probability = t.full;
    if (t.open.upper > 0)
        status = open_batch(open, mechanism, 1, step);
    if (status == EPS_OK && t.full.upper > 0)
        status = full_batch(full, mechanism, t.q, step->variant == 1, step->log_floor);
    return status;
}

static enum eps_status poisson_make(struct eps__step_pairs *pairs, const struct eps_mechanism *mechanism,
                                    const struct eps__step_setting *step)
{
    *pairs = (struct eps__step_pairs){0};
    if (mechanism->sampling.truncation)
        return truncated_make(pairs, mechanism, step);
    pairs->often.probability = (struct eps__interval){1, 1};
    return open_batch(&pairs->often, mechanism, poisson_amplitude(mechanism), step);
}

const struct eps__pairs eps__poisson_pairs = {.drawn = EPS__EVERY_ADJACENCY,
                                              .attained = EPS__AGAINST_NOISE,
                                              .truncated = EPS__EVERY_ADJACENCY,
                                              .amplitude = poisson_amplitude,
                                              .variants = poisson_variants,
                                              .make = poisson_make};
