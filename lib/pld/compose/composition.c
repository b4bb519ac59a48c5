/*
 * Answers come from panels: a composition around one epsilon, kept for the epsilons near it. The saddle point chooses
 * the tilt, the cut of the steps and the widest grid that meets the tolerance. The step PLDs and their composition
 * prove the answer, whatever the saddle point said.
 *
 * SPDX-License-Identifier: GPL-3.0-or-later
 */
#include "lib/pld/compose/composition_internal.h"

#include <math.h>
#include <stdlib.h>

#include "lib/pld/pairs/single.h"
#include "lib/pld/verify.h"

/* Bounds from the largest loss are used if they are within this share of the tolerance, or, if panels are too costly,
 * if the upper bound on ln delta is below -LARGEST_LEAST. */
#define LARGEST_SHARE 0.5
#define LARGEST_LEAST 5.0

enum { REFINEMENTS = 3 };

enum eps_status eps__composition_create(struct eps__composition **composition, const struct eps_context *context,
                                        struct eps__cache_use *cache_use, const struct eps__accuracy *accuracy)
{
    struct eps__composition *made = calloc(1, sizeof *made);
    if (!made)
        return EPS_NO_MEMORY;
    made->context = context;
    made->cache_use = cache_use;
    made->accuracy = *accuracy;
    made->finer = 1;
    made->seen_eps = NAN;
    *composition = made;
    return EPS_OK;
}

/* The largest loss of one step, rounded up. */
static double step_ceiling(const struct eps__step *step)
{
    double ceiling = -INFINITY;
    for (size_t b = 0; b < step->len; b++) {
        const struct eps__pair *pair = &step->branches[b].pair[EPS__UPPER];
        /* Trimmed atoms of P may have a larger loss. */
        double own = pair->lost == 0 ? eps__pair_ceiling(pair) : INFINITY;
        ceiling = fmax(ceiling, eps__shift(EPS__UPPER, own, 1e-12 * fabs(own) + 4 * pair->weight_error));
    }
    return ceiling;
}

enum eps_status eps__composition_add(struct eps__composition *c, struct eps__branch *branches, size_t len,
                                     uint64_t count)
{
    struct eps__step step = {.branches = branches, .len = len, .count = count};
    for (size_t b = 0; b < len; b++)
        EPS__VERIFY(eps__verify_weights(&branches[b].pair[EPS__UPPER]) &&
                    eps__verify_weights(&branches[b].pair[EPS__LOWER]));
    struct eps__step *items = realloc(c->steps.items, (c->steps.len + 1) * sizeof *items);
    if (items)
        c->steps.items = items;
    enum eps_status status = items ? eps__step_quadratures(c->context, &step) : EPS_NO_MEMORY;
    if (status != EPS_OK) {
        eps__step_clear(&step);
        return status;
    }
    c->steps.items[c->steps.len++] = step;
    c->steps.total += (double)count;
    c->ceiling += (double)count * step_ceiling(&step);
    return EPS_OK;
}

double eps__composition_approximate(const struct eps__composition *c, double eps)
{
    struct eps__saddle saddle;
    if (eps > 0 && c->steps.total > 1 && eps__one_loss_decides(&c->steps, eps, LARGEST_SHARE * c->accuracy.tolerance))
        return fmin(eps__jump_log_delta(&c->steps, eps), 0);
    eps__aim(&c->steps, eps, NAN, c->accuracy.tolerance, &saddle);
    return saddle.log_delta;
}

double eps__composition_guess(const struct eps__composition *c, double log_delta)
{
    return eps__saddle_epsilon(&c->steps, log_delta, c->accuracy.tolerance);
}

/* Remembers an upper bound, which aims better than a saddle point where tails are heavy. */
static void see(struct eps__composition *c, enum eps__estimate estimate, double eps, double log_delta)
{
    if (estimate == EPS__LOWER)
        return;
    c->seen_eps = eps;
    c->seen_log_delta = log_delta;
}

