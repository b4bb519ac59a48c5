/*
 * The steps of all phases in one composition. The allowed error and the probability left out are divided equally among
 * the phases.
 *
 * SPDX-License-Identifier: GPL-3.0-or-later
 */
#include "lib/training/steps.h"

#include <math.h>

#include "lib/base/limits.h"

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

enum eps_status eps__phase_form(struct eps__phase *phase, enum eps_direction use, enum eps__phase_form *form,
                                struct eps_error *error)
{
    struct eps__stepper *remove = NULL, *add = NULL;
    enum eps_status status = eps__phase_stepper(phase, use, EPS_REMOVE, &remove, error);
    if (status == EPS_OK)
        status = eps__phase_stepper(phase, use, EPS_ADD, &add, error);
    *form = EPS__FORM_PROFILE;
    if (remove && add && remove->class->add && add->class->add)
        *form = EPS__FORM_STEPS;
    else if (remove && add && remove->class->add_curves && add->class->add_curves)
        *form = EPS__FORM_CURVES;
    return status;
}

bool eps__phase_plan(const struct eps__phases_plan *plan, const struct eps__training *training,
                     const struct eps__phase *phase, struct eps__steps_plan *own)
{
    double log_delta = plan->accuracy.log_delta, phases = (double)training->len;
    double log_floor = isnan(log_delta) ? -740 : fmax(fmin(1.2 * log_delta, -60) - 40, -740);
    *own = (struct eps__steps_plan){.sigma = eps__lower(plan->sigma * phase->noise_scale, 4),
                                    .count = phase->count,
                                    .log_delta1 = plan->log_delta1,
                                    .log_floor = log_floor,
                                    .error = plan->error / phases,
                                    .log_outside = plan->log_outside - log(phases),
                                    .proven = plan->proven};
    return own->sigma >= phase->accountants[plan->direction]->least_sigma(&phase->setting);
}

enum eps_status eps__phases_compose(struct eps__composition **composition, struct eps__steps_left *left,
                                    const struct eps__training *training, const struct eps__phases_plan *plan)
{
    struct eps__composition *made = NULL;
    enum eps_status status =
        eps__composition_create(&made, training->context, plan->proven ? plan->cache_use : NULL, &plan->accuracy);
    *left = (struct eps__steps_left){.resolvable = true};
    for (size_t k = 0; k < training->len && status == EPS_OK && left->resolvable; k++) {
        struct eps__phase *phase = &training->phases[k];
        struct eps__steps_left one = {.resolvable = true};
        struct eps__steps_plan own;
        enum eps__phase_form form;
        if (!eps__phase_counts(phase))
            continue;
        status = eps__phase_form(phase, plan->use, &form, NULL);
        if (status != EPS_OK || form != EPS__FORM_STEPS)
            continue;
        left->resolvable = eps__phase_plan(plan, training, phase, &own);
        if (!left->resolvable)
            break;
        struct eps__stepper *stepper = phase->steppers[plan->use][plan->direction];
        status = stepper->class->add(stepper, made, &own, &one);
        left->outside = eps__raise(left->outside + one.outside, 4);
        left->resolvable = one.resolvable;
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
