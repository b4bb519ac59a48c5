/*
 * The pld accountant's bound as a list of steps, if one part of the data set is the worst and each step has one pair,
 * or as a list of curves for balls in bins.
 *
 * SPDX-License-Identifier: GPL-3.0-or-later
 */
#include "lib/accountants/pld/steps.h"

#include <stdlib.h>

#include "lib/accountants/pld/balls_in_bins.h"
#include "lib/accountants/pld/parts.h"
#include "lib/base/error.h"
#include "lib/sampling/scheme.h"

struct pld_stepper {
    struct eps__stepper base;
    const struct eps__setting *setting;
    enum eps_direction direction;
    struct eps__pld_parts parts; /* exactly one part; none for balls in bins */
};

static enum eps_status add(struct eps__stepper *stepper, struct eps__composition *composition,
                           const struct eps__steps_plan *plan, struct eps__steps_left *left)
{
    const struct pld_stepper *own = (const struct pld_stepper *)stepper;
    const struct eps_mechanism *mechanism = &own->setting->job->mechanism;
    const struct eps__step_setting step = {own->setting->p, 0, 0, plan->log_floor};
    const struct eps__step_sink sink = {.composition = composition, .times = plan->count};
    struct eps__step_pairs pairs;
    *left = (struct eps__steps_left){.resolvable = true};
    enum eps_status status = eps__scheme_of(mechanism)->pairs->make(&pairs, mechanism, &step);
    if (status == EPS_OK)
        status = eps__pld_part_compose(&sink, own->setting, &pairs, own->direction, plan->sigma, &own->parts.items[0]);
    eps__step_pairs_clear(&pairs);
    return status;
}

static void destroy(struct eps__stepper *stepper)
{
    eps__pld_parts_clear(&((struct pld_stepper *)stepper)->parts);
    free(stepper);
}

static const struct eps__stepper_class stepper_class = {.add = add, .destroy = destroy};

static enum eps_status add_curves(struct eps__stepper *stepper, const struct eps__curve_sink *sink,
                                  const struct eps__steps_plan *plan)
{
    const struct pld_stepper *own = (const struct pld_stepper *)stepper;
    return eps__pld_balls_in_bins_curves(sink, own->setting, own->direction, plan->sigma, plan->count);
}

static const struct eps__stepper_class curve_class = {.add_curves = add_curves, .destroy = destroy};

enum eps_status eps__pld_stepper(const struct eps__setting *setting, enum eps_direction direction,
                                 struct eps__stepper **stepper, struct eps_error *error)
{
    const struct eps_mechanism *mechanism = &setting->job->mechanism;
    *stepper = NULL;
    bool bins = eps__pld_is_balls_in_bins(setting);
    const struct eps__pairs *pairs = eps__scheme_of(mechanism)->pairs;
    if (bins ? !eps__pld_balls_in_bins_has_curves(setting)
             : mechanism->sampling.truncation || (pairs->variants && pairs->variants(mechanism) > 1))
        return EPS_OK;
    struct pld_stepper *made = calloc(1, sizeof *made);
    if (!made || (!bins && !eps__pld_parts_find(&made->parts, setting))) {
        free(made);
        return eps__error(error, EPS_NO_MEMORY, "", "out of memory");
    }
    made->base.class = bins ? &curve_class : &stepper_class;
    made->setting = setting;
    made->direction = direction;
    if (bins || made->parts.len == 1)
        *stepper = &made->base;
    else
        destroy(&made->base);
    return EPS_OK;
}
