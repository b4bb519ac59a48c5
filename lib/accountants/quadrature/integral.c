/*
 * See integral.h.
 *
 * SPDX-License-Identifier: GPL-3.0-or-later
 */
#include "lib/accountants/quadrature/integral.h"

#include <assert.h>
#include <math.h>
#include <stdlib.h>

#include "lib/base/error.h"
#include "lib/numerics/normal.h"

enum { MOST = EPS__BIN_POINTS_MOST, AXES = EPS__BIN_AXES_MOST };

#define RESIDUAL 1e-10       /* how far ln X is from its target where an integral is cut, about */
#define FARTHEST 40.0        /* beyond it the standard normal law has no mass */
#define UNDERFLOW 1e4        /* beyond it every term of a line is 0 */
#define BEND 4.0             /* about how many standard deviations away most of a small delta is */
#define NEWTON 60            /* the most steps */
#define MARGIN 1e-6          /* of the farthest cut: far more than rounding */
#define CORRECTION_UNITS 1e6 /* of a correction's rounding: 1e-10 */

/* ------------------------------------------------------------ the grid */

void eps__bin_grid_clear(struct eps__bin_grid *grid)
{
    for (size_t k = 0; k < grid->axes; k++)
        eps__axis_clear(&grid->items[k]);
    *grid = (struct eps__bin_grid){0};
}

double eps__bin_grid_cells(const struct eps__bin_grid *grid)
{
    double cells = 1;
    for (size_t k = 0; k < grid->axes; k++)
        cells *= (double)grid->items[k].cells;
    return cells;
}

/* The probability that a normal number around `center` is not within the axis, rounded up. */
static double beyond(const struct eps__axis *axis, double center)
{
    double ends[] = {center - axis->ends.at[0], axis->ends.at[axis->cells] - center}, sum = 0;
    for (int i = 0; i < 2; i++)
        sum +=
            eps__exp_bound(EPS__UPPER, eps__log_normal_tail(ends[i]),
                           EPS__LOG_TAIL_ERROR(ends[i]) + 4 * EPS__UNIT_ROUNDOFF * fabs(ends[i]) * (fabs(center) + 2));
    return eps__raise(sum, 4);
}

static double outside(const struct eps__bin_grid *grid, const struct eps__bin_points *points,
                      enum eps_direction direction)
{
    double sum = 0;
    for (size_t k = 0; k < grid->axes; k++)
        for (size_t i = 0; i < points->len; i++)
            sum += beyond(&grid->items[k], direction == EPS_REMOVE ? points->across[i][k] : 0) / (double)points->len;
    return eps__raise(sum, 2 + 3 * MOST * AXES);
}

bool eps__bin_grid_make(struct eps__bin_grid *grid, const struct eps__bin_points *points, enum eps_direction direction,
                        double log_outside, double spacing, double most)
{
    double low[AXES], high[AXES], widest[AXES], cells[AXES], all = 1, divided = 0, along = 0;
    double reach = eps__normal_tail_quantile(fmin(log_outside, -2) - log(2.0 * AXES));
    *grid = (struct eps__bin_grid){.axes = points->axes};
    for (size_t i = 0; i < points->len; i++)
        along = fmax(along, points->along[i]);
    double bent = sqrt(1 + BEND / along); /* where the integrand begins it is bent the more */
    for (size_t k = 0; k < points->axes; k++) {
        low[k] = high[k] = widest[k] = 0;
        for (size_t i = 0; i < points->len; i++) {
            widest[k] = fmax(widest[k], fabs(points->across[i][k]));
            low[k] = direction == EPS_REMOVE ? fmin(low[k], points->across[i][k]) : 0;
            high[k] = direction == EPS_REMOVE ? fmax(high[k], points->across[i][k]) : 0;
        }
        low[k] -= reach;
        high[k] += reach;
        cells[k] = (high[k] - low[k]) * widest[k] * bent / spacing;
        all *= fmax(cells[k], 1);
        divided += cells[k] > 1;
    }
    double coarser = all > most ? pow(all / most, 1 / divided) : 1;
    for (size_t k = 0; k < points->axes; k++)
        if (!eps__axis_make(&grid->items[k], low[k], high[k], (size_t)ceil(fmax(cells[k] / coarser, 1)))) {
            eps__bin_grid_clear(grid);
            return false;
        }
    grid->outside = outside(grid, points, direction);
    grid->negligible = exp(log_outside) / eps__bin_grid_cells(grid);
    return true;
}

