/*
 * Panels: step PLDs, built in parallel and composed around one epsilon; in levels (levels.c) if there are many steps.
 *
 * SPDX-License-Identifier: GPL-3.0-or-later
 */
#include "lib/pld/compose/composition_internal.h"

#include <assert.h>
#include <math.h>
#include <stdlib.h>

#include "lib/numerics/normal.h"

void eps__slot_release(struct eps__panel_slot *slot)
{
    for (size_t i = 0; i < slot->panels_len; i++)
        eps__panel_clear(&slot->panels[i]);
    free(slot->panels);
    free(slot->log_counts);
    free(slot->bound_tilts);
    free(slot->bound_moments);
    eps__pld_clear(&slot->pld);
    slot->panels = NULL;
    slot->log_counts = slot->bound_tilts = slot->bound_moments = NULL;
    slot->panels_len = 0;
}

void eps__slot_clear(struct eps__panel_slot *slot)
{
    eps__slot_release(slot);
    *slot = (struct eps__panel_slot){0};
}

bool eps__slot_reserve(struct eps__panel_slot *slot, size_t len)
{
    slot->panels = calloc(len, sizeof *slot->panels);
    slot->log_counts = calloc(len, sizeof *slot->log_counts);
    slot->bound_tilts = calloc(len, sizeof *slot->bound_tilts);
    slot->bound_moments = calloc(len, sizeof *slot->bound_moments);
    slot->panels_len = slot->panels ? len : 0;
    return slot->panels && slot->log_counts && slot->bound_tilts && slot->bound_moments;
}

enum eps_status eps__build_step(const struct eps__composition *c, struct eps__pld *built, size_t k,
                                enum eps__estimate estimate, const struct eps__saddle *saddle,
                                const struct eps__expansion *expansion, double spacing)
{
    const struct eps__step *step = &c->steps.items[k];
    struct eps__pld_plan one, *plans = step->len > 1 ? calloc(step->len, sizeof *plans) : &one;
    if (!plans)
        return EPS_NO_MEMORY;
    eps__plan_common(&plans[0], c, step, saddle, spacing);
    if (expansion)
        eps__plan_expansion(&plans[0], c, expansion);
    for (size_t b = step->len; b-- > 0;) {
        plans[b] = plans[0];
        eps__plan_range(&plans[b], &step->quadratures[b], saddle);
    }
    enum eps_status status =
        eps__pld_obtain(c->context, c->cache_use, built, step->branches, plans, step->len, estimate);
    if (plans != &one)
        free(plans);
    return status;
}

/* The arguments of the tasks that build all classes. */
struct build {
    const struct eps__composition *c;
    const struct eps__saddle *saddle;
    enum eps__estimate estimate;
    double spacing;
    const struct eps__expansion *expansion; /* or NULL */
    struct eps__pld *built;
    enum eps_status *status;
};

static enum eps_status build_step(const struct build *build, size_t k)
{
    return eps__build_step(build->c, &build->built[k], k, build->estimate, build->saddle, build->expansion,
                           build->spacing);
}

static void build_task(void *arg, size_t k)
{
    const struct build *build = arg;
    build->status[k] = build_step(build, k);
}

enum eps_status eps__build_steps(const struct eps__composition *c, struct eps__pld *built, enum eps__estimate estimate,
                                 const struct eps__saddle *saddle, const struct eps__expansion *expansion,
                                 double spacing)
{
    size_t len = c->steps.len;
    enum eps_status first = EPS_OK, *status = calloc(len, sizeof *status);
    struct build build = {c, saddle, estimate, spacing, expansion, built, status};
    if (!status)
        return EPS_NO_MEMORY;
    if (len > 1 && c->context && c->context->parallel_for)
        c->context->parallel_for(c->context->user, len, build_task, &build);
    else
        for (size_t k = 0; k < len && first == EPS_OK; k++)
            first = status[k] = build_step(&build, k);
    for (size_t k = 0; k < len && first == EPS_OK; k++)
        first = status[k];
    free(status);
    return first;
}

/* The least tilt at which K(t) - t eps is at most `enough`, to within a thousandth; the best tilt if there is none. By
 * Jensen K(t) >= t mean, so no tilt below enough/(mean - eps) is large enough; the best one may be twelve decades
 * above. */
static double chernoff_tilt(const struct eps__steps *steps, double eps, double enough, struct eps__saddle *saddle)
{
    eps__saddle_moments(steps, 0, EPS__TAIL_REACH, saddle);
    double low = eps > saddle->mean ? enough / (saddle->mean - eps) : 0;
    eps__find_tilt(steps, eps, EPS__TAIL_REACH, 0, saddle);
    double high = saddle->tilt;
    if (saddle->log_moment - high * eps > enough)
        return high;
    low = fmin(low, high);
    for (int i = 0; i < 40 && high > low * 1.001; i++) {
        double middle = sqrt(low * high);
        eps__saddle_moments(steps, middle, EPS__TAIL_REACH, saddle);
        *(saddle->log_moment - middle * eps < enough ? &high : &low) = middle;
    }
    return high;
}