/* Answers at eps by panels, with a single tilt or an expansion. */
static enum eps_status answer_by_panels(struct eps__composition *c, enum eps__estimate estimate, double eps, bool rare,
                                        double *out)
{
    /* The upper bound near this epsilon, if there is one. */
    double known = fabs(c->seen_eps - eps) <= 0.1 * eps ? fmax(c->seen_log_delta, EPS__LOG_DELTA_FLOOR) : NAN;
    struct eps__panel_slot *slot = &c->slots[c->next_slot++ % EPS__PANELS_MAX];
    eps__slot_clear(slot);
    if (rare) {
        enum eps_status status = eps__answer_expanded(c, slot, estimate, eps, out);
        if (status != EPS_UNSUPPORTED)
            return status;
    }
    for (int i = 0; i < EPS__AIMS_MAX; i++) {
        struct eps__saddle saddle;
        eps__aim(&c->steps, eps, known, c->accuracy.tolerance, &saddle);
        if (saddle.log_moment - saddle.tilt * eps < EPS__LOG_DELTA_FLOOR - 5) {
            *out = -INFINITY;
            return estimate == EPS__LOWER ? EPS_OK : eps__chernoff_log_delta(c, eps, EPS__LOG_DELTA_FLOOR - 5, out);
        }
        eps__saddle_snap(&c->steps, &saddle);
        double spacing = eps__choose_spacing(c, &saddle, estimate);
        eps__slot_clear(slot);
        slot->estimate = estimate;
        slot->centre = eps;
        slot->below = slot->above = 2.5 * sqrt(saddle.variance);
        enum eps_status status = eps__compose_slot(c, slot, &saddle, spacing);
        for (int k = 0; k < (c->bounded ? 1 : EPS__COARSER_MAX) && status == EPS_TOO_COSTLY; k++) {
            if (saddle.tilt > 0 && !eps__rare_jumps(c, &saddle))
                break;
            eps__slot_release(slot);
            status = eps__compose_slot(c, slot, &saddle, spacing *= 4);
        }
        if (status != EPS_OK) {
            eps__slot_clear(slot);
            return status;
        }
        *out = eps__slot_log_delta(slot, eps);
        if (estimate == EPS__LOWER || fabs(*out - saddle.log_delta) < 2)
            break;
        known = fmax(*out, EPS__LOG_DELTA_FLOOR); /* a better aim than the saddle point's */
        /* Panels that are tilted for a wrong delta are bad for other epsilons. */
        slot->below = slot->above = 0;
    }
    slot->used = true;
    return EPS_OK;
}

/* Whether delta comes from a few large losses; also true if no tilt brings the mean of the sum to eps. */
static bool large_losses_are_rare(const struct eps__composition *c, double eps)
{
    struct eps__saddle saddle;
    eps__aim(&c->steps, eps, NAN, c->accuracy.tolerance, &saddle);
    return eps__rare_jumps(c, &saddle) || (c->steps.total > 1 && saddle.mean + sqrt(saddle.variance) < eps);
}

/* Whether these bounds on ln delta are close enough, so that panels need not be composed. */
static bool close_enough(const struct eps__composition *c, double upper, double lower)
{
    return upper - lower <= LARGEST_SHARE * c->accuracy.tolerance / c->finer || upper < EPS__LOG_DELTA_FLOOR;
}

static void narrow(double *upper, double *lower, double other_upper, double other_lower)
{
    *upper = fmin(*upper, other_upper);
    *lower = fmax(*lower, other_lower);
}

/* Narrows the bounds by those from the largest loss, if they apply. */
static enum eps_status bound_by_largest(struct eps__composition *c, double eps, double *upper, double *lower)
{
    double own_upper = 0, own_lower = -INFINITY;
    if (!(eps > 0) || !eps__largest_serves(&c->steps))
        return EPS_OK;
    enum eps_status status = c->largest ? EPS_OK : eps__largest_create(&c->largest, c->context, &c->steps);
    if (status == EPS_OK)
        status = eps__largest_log_delta(c->largest, EPS__UPPER, eps, &own_upper);
    if (status == EPS_OK)
        status = eps__largest_log_delta(c->largest, EPS__LOWER, eps, &own_lower);
    if (status == EPS_OK)
        narrow(upper, lower, own_upper, own_lower);
    return status;
}

/* Narrows the bounds by decisive losses. Out: *done, whether these are close enough, or will be after a refinement; the
 * slots are then kept for other epsilons. */
static enum eps_status bound_by_decisive(struct eps__composition *c, double eps, double *upper, double *lower,
                                         bool *done)
{
    struct eps__panel_slot *slots[2];
    double own[2] = {0, -INFINITY}, log_delta = eps__jump_log_delta(&c->steps, eps);
    enum eps_status status = EPS_OK;
    for (int estimate = 0; estimate < 2 && status == EPS_OK; estimate++) {
        slots[estimate] = &c->slots[c->next_slot++ % EPS__PANELS_MAX];
        status = eps__answer_decisive(c, slots[estimate], (enum eps__estimate)estimate, eps, log_delta);
        if (status == EPS_OK)
            own[estimate] = eps__slot_log_delta(slots[estimate], eps);
    }
    *done =
        status == EPS_OK && (close_enough(c, own[0], own[1]) || (own[0] - own[1] < M_LN2 && eps__decisive_refines(c)));
    for (int estimate = 0; estimate < 2 && status == EPS_OK && !*done; estimate++)
        eps__slot_clear(slots[estimate]);
    if (status == EPS_OK)
        narrow(upper, lower, own[0], own[1]);
    return status == EPS_TOO_COSTLY ? EPS_OK : status;
}

