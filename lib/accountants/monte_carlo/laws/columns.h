/*
 * The columns of a banded strategy over sigma, h = C/sigma, and the outputs y = h x + z of EPS__LANES draws at a time.
 * y is made tile by tile from the last step to the first, the order in which recursions for P/Q need it.
 *
 * SPDX-License-Identifier: GPL-3.0-or-later
 */
#ifndef EPS_ACCOUNTANTS_MONTE_CARLO_LAWS_COLUMNS_H
#define EPS_ACCOUNTANTS_MONTE_CARLO_LAWS_COLUMNS_H

#include "lib/accountants/accountant.h"
#include "lib/numerics/lanes/lanes.h"
#include "lib/sampling/participations.h"

struct eps__mc_columns {
    size_t n;                      /* rows and columns */
    size_t width;                  /* column i is in rows i .. i + width - 1, as far as these are below n */
    double *entries;               /* entry d of column i, in row i + d, is at i stride + d */
    size_t stride;                 /* width; or 0 if all columns begin like the first */
    double *half;                  /* half the squared norm of each column */
    double *drift;                 /* n numbers that are added to y, or NULL. Freed with the columns */
    double longest;                /* the largest sum of a column's entries */
    double reach;                  /* a bound on all |y_i|; the caller that sets a drift raises it */
    size_t meet;                   /* a bound on the number of participations that share a row */
    size_t tile;                   /* rows of a tile, even */
    struct eps__spectrum spectrum; /* for products by FFT, if columns are wide and alike */
};

/* Makes the columns of a lower-triangular strategy with entries >= 0. Participations are at least `separation` steps
 * apart, and each is of at most `examples` examples. The caller clears, if the status is EPS_OK. EPS_OK, EPS_NO_MEMORY,
 * or what reading the strategy returns. */
enum eps_status eps__mc_columns_make(struct eps__mc_columns *columns, const struct eps__setting *setting, double sigma,
                                     size_t separation, unsigned examples);
void eps__mc_columns_clear(struct eps__mc_columns *columns);

/* An absolute error bound of a computed j <h_i, y> - j^2 |h_i|^2/2 for j <= examples, and four units of roundoff of its
 * size more (A25). */
double eps__mc_columns_error(const struct eps__mc_columns *columns, unsigned examples);

/* The participations of EPS__LANES draws, each lane's in ascending order. */
struct eps__mc_steps {
    struct eps__participated *slots;
    size_t most;            /* slots of a lane */
    size_t len[EPS__LANES]; /* slots in use; participations after the current tile are removed */
};

/* Estimates before the columns are made: the multiply-adds of a product with a column, and the rows that y and its
 * products need at most. alike: all columns begin alike. */
double eps__mc_columns_operations(size_t width, bool alike);
double eps__mc_columns_rows(size_t width, bool alike);

/* The doubles of a tile of y with its scratch space. */
size_t eps__mc_columns_scratch(const struct eps__mc_columns *columns);

/*
 * Makes the next tile of y, rows from .. end - 1, as the sum of the stream's normals, the drift and h x. `from` is a
 * multiple of columns->tile and end - from <= columns->tile. Called for the last tile first (end = n). Afterwards y
 * holds rows from .. end + width - 2, where rows from n on are 0.
 */
void eps__mc_columns_tile(double *y, const struct eps__mc_columns *columns, const struct eps__stream *stream,
                          uint32_t first, struct eps__mc_steps *steps, size_t from, size_t end);

/* out[i - from] = <h_i, y> for the steps i of the tile. */
void eps__mc_columns_correlate(double *out, double *y, const struct eps__mc_columns *columns, size_t from, size_t end);

#endif
