/*
 * See integral.h.
 *
 * SPDX-License-Identifier: GPL-3.0-or-later
 */
#include "lib/accountants/quadrature/integral.h"

#include <assert.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "lib/accountants/quadrature/lines.h"
#include "lib/base/error.h"
#include "lib/numerics/normal.h"

enum { MOST = EPS__BIN_POINTS_MOST, AXES = EPS__BIN_AXES_MOST, LINES = EPS__LINES };

#define BEND 4.0                 /* about how many standard deviations away most of a small delta is */
#define MARGIN 1e-6              /* of the farthest cut: far more than rounding */
#define CORRECTION_UNITS 1e6     /* of a correction's rounding: 1e-10 */
#define UNDERFLOWN (2 * DBL_MIN) /* more than a term loses by underflow */

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

/* ------------------------------------------------------------ the sum over the grid */

/* Lines that are not added yet, and their places on the axes. */
struct batch {
    struct eps__lines lines;
    size_t at[LINES][AXES], len;
};

struct summation {
    const struct eps__bin_points *points;
    const struct eps__bin_grid *grid;
    enum eps_direction direction;
    enum eps__estimate estimate;
    double eps;
    struct eps__axis_mean
        *means[AXES]; /* add: points x cells; what an exponential of one coordinate adds in each cell */
    struct eps__normal_tails tails;
    struct batch batch;
    struct eps__work *work;
    size_t added; /* lines */
    double sum;
};

/* A line in the making: its places on the axes so far, and what they add to its numbers. */
struct place {
    size_t at[AXES];
    double y[MOST];
    double log_weight, sizes, error;
};

static const struct eps__axis_points *points_of(const struct summation *summation, size_t axis)
{
    const struct eps__axis *found = &summation->grid->items[axis];
    return summation->estimate == EPS__UPPER ? &found->ends : &found->means;
}

/* The cell of a line on an axis: the one that begins there, or the last one. */
static size_t cell_of(const struct summation *summation, size_t line, size_t axis)
{
    size_t at = summation->batch.at[line][axis], last = summation->grid->items[axis].cells - 1;
    return at < last ? at : last;
}

/* The farthest that the cut of add may be in the cell of each line: the cut is a concave function of the other
 * coordinates, so it is below its tangent. INFINITY if the tangent is not known. */
static void farthest_cuts(const struct summation *summation, const struct eps__cuts *cuts, double *out)
{
    const struct eps__bin_points *points = summation->points;
    const struct eps__lines *lines = &summation->batch.lines;
    double weights[MOST][LINES];
    for (size_t i = 0; i < points->len; i++)
        for (int line = 0; line < LINES; line++)
            weights[i][line] = lines->y[i][line] + points->along[i] * cuts->at[line] + summation->eps;
    eps__exp_lanes(weights[0], points->len);
    for (size_t line = 0; line < LINES; line++) {
        double total = 0, rise = 0, sizes = 1 + fabs(cuts->at[line]);
        for (size_t i = 0; i < points->len; i++)
            total += weights[i][line];
        for (size_t k = 0; k < points->axes; k++) {
            const struct eps__axis *axis = &summation->grid->items[k];
            size_t cell = cell_of(summation, line, k);
            double gradient = 0, width = axis->ends.at[cell + 1] - axis->ends.at[cell];
            for (size_t i = 0; i < points->len; i++) {
                double term = weights[i][line] / (total * cuts->slope[line]) * points->across[i][k];
                gradient -= term;
                sizes += width * fabs(term);
            }
            rise += width * (summation->estimate == EPS__UPPER ? fmax(gradient, 0) : fabs(gradient));
        }
        bool placed = eps__line_is_placed(lines, line, EPS_ADD, summation->eps, cuts);
        out[line] = placed ? cuts->at[line] + rise + MARGIN * sizes : INFINITY;
    }
}

