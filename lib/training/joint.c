/*
 * The profile of a whole training at one noise multiplier: delta(eps) is the sum of what all runs spend on bad events
 * plus the delta of one composition. It composes the steps of all phases if every phase has steps, and otherwise
 * curves.
 *
 * SPDX-License-Identifier: GPL-3.0-or-later
 */
#include <math.h>
#include <stdlib.h>

#include "lib/accountants/bad_events.h"
#include "lib/base/limits.h"
#include "lib/training/curves.h"
#include "lib/training/scales.h"

#define LOG_OUTSIDE_LEAST (-720.0) /* ln of the least probability that is left out */
#define FINEST 1e3                 /* largest refinement */
#define FINEST_BOUNDS 2.0          /* the same if refining hardly narrows the bound of a phase */
#define OUT_OF_REACH 1e5           /* guess of epsilon if the noise is out of reach */

/* One direction of the profile. */
struct side {
    struct eps__spending base;            /* spent: by all runs together */
    struct eps__composition *composition; /* of steps, if no phase is composed by curves; else NULL */
    struct eps__steps_left left;
    struct eps__scales *curves; /* of curves, if a phase is; else NULL */
    double spenders;            /* number of runs that may spend in either direction */
    bool by_curves;             /* a phase is composed by curves */
    bool bounds;                /* refining hardly narrows the bound of some phase */
};

/* ------------------------------------------------------------ compositions */

/* Sets spenders, by_curves and bounds. */
static enum eps_status survey(struct side *side)
{
    struct eps__training *training = side->base.setting->training;
    enum eps_direction use = side->base.direction;
    side->spenders = 0;
    side->by_curves = side->bounds = false;
    for (size_t k = 0; k < training->len; k++) {
        struct eps__phase *phase = &training->phases[k];
        enum eps__phase_form form;
        bool spending = false;
        if (!eps__phase_counts(phase))
            continue;
        enum eps_status status = eps__phase_form(phase, use, &form, NULL);
        if (status != EPS_OK)
            return status;
        for (enum eps_direction d = 0; d < EPS_DIRECTIONS; d++) {
            const struct eps__accountant *accountant = phase->accountants[d];
            bool spends = eps__accountant_spends(accountant);
            side->bounds = side->bounds || (!accountant->steps && !spends);
            spending = spending || (form == EPS__FORM_PROFILE ? spends : phase->steppers[use][d]->spends);
        }
        side->by_curves = side->by_curves || form != EPS__FORM_STEPS;
        side->spenders += spending ? (double)phase->count : 0;
    }
    return EPS_OK;
}

static struct eps__phases_plan plan_of(const struct side *side, bool proven)
{
    const struct eps__spending *base = &side->base;
    struct eps__phases_plan plan = {.use = base->direction,
                                    .direction = base->direction,
                                    .sigma = base->sigma,
                                    .accuracy = base->accuracy,
                                    .log_delta1 = -INFINITY,
                                    .finer = base->finer,
                                    .proven = proven};
    if (base->accuracy.unknown != EPS_SOLVE_NOISE_MULTIPLIER)
        plan.cache_use = base->setting->cache_use;
    /* the share of each run, rounded down so that together they spend no more than is counted */
    if (side->spenders > 0) {
        double each = base->spent.log_delta1 - log(side->spenders);
        plan.log_delta1 = each - 1e-9 * (1 + fabs(each));
    }
    eps__spending_losses(&base->spent, &base->accuracy, base->finer, &plan.error, &plan.log_outside);
    return plan;
}

static enum eps_status compose_steps(struct side *side, bool proven)
{
    struct eps__phases_plan plan = plan_of(side, proven);
    const struct eps__setting *setting = side->base.setting;
    eps__composition_destroy(side->composition);
    side->composition = NULL;
    enum eps_status status = eps__phases_compose(&side->composition, &side->left, setting->training, &plan);
    eps__meter_add(setting->meter, proven ? 1 : 0);
    return status;
}

static enum eps_status take_curve(void *scales, struct eps__curve *curve, uint64_t count)
{
    return eps__scales_add(scales, curve, count);
}

/* Adds all runs of one phase, by its own curves or by the curve of its profile. */
static enum eps_status add_phase(struct side *side, struct eps__phase *phase, enum eps__phase_form form,
                                 const struct eps__phases_plan *plan)
{
    struct eps__stepper *stepper = phase->steppers[plan->use][plan->direction];
    const struct eps__curve_sink sink = {side->curves, take_curve};
    struct eps__steps_plan own;
    if (form == EPS__FORM_PROFILE)
        return eps__scales_add(side->curves, eps__curve_phase(phase, plan), phase->count);
    if (eps__phase_plan(plan, side->base.setting->training, phase, &own))
        return stepper->class->add_curves(stepper, &sink, &own);
    side->left.resolvable = false;
    return EPS_OK;
}

/* Composes one curve for all steps and the curves of every other phase (T3). */
static enum eps_status make_curves(struct side *side, bool proven)
{
    struct eps__phases_plan plan = plan_of(side, proven);
    const struct eps__spending *base = &side->base;
    struct eps__training *training = base->setting->training;
    bool any = false;
    if (side->spenders == 0) /* delta may be arbitrarily small, and what the steps leave out must be smaller */
        plan.log_outside = LOG_OUTSIDE_LEAST;
    eps__scales_destroy(side->curves);
    side->curves = NULL;
    enum eps_status status = eps__scales_create(&side->curves, base->setting->context, &base->accuracy);
    for (size_t k = 0; k < training->len && status == EPS_OK; k++) {
        struct eps__phase *phase = &training->phases[k];
        enum eps__phase_form form;
        if (!eps__phase_counts(phase))
            continue;
        status = eps__phase_form(phase, base->direction, &form, NULL);
        any = any || form == EPS__FORM_STEPS;
        if (status == EPS_OK && form != EPS__FORM_STEPS)
            status = add_phase(side, phase, form, &plan);
    }
    side->left.outside = any ? 2 * exp(plan.log_outside) : 0;
    if (status == EPS_OK && any)
        status = eps__scales_add(side->curves, eps__curve_steps(training, &plan), 1);
    return status;
}

