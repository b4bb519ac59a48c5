/*
 * The upper estimate is the sum of the cells' masses. The lower estimate lowers the curve at each knot by the larger
 * gap of the two cells beside it: the lowered curve v = delta - c, with chords between knots, is below delta if c is at
 * least the gap on both sides. The change of slope of c is subtracted from the masses. Where that makes a mass negative
 * the curve is not convex, and the knot is left out. The curve cannot be lowered at the end knots, so the end cells are
 * rounded down.
 *
 * SPDX-License-Identifier: GPL-3.0-or-later
 */
#include "lib/pld/grid/knots.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "lib/numerics/normal.h"

struct eps__cell *eps__cells_add(struct eps__cells *cells, int64_t index)
{
    if (cells->len == cells->capacity) {
        size_t capacity = cells->capacity ? 2 * cells->capacity : 1024;
        struct eps__cell *items = realloc(cells->items, capacity * sizeof *items);
        if (!items)
            return NULL;
        cells->items = items;
        cells->capacity = capacity;
    }
    cells->items[cells->len] = (struct eps__cell){.index = index};
    return &cells->items[cells->len++];
}

void eps__cells_clear(struct eps__cells *cells)
{
    free(cells->items);
    *cells = (struct eps__cells){0};
}

/* The width of cell i in units of loss. */
static double width_of(const struct eps__cells *cells, size_t i)
{
    int64_t left = i ? cells->items[i - 1].index : cells->first;
    return (double)(cells->items[i].index - left) * cells->spacing;
}

static void sum_cells(const struct eps__cells *cells, double *mass)
{
    memset(mass, 0, (cells->len + 1) * sizeof *mass);
    for (size_t i = 0; i < cells->len; i++) {
        mass[i] += cells->items[i].left;
        mass[i + 1] += cells->items[i].right;
    }
}

/* Functions of a cell's width for lower_knots(), kept because neighbouring cells mostly have the same width. */
struct width {
    double value, growth, rise, fall; /* e^{t width}, e^width - 1, 1 - e^-width */
};

static void set_width(struct width *width, double value, double tilt)
{
    if (width->value == value)
        return;
    *width = (struct width){value, exp(tilt * value), expm1(value), -expm1(-value)};
}

/* Subtracts the change of slope of c from the masses, and a bound on the rounding of this (P11). */
static void lower_knots(const struct eps__cells *cells, double *mass, double *lowered)
{
    size_t len = cells->len;
    double t = cells->tilt;
    struct width width = {.value = NAN};
    lowered[0] = lowered[len] = 0;
    for (size_t i = 1; i < len; i++) {
        set_width(&width, width_of(cells, i - 1), t);
        lowered[i] = fmax(cells->items[i - 1].gap * width.growth, cells->items[i].gap);
    }
    for (size_t i = 0; i < len; i++) {
        if (lowered[i] == 0 && lowered[i + 1] == 0)
            continue;
        set_width(&width, width_of(cells, i), t);
        double left = lowered[i], right = lowered[i + 1] / width.growth; /* both tilted as the left knot */
        double size = (16 + 4 * t * width.value) * EPS__UNIT_ROUNDOFF;
        mass[i] -= (right - left) / width.rise + size * (mass[i] + fmax(right, left) / width.rise);
        mass[i + 1] += (right - left) * width.growth / width.fall -
                       size * (mass[i + 1] + fmax(right, left) * width.growth / width.fall);
    }
}

/* The first `kept` knots are a stack of the knots that remain. */
size_t eps__knots_make_convex(double spacing, double t, int64_t *index, double *mass, size_t len)
{
    size_t kept = 0;
    for (size_t i = 0; i < len; i++) {
        index[kept] = index[i];
        mass[kept] = mass[i];
        kept++;
        while (kept >= 3 && mass[kept - 2] < 0) {
            double below = (double)(index[kept - 2] - index[kept - 3]) * spacing;
            double above = (double)(index[kept - 1] - index[kept - 2]) * spacing;
            double units = 16 + 4 * (t + 1) * (below + above);
            double moved = eps__lower(mass[kept - 2], units); /* negative, so this increases its size (P11) */
            double left = moved * expm1(-above) / expm1(-above - below) * exp(-(t + 1) * below);
            double right = moved * expm1(-below) / expm1(-above - below) * exp(t * above);
            mass[kept - 3] = eps__lower(mass[kept - 3] + left, 4);
            mass[kept - 1] = eps__lower(mass[kept - 1] + right, 4);
            index[kept - 2] = index[kept - 1];
            mass[kept - 2] = mass[kept - 1];
            kept--;
        }
    }
    return kept;
}

