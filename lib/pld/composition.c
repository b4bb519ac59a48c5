/*
 * What is answered comes from panels: a composition around one epsilon, kept for the epsilons near it. The scout says
 * where to tilt, where to cut the steps and how wide the grid may be for the tolerance; the step PLDs and their
 * composition prove the answer, whatever the scout said.
 *
 * Where there are many equal steps, two levels: groups of about sqrt(n) steps on a fine grid, and the groups, with
 * the few steps that are left over, on one that is as much coarser as their deviation is larger. Then neither
 * transform is long.
 *
 * SPDX-License-Identifier: GPL-3.0-or-later
 */
#include "lib/pld/composition.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "lib/error.h"
#include "lib/numerics/normal.h"
#include "lib/pld/expansion.h"

enum { PANELS_MAX = 12, AIMS_MAX = 4, COARSER_MAX = 5, GROUPS_FROM = 64, HEAVY_SURPLUS = 20 };

/* The share of the tolerance that each estimate's discretisation may use; the upper one, which is the answer, is
 * made the finer. */
static const double budget[2] = {[EPS__UPPER] = 0.15, [EPS__LOWER] = 0.6};

#define LENGTH_MAX 0x1p24         /* of a transform */
#define REFINED_LENGTH_MAX 0x1p22 /* of one that only narrows a bracket there is */

struct panel_slot {
    struct eps__panel *panels; /* of a composition: delta is the sum of e^log_count times each, and the remainder; or */
    double *log_counts;
    double *bound_tilts, *bound_moments; /* where a panel is empty: e^(moment - tilt eps) takes its place */
    size_t panels_len;
    double remainder;
    struct eps__pld pld; /* the one step there is */
    enum eps__estimate estimate;
    double centre, below, above; /* answers centre - below <= eps <= centre + above */
    bool used, single;
};

struct eps__composition {
    const struct eps_context *context;
    struct eps__tally *tally;
    struct eps__accuracy accuracy;
    struct eps__steps steps;
    double ceiling;                  /* the largest loss of the sum, rounded up; INFINITY if there is none */
    double finer;                    /* refinement so far */
    double seen_eps, seen_log_delta; /* the last upper bound: better than the saddle's where tails are heavy */
    struct panel_slot slots[PANELS_MAX];
    size_t next_slot;
};

enum eps_status eps__composition_create(struct eps__composition **composition, const struct eps_context *context,
                                        struct eps__tally *tally, const struct eps__accuracy *accuracy)
{
    struct eps__composition *made = calloc(1, sizeof *made);
    if (!made)
        return EPS_NO_MEMORY;
    made->context = context;
    made->tally = tally;
    made->accuracy = *accuracy;
    made->finer = 1;
    made->seen_eps = NAN;
    *composition = made;
    return EPS_OK;
}

/* The largest loss of one step. */
static double step_ceiling(const struct eps__step *step)
{
    double ceiling = -INFINITY;
    for (size_t b = 0; b < step->len; b++) {
        const struct eps__pair *pair = &step->branches[b].pair[EPS__UPPER];
        /* Trimmed atoms of P could have a larger loss. */
        double own = pair->lost == 0 ? eps__pair_ceiling(pair) : INFINITY;
        ceiling = fmax(ceiling, own + 1e-12 * fabs(own) + 4 * pair->weight_error);
    }
    return ceiling;
}

enum eps_status eps__composition_add(struct eps__composition *c, struct eps__branch *branches, size_t len,
                                     uint64_t count)
{
    struct eps__step step = {.branches = branches, .len = len, .count = count};
    struct eps__step *items = realloc(c->steps.items, (c->steps.len + 1) * sizeof *items);
    if (items)
        c->steps.items = items;
    if (!items || !eps__scout_step(&step)) {
        eps__step_clear(&step);
        return EPS_NO_MEMORY;
    }
    c->steps.items[c->steps.len++] = step;
    c->steps.total += (double)count;
    c->ceiling += (double)count * step_ceiling(&step);
    return EPS_OK;
}

