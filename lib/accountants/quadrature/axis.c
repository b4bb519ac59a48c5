/*
 * See axis.h.
 *
 * SPDX-License-Identifier: GPL-3.0-or-later
 */
#include "lib/accountants/quadrature/axis.h"

#include <assert.h>
#include <math.h>
#include <stdlib.h>

#include "lib/numerics/normal.h"

/* A cell under the standard normal law, over the density at its point nearest to 0: the mass, and the parts of it that
 * interpolation assigns to the two ends, with their absolute errors. */
struct cell {
    double log_density;
    double mass, lower, upper;
    double mass_error, lower_error, upper_error;
};

/* The cell from `left` to left + width, with left + width/2 >= 0. */
static struct cell right_cell(double left, double width)
{
    double error, nearest = fmax(left, 0), drop = width * (left + width / 2);
    struct cell cell = {.log_density = -nearest * nearest / 2 - EPS__LOG_SQRT_2PI};
    double log_mass = eps__normal_log_mass(left, width, &error) - cell.log_density;
    error += 8 * EPS__UNIT_ROUNDOFF * (1 + nearest * nearest + fabs(log_mass) + drop);
    cell.mass = exp(log_mass);
    cell.mass_error = cell.mass * (expm1(2 * error) + 4 * EPS__UNIT_ROUNDOFF);
    /* The mean distance from the left end, times the mass, is phi(left) - phi(left + width) - left mass. */
    double right = left + width;
    double fall = left > 0 ? -expm1(-drop) : exp(-left * left / 2) - exp(-right * right / 2);
    double moment = fall - left * cell.mass;
    double moment_error = 8 * EPS__UNIT_ROUNDOFF * (left > 0 ? fmin(drop, 2) : 2) +
                          fabs(left) * (cell.mass_error + 2 * EPS__UNIT_ROUNDOFF * cell.mass) +
                          2 * EPS__UNIT_ROUNDOFF * fabs(moment);
    cell.upper = moment / width;
    cell.upper_error = moment_error / width + 4 * EPS__UNIT_ROUNDOFF * fabs(cell.upper);
    cell.lower = cell.mass - cell.upper;
    cell.lower_error = cell.mass_error + cell.upper_error + EPS__UNIT_ROUNDOFF * fabs(cell.lower);
    return cell;
}

/* The cell that begins at `left`: by symmetry, the nearer end comes first. */
static struct cell cell_at(double left, double width)
{
    if (left + width / 2 >= 0)
        return right_cell(left, width);
    struct cell mirrored = right_cell(-(left + width), width), cell = mirrored;
    cell.lower = mirrored.upper;
    cell.upper = mirrored.lower;
    cell.lower_error = mirrored.upper_error;
    cell.upper_error = mirrored.lower_error;
    return cell;
}

static bool points_make(struct eps__axis_points *points, size_t len)
{
    *points = (struct eps__axis_points){
        .len = len, .at = malloc(len * sizeof *points->at), .log_weight = malloc(len * sizeof *points->log_weight)};
    return points->at && points->log_weight;
}

static void points_clear(struct eps__axis_points *points)
{
    free(points->at);
    free(points->log_weight);
    *points = (struct eps__axis_points){0};
}

void eps__axis_clear(struct eps__axis *axis)
{
    points_clear(&axis->ends);
    points_clear(&axis->means);
}

/* A bound on the logarithm of a number within `error` of value e^log_density. */
static double logarithm(enum eps__estimate estimate, double value, double error, double log_density)
{
    double bound = estimate == EPS__UPPER ? (value < 0 ? 0 : value) + error : value - error;
    if (isnan(bound))
        return estimate == EPS__UPPER ? INFINITY : -INFINITY;
    double log_bound = bound > 0 ? eps__log_bound(estimate, bound, 2) + log_density : -INFINITY;
    return eps__shift(estimate, log_bound, 4 * EPS__UNIT_ROUNDOFF * (1 + fabs(log_density)));
}

bool eps__axis_make(struct eps__axis *axis, double low, double high, size_t cells)
{
    assert(cells >= 1 && high > low && low >= -1000 && high <= 1000);
    *axis = (struct eps__axis){.cells = cells};
    if (!points_make(&axis->ends, cells + 1) || !points_make(&axis->means, cells)) {
        eps__axis_clear(axis);
        return false;
    }
    for (size_t j = 0; j <= cells; j++) {
        axis->ends.at[j] = j == cells ? high : low + (high - low) * ((double)j / (double)cells);
        axis->ends.log_weight[j] = -INFINITY;
    }
    for (size_t j = 0; j < cells; j++) {
        double left = axis->ends.at[j], width = axis->ends.at[j + 1] - left;
        struct cell cell = cell_at(left, width);
        double *log_weight = &axis->ends.log_weight[j];
        double own = logarithm(EPS__UPPER, cell.lower, cell.lower_error, cell.log_density);
        *log_weight = eps__shift(EPS__UPPER, eps__log_add(*log_weight, own),
                                 8 * EPS__UNIT_ROUNDOFF * (1 + fmax(fabs(own), j > 0 ? fabs(*log_weight) : 0)));
        log_weight[1] = logarithm(EPS__UPPER, cell.upper, cell.upper_error, cell.log_density);
        axis->means.log_weight[j] = logarithm(EPS__LOWER, cell.mass, cell.mass_error, cell.log_density);
        double share = fmin(fmax(cell.upper / cell.mass, 0), 1); /* the mean's place in the cell */
        double error = (cell.upper_error + cell.mass_error) / cell.mass + 8 * EPS__UNIT_ROUNDOFF;
        axis->means.at[j] = left + width * share;
        axis->means.error = fmax(axis->means.error, width * error + 2 * EPS__UNIT_ROUNDOFF * fabs(axis->means.at[j]));
    }
    return true;
}

/* A bound on e^(log_weight + tilt at - tilt^2/2). */
static double weighted(enum eps__estimate estimate, double log_weight, double tilt, double at, double error)
{
    double rounding = 4 * EPS__UNIT_ROUNDOFF * (fabs(log_weight) + fabs(tilt * at) + tilt * tilt);
    return eps__exp_bound(estimate, log_weight + tilt * at - tilt * tilt / 2, rounding + fabs(tilt) * error);
}

struct eps__axis_mean eps__axis_mean(const struct eps__axis *axis, double tilt, size_t j, enum eps__estimate estimate)
{
    double left = axis->ends.at[j], right = axis->ends.at[j + 1], width = right - left, error;
    double log_mass = eps__normal_log_mass(left - tilt, width, &error), far = fabs(left) + fabs(right) + fabs(tilt);
    error += 4 * EPS__UNIT_ROUNDOFF * far * (far + 1 / width); /* its ends are rounded */
    if (estimate == EPS__LOWER)
        return (struct eps__axis_mean){
            eps__exp_bound(EPS__UPPER, log_mass, error),
            weighted(EPS__LOWER, axis->means.log_weight[j], tilt, axis->means.at[j], axis->means.error)};
    struct cell cell = cell_at(left, width);
    double lower = logarithm(EPS__UPPER, cell.lower, cell.lower_error, cell.log_density);
    double upper = logarithm(EPS__UPPER, cell.upper, cell.upper_error, cell.log_density);
    return (struct eps__axis_mean){
        eps__raise(weighted(EPS__UPPER, lower, tilt, left, 0) + weighted(EPS__UPPER, upper, tilt, right, 0), 4),
        eps__exp_bound(EPS__LOWER, log_mass, error)};
}
