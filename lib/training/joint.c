/*
 * The profile of a whole training at one noise multiplier: delta(eps) is the sum of what all runs spend on bad events
 * plus the delta of one composition. It composes the steps of all phases if every phase has steps, and otherwise
 * curves.
 *
 * SPDX-License-Identifier: GPL-3.0-or-later
 */
#include <math.h>
#include <stdlib.h>

#include "lib/base/error.h"
#include "lib/base/limits.h"
#include "lib/numerics/normal.h"
#include "lib/training/curves.h"
#include "lib/training/scales.h"

#define LOG_OUTSIDE_LEAST (-720.0) /* ln of the least probability that is left out */
#define FINEST 1e3                 /* largest refinement */
#define FINEST_BOUNDS 2.0          /* the same if refining hardly narrows the bound of a phase */
#define OUT_OF_REACH 1e5           /* guess of epsilon if the noise is out of reach */

/* The composition of one direction. */
struct side {
    struct eps__composition *composition; /* of steps, if no phase is composed by curves; else NULL */
    struct eps__steps_left left;
    struct eps__scales *curves;   /* of curves, if a phase is; else NULL */
    struct eps__bad_events spent; /* by all runs together */
    double spenders;              /* number of runs that spend */
    bool bounds;                  /* refining hardly narrows the bound of some phase */
    bool chosen, composed, rough; /* rough: the current composition proves nothing */
    double finer;                 /* total refinement, >= 1 */
};

struct joint_profile {
    struct eps__profile base;
    const struct eps__setting *setting;
    double sigma;
    struct eps__accuracy accuracy;
    struct side sides[EPS_DIRECTIONS];
};

/* ------------------------------------------------------------ compositions */

/* Finds the number of runs that may spend on bad events in either direction, whether a phase is composed by curves,
 * and whether refining hardly narrows the bound of some phase. */
static enum eps_status survey(const struct joint_profile *joint, enum eps_direction use, double *spenders, bool *curves,
                              bool *bounds)
{
    struct eps__training *training = joint->setting->training;
    *bounds = false;
    *spenders = 0;
    *curves = false;
    for (size_t k = 0; k < training->len; k++) {
        struct eps__phase *phase = &training->phases[k];
        enum eps__phase_form form;
        bool spending = false;
        if (!eps__phase_counts(phase))
            continue;
        enum eps_status status = eps__phase_form(phase, use, &form, NULL);
        if (status != EPS_OK)
            return status;
        for (enum eps_direction d = 0; d < EPS_DIRECTIONS; d++)
            *bounds = *bounds || (!phase->accountants[d]->steps && !eps__accountant_spends(phase->accountants[d]));
        for (enum eps_direction d = 0; d < EPS_DIRECTIONS; d++)
            spending = spending || (form == EPS__FORM_PROFILE ? eps__accountant_spends(phase->accountants[d])
                                                              : phase->steppers[use][d]->spends);
        *curves = *curves || form != EPS__FORM_STEPS;
        *spenders += spending ? (double)phase->count : 0;
    }
    return EPS_OK;
}

static struct eps__phases_plan plan_of(const struct joint_profile *joint, enum eps_direction direction, bool proven)
{
    const struct side *side = &joint->sides[direction];
    struct eps__phases_plan plan = {.use = direction,
                                    .direction = direction,
                                    .sigma = joint->sigma,
                                    .accuracy = joint->accuracy,
                                    .spent = side->spent,
                                    .finer = side->finer,
                                    .proven = proven};
    if (joint->accuracy.unknown != EPS_SOLVE_NOISE_MULTIPLIER)
        plan.cache_use = joint->setting->cache_use;
    /* the share of each run, rounded down so that together they spend no more than is counted */
    plan.spent.log_delta1 = -INFINITY;
    if (side->spenders > 0) {
        double each = side->spent.log_delta1 - log(side->spenders);
        plan.spent.log_delta1 = each - 1e-9 * (1 + fabs(each));
    }
    eps__phases_plan_losses(&plan);
    return plan;
}

