/*
 * Curves of phases. A profile is opened at the tolerance asked for, and serves later questions of a larger tolerance.
 *
 * SPDX-License-Identifier: GPL-3.0-or-later
 */
#include "lib/training/curves.h"

#include <assert.h>
#include <math.h>
#include <stdlib.h>

#include "lib/base/limits.h"
#include "lib/numerics/normal.h"
#include "lib/pld/known/chords.h"

#define FIRST_TOLERANCE 1e-2 /* of a new curve */
#define APART 1.5            /* refine while the bounds are more than this times the tolerance apart */
#define FACTOR_MOST 4.0      /* largest factor of one refinement */

enum { TRIES = 3 }; /* evaluations of one point */

static enum eps_direction other(enum eps_direction direction)
{
    return EPS_REMOVE + EPS_ADD - direction;
}

/* A bound on ln(e^a - e^b) that allows for the rounding error of the cancellation. */
static double log_less(enum eps__estimate estimate, double a, double b)
{
    if (isinf(b) || isinf(a))
        return a;
    double top = eps__shift(estimate, a, 16 * EPS__UNIT_ROUNDOFF * (1 + fabs(a))), rest = -expm1(b - top);
    if (estimate == EPS__UPPER)
        rest = fmax(rest, 0) + 8 * EPS__UNIT_ROUNDOFF * (1 + fabs(b));
    else
        rest -= 8 * EPS__UNIT_ROUNDOFF * (1 + fabs(b));
    return rest > 0 ? eps__shift(estimate, top + log(rest), 8 * EPS__UNIT_ROUNDOFF * (1 + fabs(top))) : -INFINITY;
}

/* ------------------------------------------------------------ all steps */

struct steps_curve {
    struct eps__curve base;
    const struct eps__training *training;
    struct eps__phases_plan plan;
    struct eps__composition *compositions[EPS_DIRECTIONS]; /* NULL until needed */
    struct eps__steps_left left[EPS_DIRECTIONS];
    double tolerance;
};

static void forget_compositions(struct steps_curve *steps)
{
    for (int direction = 0; direction < EPS_DIRECTIONS; direction++) {
        eps__composition_destroy(steps->compositions[direction]);
        steps->compositions[direction] = NULL;
    }
}

static enum eps_status open_steps(struct steps_curve *steps, bool reversed, double tolerance,
                                  enum eps_direction *direction)
{
    struct eps__phases_plan plan = steps->plan;
    if (tolerance < steps->tolerance) {
        forget_compositions(steps);
        steps->tolerance = tolerance;
    }
    *direction = plan.direction = reversed ? other(steps->plan.direction) : steps->plan.direction;
    plan.accuracy = (struct eps__accuracy){EPS_SOLVE_DELTA, steps->tolerance, NAN};
    if (steps->compositions[*direction])
        return EPS_OK;
    struct eps__steps_left *left = &steps->left[*direction];
    enum eps_status status = eps__phases_compose(&steps->compositions[*direction], left, steps->training, &plan);
    /* (T3): the caller counts only the planned amount as left out */
    left->resolvable = left->resolvable && left->outside <= 2 * exp(plan.log_outside);
    return status;
}

static enum eps_status steps_log_delta(struct eps__curve *curve, bool reversed, enum eps__estimate estimate, double eps,
                                       double tolerance, double *log_delta)
{
    struct steps_curve *steps = (struct steps_curve *)curve;
    enum eps_direction direction;
    enum eps_status status = open_steps(steps, reversed, tolerance, &direction);
    if (status != EPS_OK)
        return status;
    if (!steps->left[direction].resolvable)
        return EPS_TOO_COSTLY;
    return eps__composition_log_delta(steps->compositions[direction], estimate, eps, log_delta);
}

static enum eps_status steps_guess(struct eps__curve *curve, bool reversed, double log_delta, double *eps)
{
    struct steps_curve *steps = (struct steps_curve *)curve;
    enum eps_direction direction;
    enum eps_status status = open_steps(steps, reversed, steps->tolerance, &direction);
    if (status == EPS_OK && !steps->left[direction].resolvable)
        return EPS_TOO_COSTLY;
    if (status == EPS_OK)
        *eps = eps__composition_guess(steps->compositions[direction], log_delta);
    return status;
}

static void steps_destroy(struct eps__curve *curve)
{
    forget_compositions((struct steps_curve *)curve);
    free(curve);
}

static const struct eps__curve_class steps_class = {steps_log_delta, steps_guess, steps_destroy};

struct eps__curve *eps__curve_steps(const struct eps__training *training, const struct eps__phases_plan *plan)
{
    struct steps_curve *made = calloc(1, sizeof *made);
    if (!made)
        return NULL;
    made->base.class = &steps_class;
    made->training = training;
    made->plan = *plan;
    made->plan.proven = true;
    made->tolerance = FIRST_TOLERANCE;
    return eps__curve_chords(&made->base);
}