/* Add: what the sum is off by in the cell of each line, because what is convex there is the integrand with e^eps X
 * added. */
static void corrections(const struct summation *summation, const struct eps__cuts *cuts, double *out)
{
    const struct eps__bin_points *points = summation->points;
    double farthest[LINES], factor[LINES], x[LINES], tail[LINES];
    farthest_cuts(summation, cuts, farthest);
    for (size_t line = 0; line < LINES; line++) {
        factor[line] = summation->eps;
        out[line] = 0;
    }
    for (size_t i = 0; i < points->len; i++) {
        for (size_t line = 0; line < LINES; line++)
            x[line] = points->along[i] - farthest[line];
        eps__normal_tails(&summation->tails, tail, factor, x);
        for (size_t line = 0; line < LINES; line++) {
            double larger = 1, smaller = 1;
            for (size_t k = 0; k < points->axes; k++) {
                size_t cell = cell_of(summation, line, k);
                const struct eps__axis_mean *mean = &summation->means[k][i * summation->grid->items[k].cells + cell];
                larger *= mean->larger;
                smaller *= mean->smaller;
            }
            larger = eps__raise(larger, 2 + AXES) + DBL_MIN;
            smaller = fmax(eps__lower(smaller, 2 + AXES) - DBL_MIN, 0);
            out[line] += (larger < smaller ? 0 : larger - smaller) * (tail[line] + UNDERFLOWN);
        }
    }
    for (size_t line = 0; line < LINES; line++) {
        if (farthest[line] > -EPS__LINE_FARTHEST)
            out[line] = eps__raise(out[line] / (double)points->len, CORRECTION_UNITS + 8 * summation->eps);
        else /* also NAN */
            out[line] = isnan(farthest[line]) ? INFINITY : 0;
    }
}

/* Adds the lines of the batch. */
static void add_lines(struct summation *summation)
{
    const struct batch *batch = &summation->batch;
    const struct eps__bin_grid *grid = summation->grid;
    bool upper = summation->estimate == EPS__UPPER, remove = summation->direction == EPS_REMOVE, negligible = remove;
    double most[LINES], values[LINES], off[LINES];
    struct eps__cuts cuts;
    if (remove)
        eps__lines_at_most(&batch->lines, EPS_REMOVE, most);
    for (size_t line = 0; line < batch->len && negligible; line++)
        negligible = most[line] < grid->negligible;
    if (!negligible) {
        eps__lines_cut(&batch->lines, remove ? summation->eps : -summation->eps, remove, &cuts);
        eps__lines_integrals(&batch->lines, summation->direction, summation->estimate, summation->eps, &cuts, values);
        if (!remove)
            corrections(summation, &cuts, off);
    }
    for (size_t line = 0; line < batch->len; line++) {
        if (remove && most[line] < grid->negligible) {
            summation->sum += upper ? most[line] : 0;
            continue;
        }
        double value = values[line];
        bool cell = !remove; /* whether a cell begins here */
        for (size_t k = 0; k < grid->axes; k++)
            cell = cell && batch->at[line][k] < grid->items[k].cells;
        if (cell)
            value += (upper ? 1 : -1) * off[line];
        summation->sum += upper ? value : value > 0 ? value : 0; /* NAN stays, where it would be a bound */
    }
}

/* Adds the lines that are left, and empties the batch. */
static void add_batch(struct summation *summation)
{
    struct batch *batch = &summation->batch;
    if (batch->len == 0)
        return;
    for (size_t line = batch->len; line < LINES; line++) { /* repeats the first one, which does not count */
        for (size_t i = 0; i < summation->points->len; i++)
            batch->lines.y[i][line] = batch->lines.y[i][0];
        batch->lines.log_weight[line] = batch->lines.log_weight[0];
        batch->lines.sizes[line] = batch->lines.sizes[0];
        memcpy(batch->at[line], batch->at[0], sizeof batch->at[0]);
    }
    add_lines(summation);
    summation->added += batch->len;
    batch->len = 0;
}