static enum eps_status compose(struct eps__spending *base, bool proven)
{
    struct side *side = (struct side *)base;
    return side->by_curves ? make_curves(side, proven) : compose_steps(side, proven);
}

/* ------------------------------------------------------------ the profile */

/* For curves, delta_1 is a given share of delta. */
static enum eps_status prepare(struct eps__spending *base, bool *spends, struct eps_error *error)
{
    struct side *side = (struct side *)base;
    const struct eps_query *query = &base->setting->job->query;
    (void)error;
    side->left.resolvable = true;
    enum eps_status status = survey(side);
    *spends = side->spenders > 0;
    if (status != EPS_OK || !side->by_curves)
        return status;
    double share = isnan(query->accountant.bad_event_share) ? 0.5 : query->accountant.bad_event_share;
    double asked = base->accuracy.unknown == EPS_SOLVE_CURVE ? log(query->delta) : base->log_delta;
    double about = isnan(asked) ? EPS__LOG_DELTA_ABOUT : asked;
    base->spent = (struct eps__bad_events){side->spenders > 0 ? about + log(share) : -INFINITY, about,
                                           isnan(query->epsilon) ? 1 : query->epsilon};
    base->chosen = true;
    return EPS_OK;
}

static enum eps_status quick_log_delta2(struct eps__spending *base, double eps, double *log_delta2)
{
    const struct side *side = (const struct side *)base;
    *log_delta2 = 0;
    if (side->left.resolvable && side->curves)
        return eps__scales_approximate(side->curves, eps, log_delta2);
    if (side->left.resolvable)
        *log_delta2 = eps__composition_approximate(side->composition, eps);
    return EPS_OK;
}

static enum eps_status quick_epsilon(struct eps__spending *base, double log_delta2, double *eps)
{
    const struct side *side = (const struct side *)base;
    if (side->left.resolvable && side->curves)
        return eps__scales_guess(side->curves, log_delta2, eps);
    *eps = side->left.resolvable ? eps__composition_guess(side->composition, log_delta2) : OUT_OF_REACH;
    return EPS_OK;
}

static enum eps_status log_delta(struct eps__spending *base, enum eps__estimate estimate, double eps, double *out)
{
    const struct side *side = (const struct side *)base;
    double log_delta2 = estimate == EPS__UPPER ? 0 : -INFINITY;
    enum eps_status status = EPS_OK;
    if (side->left.resolvable)
        status = side->curves ? eps__scales_log_delta(side->curves, estimate, eps, &log_delta2)
                              : eps__composition_log_delta(side->composition, estimate, eps, &log_delta2);
    if (status == EPS_OK)
        *out = eps__spending_total(estimate, log_delta2, side->left.outside, base->spent.log_delta1);
    return status;
}

static bool refine(struct eps__spending *base, double factor)
{
    const struct side *side = (const struct side *)base;
    double finer = base->finer * factor;
    if (side->curves &&
        (finer > FINEST || (side->bounds && finer > FINEST_BOUNDS) || !eps__scales_refine(side->curves, factor)))
        return false;
    if (!side->curves && (!base->composed || finer > FINEST))
        return false;
    base->finer = finer;
    if (side->curves)
        return true;
    if (factor == 1 || side->spenders == 0) /* the steps do not depend on the refinement */
        return eps__composition_refine(side->composition, factor);
    base->composed = false;
    return true;
}

static void destroy(struct eps__spending *base)
{
    struct side *side = (struct side *)base;
    eps__composition_destroy(side->composition);
    eps__scales_destroy(side->curves);
}

static const struct eps__spending_class spending_class = {.size = sizeof(struct side),
                                                          .prepare = prepare,
                                                          .compose = compose,
                                                          .log_delta2 = quick_log_delta2,
                                                          .epsilon = quick_epsilon,
                                                          .log_delta = log_delta,
                                                          .refine = refine,
                                                          .destroy = destroy,
                                                          .share_unspent = NAN,
                                                          .proven_guess = true};

/* ------------------------------------------------------------ the accountant */

/* The least sigma that the accountants of every phase can open. */
static double least_sigma(const struct eps__setting *setting)
{
    const struct eps__training *training = setting->training;
    double least = EPS_NOISE_MULTIPLIER_LEAST;
    for (size_t k = 0; k < training->len; k++) {
        const struct eps__phase *phase = &training->phases[k];
        for (int d = 0; d < EPS_DIRECTIONS && eps__phase_counts(phase); d++)
            least =
                fmax(least,
                     eps__raise(fmax(phase->accountants[d]->least_sigma(&phase->setting), EPS_NOISE_MULTIPLIER_LEAST) /
                                    phase->noise_scale,
                                64));
    }
    return least;
}

static enum eps_status open_profile(const struct eps__setting *setting, double sigma,
                                    const struct eps__accuracy *accuracy, struct eps__profile **profile,
                                    struct eps_error *error)
{
    return eps__spending_open(&spending_class, setting, sigma, accuracy, profile, error);
}

const struct eps__accountant eps__accountant_joint = {
    .method = EPS_ACCOUNTANT_AUTO,
    .name = "auto",
    .open = open_profile,
    .least_sigma = least_sigma,
};
