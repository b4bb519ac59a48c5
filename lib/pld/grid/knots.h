/*
 * From cells to the masses at their knots, for discretised and for coarsened distributions.
 *
 * SPDX-License-Identifier: GPL-3.0-or-later
 */
#ifndef EPS_PLD_GRID_KNOTS_H
#define EPS_PLD_GRID_KNOTS_H

#include "lib/pld/pld.h"

/*
 * A cell, the interval between two neighbouring knots: the masses that it gives to its knots, bounded in the direction
 * of the estimate, and, for lower estimates, the gap, a bound on the distance between chord and curve in the cell. On a
 * grid tilted by t, a mass is multiplied by e^{t loss} of its own knot and the gap by that of the left knot.
 */
struct eps__cell {
    int64_t index; /* index of the right knot */
    double left, right, gap;
};

/* Adjacent cells, from the lowest knot upwards. */
struct eps__cells {
    struct eps__cell *items;
    size_t len, capacity;
    int64_t first; /* index of the lowest knot */
    double spacing, tilt;
};

/* Appends a cell of zeros whose right knot has this index. Returns NULL if out of memory. */
struct eps__cell *eps__cells_add(struct eps__cells *cells, int64_t index);
void eps__cells_clear(struct eps__cells *cells);

/* Fills in pld->index, mass and len from the cells. For the lower estimate it may round cells down. EPS_OK,
 * EPS_NO_MEMORY, or EPS_TOO_COSTLY if a cell is not finite or no non-negative masses are found (a finer grid has
 * narrower cells). */
enum eps_status eps__cells_assemble(struct eps__pld *pld, struct eps__cells *cells, enum eps__estimate estimate);

/* Removes knots of negative mass. Such a knot lies above the chord of its neighbours; its mass goes to them, in the
 * shares that keep P and Q. Masses are tilted by `tilt`. Afterwards only the first and the last knot may be negative.
 * Returns the number of knots that remain, which are at the front of both arrays. */
size_t eps__knots_make_convex(double spacing, double tilt, int64_t *index, double *mass, size_t len);

#endif