/* ------------------------------------------------------------ along the first coordinate */

/* A line along the first coordinate s. On it X(s) = sum_i e^(y_i + along_i s). */
struct line {
    const struct eps__bin_points *points;
    double y[MOST];
    double log_weight; /* of the line */
    double error;      /* of the y_i, beyond their rounding */
    double sizes;      /* the largest sum of sizes in a y_i */
};

/* ln X(s), and its slope. */
static double log_ratio(const struct line *line, double s, double *slope)
{
    double exponents[MOST], largest = -INFINITY, sum = 0, moment = 0;
    for (size_t i = 0; i < line->points->len; i++) {
        exponents[i] = line->y[i] + line->points->along[i] * s;
        largest = fmax(largest, exponents[i]);
    }
    for (size_t i = 0; i < line->points->len; i++) {
        double power = exp(exponents[i] - largest);
        sum += power;
        moment += power * line->points->along[i];
    }
    *slope = moment / sum;
    return largest + log(sum);
}

/* Where a line is cut. */
struct cut {
    double at, slope; /* the slope of ln X there */
    double missed;    /* a bound on the distance of ln X from its target; INFINITY: on the wrong side */
};

/* A place at which ln X is a little below `target`, or a little above it. ln X is convex and rises, so Newton's method
 * from the right stays on the right. */
static struct cut crossing(const struct line *line, double target, bool below)
{
    struct cut cut = {.at = INFINITY};
    for (size_t i = 0; i < line->points->len; i++)
        if (line->points->along[i] > 0)
            cut.at = fmin(cut.at, (target - line->y[i]) / line->points->along[i]);
    assert(isfinite(cut.at)); /* not all are 0 */
    for (int step = 0; step < NEWTON; step++) {
        double excess = log_ratio(line, cut.at, &cut.slope) - target;
        if (fabs(excess) <= RESIDUAL || !(cut.slope > 0))
            break;
        cut.at -= excess / cut.slope;
    }
    if (cut.slope > 0)
        cut.at += (below ? -2 : 2) * RESIDUAL / cut.slope;
    double excess = log_ratio(line, cut.at, &cut.slope) - target;
    cut.missed = (below ? -excess : excess) > RESIDUAL / 2 ? fabs(excess) : INFINITY;
    return cut;
}

/* Sums of positive and of negative terms of a line's integral, weight included. */
struct parts {
    double plus, minus, rounding;
};

/* The relative error of the terms of a line that is cut at s. Where |s| is larger than UNDERFLOW, they are 0. */
static double rounding_of(const struct line *line, double eps, double s)
{
    double most = 0, far = fmin(fabs(s), UNDERFLOW);
    for (size_t i = 0; i < line->points->len; i++)
        most = fmax(most, line->points->along[i]);
    double size = line->sizes + fabs(line->log_weight) + eps + most * most + (far + most) * (far + most);
    return line->error + EPS__UNIT_ROUNDOFF * (128 + 16 * size);
}

/* Remove: the integral of (X - e^eps) phi over s > cut. Add: that of (1 - e^eps X) phi over s < cut. */
static struct parts cut_at(const struct line *line, enum eps_direction direction, double eps, double cut)
{
    bool remove = direction == EPS_REMOVE;
    double sign = remove ? 1 : -1, ratio = 0;
    for (size_t i = 0; i < line->points->len; i++) {
        double along = line->points->along[i];
        ratio += exp(line->log_weight + line->y[i] + along * along / 2 + (remove ? 0 : eps) +
                     eps__log_normal_tail(sign * (cut - along)));
    }
    double one = exp(line->log_weight + (remove ? eps : 0) + eps__log_normal_tail(sign * cut));
    return (struct parts){remove ? ratio : one, remove ? one : ratio, rounding_of(line, eps, cut)};
}

/* The integral of X phi (remove) or phi (add) along a line, weight included, rounded up. */
static double at_most(const struct line *line, enum eps_direction direction)
{
    double sum = direction == EPS_REMOVE ? 0 : exp(line->log_weight);
    for (size_t i = 0; i < line->points->len && direction == EPS_REMOVE; i++) {
        double along = line->points->along[i];
        sum += exp(line->log_weight + line->y[i] + along * along / 2);
    }
    return sum * (1 + rounding_of(line, 0, 0));
}

