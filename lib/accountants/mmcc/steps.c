/*
 * The stepper holds the rows of the worst part. add() recomputes their tail bounds for its sigma and delta_1.
 *
 * SPDX-License-Identifier: GPL-3.0-or-later
 */
#include "lib/accountants/mmcc/steps.h"

#include <math.h>
#include <stdlib.h>

#include "lib/accountants/mmcc/compose.h"
#include "lib/accountants/mmcc/parts.h"
#include "lib/base/error.h"

struct mmcc_stepper {
    struct eps__stepper base;
    const struct eps__setting *setting;
    enum eps_direction direction;
    struct eps__rows *rows;
    double norm_square;
};

static enum eps_status add(struct eps__stepper *stepper, struct eps__composition *composition,
                           const struct eps__steps_plan *plan, struct eps__steps_left *left)
{
    const struct mmcc_stepper *own = (const struct mmcc_stepper *)stepper;
    const struct eps__rows_plan rows_plan = {.direction = own->direction,
                                             .times = plan->count,
                                             .sigma = plan->sigma,
                                             .norm_square = own->norm_square,
                                             .error = plan->error / (double)plan->count,
                                             .log_outside = plan->log_outside - log((double)plan->count),
                                             .proven = plan->proven};
    struct eps__rows_remainder remainder = {.resolvable = true};
    enum eps_status status =
        eps__mmcc_bound(own->rows, own->setting->context, own->direction, plan->sigma, plan->log_delta1, !plan->proven);
    if (status == EPS_OK)
        status = eps__rows_compose(composition, &remainder, own->rows, own->setting->context, &rows_plan);
    *left = (struct eps__steps_left){remainder.outside, remainder.resolvable};
    return status;
}

static void destroy(struct eps__stepper *stepper)
{
    struct mmcc_stepper *own = (struct mmcc_stepper *)stepper;
    if (own->rows)
        own->rows->class->destroy(own->rows);
    free(own);
}

static const struct eps__stepper_class stepper_class = {.add = add, .destroy = destroy};

enum eps_status eps__mmcc_stepper(const struct eps__setting *setting, enum eps_direction direction,
                                  struct eps__stepper **stepper, struct eps_error *error)
{
    *stepper = NULL;
    if (eps__mmcc_parts(setting) > 1)
        return EPS_OK;
    struct mmcc_stepper *made = calloc(1, sizeof *made);
    if (!made)
        return eps__error(error, EPS_NO_MEMORY, "", "out of memory");
    double norm = eps__strategy_largest_norm(setting->strategy);
    *made = (struct mmcc_stepper){{&stepper_class, false}, setting, direction, NULL, norm * norm};
    enum eps_status status = eps__mmcc_rows(&made->rows, setting, 0, error);
    if (status != EPS_OK) {
        destroy(&made->base);
        return status;
    }
    made->base.spends = eps__mmcc_uncertain_pairs(made->rows) > 0;
    *stepper = &made->base;
    return EPS_OK;
}