static enum eps_status compose_steps(const struct joint_profile *joint, enum eps_direction direction, bool proven)
{
    struct side *side = (struct side *)&joint->sides[direction];
    struct eps__phases_plan plan = plan_of(joint, direction, proven);
    eps__composition_destroy(side->composition);
    side->composition = NULL;
    enum eps_status status = eps__phases_compose(&side->composition, &side->left, joint->setting->training, &plan);
    side->composed = status == EPS_OK;
    side->rough = !proven;
    eps__meter_add(joint->setting->meter, proven ? 1 : 0);
    return status;
}

static enum eps_status take_curve(void *scales, struct eps__curve *curve, uint64_t count)
{
    return eps__scales_add(scales, curve, count);
}

/* Adds all runs of one phase, by its own curves or by the curve of its profile. */
static enum eps_status add_phase(const struct joint_profile *joint, struct eps__phase *phase, enum eps__phase_form form,
                                 const struct eps__phases_plan *plan, struct side *side)
{
    struct eps__stepper *stepper = phase->steppers[plan->use][plan->direction];
    const struct eps__curve_sink sink = {side->curves, take_curve};
    struct eps__steps_plan own;
    if (form == EPS__FORM_PROFILE)
        return eps__scales_add(side->curves, eps__curve_phase(phase, plan), phase->count);
    if (eps__phase_plan(plan, joint->setting->training, phase, &own))
        return stepper->class->add_curves(stepper, &sink, &own);
    side->left.resolvable = false;
    return EPS_OK;
}

/* Composes one curve for all steps and the curves of every other phase (T3). */
static enum eps_status make_curves(const struct joint_profile *joint, enum eps_direction direction, bool proven)
{
    struct side *side = (struct side *)&joint->sides[direction];
    struct eps__phases_plan plan = plan_of(joint, direction, proven);
    struct eps__training *training = joint->setting->training;
    bool any = false;
    if (side->spenders == 0) /* delta may be arbitrarily small, and what the steps leave out must be smaller */
        plan.log_outside = LOG_OUTSIDE_LEAST;
    eps__scales_destroy(side->curves);
    side->curves = NULL;
    side->rough = !proven;
    enum eps_status status = eps__scales_create(&side->curves, joint->setting->context, &joint->accuracy);
    for (size_t k = 0; k < training->len && status == EPS_OK; k++) {
        struct eps__phase *phase = &training->phases[k];
        enum eps__phase_form form;
        if (!eps__phase_counts(phase))
            continue;
        status = eps__phase_form(phase, direction, &form, NULL);
        any = any || form == EPS__FORM_STEPS;
        if (status == EPS_OK && form != EPS__FORM_STEPS)
            status = add_phase(joint, phase, form, &plan, side);
    }
    side->left.outside = any ? 2 * exp(plan.log_outside) : 0;
    if (status == EPS_OK && any)
        status = eps__scales_add(side->curves, eps__curve_steps(training, &plan), 1);
    return status;
}

/* ------------------------------------------------------------ the choice of delta_1 */

struct asked {
    const struct joint_profile *joint;
    enum eps_direction direction;
};

static enum eps_status ask_compose(void *user)
{
    const struct asked *asked = user;
    return compose_steps(asked->joint, asked->direction, false);
}

static double quick_log_delta2(const struct side *side, double eps)
{
    return side->left.resolvable ? eps__composition_approximate(side->composition, eps) : 0;
}

static double quick_epsilon(const struct side *side, double log_delta2)
{
    return side->left.resolvable ? eps__composition_guess(side->composition, log_delta2) : OUT_OF_REACH;
}

static double ask_log_delta2(void *user, double eps)
{
    const struct asked *asked = user;
    return quick_log_delta2(&asked->joint->sides[asked->direction], eps);
}

static double ask_epsilon(void *user, double log_delta2)
{
    const struct asked *asked = user;
    return quick_epsilon(&asked->joint->sides[asked->direction], log_delta2);
}

/* Nothing is spent on bad events: only the point that determines the precision is estimated. */
static enum eps_status choose_without(struct joint_profile *joint, enum eps_direction direction, double log_delta,
                                      double eps)
{
    struct side *side = &joint->sides[direction];
    side->spent = (struct eps__bad_events){-INFINITY, isnan(log_delta) ? EPS__LOG_DELTA_ABOUT : log_delta, eps};
    enum eps_status status = compose_steps(joint, direction, false);
    if (status == EPS_OK && isnan(log_delta))
        side->spent.log_delta = quick_log_delta2(side, eps);
    else if (status == EPS_OK)
        side->spent.eps = quick_epsilon(side, log_delta);
    return status;
}