static void set_indices(const struct eps__cells *cells, int64_t *index)
{
    index[0] = cells->first;
    for (size_t i = 0; i < cells->len; i++)
        index[i + 1] = cells->items[i].index;
}

/* Rounds a cell down to its left knot, after which it needs no lowering. */
static void round_down(struct eps__cells *cells, size_t i)
{
    struct eps__cell *cell = &cells->items[i];
    double shrink = exp(-cells->tilt * width_of(cells, i));
    cell->left = eps__lower(cell->left + cell->right * shrink, 8);
    cell->right = cell->gap = 0;
}

/* Rounds down the outermost `count` cells at one end that are still split. */
static void round_end(struct eps__cells *cells, bool high, size_t count)
{
    for (size_t i = 0; i < cells->len && count > 0; i++) {
        size_t at = high ? cells->len - 1 - i : i;
        if (cells->items[at].gap > 0) {
            round_down(cells, at);
            count--;
        }
    }
}

/* The masses of the lower estimate. The curve cannot be lowered at an end knot, because it has only one neighbour, so
 * the end cells must not be split: of the first SINGLY attempts each rounds down one more, later ones twice as many as
 * the one before. Returns the number of knots, or 0 if the masses are still negative when no cell is split. */
static size_t assemble_lower(struct eps__cells *cells, int64_t *index, double *mass, double *lowered)
{
    enum { TRIES = 64, SINGLY = 8 };
    size_t low_count = 1, high_count = 1;
    if (cells->items[0].gap > 0)
        round_down(cells, 0);
    if (cells->items[cells->len - 1].gap > 0)
        round_down(cells, cells->len - 1);
    for (int i = 0; i < TRIES; i++) {
        sum_cells(cells, mass);
        lower_knots(cells, mass, lowered);
        set_indices(cells, index);
        size_t len = eps__knots_make_convex(cells->spacing, cells->tilt, index, mass, cells->len + 1);
        bool low = mass[0] < 0, high = mass[len - 1] < 0;
        if (!low && !high)
            return len;
        if (low)
            round_end(cells, false, low_count);
        if (high)
            round_end(cells, true, high_count);
        low_count *= low && i >= SINGLY ? 2 : 1;
        high_count *= high && i >= SINGLY ? 2 : 1;
    }
    return 0;
}

enum eps_status eps__cells_assemble(struct eps__pld *pld, struct eps__cells *cells, enum eps__estimate estimate)
{
    size_t len = cells->len + 1;
    int64_t *index = malloc(len * sizeof *index);
    double *mass = malloc(len * sizeof *mass), *lowered = malloc(len * sizeof *lowered);
    enum eps_status status = EPS_NO_MEMORY;
    if (!index || !mass || !lowered)
        goto out;
    status = EPS_TOO_COSTLY; /* a finer grid has narrower cells */
    for (size_t i = 0; i < cells->len; i++)
        if (!isfinite(cells->items[i].left) || !isfinite(cells->items[i].right) || !isfinite(cells->items[i].gap))
            goto out;
    if (estimate == EPS__UPPER) {
        sum_cells(cells, mass);
        set_indices(cells, index);
    } else {
        len = assemble_lower(cells, index, mass, lowered);
        if (len == 0)
            goto out;
    }
    pld->index = index;
    pld->mass = mass;
    pld->len = len;
    index = NULL;
    mass = NULL;
    status = EPS_OK;
out:
    free(index);
    free(mass);
    free(lowered);
    return status;
}
