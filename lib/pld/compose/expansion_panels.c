/*
 * Proven answers by an expansion: the step PLDs are split at the cut into cores and jumps, each term is a product of
 * their powers, and the terms are added. More jumps than the terms have are bounded by their probability. If delta is
 * not so small that its digits are lost at a small tilt, the expansion only chooses the grid, and one panel has it all.
 *
 * SPDX-License-Identifier: GPL-3.0-or-later
 */
#include "lib/pld/compose/composition_internal.h"

#include <math.h>
#include <stdlib.h>

#include "lib/numerics/normal.h"

/* If ln delta was missed by less than this, only the grid is made finer; the terms and their cut are kept. */
#define LEARN_MISS 5.0
#define SLOPE_STEP 0.02 /* relative to epsilon */

bool eps__rare_jumps(const struct eps__composition *c, const struct eps__saddle *saddle)
{
    double surplus = saddle->log_moment - saddle->tilt * saddle->eps - saddle->log_delta;
    return c->steps.total > 1 && saddle->tilt > 0 && (eps__is_skew(saddle) || surplus > EPS__HEAVY_SURPLUS);
}

/* Upper: a bound on the probability of more jumps than the terms have, or of infinite loss. */
static double more_jumps(const struct eps__composition *c, const struct eps__pld *built, const struct eps__pld *cores,
                         const struct eps__pld *jumps, size_t most)
{
    double jump = 0, infinity = 0, log_total = 1e-9, more = 1;
    for (size_t k = 0; k < c->steps.len; k++) {
        double count = (double)c->steps.items[k].count, excess = eps__pld_total(&cores[k]) - 1;
        jump += count * eps__pld_total(&jumps[k]);
        infinity += count * built[k].infinity;
        log_total += count * fmax(excess, 0);
    }
    /* prod C(n_j, k_j) <= prod n_j^k_j / k_j!, so k jumps in all contribute at most jump^k / k! */
    for (size_t k = 1; k <= most + 1; k++)
        more *= jump / (double)k;
    double ratio = jump / (double)(most + 2);
    more = ratio < 1 ? more / (1 - ratio) : INFINITY;
    return eps__raise((more + infinity) * exp(log_total + jump), 1e7);
}

/* Replaces a panel by the bound E[(1 - e^{eps - L})_+] <= e^{K(t) - t eps}. */
static void bound_term(struct eps__panel_slot *slot, size_t at, const struct eps__expansion_term *term,
                       const struct eps__pld_power *powers, size_t len)
{
    double tilt = term->saddle.tilt, log_bound = term->log_count, size = fabs(term->log_count);
    for (size_t i = 0; i < len; i++) {
        double count = (double)powers[i].count, error, log_moment = eps__pld_log_moment(powers[i].pld, tilt, &error);
        log_bound += count * (log_moment + error + tilt * powers[i].pld->loss_error);
        size += count * fabs(log_moment);
    }
    slot->bound_tilts[at] = tilt;
    slot->bound_moments[at] = log_bound + 8 * EPS__UNIT_ROUNDOFF * size;
}

static enum eps_status compose_term(const struct eps__composition *c, struct eps__panel_slot *slot, size_t at,
                                    const struct eps__pld *cores, const struct eps__pld *jumps,
                                    const struct eps__expansion *expansion)
{
    const struct eps__expansion_term *term = &expansion->terms[at];
    struct eps__pld_power powers[2 * EPS__STEP_CLASSES_MAX];
    size_t len = 0;
    struct eps__saddle whole = term->saddle;
    whole.log_delta = expansion->log_delta - log((double)expansion->terms_len);
    struct eps__compose_plan plan = eps__plan_compose(c, &whole);
    slot->bound_moments[at] = -INFINITY;
    for (size_t k = 0; k < c->steps.len; k++) {
        uint64_t jumped = term->jumps[k], rest = c->steps.items[k].count - jumped;
        if ((jumped && !jumps[k].len) || (rest && !cores[k].len))
            return EPS_OK;
        if (rest)
            powers[len++] = (struct eps__pld_power){&cores[k], rest};
        if (jumped)
            powers[len++] = (struct eps__pld_power){&jumps[k], jumped};
    }
    if (term->negligible) {
        if (slot->estimate == EPS__UPPER)
            bound_term(slot, at, term, powers, len);
        return EPS_OK;
    }
    slot->log_counts[at] = term->log_count;
    return eps__compose(c->context, &slot->panels[at], powers, len, &plan);
}