enum eps_status eps__composition_log_delta(struct eps__composition *c, enum eps__estimate estimate, double eps,
                                           double *out)
{
    struct eps__panel_slot *nearest = NULL;
    for (size_t i = 0; i < EPS__PANELS_MAX; i++) {
        struct eps__panel_slot *slot = &c->slots[i];
        if (slot->used && slot->estimate == estimate && slot->centre - slot->below <= eps &&
            eps <= slot->centre + slot->above && (!nearest || fabs(slot->centre - eps) < fabs(nearest->centre - eps)))
            nearest = slot;
    }
    if (nearest) {
        *out = eps__slot_log_delta(nearest, eps);
        return EPS_OK;
    }
    if (c->steps.len == 0 || eps > c->ceiling) {
        *out = -INFINITY;
        return EPS_OK;
    }
    if (c->steps.total == 1 && eps__single_serves(c->steps.items->branches, c->steps.items->len)) {
        *out = eps__single_log_delta(c->steps.items->branches, c->steps.items->len, estimate, eps);
        return EPS_OK;
    }
    double upper = 0, lower = -INFINITY;
    bool rare = large_losses_are_rare(c, eps), done = false;
    bool alone =
        eps > 0 && c->steps.total > 1 && eps__one_loss_decides(&c->steps, eps, LARGEST_SHARE * c->accuracy.tolerance);
    enum eps_status status = alone ? bound_by_largest(c, eps, &upper, &lower) : EPS_OK;
    if (status == EPS_OK && !close_enough(c, upper, lower) && eps__large_losses_decide(&c->steps))
        status = bound_by_decisive(c, eps, &upper, &lower, &done);
    if (status != EPS_OK)
        return status;
    double *bound = estimate == EPS__UPPER ? &upper : &lower;
    if (done || close_enough(c, upper, lower)) {
        *out = *bound;
        return EPS_OK;
    }
    c->bounded = upper - lower < M_LN2;
    status = EPS_TOO_COSTLY;
    double finer = c->finer;
    /* panels that are worse than the bounds so far are too coarse: try finer ones */
    for (int i = 0; i < REFINEMENTS && !(c->bounded && c->out_of_reach); i++) {
        status = answer_by_panels(c, estimate, eps, rare, out);
        bool useful = status == EPS_OK && (estimate == EPS__UPPER ? *out < upper : *out > lower);
        if (!c->bounded || useful)
            break;
        c->out_of_reach = status != EPS_OK || i + 1 == REFINEMENTS || !eps__composition_refine(c, 3);
    }
    c->finer = finer; /* other epsilons may need less */
    if (status == EPS_TOO_COSTLY && rare && !alone) {
        enum eps_status other = bound_by_largest(c, eps, &upper, &lower);
        if (other != EPS_OK)
            return other;
    }
    if (status == EPS_TOO_COSTLY && upper < -LARGEST_LEAST) { /* a wide bracket is better than none */
        *out = *bound;
        status = EPS_OK;
    }
    if (status == EPS_OK) {
        *out = estimate == EPS__UPPER ? fmin(*out, upper) : fmax(*out, lower);
        see(c, estimate, eps, *out);
    }
    return status;
}

enum eps_status eps__composition_log_bound(const struct eps__composition *c, double eps, double *out)
{
    if (c->steps.len == 0 || eps > c->ceiling) {
        *out = -INFINITY;
        return EPS_OK;
    }
    return eps__chernoff_log_delta(c, eps, EPS__LOG_DELTA_FLOOR - 5, out);
}

bool eps__composition_refine(struct eps__composition *c, double factor)
{
    if (c->finer * factor > 1e3)
        return false;
    c->finer *= factor;
    for (size_t i = 0; i < EPS__PANELS_MAX; i++)
        eps__slot_clear(&c->slots[i]);
    return true;
}

void eps__composition_destroy(struct eps__composition *c)
{
    if (!c)
        return;
    for (size_t k = 0; k < c->steps.len; k++)
        eps__step_clear(&c->steps.items[k]);
    free(c->steps.items);
    for (size_t i = 0; i < EPS__PANELS_MAX; i++)
        eps__slot_clear(&c->slots[i]);
    eps__largest_destroy(c->largest);
    free(c);
}