double eps__composition_approximate(const struct eps__composition *c, double eps)
{
    struct eps__saddle saddle;
    eps__aim(&c->steps, eps, NAN, c->accuracy.tolerance, &saddle);
    return saddle.log_delta;
}

double eps__composition_guess(const struct eps__composition *c, double log_delta)
{
    return eps__scout_epsilon(&c->steps, log_delta, c->accuracy.tolerance);
}

/* ------------------------------------------------------------ plans */

/* Tilt, cut and spacing are taken from coarse scales, so that neighbouring questions about one mechanism ask for the
 * same step PLD, which the cache may then hold. */
static double on_scale(double value, double steps_per_octave)
{
    return value > 0 ? exp2(floor(log2(value) * steps_per_octave) / steps_per_octave) : 0;
}

static void settle(const struct eps__steps *steps, struct eps__saddle *saddle)
{
    double eps = saddle->eps, log_delta = saddle->log_delta;
    eps__scout_moments(steps, on_scale(saddle->tilt, 8), saddle->z_excess, saddle);
    saddle->eps = eps;
    saddle->log_delta = log_delta;
}

/* The grid spacing at which the estimate's error is within its share of the tolerance. Splitting a cell's mass adds
 * variance width^2/6 to each step; that moves eps by variance/2 times the density over the Q-tail, and ln delta by
 * the same over delta. */
static double choose_spacing(const struct eps__composition *c, const struct eps__saddle *saddle,
                             enum eps__estimate estimate)
{
    const struct eps__accuracy *accuracy = &c->accuracy;
    double eps = saddle->eps;
    double deviation = sqrt(saddle->variance), u = (saddle->tilt + 1) * deviation;
    double share = budget[estimate] * accuracy->tolerance / (c->finer * c->finer), variance;
    double for_delta = 2 * share * deviation * (eps__mills(saddle->tilt * deviation) - eps__mills(u));
    double for_epsilon = 2 * share * fmax(eps, 1e-6) * deviation * eps__mills(u);
    if (accuracy->unknown == EPS_SOLVE_EPSILON)
        variance = for_epsilon;
    else if (accuracy->unknown == EPS_SOLVE_NOISE_MULTIPLIER) /* sigma moves both at least in proportion */
        variance = fmax(for_delta, for_epsilon);
    else
        variance = for_delta;
    double spacing = sqrt(6 * variance / (1.7 * c->steps.total));
    while (eps__added_variance(&c->steps, saddle, 2 * spacing) <= variance && spacing < 1)
        spacing *= 2;
    spacing = fmin(spacing, fmin(0.5 / (1 + saddle->tilt), deviation / 2) / c->finer);
    /* A nearly constant loss: a grid on which rounding every loss up is within the share is fine enough. */
    double by_rounding = accuracy->unknown == EPS_SOLVE_EPSILON ? fmax(eps, 1e-6) : 1 / (1 + saddle->tilt);
    return on_scale(fmax(spacing, 0.05 * share * by_rounding / c->steps.total), 4);
}

/* What all branches' plans have in common, by the step's tilted losses. */
static void plan_common(struct eps__pld_plan *plan, const struct eps__composition *c, const struct eps__step *step,
                        const struct eps__saddle *saddle, double spacing)
{
    *plan = (struct eps__pld_plan){.cut = INFINITY,
                                   .spacing = spacing,
                                   .tilt = saddle->tilt,
                                   .log_small = log(c->accuracy.tolerance * 1e-6 / c->steps.total)};
    plan->widest = fmin(sqrt(1e3 * c->accuracy.tolerance), 1) / c->finer;
    plan->log_jump = ceil(-saddle->log_delta);
    /* The Chernoff bound over delta: some nats in every case, many where tails are heavy. */
    double surplus = saddle->log_moment - saddle->tilt * saddle->eps - saddle->log_delta;
    plan->log_boost = surplus > HEAVY_SURPLUS ? ceil(surplus) : 0;
    struct eps__step alone = *step;
    struct eps__saddle own;
    alone.count = 1;
    eps__scout_moments(&(struct eps__steps){&alone, 1, 1}, saddle->tilt, saddle->z_excess, &own);
    plan->log_norm = own.log_moment;
    plan->log_reference = log(0.4 / (sqrt(own.variance) + 1e-300));
}

