/*
 * A pair whose curve is known: one epoch of balls in bins, by the law of a mean of lognormals.
 *
 * SPDX-License-Identifier: GPL-3.0-or-later
 */
#include "lib/pld/known/curves.h"

#include <math.h>
#include <stdlib.h>

#include "lib/numerics/normal.h"
#include "lib/pld/known/balls_in_bins.h"

struct balls_in_bins {
    struct eps__curve base;
    const struct eps_context *context;
    enum eps_direction direction;
    size_t bins;
    double shift[2];
    double tolerance;                                      /* of the directions that exist */
    struct eps__balls_in_bins *directions[EPS_DIRECTIONS]; /* NULL until needed */
};

static void forget(struct balls_in_bins *balls_in_bins)
{
    for (enum eps_direction direction = 0; direction < EPS_DIRECTIONS; direction++) {
        eps__balls_in_bins_destroy(balls_in_bins->directions[direction]);
        balls_in_bins->directions[direction] = NULL;
    }
}

/* Returns one direction at this tolerance, created if necessary. A new tolerance discards both. */
static enum eps_status open_direction(struct balls_in_bins *balls_in_bins, bool reversed, double tolerance,
                                      struct eps__balls_in_bins **opened)
{
    const struct eps__accuracy accuracy = {EPS_SOLVE_DELTA, tolerance, NAN};
    enum eps_direction direction =
        reversed ? EPS_REMOVE + EPS_ADD - balls_in_bins->direction : balls_in_bins->direction;
    enum eps_status status = EPS_OK;
    if (tolerance != balls_in_bins->tolerance)
        forget(balls_in_bins);
    balls_in_bins->tolerance = tolerance;
    if (!balls_in_bins->directions[direction])
        status = eps__balls_in_bins_create(&balls_in_bins->directions[direction], balls_in_bins->context, direction,
                                           balls_in_bins->bins, balls_in_bins->shift[EPS__LOWER],
                                           balls_in_bins->shift[EPS__UPPER], &accuracy);
    *opened = balls_in_bins->directions[direction];
    if (status == EPS_OK)
        eps__balls_in_bins_ascend(*opened, tolerance < 1e-2 ? 0.5 : 1);
    return status;
}

static enum eps_status balls_in_bins_log_delta(struct eps__curve *curve, bool reversed, enum eps__estimate estimate,
                                               double eps, double tolerance, double *log_delta)
{
    struct eps__balls_in_bins *opened;
    enum eps_status status = open_direction((struct balls_in_bins *)curve, reversed, tolerance, &opened);
    return status == EPS_OK ? eps__balls_in_bins_log_delta(opened, estimate, eps, log_delta) : status;
}

static enum eps_status balls_in_bins_guess(struct eps__curve *curve, bool reversed, double log_delta, double *eps)
{
    struct balls_in_bins *balls_in_bins = (struct balls_in_bins *)curve;
    struct eps__balls_in_bins *opened;
    enum eps_status status = open_direction(balls_in_bins, reversed, balls_in_bins->tolerance, &opened);
    if (status == EPS_OK)
        *eps = eps__balls_in_bins_guess(opened, log_delta);
    return status;
}

static void balls_in_bins_destroy(struct eps__curve *curve)
{
    forget((struct balls_in_bins *)curve);
    free(curve);
}

static const struct eps__curve_class balls_in_bins_class = {balls_in_bins_log_delta, balls_in_bins_guess,
                                                            balls_in_bins_destroy};

struct eps__curve *eps__curve_balls_in_bins(const struct eps_context *context, enum eps_direction direction,
                                            size_t bins, double shift_lower, double shift_upper)
{
    struct balls_in_bins *made = calloc(1, sizeof *made);
    if (!made)
        return NULL;
    made->base.class = &balls_in_bins_class;
    made->context = context;
    made->direction = direction;
    made->bins = bins;
    made->shift[EPS__LOWER] = shift_lower;
    made->shift[EPS__UPPER] = shift_upper;
    made->tolerance = 1e-2;
    return &made->base;
}
