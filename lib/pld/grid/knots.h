/*
 * From cells to the masses at their knots: what a discretised and a coarsened distribution have in common.
 *
 * SPDX-License-Identifier: GPL-3.0-or-later
 */
#ifndef EPS_PLD_GRID_KNOTS_H
#define EPS_PLD_GRID_KNOTS_H

#include "lib/pld/pld.h"

/*
 * One cell, between two neighbouring knots: the mass it gives to either, bounded in the estimate's direction, and the
 * gap: a bound on the distance between chord and curve in it (lower estimates only). Where the grid is tilted by t,
 * masses are those at their knot times e^{t loss}, and the gap is times e^{t loss} of the left knot.
 */
struct eps__cell {
    int64_t index; /* of the right knot */
    double left, right, gap;
};

/* Cells side by side, from the lowest knot up. */
struct eps__cells {
    struct eps__cell *items;
    size_t len, capacity;
    int64_t first; /* index of the lowest knot */
    double spacing, tilt;
};

/* Appends a cell of zeros whose right knot has this index; NULL without memory. */
struct eps__cell *eps__cells_add(struct eps__cells *cells, int64_t index);
void eps__cells_clear(struct eps__cells *cells);

/* Fills in pld->index, mass and len from the cells (which the lower estimate may round down on the way). Returns
 * EPS_OK or EPS_NO_MEMORY. */
enum eps_status eps__cells_assemble(struct eps__pld *pld, struct eps__cells *cells, enum eps__estimate estimate);

/* A knot with negative mass lies above the chord of its neighbours, so it is left out and its mass goes to them, in the shares
 * that keep P and Q, tilted. Only the first and the last that stay may be negative. Returns how many do. */
size_t eps__knots_make_convex(double spacing, double tilt, int64_t *index, double *mass, size_t len);

#endif