/* The range of z of one branch, and which part of it matters. */
static void plan_range(struct eps__pld_plan *plan, const struct eps__scout *scout, const struct eps__saddle *saddle)
{
    plan->z_low = -eps__normal_tail_quantile(plan->log_small);
    plan->z_high = scout->reach + saddle->z_excess;
    plan->fine_low = plan->z_high;
    plan->fine_high = plan->z_low;
    for (size_t i = 0, len = eps__scout_len(scout, saddle->z_excess); i < len; i++) {
        double z = eps__scout_z(scout, i), log_density = scout->log_mass[i] - log(scout->z_step);
        if (eps__pld_importance(plan, log_density, scout->loss[i]) < plan->log_small)
            continue;
        plan->fine_low = fmin(plan->fine_low, z - scout->z_step);
        plan->fine_high = fmax(plan->fine_high, z + scout->z_step);
    }
    plan->fine_low = fmax(plan->fine_low, plan->z_low);
    plan->fine_high = fmin(plan->fine_high, plan->z_high);
}

/* A jump matters as what the cores then make of it, at most all: n f / delta. The tilted density, raised until it
 * says so at the cut, says enough of the losses under it. */
static void plan_expansion(struct eps__pld_plan *plan, const struct eps__composition *c,
                           const struct eps__expansion *expansion)
{
    const struct eps__saddle *core = &expansion->terms[0].saddle;
    plan->log_norm = core->log_moment / c->steps.total;
    plan->log_jump = ceil(log(c->steps.total) - expansion->log_delta);
    plan->log_boost = fmax(ceil(plan->log_jump - (core->tilt * expansion->cut - plan->log_norm)), 0);
    plan->cut = expansion->cut;
    plan->cut_tilt = fmin(expansion->jump_tilt, plan->tilt);
    plan->log_flat = log((1 + plan->tilt) * (1 + plan->tilt) / ((1 + plan->cut_tilt) * (1 + plan->cut_tilt)));
}

/* Tilted mass that may be lost at each end of the window: little against delta in the same units. */
static double tail_mass(const struct eps__saddle *saddle, double tolerance)
{
    double share = exp(saddle->log_delta - saddle->log_moment + saddle->tilt * saddle->eps);
    return fmax(fmin(3e-3 * tolerance * share, 1e-4), 1e-40);
}

/* ------------------------------------------------------------ building and composing */

/* Frees what the slot holds, not what it is for. */
static void slot_release(struct panel_slot *slot)
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

static void slot_clear(struct panel_slot *slot)
{
    slot_release(slot);
    *slot = (struct panel_slot){0};
}

static bool slot_reserve(struct panel_slot *slot, size_t len)
{
    slot->panels = calloc(len, sizeof *slot->panels);
    slot->log_counts = calloc(len, sizeof *slot->log_counts);
    slot->bound_tilts = calloc(len, sizeof *slot->bound_tilts);
    slot->bound_moments = calloc(len, sizeof *slot->bound_moments);
    slot->panels_len = slot->panels ? len : 0;
    return slot->panels && slot->log_counts && slot->bound_tilts && slot->bound_moments;
}

/* The PLDs of the steps, for one tilt and spacing: as many as there are, each to be cleared. */
struct build {
    const struct eps__composition *c;
    const struct eps__saddle *saddle;
    enum eps__estimate estimate;
    double spacing;
    const struct eps__expansion *expansion; /* NULL if there is none */
    struct eps__pld *built;
    enum eps_status *status;
};

static enum eps_status build_step(const struct build *build, size_t k)
{
    const struct eps__composition *c = build->c;
    const struct eps__step *step = &c->steps.items[k];
    struct eps__pld_plan one, *plans = step->len > 1 ? calloc(step->len, sizeof *plans) : &one;
    if (!plans)
        return EPS_NO_MEMORY;
    plan_common(&plans[0], c, step, build->saddle, build->spacing);
    if (build->expansion)
        plan_expansion(&plans[0], c, build->expansion);
    for (size_t b = step->len; b-- > 0;) {
        plans[b] = plans[0];
        plan_range(&plans[b], &step->scouts[b], build->saddle);
    }
    enum eps_status status =
        eps__pld_obtain(c->context, c->tally, &build->built[k], step->branches, plans, step->len, build->estimate);
    if (plans != &one)
        free(plans);
    return status;
}