enum eps_status eps__chernoff_log_delta(const struct eps__composition *c, double eps, double enough, double *out)
{
    const struct eps__steps *steps = &c->steps;
    struct eps__saddle saddle;
    double high = chernoff_tilt(steps, eps, enough, &saddle);
    eps__saddle_moments(steps, high, EPS__TAIL_REACH, &saddle);
    saddle.eps = eps;
    saddle.log_delta = fmin(saddle.log_moment - high * eps, 0);
    struct eps__pld *built = calloc(steps->len, sizeof *built);
    if (!built)
        return EPS_NO_MEMORY;
    double by_rounding = 0.1 / (1 + high); /* rounding losses up by this costs 0.1 of ln delta */
    double spacing = fmax(fmin(by_rounding, 0.1 * sqrt(saddle.variance / steps->total)), by_rounding / steps->total);
    double log_bound = -high * eps, infinity = 0, size = fabs(high * eps);
    enum eps_status status = eps__build_steps(c, built, EPS__UPPER, &saddle, NULL, spacing);
    for (size_t k = 0; k < steps->len && status == EPS_OK; k++) {
        double count = (double)steps->items[k].count, error, log_moment = eps__pld_log_moment(&built[k], high, &error);
        log_bound += count * (log_moment + error + high * built[k].loss_error);
        infinity += count * built[k].infinity;
        size += count * fabs(log_moment);
    }
    if (status == EPS_OK)
        *out =
            fmin(eps__log_bound(EPS__UPPER,
                                eps__exp_bound(EPS__UPPER, log_bound, 8 * EPS__UNIT_ROUNDOFF * size) + 2 * infinity, 4),
                 0);
    for (size_t k = 0; k < steps->len; k++)
        eps__pld_clear(&built[k]);
    free(built);
    return status;
}

enum eps_status eps__compose_slot(const struct eps__composition *c, struct eps__panel_slot *slot,
                                  const struct eps__saddle *saddle, double spacing)
{
    const struct eps__steps *steps = &c->steps;
    struct eps__compose_plan plan = eps__plan_compose(c, saddle);
    if (steps->total == 1) {
        slot->single = true;
        return eps__build_steps(c, &slot->pld, slot->estimate, saddle, NULL, spacing);
    }
    if (!eps__slot_reserve(slot, 1))
        return EPS_NO_MEMORY;
    size_t levels = eps__levels(c, saddle, spacing);
    if (levels > 1)
        return eps__compose_levels(c, slot->panels, levels, slot->estimate, saddle, spacing, &plan);
    enum eps_status status = EPS_NO_MEMORY;
    struct eps__pld *built = calloc(steps->len, sizeof *built);
    struct eps__pld_power *powers = calloc(steps->len, sizeof *powers);
    if (!built || !powers)
        goto out;
    status = eps__build_steps(c, built, slot->estimate, saddle, NULL, spacing);
    if (status != EPS_OK)
        goto out;
    for (size_t k = 0; k < steps->len; k++)
        powers[k] = (struct eps__pld_power){&built[k], steps->items[k].count};
    status = eps__compose(c->context, slot->panels, powers, steps->len, &plan);
out:
    for (size_t k = 0; built && k < steps->len; k++)
        eps__pld_clear(&built[k]);
    free(built);
    free(powers);
    return status;
}

/* The contribution of decisive losses: the gain minus (e^eps - 1) some. */
static double decisive_at(const struct eps__panel_slot *slot, double eps)
{
    double grown = eps > 1 ? eps + log1p(-exp(-eps)) : log(expm1(eps));
    double size =
        isinf(slot->decisive_log_some) ? 0 : EPS__UNIT_ROUNDOFF * (4 + 4 * eps + 2 * fabs(slot->decisive_log_some));
    double taken = eps__exp_bound(eps__other(slot->estimate), grown + slot->decisive_log_some, size);
    return taken > slot->decisive_gain ? 0 : slot->decisive_gain - taken; /* keeps NAN */
}

double eps__slot_log_delta(const struct eps__panel_slot *slot, double eps)
{
    double sum = 0;
    if (slot->single)
        return eps__pld_log_delta(&slot->pld, eps);
    assert(slot->panels_len != 1 || slot->remainder == 0); /* an expansion has terms with and without jumps */
    if (slot->panels_len == 1 && !(slot->decisive_gain > 0))
        return eps__panel_log_delta(slot->panels, eps);
    for (size_t i = 0; i < slot->panels_len; i++) {
        double log_term = eps__certain(
            slot->estimate, slot->panels[i].len ? eps__panel_log_delta(&slot->panels[i], eps) + slot->log_counts[i]
                                                : slot->bound_moments[i] - slot->bound_tilts[i] * eps);
        if (log_term == -INFINITY)
            continue;
        sum += eps__exp_bound(slot->estimate, log_term,
                              4 * EPS__UNIT_ROUNDOFF * (fabs(log_term) + fabs(slot->log_counts[i])));
    }
    sum += slot->remainder;
    sum += slot->decisive_gain > 0 ? decisive_at(slot, eps) : 0;
    return fmin(eps__certain(slot->estimate, eps__log_bound(slot->estimate, sum, 8)), 0);
}
