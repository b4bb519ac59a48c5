/*
 * What may be lost to rounding and to what is left out is shared by the phases alike.
 *
 * SPDX-License-Identifier: GPL-3.0-or-later
 */
#include "lib/phases/steps.h"

#include <math.h>

#define LOG_DELTA_LEAST (-690.0)
#define ERROR_SHARE 0.05   /* of the tolerance, for laws that are not exact */
#define OUTSIDE_SHARE 1e-4 /* of the tolerance times delta, for what is left out */

bool eps__phase_counts(const struct eps__phase *phase)
{
    return phase->count > 0 && !phase->trivial;
}

enum eps_status eps__phase_stepper(struct eps__phase *phase, enum eps_direction use, enum eps_direction direction,
                                   struct eps__stepper **stepper, struct eps_error *error)
{
    const struct eps__accountant *accountant = phase->accountants[direction];
    enum eps_status status = EPS_OK;
    if (!phase->stepped[use][direction] && accountant->steps)
        status = accountant->steps(&phase->setting, direction, &phase->steppers[use][direction], error);
    phase->stepped[use][direction] = status == EPS_OK;
    *stepper = phase->steppers[use][direction];
    return status == EPS_OK ? status : eps__phase_error(error, phase, status);
}

enum eps_status eps__phase_steps(struct eps__phase *phase, enum eps_direction use, bool *steps, struct eps_error *error)
{
    struct eps__stepper *remove = NULL, *add = NULL;
    enum eps_status status = eps__phase_stepper(phase, use, EPS_REMOVE, &remove, error);
    if (status == EPS_OK)
        status = eps__phase_stepper(phase, use, EPS_ADD, &add, error);
    *steps = remove && add;
    return status;
}

/* An epsilon moves ln delta by about its own logarithm's slope; both unknowns allow at least this. */
void eps__phases_plan_losses(struct eps__phases_plan *plan)
{
    const struct eps__accuracy *accuracy = &plan->accuracy;
    const struct eps__bad_events *spent = &plan->spent;
    double scale = fmax(spent->eps, 1e-6);
    if (accuracy->unknown == EPS_SOLVE_DELTA || accuracy->unknown == EPS_SOLVE_CURVE)
        scale = fmin(1, scale / fmax(-spent->log_delta, 1));
    plan->error = ERROR_SHARE * accuracy->tolerance * scale / (plan->finer * plan->finer);
    plan->log_outside =
        fmax(spent->log_delta, LOG_DELTA_LEAST) + log(OUTSIDE_SHARE * accuracy->tolerance) - log(plan->finer);
}

static struct eps__steps_plan plan_of_phase(const struct eps__phases_plan *plan, size_t phases)
{
    double log_delta = plan->accuracy.log_delta;
    double log_floor = isnan(log_delta) ? -740 : fmax(fmin(1.2 * log_delta, -60) - 40, -740);
    return (struct eps__steps_plan){.log_delta1 = plan->spent.log_delta1,
                                    .log_floor = log_floor,
                                    .error = plan->error / (double)phases,
                                    .log_outside = plan->log_outside - log((double)phases),
                                    .proven = plan->proven};
}

enum eps_status eps__phases_compose(struct eps__composition **composition, struct eps__steps_left *left,
                                    const struct eps__training *training, const struct eps__phases_plan *plan)
{
    struct eps__composition *made = NULL;
    struct eps__steps_plan own = plan_of_phase(plan, training->len);
    enum eps_status status =
        eps__composition_create(&made, training->context, plan->proven ? plan->tally : NULL, &plan->accuracy);
    *left = (struct eps__steps_left){.resolvable = true};
    for (size_t k = 0; k < training->len && status == EPS_OK && left->resolvable; k++) {
        struct eps__phase *phase = &training->phases[k];
        struct eps__steps_left one = {.resolvable = true};
        bool steps = false;
        if (!eps__phase_counts(phase))
            continue;
        status = eps__phase_steps(phase, plan->use, &steps, NULL);
        if (status != EPS_OK || !steps)
            continue;
        own.sigma = eps__lower(plan->sigma * phase->noise_scale, 4);
        own.count = phase->count;
        if (own.sigma < phase->accountants[plan->direction]->least_sigma(&phase->setting)) {
            left->resolvable = false;
            break;
        }
        struct eps__stepper *stepper = phase->steppers[plan->use][plan->direction];
        status = stepper->class->add(stepper, made, &own, &one);
        left->outside = eps__raise(left->outside + one.outside, 4);
        left->resolvable = left->resolvable && one.resolvable;
    }
    if (status == EPS_OK && plan->finer > 1)
        eps__composition_refine(made, plan->finer);
    if (status != EPS_OK) {
        eps__composition_destroy(made);
        return status;
    }
    *composition = made;
    return EPS_OK;
}