static void build_task(void *arg, size_t k)
{
    const struct build *build = arg;
    build->status[k] = build_step(build, k);
}

static enum eps_status build_steps(const struct eps__composition *c, struct eps__pld *built,
                                   enum eps__estimate estimate, const struct eps__saddle *saddle,
                                   const struct eps__expansion *expansion, double spacing)
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

/* Where delta is under 1e-300: ln of a Chernoff bound on it, E[(1 - e^{eps - L})_+] <= e^{K(t) - t eps}, at a tilt that
 * gives little less than that. */
static enum eps_status chernoff_log_delta(const struct eps__composition *c, double eps, double *out)
{
    const struct eps__steps *steps = &c->steps;
    struct eps__saddle saddle;
    double low = 0, high = 1e-3;
    eps__find_tilt(steps, eps, EPS__TAIL_REACH, &saddle);
    for (eps__scout_moments(steps, high, EPS__TAIL_REACH, &saddle); high < 1e9;
         eps__scout_moments(steps, high, EPS__TAIL_REACH, &saddle)) {
        if (saddle.log_moment - high * eps < EPS__LOG_DELTA_FLOOR)
            break;
        low = high;
        high *= 2;
    }
    for (int i = 0; i < 20; i++) {
        double middle = 0.5 * (low + high);
        eps__scout_moments(steps, middle, EPS__TAIL_REACH, &saddle);
        *(saddle.log_moment - middle * eps < EPS__LOG_DELTA_FLOOR ? &high : &low) = middle;
    }
    eps__scout_moments(steps, high, EPS__TAIL_REACH, &saddle);
    saddle.eps = eps;
    saddle.log_delta = EPS__LOG_DELTA_FLOOR;
    struct eps__pld *built = calloc(steps->len, sizeof *built);
    if (!built)
        return EPS_NO_MEMORY;
    double by_rounding = 0.1 / (1 + high); /* rounding losses up by this costs a tenth of a unit of the logarithm */
    double spacing = fmax(fmin(by_rounding, 0.1 * sqrt(saddle.variance / steps->total)), by_rounding / steps->total);
    double log_bound = -high * eps, infinity = 0, size = fabs(high * eps);
    enum eps_status status = build_steps(c, built, EPS__UPPER, &saddle, NULL, spacing);
    for (size_t k = 0; k < steps->len && status == EPS_OK; k++) {
        double count = (double)steps->items[k].count, log_moment = eps__pld_log_moment(&built[k], high);
        log_bound += count * (log_moment + high * built[k].loss_error);
        infinity += count * built[k].infinity;
        size += count * (fabs(log_moment) + (double)built[k].len);
    }
    if (status == EPS_OK)
        *out = fmin(log(exp(log_bound + 8 * EPS__UNIT_ROUNDOFF * size) + 2 * infinity), 0);
    for (size_t k = 0; k < steps->len; k++)
        eps__pld_clear(&built[k]);
    free(built);
    return status;
}

/* About sqrt(total), such that few steps are left over. */
static uint64_t group_size(double total)
{
    uint64_t n = (uint64_t)total, root = (uint64_t)sqrt(total), best = root;
    for (uint64_t m = root / 2 + 1; m <= 2 * root; m++)
        if (n % m < n % best ||
            (n % m == n % best && fabs((double)m - (double)root) < fabs((double)best - (double)root)))
            best = m;
    return best;
}

/* A grid for the groups as wide as where most of a group's loss lies would treat it as an atom between two knots, which
 * the lower estimate pays for dearly: the middle half of a step's tilted losses, times sqrt(group), must cover it. */