/* Composes all terms at once, where a small tilt is enough for the digits of delta: one panel in place of many, and no
 * bound on more jumps. */
static enum eps_status compose_flat(const struct eps__composition *c, struct eps__panel_slot *slot,
                                    const struct eps__pld *built, const struct eps__saddle *saddle)
{
    struct eps__pld_power powers[EPS__STEP_CLASSES_MAX];
    struct eps__compose_plan plan = eps__plan_compose(c, saddle);
    for (size_t k = 0; k < c->steps.len; k++)
        powers[k] = (struct eps__pld_power){&built[k], c->steps.items[k].count};
    return eps__compose(c->context, slot->panels, powers, c->steps.len, &plan);
}

/* Adapts the cut to the grid: the mass of an atom below the cut may have been rounded up beyond it. */
static double grid_cut(const struct eps__composition *c, const struct eps__pld *built,
                       const struct eps__expansion *expansion, double spacing)
{
    double cut = expansion->cut;
    for (double further = spacing; further < 1e3 * spacing; further *= 1.5) {
        double jumps = 0;
        for (size_t k = 0; k < c->steps.len; k++)
            for (size_t i = built[k].len; i-- > 0 && eps__pld_loss(&built[k], i) > cut;)
                jumps += (double)c->steps.items[k].count * built[k].mass[i];
        if (jumps <= 1.5 * exp(expansion->log_jumps))
            break;
        cut = expansion->cut + further;
    }
    return cut;
}

static enum eps_status compose_expansion(const struct eps__composition *c, struct eps__panel_slot *slot,
                                         const struct eps__expansion *expansion, double spacing)
{
    size_t classes = c->steps.len;
    struct eps__pld *built = calloc(3 * classes, sizeof *built), *cores = built + classes, *jumps = cores + classes;
    struct eps__saddle whole;
    bool flat = eps__flat_tilt(c, expansion, slot->centre, &whole);
    if (!built || !eps__slot_reserve(slot, flat ? 1 : expansion->terms_len)) {
        free(built);
        return EPS_NO_MEMORY;
    }
    struct eps__saddle core = expansion->terms[0].saddle;
    core.log_delta = expansion->log_delta;
    core.z_excess = eps__cut_excess(&c->steps, expansion->log_delta, c->accuracy.tolerance);
    enum eps_status status = eps__build_steps(c, built, slot->estimate, &core, expansion, spacing);
    if (flat) {
        status = status == EPS_OK ? compose_flat(c, slot, built, &whole) : status;
        goto out;
    }
    double cut = status == EPS_OK ? grid_cut(c, built, expansion, spacing) : 0;
    for (size_t k = 0; k < classes && status == EPS_OK; k++)
        status = eps__pld_split(&built[k], cut, &cores[k], &jumps[k]);
    if (status == EPS_OK && slot->estimate == EPS__UPPER)
        slot->remainder = more_jumps(c, built, cores, jumps, expansion->most);
    for (size_t i = 0; i < expansion->terms_len && status == EPS_OK; i++)
        status = compose_term(c, slot, i, cores, jumps, expansion);
out:
    for (size_t k = 0; k < 3 * classes; k++)
        eps__pld_clear(&built[k]);
    free(built);
    return status;
}

/* Sets how far from eps the slot serves: within the deviations of its terms, and where the negligible terms are
 * negligible. */
static void set_reach(struct eps__panel_slot *slot, const struct eps__expansion *expansion)
{
    slot->below = slot->above = INFINITY;
    for (size_t i = 0; i < expansion->terms_len; i++) {
        const struct eps__expansion_term *term = &expansion->terms[i];
        double reach = 2 * sqrt(term->saddle.variance);
        slot->below = fmin(slot->below, term->negligible ? slot->centre - term->saddle.mean : reach);
        slot->above = fmin(slot->above, term->negligible ? INFINITY : reach);
    }
}

/* Composes the expansion with this spacing, or a coarser one if the transform would be too long: a wide bracket is
 * better than none. */
