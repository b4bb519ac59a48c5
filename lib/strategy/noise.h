/*
 * Ways to draw x = C^+ z row by row for many coordinates at once, z white: a kind names those that fit it, from the one
 * that keeps the fewest rows to the product by panels, which fits all. z is never stored for its own sake: any row of
 * it can be made again (numerics/random/white.h).
 *
 * SPDX-License-Identifier: GPL-3.0-or-later
 */
#ifndef EPS_STRATEGY_NOISE_H
#define EPS_STRATEGY_NOISE_H

#include "lib/numerics/random/white.h"
#include "lib/strategy/kind.h"

/* Costs, in multiplications with memory: making a normal, and a multiplication inside a product of matrices. */
#define EPS__NORMAL_COST 8.0
#define EPS__PANEL_COST 0.125

/* A stream of rows under way. */
struct eps__noise_run {
    const struct eps_strategy *strategy;
    const double *inverse; /* as the kind's `invert` left it */
    enum eps_part part;    /* of which rows are made: noise; by panels also the decoder itself */
    struct eps__white white;
    size_t dimensions;
    double *memory; /* the way's: as many numbers as it said, 0 at first */
};

/* Where it says "rows", these are of `dimensions` numbers. */
struct eps__noise_way {
    bool (*serves)(const struct eps_strategy *s);
    /* The numbers that it keeps, and what all n rows take, for so many dimensions. */
    double (*numbers)(const struct eps_strategy *s, enum eps_part part, double dimensions);
    double (*operations)(const struct eps_strategy *s, enum eps_part part, double dimensions);
    /* The next row: called for row 0, 1, 2... once each, but for those that `from` leaves out. Ends early as the context says. */
    enum eps_status (*row)(struct eps__noise_run *run, const struct eps_context *context, double *out,
                           struct eps_error *error, size_t row);
    /* The last row, `row` at most, that may follow any other so that `row` and those behind it have the bits that they have where
     * all are drawn, whatever the memory holds. */
    size_t (*from)(const struct eps_strategy *s, enum eps_part part, double dimensions, size_t row);
};

/* By forward substitution with the last bands - 1 rows of x: any square lower-triangular C. */
extern const struct eps__noise_way eps__noise_by_bands;
/* With the numbers of C^+, in panels of rows; z is made anew for each panel. */
extern const struct eps__noise_way eps__noise_by_panels;

/* Lists for kinds, ended by NULL: those two, and the second alone. */
extern const struct eps__noise_way *const eps__noise_of_square[];
extern const struct eps__noise_way *const eps__noise_of_any[];

/* `from` where nothing of an earlier block is read: the block's first row. */
size_t eps__noise_from_block(const struct eps_strategy *s, enum eps_part part, double dimensions, size_t row);

/* The next tile of a row, from `first` on. */
static inline size_t eps__noise_tile(const struct eps__noise_run *run, size_t first)
{
    size_t left = run->dimensions - first;
    return left < EPS__WHITE_TILE ? left : EPS__WHITE_TILE;
}

#endif