static enum eps_status compose_groups(const struct eps__composition *c, struct panel_slot *slot,
                                      const struct eps__saddle *saddle, double spacing,
                                      const struct eps__compose_plan *plan)
{
    struct eps__pld step = {0}, single = {0}, group = {0};
    uint64_t n = (uint64_t)c->steps.total, size = group_size(c->steps.total), groups = n / size, left_over = n % size;
    size_t coarser = (size_t)fmax(nearbyint(sqrt((double)size)), 2);
    double fine = spacing * M_SQRT1_2;
    /* What the groups lose must be little after all of them are composed. */
    struct eps__compose_plan group_plan = *plan;
    group_plan.tail_mass = plan->tail_mass * 0.1 / (double)groups;
    group_plan.log_infinity = saddle->log_delta + log(1e-4 * c->accuracy.tolerance / (double)groups);
    enum eps_status status = build_steps(c, &step, slot->estimate, saddle, NULL, fine);
    if (status == EPS_OK && left_over)
        status = build_steps(c, &single, slot->estimate, saddle, NULL, fine * (double)coarser);
    if (status == EPS_OK)
        status = eps__pld_compose(c->context, &group, &step, size, coarser, &group_plan);
    if (status == EPS_OK) {
        const struct eps__pld_power powers[] = {{&group, groups}, {&single, left_over}};
        status = eps__compose(c->context, slot->panels, powers, left_over ? 2 : 1, plan);
    }
    eps__pld_clear(&step);
    eps__pld_clear(&single);
    eps__pld_clear(&group);
    return status;
}

static enum eps_status compose_slot(const struct eps__composition *c, struct panel_slot *slot,
                                    const struct eps__saddle *saddle, double spacing)
{
    const struct eps__steps *steps = &c->steps;
    double max_bytes = c->context && c->context->max_bytes > 0 ? c->context->max_bytes : INFINITY;
    struct eps__compose_plan plan = {.tilt = saddle->tilt,
                                     .tail_mass = tail_mass(saddle, c->accuracy.tolerance),
                                     .log_infinity = INFINITY,
                                     .max_len =
                                         (size_t)fmin(max_bytes / 64, c->finer > 1 ? REFINED_LENGTH_MAX : LENGTH_MAX)};
    if (steps->total == 1) {
        slot->single = true;
        return build_steps(c, &slot->pld, slot->estimate, saddle, NULL, spacing);
    }
    if (!slot_reserve(slot, 1))
        return EPS_NO_MEMORY;
    if (steps->len == 1 && steps->total >= GROUPS_FROM && eps__scout_resolved(&steps->items[0], saddle, spacing))
        return compose_groups(c, slot, saddle, spacing, &plan);
    enum eps_status status = EPS_NO_MEMORY;
    struct eps__pld *built = calloc(steps->len, sizeof *built);
    struct eps__pld_power *powers = calloc(steps->len, sizeof *powers);
    if (!built || !powers)
        goto out;
    status = build_steps(c, built, slot->estimate, saddle, NULL, spacing);
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

/* ------------------------------------------------------------ rare jumps */

/* Does one tilt serve the whole composition badly? */
static bool rare_jumps(const struct eps__composition *c, const struct eps__saddle *saddle)
{
    double surplus = saddle->log_moment - saddle->tilt * saddle->eps - saddle->log_delta;
    return c->steps.total > 1 && saddle->tilt > 0 && (eps__is_skew(saddle) || surplus > HEAVY_SURPLUS);
}

/* The spacing at which the estimate's error is within its share of the tolerance. */
static double expansion_spacing(const struct eps__composition *c, const struct eps__expansion *expansion, double eps,
                                enum eps__estimate estimate)
{
    double share = budget[estimate] * c->accuracy.tolerance / (c->finer * c->finer);
    double for_epsilon = share * fmax(eps, 1e-6) * expansion->slope;
    double allowed = c->accuracy.unknown == EPS_SOLVE_EPSILON            ? for_epsilon
                     : c->accuracy.unknown == EPS_SOLVE_NOISE_MULTIPLIER ? fmax(share, for_epsilon)
                                                                         : share;
    double spacing = fmin(0.25, 0.5 / (1 + expansion->steepest)) / c->finer;
    while (spacing > 1e-9 && eps__expansion_effect(&c->steps, expansion, spacing) > allowed)
        spacing *= 0.5;
    return on_scale(spacing, 4);
}

/* Upper: a bound on the probability of more jumps than there are terms for, and of infinite loss. */
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
    /* prod C(n_j, k_j) <= prod n_j^k_j / k_j!, so k jumps in all have at most jump^k / k! */
    for (size_t k = 1; k <= most + 1; k++)
        more *= jump / (double)k;
    double ratio = jump / (double)(most + 2);
    more = ratio < 1 ? more / (1 - ratio) : INFINITY;
    return (more + infinity) * exp(log_total + jump) * (1 + 1e-9);
}