static enum eps_status answer_slot(struct eps__composition *c, struct eps__panel_slot *slot,
                                   enum eps__estimate estimate, double eps, const struct eps__expansion *expansion,
                                   double spacing)
{
    *slot = (struct eps__panel_slot){.estimate = estimate, .centre = eps};
    set_reach(slot, expansion);
    enum eps_status status = compose_expansion(c, slot, expansion, spacing);
    for (int i = 0; i < (c->bounded ? 1 : EPS__COARSER_MAX) && status == EPS_TOO_COSTLY; i++) {
        eps__slot_release(slot);
        status = compose_expansion(c, slot, expansion, spacing *= 4);
    }
    slot->used = status == EPS_OK;
    return status;
}

/* One attempt by an expansion. before: an earlier one that missed, or NULL. EPS_UNSUPPORTED if no expansion has light
 * tails. */
static enum eps_status try_expansion(struct eps__composition *c, struct eps__panel_slot *slot,
                                     enum eps__estimate estimate, double eps, double known,
                                     const struct eps__expansion *before, struct eps__expansion *expansion)
{
    enum eps_status status = eps__expand(c->context, &c->steps, eps, known, c->accuracy.tolerance, expansion);
    if (status != EPS_OK)
        return status;
    if (expansion->surplus > 2 * EPS__HEAVY_SURPLUS || expansion->log_delta < EPS__LOG_DELTA_FLOOR)
        return EPS_UNSUPPORTED;
    if (before)
        eps__expansion_remember(expansion, before);
    return answer_slot(c, slot, estimate, eps, expansion, eps__expansion_spacing(c, expansion, eps, estimate));
}

/* Replaces the saddle points' values by those of the slot's terms. */
static void learn(struct eps__expansion *expansion, const struct eps__panel_slot *slot, double eps)
{
    double log_deltas[EPS__TERMS_MAX];
    for (size_t i = 0; i < expansion->terms_len; i++)
        log_deltas[i] = slot->panels_len > 1 && slot->panels[i].len
                            ? eps__panel_log_delta(&slot->panels[i], eps) + slot->log_counts[i]
                            : NAN;
    double log_delta = eps__slot_log_delta(slot, eps), apart = SLOPE_STEP * eps;
    double slope = (log_delta - eps__slot_log_delta(slot, eps + apart)) / apart;
    eps__expansion_learn(expansion, log_deltas, log_delta, fmax(slope, 0));
}

enum eps_status eps__answer_expanded(struct eps__composition *c, struct eps__panel_slot *slot,
                                     enum eps__estimate estimate, double eps, double *out)
{
    /* an earlier upper bound, which aims better where the saddle points are far off */
    double known = fabs(c->seen_eps - eps) <= 1e-3 * eps ? fmax(c->seen_log_delta, EPS__LOG_DELTA_FLOOR) : NAN;
    struct eps__expansion *expansion = malloc(2 * sizeof *expansion), *next = expansion + 1;
    struct eps__panel_slot again = {0};
    if (!expansion)
        return EPS_NO_MEMORY;
    eps__slot_clear(slot);
    enum eps_status status = try_expansion(c, slot, estimate, eps, NAN, NULL, expansion);
    if (status != EPS_OK)
        goto out;
    *out = eps__slot_log_delta(slot, eps);
    for (int i = 1; EPS__LOG_DELTA_FLOOR < *out && i < EPS__AIMS_MAX; i++) {
        double miss = fabs(*out - expansion->log_delta), before = eps__expansion_spacing(c, expansion, eps, estimate);
        if (miss < 1)
            break;
        learn(expansion, slot, eps);
        double spacing = eps__expansion_spacing(c, expansion, eps, estimate);
        *next = *expansion;
        if (miss < LEARN_MISS && spacing >= before) /* the terms, cut and grid would be the same */
            break;
        if (miss < LEARN_MISS)
            status = answer_slot(c, &again, estimate, eps, next, spacing);
        else if (estimate == EPS__UPPER || !isnan(known))
            status = try_expansion(c, &again, estimate, eps, estimate == EPS__UPPER ? *out : known, expansion, next);
        double other = status == EPS_OK && again.used ? eps__slot_log_delta(&again, eps) : NAN;
        if (status == EPS_UNSUPPORTED || status == EPS_TOO_COSTLY)
            status = EPS_OK;
        if (status != EPS_OK || !(estimate == EPS__UPPER ? other < *out : other > *out))
            break;
        eps__slot_clear(slot);
        *slot = again;
        again = (struct eps__panel_slot){0};
        *expansion = *next;
        *out = other;
    }
out:
    if (status != EPS_OK)
        eps__slot_clear(slot);
    eps__slot_clear(&again);
    free(expansion);
    return status;
}