/* ------------------------------------------------------------ one phase */

struct phase_curve {
    struct eps__curve base;
    const struct eps__phase *phase;
    struct eps_job job; /* the phase's job, with a fixed share for bad events */
    struct eps__setting setting;
    struct eps__phases_plan plan;
    struct eps__profile *profiles[EPS_DIRECTIONS]; /* NULL until needed */
    double tolerance;
    struct {
        bool known;
        enum eps_direction direction;
        double eps, tolerance, bounds[2];
    } last; /* the last evaluation, which computed both bounds */
};

static void forget_profile(struct phase_curve *own, enum eps_direction direction)
{
    if (own->profiles[direction])
        own->profiles[direction]->class->destroy(own->profiles[direction]);
    own->profiles[direction] = NULL;
}

static enum eps_status open_profile(struct phase_curve *own, bool reversed, double tolerance,
                                    enum eps_direction *direction)
{
    double log_delta1 = own->plan.log_delta1;
    struct eps__accuracy accuracy = {EPS_SOLVE_DELTA, 0, log_delta1 + M_LN2};
    for (enum eps_direction each = 0; tolerance < own->tolerance && each < EPS_DIRECTIONS; each++)
        if (!own->phase->accountants[each]->fixed)
            forget_profile(own, each);
    own->tolerance = fmin(own->tolerance, tolerance);
    accuracy.tolerance = own->tolerance;
    if (isinf(log_delta1))
        accuracy.log_delta = NAN;
    *direction = reversed ? other(own->plan.direction) : own->plan.direction;
    if (own->profiles[*direction])
        return EPS_OK;
    return own->phase->accountants[*direction]->open(&own->setting,
                                                     eps__lower(own->plan.sigma * own->phase->noise_scale, 4),
                                                     &accuracy, &own->profiles[*direction], NULL);
}

/* ln of what the profile of this direction spends on bad events. */
static double log_spent(const struct phase_curve *own, enum eps_direction direction)
{
    const struct eps__profile *profile = own->profiles[direction];
    double share = profile->class->bad_event_share ? profile->class->bad_event_share(profile, direction, 0) : 0;
    double log_delta1 = share > 0 ? log(share) : -INFINITY;
    /* (T3): the caller counts only this much as spent */
    assert(isinf(log_delta1) || log_delta1 <= own->plan.log_delta1 + 1e-9 * (1 + fabs(log_delta1)));
    return log_delta1;
}

/* Evaluates both bounds at eps, aiming and refining the profile while they are too far apart. All are bounds; the
 * best are kept. */
static enum eps_status ask(const struct phase_curve *own, enum eps_direction direction, double eps, double tolerance,
                           double bounds[2])
{
    struct eps__profile *profile = own->profiles[direction];
    double factor = 1;
    for (int i = 0; i < TRIES; i++) {
        double found[2] = {0, -INFINITY};
        enum eps_status status = EPS_OK;
        for (enum eps__estimate estimate = EPS__UPPER; estimate <= EPS__LOWER && status == EPS_OK; estimate++)
            status = eps__profile_log_delta(&own->setting, profile, direction, estimate, eps, &found[estimate], NULL);
        if (status != EPS_OK && status != EPS_TOO_COSTLY)
            return status;
        bounds[EPS__UPPER] = fmin(bounds[EPS__UPPER], found[EPS__UPPER]);
        bounds[EPS__LOWER] = fmax(bounds[EPS__LOWER], found[EPS__LOWER]);
        double apart = bounds[EPS__UPPER] - bounds[EPS__LOWER];
        if (status != EPS_OK || !(apart > APART * tolerance) || bounds[EPS__UPPER] < EPS__LOG_DELTA_FLOOR ||
            !profile->class->refine(profile, direction, factor))
            return EPS_OK;
        factor = fmin(1.3 * sqrt(apart / tolerance), FACTOR_MOST);
    }
    return EPS_OK;
}

static enum eps_status phase_log_delta(struct eps__curve *curve, bool reversed, enum eps__estimate estimate, double eps,
                                       double tolerance, double *log_delta)
{
    struct phase_curve *own = (struct phase_curve *)curve;
    enum eps_direction direction;
    enum eps_status status = open_profile(own, reversed, tolerance, &direction);
    if (status == EPS_OK && !own->plan.proven)
        return own->profiles[direction]->class->approximate(own->profiles[direction], direction, eps, log_delta);
    if (status != EPS_OK)
        return status;
    if (!own->last.known || own->last.direction != direction || own->last.eps != eps ||
        own->last.tolerance > tolerance) {
        own->last.direction = direction;
        own->last.eps = eps;
        own->last.tolerance = tolerance;
        own->last.bounds[EPS__UPPER] = 0;
        own->last.bounds[EPS__LOWER] = -INFINITY;
        status = ask(own, direction, eps, tolerance, own->last.bounds);
        own->last.known = status == EPS_OK;
    }
    if (status == EPS_OK)
        *log_delta = log_less(estimate, own->last.bounds[estimate], log_spent(own, direction));
    return status;
}

