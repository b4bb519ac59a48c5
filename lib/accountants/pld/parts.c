/*
 * Finds the parts of a data set that may be the worst, and adds their steps to a composition.
 *
 * SPDX-License-Identifier: GPL-3.0-or-later
 */
#include "lib/accountants/pld/parts.h"

#include <assert.h>
#include <math.h>
#include <stdlib.h>

#include "lib/sampling/sampling.h"

static void part_clear(struct eps__pld_part *part)
{
    free(part->norms);
    *part = (struct eps__pld_part){0};
}

static int descending(const void *a, const void *b)
{
    double left = *(const double *)a, right = *(const double *)b;
    return (left < right) - (left > right);
}

static bool part_of(struct eps__pld_part *part, const struct eps_strategy *strategy, size_t n, size_t first,
                    size_t groups)
{
    size_t rounds = (n - 1 - first) / groups + 1;
    /* The columns of a diagonal Toeplitz strategy have one norm. */
    bool alike = eps_strategy_is_toeplitz(strategy) && eps__strategy_is_diagonal(strategy);
    part->len = alike ? 1 : rounds;
    part->times = alike ? rounds : 1;
    part->norms = malloc(part->len * sizeof *part->norms);
    if (!part->norms)
        return false;
    for (size_t i = 0; i < part->len; i++)
        part->norms[i] = eps__strategy_column_norm(strategy, first + i * groups);
    qsort(part->norms, part->len, sizeof *part->norms, descending);
    return true;
}

/* Whether each round of `part` can be matched with a round of `by` whose norm is at least as large: then `part` is
 * never the worst. */
static bool dominated(const struct eps__pld_part *part, const struct eps__pld_part *by)
{
    assert(part->times == by->times);
    if (part->len > by->len)
        return false;
    for (size_t i = 0; i < part->len; i++)
        if (part->norms[i] > by->norms[i])
            return false;
    return true;
}

void eps__pld_parts_clear(struct eps__pld_parts *parts)
{
    for (size_t i = 0; i < parts->len; i++)
        part_clear(&parts->items[i]);
    free(parts->items);
    *parts = (struct eps__pld_parts){0};
}

bool eps__pld_parts_find(struct eps__pld_parts *parts, const struct eps__setting *setting)
{
    const struct eps_mechanism *mechanism = &setting->job->mechanism;
    size_t groups = eps__sampling_groups(mechanism), n = mechanism->n;
    size_t candidates = eps_strategy_is_toeplitz(setting->strategy) ? 1 : eps__sampling_parts(mechanism);
    parts->items = calloc(candidates, sizeof *parts->items);
    if (!parts->items)
        return false;
    for (size_t first = 0; first < candidates; first++) {
        struct eps__pld_part part;
        bool needed = true;
        if (!part_of(&part, setting->strategy, n, first, groups)) {
            eps__pld_parts_clear(parts);
            return false;
        }
        for (size_t i = 0; i < parts->len && needed; i++)
            needed = !dominated(&part, &parts->items[i]);
        if (needed)
            parts->items[parts->len++] = part;
        else
            part_clear(&part);
    }
    return true;
}

static enum eps_status add_rounds(const struct eps__step_sink *sink, const struct eps__setting *setting,
                                  const struct eps__step_pairs *pairs, enum eps_direction direction, double sigma,
                                  const struct eps__pld_part *part)
{
    double same = 1 - EPS__SAME_NORM * setting->job->query.accountant.tolerance;
    /* The computed norm, which is an upper bound, exceeds the true one by its rounding, at most n units. */
    double rounding = 4 * (double)(setting->job->mechanism.n + 3);
    enum eps_status status = EPS_OK;
    for (size_t i = 0, run; i < part->len && part->norms[i] > 0 && status == EPS_OK; i += run) {
        double largest = part->norms[i];
        for (run = 1; i + run < part->len && part->norms[i + run] >= largest * same; run++)
            ;
        double least = part->norms[i + run - 1];
        status = eps__step_pairs_add(sink, pairs, direction, eps__lower(least / sigma, rounding),
                                     eps__raise(largest / sigma, 4), run * part->times);
    }
    return status;
}

enum eps_status eps__pld_part_compose(const struct eps__step_sink *sink, const struct eps__setting *setting,
                                      const struct eps__step_pairs *pairs, enum eps_direction direction, double sigma,
                                      const struct eps__pld_part *part)
{
    const struct eps_sampling *sampling = &setting->job->mechanism.sampling;
    const struct eps_strategy *strategy = setting->strategy;
    double lower = setting->sensitivity.lower, upper = setting->sensitivity.value;
    if (eps__sampling_random(&setting->job->mechanism) && !sampling->last_iterate)
        return add_rounds(sink, setting, pairs, direction, sigma, part);
    if (sampling->last_iterate) {
        double root = sqrt((double)setting->job->mechanism.n);
        lower = eps__strategy_column_norm_lower(strategy, 0) / root;
        upper = eps__strategy_column_norm(strategy, 0) / root;
    }
    return eps__step_pairs_add(sink, pairs, direction, eps__lower(lower / sigma, 8), eps__raise(upper / sigma, 8), 1);
}
