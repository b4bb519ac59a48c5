/*
 * Ways to draw x = C^+ z row by row for many coordinates at once, where z is white noise. A kind lists the ways that it
 * supports, from the one that keeps the fewest rows to the product by panels, which any kind supports. z is not stored:
 * each row of it can be generated again (numerics/random/white.h).
 *
 * SPDX-License-Identifier: GPL-3.0-or-later
 */
#ifndef EPS_STRATEGY_NOISE_H
#define EPS_STRATEGY_NOISE_H

#include "lib/numerics/random/white.h"
#include "lib/strategy/kind.h"

/* Costs in units of a multiplication that reads memory: generating a normal, and a multiplication within a matrix
 * product. */
#define EPS__NORMAL_COST 8.0
#define EPS__PANEL_COST 0.125

/* The state of a stream of rows. */
struct eps__noise_run {
    const struct eps_strategy *strategy;
    const double *inverse; /* as the kind's `invert` computed it */
    enum eps_part part;    /* whose rows are made: noise; by panels also the decoder */
    struct eps__white white;
    size_t dimensions;
    double *memory; /* for the way: as many numbers as it asked for, initially 0 */
};

/* A way to draw rows of `dimensions` numbers each. */
struct eps__noise_way {
    bool (*serves)(const struct eps_strategy *s);
    /* The numbers that it keeps, and the operations for all n rows. */
    double (*numbers)(const struct eps_strategy *s, enum eps_part part, double dimensions);
    double (*operations)(const struct eps_strategy *s, enum eps_part part, double dimensions);
    /* Makes a row. Called for rows 0, 1, 2... once each, except those that `from` skips. EPS_CANCELED or EPS_TIMEOUT as
     * the context says. */
    enum eps_status (*row)(struct eps__noise_run *run, const struct eps_context *context, double *out,
                           struct eps_error *error, size_t row);
    /* Where to resume to reach `row`: the last row <= `row` from which drawing, whatever the memory holds, gives `row`
     * and the rows after it the same bits as drawing all rows. */
    size_t (*from)(const struct eps_strategy *s, enum eps_part part, double dimensions, size_t row);
};

/* Forward substitution with the last bands - 1 rows of x: for any square lower-triangular C. */
extern const struct eps__noise_way eps__noise_by_bands;
/* Products with panels of rows of C^+; z is generated again for each panel. */
extern const struct eps__noise_way eps__noise_by_panels;

/* Lists for kinds, which end with NULL: both ways, and panels alone. */
extern const struct eps__noise_way *const eps__noise_of_square[];
extern const struct eps__noise_way *const eps__noise_of_any[];

/* `from` for ways that read nothing of earlier blocks: the block's first row. */
size_t eps__noise_from_block(const struct eps_strategy *s, enum eps_part part, double dimensions, size_t row);

/* The length of the next tile of a row, which starts at `first`. */
static inline size_t eps__noise_tile(const struct eps__noise_run *run, size_t first)
{
    size_t left = run->dimensions - first;
    return left < EPS__WHITE_TILE ? left : EPS__WHITE_TILE;
}

#endif