static enum eps_status phase_guess(struct eps__curve *curve, bool reversed, double log_delta, double *eps)
{
    struct phase_curve *own = (struct phase_curve *)curve;
    enum eps_direction direction;
    enum eps_status status = open_profile(own, reversed, own->tolerance, &direction);
    if (status == EPS_OK)
        status = own->profiles[direction]->class->guess(own->profiles[direction], direction,
                                                        eps__log_add(log_delta, own->plan.log_delta1), eps);
    return status;
}

static void phase_destroy(struct eps__curve *curve)
{
    for (enum eps_direction direction = 0; direction < EPS_DIRECTIONS; direction++)
        forget_profile((struct phase_curve *)curve, direction);
    free(curve);
}

static const struct eps__curve_class phase_class = {phase_log_delta, phase_guess, phase_destroy};

static struct eps__curve *make_phase(const struct eps__phase *phase, const struct eps__phases_plan *plan)
{
    struct phase_curve *made = calloc(1, sizeof *made);
    if (!made)
        return NULL;
    made->base.class = &phase_class;
    made->phase = phase;
    made->job = *phase->setting.job;
    made->job.query.accountant.bad_event_share = 0.5;
    made->setting = phase->setting;
    made->setting.job = &made->job;
    made->plan = *plan;
    made->tolerance = FIRST_TOLERANCE;
    return eps__curve_chords(&made->base);
}

/* ------------------------------------------------------------ curves kept by their phase */

struct eps__kept_curve {
    struct eps__curve *curve;
    double sigma, log_delta1;
    bool proven;
    size_t holders; /* number of curves in use */
    bool forgotten; /* released by its phase; the last holder destroys it */
};

struct held {
    struct eps__curve base;
    struct eps__kept_curve *kept;
};

static void destroy_unheld(struct eps__kept_curve *kept)
{
    if (kept->holders > 0 || !kept->forgotten)
        return;
    kept->curve->class->destroy(kept->curve);
    free(kept);
}

void eps__curve_forget(struct eps__kept_curve **kept)
{
    if (!*kept)
        return;
    (*kept)->forgotten = true;
    destroy_unheld(*kept);
    *kept = NULL;
}

static enum eps_status held_log_delta(struct eps__curve *curve, bool reversed, enum eps__estimate estimate, double eps,
                                      double tolerance, double *log_delta)
{
    struct eps__curve *own = ((const struct held *)curve)->kept->curve;
    return own->class->log_delta(own, reversed, estimate, eps, tolerance, log_delta);
}

static enum eps_status held_guess(struct eps__curve *curve, bool reversed, double log_delta, double *eps)
{
    struct eps__curve *own = ((const struct held *)curve)->kept->curve;
    return own->class->guess(own, reversed, log_delta, eps);
}

static void held_destroy(struct eps__curve *curve)
{
    struct eps__kept_curve *kept = ((const struct held *)curve)->kept;
    kept->holders--;
    destroy_unheld(kept);
    free(curve);
}

static const struct eps__curve_class held_class = {held_log_delta, held_guess, held_destroy};

static struct eps__kept_curve *keep(const struct eps__phase *phase, const struct eps__phases_plan *plan)
{
    struct eps__kept_curve *made = calloc(1, sizeof *made);
    if (!made)
        return NULL;
    *made = (struct eps__kept_curve){
        .curve = make_phase(phase, plan), .sigma = plan->sigma, .log_delta1 = plan->log_delta1, .proven = plan->proven};
    if (made->curve)
        return made;
    free(made);
    return NULL;
}

struct eps__curve *eps__curve_phase(struct eps__phase *phase, const struct eps__phases_plan *plan)
{
    struct eps__kept_curve **kept = &phase->kept[plan->direction];
    struct held *made = malloc(sizeof *made);
    bool serves = *kept && (*kept)->sigma == plan->sigma && (*kept)->log_delta1 == plan->log_delta1 &&
                  (*kept)->proven == plan->proven;
    assert(plan->use == plan->direction);
    if (made && !serves) {
        eps__curve_forget(kept);
        *kept = keep(phase, plan);
    }
    if (!made || !*kept) {
        free(made);
        return NULL;
    }
    (*kept)->holders++;
    *made = (struct held){{&held_class}, *kept};
    return &made->base;
}
