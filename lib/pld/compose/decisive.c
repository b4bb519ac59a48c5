/*
 * Decisive losses of rare participations.
 *
 * If an example is rarely drawn, no step lowers the sum by more than its floor, about p, but a single step may raise it
 * far beyond epsilon. A loss above epsilon plus the floors of all other steps is decisive: whatever the other losses
 * are, the sum stays above epsilon, where (1 - e^{epsilon - S})_+ is linear in the two densities. So steps with such
 * losses are counted in closed form, and only what is below the cut is composed, on a grid that covers just that (P8).
 *
 * SPDX-License-Identifier: GPL-3.0-or-later
 */
#include "lib/pld/compose/composition_internal.h"

#include <assert.h>
#include <float.h>
#include <math.h>
#include <stdlib.h>

#include "lib/numerics/normal.h"
#include "lib/pld/pairs/single.h"

/* The largest sum of all floors: beyond it a grid up to the cut is no finer than others. */
#define FLOORS_MAX 0.05
#define CELLS_PER_STEP 64.0 /* measured: most jobs meet the tolerance without a refinement */
#define CELLS_LEAST 4096.0
#define CELLS_MOST 262144.0
#define Z_LOW (-20.0)
/* The least -ln Q(none) for which Q(some) = 1 - Q(none) has all its digits. */
#define LOG_NONE_LEAST 1e-290

/* The floor of a step: how far its loss may be below 0, in either estimate, rounded up; INFINITY if unknown. */
static double floor_of(const struct eps__step *step)
{
    double floor = 0;
    if (step->len != 1 || !eps__single_serves(step->branches, 1))
        return INFINITY;
    for (int estimate = 0; estimate < 2; estimate++) {
        const struct eps__pair *pair = &step->branches->pair[estimate];
        double moved = 0;
        if (step->branches->weight[estimate] != 1 || pair->lost > 0 || pair->numerator.missing > 0 ||
            pair->denominator.missing > 0 || eps__mixture_reach(&pair->denominator) > 0)
            return INFINITY;
        for (size_t i = 0; i < pair->numerator.len; i++)
            moved += pair->numerator.shift[i] > 0 ? pair->numerator.weight[i] : 0;
        moved = eps__raise(moved * (1 + pair->weight_error), (double)(pair->numerator.len + 6));
        floor = fmax(floor, moved < 1 ? eps__raise(-log1p(-moved), 6) : INFINITY);
    }
    return floor;
}

static double floors_of(const struct eps__steps *steps)
{
    double floors = 0;
    for (size_t k = 0; k < steps->len; k++)
        floors += (double)steps->items[k].count * floor_of(&steps->items[k]);
    return eps__raise(floors, 4 * ((double)steps->len + 1));
}

bool eps__large_losses_decide(const struct eps__steps *steps)
{
    return steps->total > 1 && floors_of(steps) <= FLOORS_MAX;
}

/* The contribution of steps beyond the cut: P(some) - e^eps Q(some) = *gain - (e^eps - 1) *some. */
struct decisive {
    double log_none;  /* ln Q(none) */
    double log_some;  /* ln of the sum of all steps' Q(beyond), which is about ln Q(some) if that is tiny */
    double log_drop;  /* ln (P(none) / Q(none)), <= 0 */
    double uncounted; /* mass that is neither certain to be beyond a cut nor composed */
};

/* Counts one class, whose loss is beyond the cut from z on. */
static void count_decisive(struct decisive *decisive, const struct eps__step *step, enum eps__estimate estimate,
                           double z)
{
    const struct eps__pair *pair = &step->branches->pair[estimate];
    double sign = estimate == EPS__UPPER ? 1 : -1, count = (double)step->count;
    double excess_error, excess = eps__single_excess(pair, estimate, 0, z, &excess_error);
    double log_beyond = eps__shift(eps__other(estimate), eps__log_normal_tail(z), EPS__LOG_TAIL_ERROR(z));
    double beyond = eps__exp_bound(eps__other(estimate), log_beyond, 0);
    excess = fmax(excess + sign * excess_error, 0);
    decisive->log_some = eps__log_add(decisive->log_some, log(count) + log_beyond);
    decisive->log_none += count * log1p(-beyond);
    decisive->log_drop += count * log1p(-fmin(excess / (1 - beyond), 1));
}

