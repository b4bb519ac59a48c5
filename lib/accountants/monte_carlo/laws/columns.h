/*
 * The columns of a banded strategy over sigma, h = C/sigma, and y = h x + z for EPS__LANES draws side by side, tile by tile
 * from the last step to the first: what evaluates P/Q backward in time.
 *
 * SPDX-License-Identifier: GPL-3.0-or-later
 */
#ifndef EPS_ACCOUNTANTS_MONTE_CARLO_LAWS_COLUMNS_H
#define EPS_ACCOUNTANTS_MONTE_CARLO_LAWS_COLUMNS_H

#include "lib/accountants/accountant.h"
#include "lib/numerics/lanes/lanes.h"
#include "lib/sampling/participations.h"

struct eps__mc_columns {
    size_t n, width; /* rows i .. i + width - 1 hold column i; where they are n or more they do not exist */
    double *entries; /* column i begins at i stride */
    size_t stride;   /* width, or 0: all columns begin like the first */
    double *half;    /* half the squared norm of each */
    double *drift;   /* added to y: n numbers; NULL: nothing. Freed with the columns */
    double longest;  /* the largest sum of a column's entries */
    double reach;    /* no |y_i| is larger: who sets a drift raises it */
    size_t meet;     /* of one row, participations are at most so many */
    size_t tile;     /* rows that are made at a time, even */
    struct eps__spectrum spectrum; /* of wide columns that are alike: by it they are multiplied */
};

/* Of a lower-triangular strategy with entries >= 0. separation, examples: how near participations are at most, and how many count together.
 * EPS_OK, EPS_NO_MEMORY. */
enum eps_status eps__mc_columns_make(struct eps__mc_columns *columns, const struct eps__setting *setting, double sigma,
                                     size_t separation, unsigned examples);
void eps__mc_columns_clear(struct eps__mc_columns *columns);

/* How far a computed j <h_i, y> - j^2 |h_i|^2/2, j <= examples, is from that of the y that was drawn, and four units of
 * roundoff of its size more (A25). */
double eps__mc_columns_error(const struct eps__mc_columns *columns, unsigned examples);

/* The participations of EPS__LANES draws: `most` slots a lane, len of them in use, ascending. */
struct eps__mc_steps {
    struct eps__participated *slots;
    size_t most;
    size_t len[EPS__LANES]; /* those after the present tile are taken away */
};

/* Beforehand: about how many multiply-adds a product with a column takes, and at most how many rows y and its products have. */
double eps__mc_columns_operations(size_t width, bool alike);
double eps__mc_columns_rows(size_t width, bool alike);

/* The numbers that a tile of y takes, and the work on it. */
size_t eps__mc_columns_scratch(const struct eps__mc_columns *columns);

/*
 * The next tile of y, the rows from .. end - 1 with end - from <= tile, from a multiple of it: the stream's normals, the drift, and h x.
 * To be called from the last tile (end = n) to the first; y holds the rows down from end + width - 2, those from n on 0.
 */
void eps__mc_columns_tile(double *y, const struct eps__mc_columns *columns, const struct eps__stream *stream,
                          uint32_t first, struct eps__mc_steps *steps, size_t from, size_t end);

/* <h_i, y> of the tile's rows, into the rows of out. */
void eps__mc_columns_correlate(double *out, double *y, const struct eps__mc_columns *columns, size_t from, size_t end);

#endif