/* E[(1 - e^{eps - L})_+] <= e^{K(t) - t eps} in the place of a panel. */
static void bound_term(struct panel_slot *slot, size_t at, const struct eps__expansion_term *term,
                       const struct eps__pld_power *powers, size_t len)
{
    double tilt = term->saddle.tilt, log_bound = term->log_count, size = fabs(term->log_count);
    for (size_t i = 0; i < len; i++) {
        double count = (double)powers[i].count, log_moment = eps__pld_log_moment(powers[i].pld, tilt);
        log_bound += count * (log_moment + tilt * powers[i].pld->loss_error);
        size += count * (fabs(log_moment) + (double)powers[i].pld->len);
    }
    slot->bound_tilts[at] = tilt;
    slot->bound_moments[at] = log_bound + 8 * EPS__UNIT_ROUNDOFF * size;
}

static enum eps_status compose_term(const struct eps__composition *c, struct panel_slot *slot, size_t at,
                                    const struct eps__pld *cores, const struct eps__pld *jumps,
                                    const struct eps__expansion *expansion)
{
    const struct eps__expansion_term *term = &expansion->terms[at];
    struct eps__pld_power powers[2 * EPS__KINDS_MAX];
    size_t len = 0;
    double max_bytes = c->context && c->context->max_bytes > 0 ? c->context->max_bytes : INFINITY;
    struct eps__saddle whole = term->saddle;
    whole.log_delta = expansion->log_delta - log((double)expansion->terms_len);
    struct eps__compose_plan plan = {.tilt = whole.tilt,
                                     .tail_mass = tail_mass(&whole, c->accuracy.tolerance),
                                     .log_infinity = INFINITY,
                                     .max_len =
                                         (size_t)fmin(max_bytes / 64, c->finer > 1 ? REFINED_LENGTH_MAX : LENGTH_MAX)};
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

/* The cut among the knots: where there is an atom under the cut, its mass may have been rounded up beyond it. */
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

static enum eps_status compose_expansion(const struct eps__composition *c, struct panel_slot *slot,
                                         const struct eps__expansion *expansion, double spacing)
{
    size_t kinds = c->steps.len;
    struct eps__pld *built = calloc(3 * kinds, sizeof *built), *cores = built + kinds, *jumps = cores + kinds;
    if (!built || !slot_reserve(slot, expansion->terms_len)) {
        free(built);
        return EPS_NO_MEMORY;
    }
    struct eps__saddle core = expansion->terms[0].saddle;
    core.log_delta = expansion->log_delta;
    core.z_excess = eps__cut_excess(&c->steps, expansion->log_delta, c->accuracy.tolerance);
    enum eps_status status = build_steps(c, built, slot->estimate, &core, expansion, spacing);
    double cut = status == EPS_OK ? grid_cut(c, built, expansion, spacing) : 0;
    for (size_t k = 0; k < kinds && status == EPS_OK; k++)
        status = eps__pld_split(&built[k], cut, &cores[k], &jumps[k]);
    if (status == EPS_OK && slot->estimate == EPS__UPPER)
        slot->remainder = more_jumps(c, built, cores, jumps, expansion->most);
    for (size_t i = 0; i < expansion->terms_len && status == EPS_OK; i++)
        status = compose_term(c, slot, i, cores, jumps, expansion);
    for (size_t k = 0; k < 3 * kinds; k++)
        eps__pld_clear(&built[k]);
    free(built);
    return status;
}

static double slot_log_delta(const struct panel_slot *slot, double eps)
{
    double sum = 0, sign = slot->estimate == EPS__UPPER ? 1 : -1;
    if (slot->single)
        return eps__pld_log_delta(&slot->pld, eps);
    if (slot->panels_len == 1)
        return eps__panel_log_delta(slot->panels, eps);
    for (size_t i = 0; i < slot->panels_len; i++) {
        double log_term = slot->panels[i].len ? eps__panel_log_delta(&slot->panels[i], eps) + slot->log_counts[i]
                                              : slot->bound_moments[i] - slot->bound_tilts[i] * eps;
        if (!(log_term > -INFINITY))
            continue;
        sum += exp(log_term) * (1 + sign * 8 * EPS__UNIT_ROUNDOFF * (1 + fabs(log_term) + fabs(slot->log_counts[i])));
    }
    sum += slot->remainder;
    return sum > 0 ? fmin(log(sum) + sign * 8 * EPS__UNIT_ROUNDOFF, 0) : -INFINITY;
}

/* How far from eps the panels of an expansion answer well: within their deviations, and where the negligible terms
 * are so. */
static void set_reach(struct panel_slot *slot, const struct eps__expansion *expansion)
{
    slot->below = slot->above = INFINITY;
    for (size_t i = 0; i < expansion->terms_len; i++) {
        const struct eps__expansion_term *term = &expansion->terms[i];
        double reach = 2 * sqrt(term->saddle.variance);
        slot->below = fmin(slot->below, term->negligible ? slot->centre - term->saddle.mean : reach);
        slot->above = fmin(slot->above, term->negligible ? INFINITY : reach);
    }
}

/* One answer by an expansion; EPS_UNSUPPORTED if there is none that is light. */
static enum eps_status try_expansion(struct eps__composition *c, struct panel_slot *slot, double eps, double known,
                                     struct eps__expansion *expansion)
{
    if (!eps__expand(&c->steps, eps, known, c->accuracy.tolerance, expansion) ||
        expansion->surplus > 2 * HEAVY_SURPLUS || expansion->log_delta < EPS__LOG_DELTA_FLOOR)
        return EPS_UNSUPPORTED;
    slot->centre = eps;
    set_reach(slot, expansion);
    double spacing = expansion_spacing(c, expansion, eps, slot->estimate);
    enum eps_status status = compose_expansion(c, slot, expansion, spacing);
    for (int i = 0; i < COARSER_MAX && status == EPS_TOO_COSTLY; i++) { /* a wide bracket is better than none */
        slot_release(slot);
        status = compose_expansion(c, slot, expansion, spacing *= 4);
    }
    slot->used = status == EPS_OK;
    return status;
}

/* The answer by an expansion; where its saddle points were far off, by another that is aimed by the first one's bound,
 * while that is the better one: all are bounds. */
static enum eps_status answer_expanded(struct eps__composition *c, struct panel_slot *slot, enum eps__estimate estimate,
                                       double eps, double *out)
{
    double known = fabs(c->seen_eps - eps) <= 1e-3 * eps ? fmax(c->seen_log_delta, EPS__LOG_DELTA_FLOOR) : NAN;
    struct eps__expansion *expansion = malloc(sizeof *expansion);
    struct panel_slot again = {0};
    if (!expansion)
        return EPS_NO_MEMORY;
    slot_clear(slot);
    slot->estimate = estimate;
    enum eps_status status = try_expansion(c, slot, eps, known, expansion);
    if (status != EPS_OK)
        goto out;
    *out = slot_log_delta(slot, eps);
    for (int i = 1; i < AIMS_MAX && estimate == EPS__UPPER && *out > EPS__LOG_DELTA_FLOOR; i++) {
        if (fabs(*out - expansion->log_delta) < 1)
            break;
        slot_clear(&again);
        again.estimate = estimate;
        status = try_expansion(c, &again, eps, *out, expansion);
        double better = status == EPS_OK ? slot_log_delta(&again, eps) : INFINITY;
        if (status == EPS_UNSUPPORTED || status == EPS_TOO_COSTLY)
            status = EPS_OK;
        if (status != EPS_OK || !(better < *out))
            break;
        struct panel_slot worse = *slot;
        *slot = again;
        again = worse;
        *out = better;
    }
out:
    if (status != EPS_OK)
        slot_clear(slot);
    slot_clear(&again);
    free(expansion);
    return status;
}

/* An upper bound is remembered: it aims better than a saddle point where tails are heavy. */
static void see(struct eps__composition *c, enum eps__estimate estimate, double eps, double log_delta)
{
    if (estimate == EPS__LOWER)
        return;
    c->seen_eps = eps;
    c->seen_log_delta = log_delta;
}

enum eps_status eps__composition_log_delta(struct eps__composition *c, enum eps__estimate estimate, double eps,
                                           double *out)
{
    struct panel_slot *nearest = NULL;
    for (size_t i = 0; i < PANELS_MAX; i++) {
        struct panel_slot *slot = &c->slots[i];
        if (slot->used && slot->estimate == estimate && slot->centre - slot->below <= eps &&
            eps <= slot->centre + slot->above && (!nearest || fabs(slot->centre - eps) < fabs(nearest->centre - eps)))
            nearest = slot;
    }
    if (nearest) {
        *out = slot_log_delta(nearest, eps);
        return EPS_OK;
    }
    if (c->steps.len == 0 || eps > c->ceiling) {
        *out = -INFINITY;
        return EPS_OK;
    }
    /* What is known beforehand: the upper bound at this epsilon, if it was asked before. */
    double known = fabs(c->seen_eps - eps) <= 0.1 * eps ? fmax(c->seen_log_delta, EPS__LOG_DELTA_FLOOR) : NAN;
    struct panel_slot *slot = &c->slots[c->next_slot++ % PANELS_MAX];
    slot_clear(slot);
    for (int i = 0; i < AIMS_MAX; i++) {
        struct eps__saddle saddle;
        eps__aim(&c->steps, eps, known, c->accuracy.tolerance, &saddle);
        if (i == 0 && rare_jumps(c, &saddle)) {
            enum eps_status status = answer_expanded(c, slot, estimate, eps, out);
            if (status != EPS_UNSUPPORTED) {
                see(c, estimate, eps, *out);
                return status;
            }
        }
        if (saddle.log_moment - saddle.tilt * eps < EPS__LOG_DELTA_FLOOR - 5) {
            *out = -INFINITY;
            return estimate == EPS__LOWER ? EPS_OK : chernoff_log_delta(c, eps, out);
        }
        settle(&c->steps, &saddle);
        double spacing = choose_spacing(c, &saddle, estimate);
        slot_clear(slot);
        slot->estimate = estimate;
        slot->centre = eps;
        slot->below = slot->above = 2.5 * sqrt(saddle.variance);
        enum eps_status status = compose_slot(c, slot, &saddle, spacing);
        for (int k = 0; k < COARSER_MAX && status == EPS_TOO_COSTLY; k++) {
            if (saddle.tilt > 0 && !rare_jumps(c, &saddle))
                break;
            slot_release(slot);
            status = compose_slot(c, slot, &saddle, spacing *= 4);
        }
        if (status != EPS_OK) {
            slot_clear(slot);
            return status;
        }
        *out = slot_log_delta(slot, eps);
        if (estimate == EPS__LOWER || fabs(*out - saddle.log_delta) < 2)
            break;
        known = fmax(*out, EPS__LOG_DELTA_FLOOR); /* a better aim than the saddle gave */
        /* Panels tilted for a wrong delta answer their neighbours badly. */
        slot->below = slot->above = 0;
    }
    slot->used = true;
    see(c, estimate, eps, *out);
    return EPS_OK;
}

bool eps__composition_refine(struct eps__composition *c, double factor)
{
    if (c->finer * factor > 1e3)
        return false;
    c->finer *= factor;
    for (size_t i = 0; i < PANELS_MAX; i++)
        slot_clear(&c->slots[i]);
    return true;
}

void eps__composition_destroy(struct eps__composition *c)
{
    if (!c)
        return;
    for (size_t k = 0; k < c->steps.len; k++)
        eps__step_clear(&c->steps.items[k]);
    free(c->steps.items);
    for (size_t i = 0; i < PANELS_MAX; i++)
        slot_clear(&c->slots[i]);
    free(c);
}