static enum eps_status add_decisive(struct eps__panel_slot *slot, const struct decisive *decisive)
{
    double none = exp(decisive->log_none), units = 64 + 16 * fabs(decisive->log_none);
    double log_some = decisive->log_none < -LOG_NONE_LEAST ? log(-expm1(decisive->log_none)) : decisive->log_some;
    slot->decisive_gain = eps__outward(slot->estimate, none * -expm1(decisive->log_drop), units) + decisive->uncounted;
    slot->decisive_log_some =
        eps__shift(eps__other(slot->estimate), log_some, EPS__UNIT_ROUNDOFF * (units - 8 * log_some));
    return slot->decisive_gain >= 0 && slot->decisive_log_some < 1 ? EPS_OK : EPS_TOO_COSTLY; /* false for NAN */
}

/* The PLD of what is below a step's cut, without the mass beyond it, which is counted as decisive. */
static enum eps_status build_core(const struct eps__composition *c, struct eps__pld *core, const struct eps__step *step,
                                  enum eps__estimate estimate, double z, double spacing)
{
    struct eps__pld_plan plan = {.spacing = spacing,
                                 .log_small = -700,
                                 .log_reference = -1e6, /* makes every cell one spacing wide */
                                 .widest = 1,
                                 .cut = INFINITY,
                                 .z_low = fmin(Z_LOW, z - 1),
                                 .z_high = z,
                                 .cells_max = (size_t)(4 * CELLS_MOST)};
    plan.fine_low = plan.z_low;
    plan.fine_high = plan.z_high;
    enum eps_status status = eps__pld_build(c->context, core, step->branches, &plan, 1, estimate);
    core->infinity = 0;
    return status;
}

/* The number of cells up to the cut for the tolerance: every step's cells add variance. */
static double cells_wanted(const struct eps__composition *c)
{
    return CELLS_PER_STEP * c->finer * sqrt(c->steps.total / c->accuracy.tolerance);
}

bool eps__decisive_refines(const struct eps__composition *c)
{
    return cells_wanted(c) < CELLS_MOST;
}

/* Composes what is below the cut. most: the largest epsilon that the slot serves. */
static enum eps_status compose_rest(const struct eps__composition *c, struct eps__panel_slot *slot, double most,
                                    double floors, double log_delta)
{
    size_t classes = c->steps.len;
    double cut = eps__raise(most + floors, 1e7), share = 1e-3 * c->accuracy.tolerance;
    double cells = fmin(fmax(cells_wanted(c), CELLS_LEAST), CELLS_MOST);
    struct decisive decisive = {.log_some = -INFINITY};
    struct eps__pld *cores = calloc(classes, sizeof *cores);
    struct eps__pld_power *powers = calloc(classes, sizeof *powers);
    enum eps_status status = cores && powers && eps__slot_reserve(slot, 1) ? EPS_OK : EPS_NO_MEMORY;
    for (size_t k = 0; k < classes && status == EPS_OK; k++) {
        const struct eps__step *step = &c->steps.items[k];
        double z;
        if (eps__single_beyond(&step->branches->pair[slot->estimate], cut, &z))
            count_decisive(&decisive, step, slot->estimate, z);
        else if (slot->estimate == EPS__UPPER)
            decisive.uncounted += (double)step->count * DBL_MIN;
        status = build_core(c, &cores[k], step, slot->estimate, z, cut / cells);
        powers[k] = (struct eps__pld_power){&cores[k], step->count};
    }
    struct eps__compose_plan plan = {
        .tail_mass = fmin(share * exp(log_delta), 0.01), .log_infinity = INFINITY, .max_len = eps__max_length(c)};
    if (status == EPS_OK)
        status = eps__compose(c->context, slot->panels, powers, classes, &plan);
    if (status == EPS_OK)
        status = add_decisive(slot, &decisive);
    for (size_t k = 0; cores && k < classes; k++)
        eps__pld_clear(&cores[k]);
    free(cores);
    free(powers);
    return status;
}

enum eps_status eps__answer_decisive(const struct eps__composition *c, struct eps__panel_slot *slot,
                                     enum eps__estimate estimate, double eps, double log_delta)
{
    double floors = floors_of(&c->steps), most = fmax(1.5 * eps, 0.5 * floors);
    assert(floors <= FLOORS_MAX && eps >= 0);
    eps__slot_clear(slot);
    slot->estimate = estimate;
    slot->centre = eps;
    slot->above = eps__lower(most - eps, 1e7);
    slot->below = floors > 0.25 * eps ? eps : 0.75 * eps;
    enum eps_status status = compose_rest(c, slot, most, floors, log_delta);
    slot->used = status == EPS_OK;
    if (!slot->used)
        eps__slot_clear(slot);
    return status;
}