/* The cut, but no farther out than the standard normal law has mass. */
static double within_reach(const struct cut *cut, enum eps_direction direction)
{
    double at = fmax(cut->at, -FARTHEST);
    return direction == EPS_REMOVE ? at : fmin(at, FARTHEST);
}

/* Whether the cut is proven to be where an upper bound needs it. */
static bool is_placed(const struct line *line, enum eps_direction direction, double eps, const struct cut *cut)
{
    return isfinite(cut->missed) && rounding_of(line, eps, within_reach(cut, direction)) < RESIDUAL / 4;
}

/* A bound on the integral of (X - e^eps)_+ phi (remove) or (1 - e^eps X)_+ phi (add) along a line, weight included.
 * Any cut gives a lower bound. NAN stays NAN where it would be an upper bound. */
static double along_line(const struct line *line, enum eps_direction direction, enum eps__estimate estimate, double eps,
                         const struct cut *cut)
{
    bool remove = direction == EPS_REMOVE;
    struct parts parts = cut_at(line, direction, eps, within_reach(cut, direction));
    if (estimate == EPS__LOWER)
        return fmax(parts.plus * (1 - parts.rounding) - parts.minus * (1 + parts.rounding), 0);
    if (!is_placed(line, direction, eps, cut))
        return at_most(line, direction);
    double value = parts.plus * (1 + parts.rounding) - parts.minus * (1 - parts.rounding);
    double lost = expm1(cut->missed + RESIDUAL) * (remove ? parts.minus : parts.plus);
    return (value < 0 ? 0 : value) + lost;
}

/* ------------------------------------------------------------ the sum over the grid */

struct summation {
    const struct eps__bin_points *points;
    const struct eps__bin_grid *grid;
    enum eps_direction direction;
    enum eps__estimate estimate;
    double eps;
    struct eps__axis_mean
        *means[AXES]; /* add: points x cells; what an exponential of one coordinate adds in each cell */
    struct eps__work *work;
    double sum;
};

static const struct eps__axis_points *points_of(const struct summation *summation, size_t axis)
{
    const struct eps__axis *found = &summation->grid->items[axis];
    return summation->estimate == EPS__UPPER ? &found->ends : &found->means;
}

/* The farthest that the cut of add may be in a cell: the cut is a concave function of the other coordinates, so it is
 * below its tangent. INFINITY if the tangent is not known. */
static double farthest_cut(const struct summation *summation, const struct line *line, const struct cut *cut,
                           const size_t *cell)
{
    const struct eps__bin_points *points = summation->points;
    double weights[MOST], total = 0, rise = 0, sizes = 1 + fabs(cut->at);
    if (!is_placed(line, EPS_ADD, summation->eps, cut))
        return INFINITY;
    for (size_t i = 0; i < points->len; i++) {
        weights[i] = exp(line->y[i] + points->along[i] * cut->at + summation->eps);
        total += weights[i];
    }
    for (size_t k = 0; k < points->axes; k++) {
        const struct eps__axis *axis = &summation->grid->items[k];
        double gradient = 0, width = axis->ends.at[cell[k] + 1] - axis->ends.at[cell[k]];
        for (size_t i = 0; i < points->len; i++) {
            double term = weights[i] / total * points->across[i][k] / cut->slope;
            gradient -= term;
            sizes += width * fabs(term);
        }
        rise += width * (summation->estimate == EPS__UPPER ? fmax(gradient, 0) : fabs(gradient));
    }
    return cut->at + rise + MARGIN * sizes;
}

/* Add: what the sum is off by in a cell, because what is convex there is the integrand with e^eps X added. */
static double correction(const struct summation *summation, const struct line *line, const struct cut *cut,
                         const size_t *cell)
{
    const struct eps__bin_points *points = summation->points;
    double farthest = farthest_cut(summation, line, cut, cell), sum = 0;
    if (!(farthest > -FARTHEST)) /* also NAN */
        return isnan(farthest) ? INFINITY : 0;
    for (size_t i = 0; i < points->len; i++) {
        double larger = 1, smaller = 1;
        for (size_t k = 0; k < points->axes; k++) {
            const struct eps__axis_mean *mean = &summation->means[k][i * summation->grid->items[k].cells + cell[k]];
            larger = eps__multiply_up(larger, mean->larger);
            smaller = eps__multiply_down(smaller, mean->smaller);
        }
        sum += (larger < smaller ? 0 : larger - smaller) *
               exp(eps__log_normal_tail(points->along[i] - farthest) + summation->eps);
    }
    return eps__raise(sum / (double)points->len, CORRECTION_UNITS + 8 * summation->eps);
}

