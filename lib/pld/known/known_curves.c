/*
 * A pair whose curve is known: random allocation, by the law of a mean of lognormals.
 *
 * SPDX-License-Identifier: GPL-3.0-or-later
 */
#include "lib/pld/known/curves.h"

#include <math.h>
#include <stdlib.h>

#include "lib/numerics/normal.h"
#include "lib/pld/known/allocation.h"

struct allocation {
    struct eps__curve base;
    const struct eps_context *context;
    enum eps_direction direction;
    size_t bins;
    double shift[2];
    double tolerance;                                   /* of those there are */
    struct eps__allocation *directions[EPS_DIRECTIONS]; /* NULL until they are asked */
};

static void forget(struct allocation *allocation)
{
    for (enum eps_direction direction = 0; direction < EPS_DIRECTIONS; direction++) {
        eps__allocation_destroy(allocation->directions[direction]);
        allocation->directions[direction] = NULL;
    }
}

/* The one direction, made where need be. */
static enum eps_status open_direction(struct allocation *allocation, bool reversed, double tolerance,
                                      struct eps__allocation **opened)
{
    const struct eps__accuracy accuracy = {EPS_SOLVE_DELTA, tolerance, NAN};
    enum eps_direction direction = reversed ? EPS_REMOVE + EPS_ADD - allocation->direction : allocation->direction;
    enum eps_status status = EPS_OK;
    if (tolerance != allocation->tolerance)
        forget(allocation);
    allocation->tolerance = tolerance;
    if (!allocation->directions[direction])
        status =
            eps__allocation_create(&allocation->directions[direction], allocation->context, direction, allocation->bins,
                                   allocation->shift[EPS__LOWER], allocation->shift[EPS__UPPER], &accuracy);
    *opened = allocation->directions[direction];
    if (status == EPS_OK)
        eps__allocation_ascend(*opened, tolerance < 1e-2 ? 0.5 : 1);
    return status;
}

static enum eps_status allocation_log_delta(struct eps__curve *curve, bool reversed, enum eps__estimate estimate,
                                            double eps, double tolerance, double *log_delta)
{
    struct eps__allocation *opened;
    enum eps_status status = open_direction((struct allocation *)curve, reversed, tolerance, &opened);
    return status == EPS_OK ? eps__allocation_log_delta(opened, estimate, eps, log_delta) : status;
}

static enum eps_status allocation_guess(struct eps__curve *curve, bool reversed, double log_delta, double *eps)
{
    struct allocation *allocation = (struct allocation *)curve;
    struct eps__allocation *opened;
    enum eps_status status = open_direction(allocation, reversed, allocation->tolerance, &opened);
    if (status == EPS_OK)
        *eps = eps__allocation_guess(opened, log_delta);
    return status;
}

static void allocation_destroy(struct eps__curve *curve)
{
    forget((struct allocation *)curve);
    free(curve);
}

static const struct eps__curve_class allocation_class = {allocation_log_delta, allocation_guess, allocation_destroy};

struct eps__curve *eps__curve_allocation(const struct eps_context *context, enum eps_direction direction, size_t bins,
                                         double shift_lower, double shift_upper)
{
    struct allocation *made = calloc(1, sizeof *made);
    if (!made)
        return NULL;
    made->base.class = &allocation_class;
    made->context = context;
    made->direction = direction;
    made->bins = bins;
    made->shift[EPS__LOWER] = shift_lower;
    made->shift[EPS__UPPER] = shift_upper;
    made->tolerance = 1e-2;
    return &made->base;
}