/* Chooses delta_1 of all runs together. The choice needs no proof. quick: curves that are made need not be proven
 * either. */
static enum eps_status choose(struct joint_profile *joint, enum eps_direction direction, bool quick)
{
    struct side *side = &joint->sides[direction];
    const struct eps_query *query = &joint->setting->job->query;
    double log_delta = joint->accuracy.log_delta, eps = isnan(query->epsilon) ? 1 : query->epsilon;
    bool curves;
    if (side->chosen)
        return EPS_OK;
    enum eps_status status = survey(joint, direction, &side->spenders, &curves, &side->bounds);
    if (status == EPS_OK && curves) {
        double share = isnan(query->accountant.bad_event_share) ? 0.5 : query->accountant.bad_event_share;
        double asked = joint->accuracy.unknown == EPS_SOLVE_CURVE && isnan(log_delta) ? log(query->delta) : log_delta;
        double about = isnan(asked) ? EPS__LOG_DELTA_ABOUT : asked;
        side->spent = (struct eps__bad_events){side->spenders > 0 ? about + log(share) : -INFINITY, about, eps};
        status = make_curves(joint, direction, !quick);
    } else if (status == EPS_OK && side->spenders > 0) {
        struct asked asked = {joint, direction};
        const struct eps__bad_events_ask ask = {&asked, ask_compose, ask_log_delta2, ask_epsilon};
        status = eps__bad_events_choose(&side->spent, &ask, query->accountant.bad_event_share, log_delta, eps,
                                        joint->accuracy.tolerance);
    } else if (status == EPS_OK) {
        status = choose_without(joint, direction, log_delta, eps);
    }
    if (status == EPS_OK && joint->accuracy.unknown == EPS_SOLVE_NOISE_MULTIPLIER)
        side->spent.eps = eps;
    side->chosen = status == EPS_OK;
    return status;
}

/* ------------------------------------------------------------ the profile */

/* Adds delta_1 and what is left out to an upper bound, and takes what is left out off a lower one (T1). */
static double with_rest(const struct side *side, enum eps__estimate estimate, double log_delta2)
{
    double outside = side->left.outside, sum;
    if (estimate == EPS__UPPER) {
        sum = eps__log_add(eps__log_add(log_delta2, log(outside)), side->spent.log_delta1);
        return fmin(eps__shift(EPS__UPPER, sum, 16 * EPS__UNIT_ROUNDOFF * (1 + fabs(sum))), 0);
    }
    double kept = log_delta2 + (outside > 0 ? log1p(-fmin(outside * exp(-log_delta2), 1)) : 0);
    sum = eps__log_add(isnan(kept) ? -INFINITY : kept, side->spent.log_delta1);
    return eps__shift(EPS__LOWER, sum, 16 * EPS__UNIT_ROUNDOFF * (1 + fabs(sum)));
}

static enum eps_status log_delta(struct eps__profile *profile, enum eps_direction direction,
                                 enum eps__estimate estimate, double eps, double *out, struct eps_error *error)
{
    struct joint_profile *joint = (struct joint_profile *)profile;
    struct side *side = &joint->sides[direction];
    double log_delta2 = estimate == EPS__UPPER ? 0 : -INFINITY;
    (void)error;
    enum eps_status status = choose(joint, direction, false);
    if (status == EPS_OK && side->curves && side->rough)
        status = make_curves(joint, direction, true);
    if (status == EPS_OK && !side->curves && (!side->composed || side->rough))
        status = compose_steps(joint, direction, true);
    if (status == EPS_OK && side->curves && side->left.resolvable)
        status = eps__scales_log_delta(side->curves, estimate, eps, &log_delta2);
    else if (status == EPS_OK && !side->curves && side->left.resolvable)
        status = eps__composition_log_delta(side->composition, estimate, eps, &log_delta2);
    if (status == EPS_OK)
        *out = with_rest(side, estimate, log_delta2);
    return status;
}