/* Adds a line whose coordinates are all set. */
static void add_line(struct summation *summation, const struct line *line, const size_t *at)
{
    bool upper = summation->estimate == EPS__UPPER, remove = summation->direction == EPS_REMOVE, cell = !remove;
    double most = remove ? at_most(line, EPS_REMOVE) : INFINITY;
    if (most < summation->grid->negligible) {
        summation->sum += upper ? most : 0;
        return;
    }
    struct cut cut = crossing(line, remove ? summation->eps : -summation->eps, remove);
    double value = along_line(line, summation->direction, summation->estimate, summation->eps, &cut);
    for (size_t k = 0; k < line->points->axes; k++)
        cell = cell && at[k] < summation->grid->items[k].cells;
    if (cell)
        value += (upper ? 1 : -1) * correction(summation, line, &cut, at);
    summation->sum += upper ? value : value > 0 ? value : 0; /* NAN stays, where it would be a bound */
}

/* Adds all lines with these coordinates on the axes before `axis`. */
static void add_lines(struct summation *summation, const struct line *line, size_t *at, size_t axis)
{
    const struct eps__bin_points *points = summation->points;
    if (axis == points->axes) {
        add_line(summation, line, at);
        return;
    }
    const struct eps__axis_points *places = points_of(summation, axis);
    for (at[axis] = 0; at[axis] < places->len; at[axis]++) {
        struct line next = *line;
        double z = places->at[at[axis]], size = 0;
        if (places->log_weight[at[axis]] == -INFINITY) {
            assert(summation->estimate == EPS__LOWER);
            continue;
        }
        if (axis + 1 < points->axes && !eps__goes_on(summation->work))
            return;
        next.log_weight += places->log_weight[at[axis]];
        for (size_t i = 0; i < points->len; i++) {
            double term = points->across[i][axis] * z;
            next.y[i] += term;
            size = fmax(size, fabs(term));
            next.error = fmax(next.error, line->error + fabs(points->across[i][axis]) * places->error);
        }
        next.sizes += size + fabs(places->log_weight[at[axis]]);
        add_lines(summation, &next, at, axis + 1);
    }
}

/* Computes what a correction needs. False: out of memory. */
static bool prepare(struct summation *summation)
{
    const struct eps__bin_points *points = summation->points;
    for (size_t k = 0; k < points->axes && summation->direction == EPS_ADD; k++) {
        const struct eps__axis *axis = &summation->grid->items[k];
        summation->means[k] = malloc(points->len * axis->cells * sizeof *summation->means[k]);
        if (!summation->means[k])
            return false;
        for (size_t i = 0; i < points->len; i++)
            for (size_t j = 0; j < axis->cells; j++)
                summation->means[k][i * axis->cells + j] =
                    eps__axis_mean(axis, points->across[i][k], j, summation->estimate);
    }
    return true;
}

double eps__bin_integral(const struct eps__bin_points *points, const struct eps__bin_grid *grid,
                         enum eps_direction direction, enum eps__estimate estimate, double eps, struct eps__work *work)
{
    assert(points->axes == grid->axes && eps >= 0);
    struct summation summation = {
        .points = points, .grid = grid, .direction = direction, .estimate = estimate, .eps = eps, .work = work};
    struct line line = {.points = points};
    size_t at[AXES] = {0};
    for (size_t i = 0; i < points->len; i++) {
        double square = points->along[i] * points->along[i];
        for (size_t k = 0; k < points->axes; k++)
            square += points->across[i][k] * points->across[i][k];
        line.y[i] = -square / 2 - log((double)points->len);
        line.sizes = fmax(line.sizes, square + 2);
    }
    bool prepared = prepare(&summation);
    if (prepared && eps__goes_on(work))
        add_lines(&summation, &line, at, 0);
    for (size_t k = 0; k < points->axes; k++)
        free(summation.means[k]);
    if (!prepared && work)
        work->status = EPS_NO_MEMORY;
    if (isnan(summation.sum))
        return estimate == EPS__UPPER ? INFINITY : 0;
    double units = 4 * eps__bin_grid_cells(grid) * (1 << AXES) + 8;
    return estimate == EPS__UPPER ? eps__raise(summation.sum + grid->outside, units) + units * DBL_MIN
                                  : eps__lower(summation.sum, units);
}