/* Adds all lines with these coordinates on the axes before `axis`. */
static void add_places(struct summation *summation, const struct place *place, size_t axis)
{
    const struct eps__bin_points *points = summation->points;
    if (axis == points->axes) {
        struct batch *batch = &summation->batch;
        size_t line = batch->len++;
        for (size_t i = 0; i < points->len; i++)
            batch->lines.y[i][line] = place->y[i];
        batch->lines.log_weight[line] = place->log_weight;
        batch->lines.sizes[line] = place->sizes;
        batch->lines.error = place->error; /* that of all lines */
        memcpy(batch->at[line], place->at, sizeof place->at);
        if (batch->len == LINES)
            add_batch(summation);
        return;
    }
    const struct eps__axis_points *places = points_of(summation, axis);
    double widest = 0;
    for (size_t i = 0; i < points->len; i++)
        widest = fmax(widest, fabs(points->across[i][axis]));
    for (size_t at = 0; at < places->len; at++) {
        struct place next = *place;
        double z = places->at[at];
        if (places->log_weight[at] == -INFINITY) {
            assert(summation->estimate == EPS__LOWER);
            continue;
        }
        if (axis + 1 < points->axes && !eps__goes_on(summation->work))
            return;
        next.at[axis] = at;
        next.log_weight += places->log_weight[at];
        for (size_t i = 0; i < points->len; i++)
            next.y[i] += points->across[i][axis] * z;
        next.sizes += widest * fabs(z) + fabs(places->log_weight[at]);
        next.error += widest * places->error;
        add_places(summation, &next, axis + 1);
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

/* The number of lines of an upper sum. */
static double upper_lines(const struct eps__bin_grid *grid)
{
    double lines = 1;
    for (size_t k = 0; k < grid->axes; k++)
        lines *= (double)grid->items[k].ends.len;
    return lines;
}

double eps__bin_integral(const struct eps__bin_points *points, const struct eps__bin_grid *grid,
                         enum eps_direction direction, enum eps__estimate estimate, double eps, struct eps__work *work)
{
    assert(points->axes == grid->axes && eps >= 0);
    struct summation summation = {
        .points = points, .grid = grid, .direction = direction, .estimate = estimate, .eps = eps, .work = work};
    struct place first = {.log_weight = 0};
    summation.batch.lines.points = points;
    summation.batch.lines.tails = &summation.tails;
    eps__normal_tails_make(&summation.tails);
    for (size_t i = 0; i < points->len; i++) {
        double square = points->along[i] * points->along[i];
        for (size_t k = 0; k < points->axes; k++)
            square += points->across[i][k] * points->across[i][k];
        summation.batch.lines.most = fmax(summation.batch.lines.most, points->along[i]);
        first.y[i] = -square / 2 - log((double)points->len);
        first.sizes = fmax(first.sizes, square + 2);
    }
    bool prepared = prepare(&summation);
    if (prepared && eps__goes_on(work)) {
        add_places(&summation, &first, 0);
        add_batch(&summation);
        assert(estimate == EPS__LOWER || !eps__goes_on(work) || (double)summation.added == upper_lines(grid));
    }
    for (size_t k = 0; k < AXES; k++)
        free(summation.means[k]);
    if (!prepared && work)
        work->status = EPS_NO_MEMORY;
    if (isnan(summation.sum))
        return estimate == EPS__UPPER ? INFINITY : 0;
    double units = 4 * eps__bin_grid_cells(grid) * (1 << AXES) + 8;
    double lost = (MOST + 2) * upper_lines(grid) * UNDERFLOWN; /* a line has at most MOST + 1 terms */
    return estimate == EPS__UPPER ? eps__raise(summation.sum + grid->outside, units) + lost
                                  : fmax(eps__lower(summation.sum, units) - lost, 0);
}