static enum eps_status approximate(struct eps__profile *profile, enum eps_direction direction, double eps, double *out)
{
    struct joint_profile *joint = (struct joint_profile *)profile;
    struct side *side = &joint->sides[direction];
    double log_delta2 = NAN;
    enum eps_status status = choose(joint, direction, true);
    if (status == EPS_OK && side->curves && !side->left.resolvable)
        log_delta2 = 0;
    else if (status == EPS_OK && side->curves)
        status = eps__scales_approximate(side->curves, eps, &log_delta2);
    else if (status == EPS_OK)
        log_delta2 = quick_log_delta2(side, eps);
    *out = status == EPS_OK ? fmin(eps__log_add(side->spent.log_delta1, log_delta2), 0) : NAN;
    return status == EPS_TOO_COSTLY ? EPS_OK : status;
}

static enum eps_status guess(struct eps__profile *profile, enum eps_direction direction, double log_delta_wanted,
                             double *eps)
{
    struct joint_profile *joint = (struct joint_profile *)profile;
    struct side *side = &joint->sides[direction];
    enum eps_status status = choose(joint, direction, false);
    *eps = 0;
    if (status != EPS_OK)
        return status == EPS_TOO_COSTLY ? EPS_OK : status;
    /* If the delta wanted is below the floor delta_1: where the rest is 1% of delta_1. */
    double delta1 = side->spent.log_delta1;
    double left =
        log_delta_wanted > delta1 ? log_delta_wanted + log1p(-exp(delta1 - log_delta_wanted)) : delta1 + log(0.01);
    if (side->curves && side->left.resolvable)
        return eps__scales_guess(side->curves, left, eps);
    *eps = quick_epsilon(side, left);
    return EPS_OK;
}

static bool refine(struct eps__profile *profile, enum eps_direction direction, double factor)
{
    struct side *side = &((struct joint_profile *)profile)->sides[direction];
    if (side->curves && (side->finer * factor > FINEST || (side->bounds && side->finer * factor > FINEST_BOUNDS) ||
                         !eps__scales_refine(side->curves, factor)))
        return false;
    if (side->curves) {
        side->finer *= factor;
        return true;
    }
    if (!side->composed || side->finer * factor > FINEST)
        return false;
    if (factor == 1 || side->spenders == 0) { /* the steps do not depend on the refinement */
        side->finer *= factor;
        return eps__composition_refine(side->composition, factor);
    }
    side->finer *= factor;
    side->composed = false;
    return true;
}

/* NAN if nothing is spent on bad events. */
static double bad_event_share(const struct eps__profile *profile, enum eps_direction direction, double log_delta_at)
{
    const struct side *side = &((const struct joint_profile *)profile)->sides[direction];
    return side->chosen && side->spenders > 0 ? exp(side->spent.log_delta1 - log_delta_at) : NAN;
}

static void destroy(struct eps__profile *profile)
{
    struct joint_profile *joint = (struct joint_profile *)profile;
    for (int direction = 0; direction < EPS_DIRECTIONS; direction++) {
        eps__composition_destroy(joint->sides[direction].composition);
        eps__scales_destroy(joint->sides[direction].curves);
    }
    free(joint);
}

static const struct eps__profile_class profile_class = {.log_delta = log_delta,
                                                        .approximate = approximate,
                                                        .guess = guess,
                                                        .refine = refine,
                                                        .bad_event_share = bad_event_share,
                                                        .destroy = destroy};

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
    struct joint_profile *made = calloc(1, sizeof *made);
    if (!made)
        return eps__error(error, EPS_NO_MEMORY, "", "out of memory");
    made->base.class = &profile_class;
    made->setting = setting;
    made->sigma = sigma;
    made->accuracy = *accuracy;
    for (int direction = 0; direction < EPS_DIRECTIONS; direction++)
        made->sides[direction] = (struct side){.finer = 1, .spent.log_delta1 = -INFINITY, .left.resolvable = true};
    *profile = &made->base;
    return EPS_OK;
}

const struct eps__accountant eps__accountant_joint = {
    .method = EPS_ACCOUNTANT_AUTO,
    .name = "auto",
    .open = open_profile,
    .least_sigma = least_sigma,
};
