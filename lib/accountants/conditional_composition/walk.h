/*
 * A walk over the steps of conditional composition. At each row it holds what the rows before reveal about the bins:
 * the Gram matrix of the means so far, and which of these means are equal.
 *
 * SPDX-License-Identifier: GPL-3.0-or-later
 */
#ifndef EPS_ACCOUNTANTS_CONDITIONAL_COMPOSITION_WALK_H
#define EPS_ACCOUNTANTS_CONDITIONAL_COMPOSITION_WALK_H

#include "lib/accountants/conditional_composition/matrix.h"

/* The rows divided by sigma and rounded up. The analysis takes these numbers as exact, with sigma = 1 (A8). It holds no
 * pointer to the matrix. */
struct eps__cc_steps {
    size_t bins, len;
    double *shift;   /* len rows of `bins` numbers */
    uint64_t draws;  /* how often all rows are released, each time with a newly drawn bin (A13) */
    uint64_t bounds; /* the number of tail bounds for the rows of one draw (A10) */
    double error;    /* the largest relative amount by which a shift exceeds the exact one */
};

/* reversed: takes the rows in reverse order. The caller destroys *steps. EPS_NO_MEMORY, EPS_CANCELED, EPS_TIMEOUT. */
enum eps_status eps__cc_steps_create(struct eps__cc_steps **steps, const struct eps_context *context,
                                     const struct eps__cc_matrix *matrix, double sigma, bool reversed);
void eps__cc_steps_destroy(struct eps__cc_steps *steps);

/* ln of the failure probability of each tail bound: delta_1 divided by the number of bounds of all draws, rounded down
 * (A10, A13). */
double eps__cc_log_beta(const struct eps__cc_steps *steps, double log_delta1);

/* The state before row `at`. */
struct eps__cc_walk {
    const struct eps__cc_steps *steps;
    size_t at;
    double *gram;              /* bins x bins: the Gram matrix of the rows before */
    uint32_t *near, *near_len; /* by bin: the bins whose inner product with it is not 0 */
    uint64_t *mean_class;      /* by bin: two bins have the same class if and only if their means so far are equal */
    uint64_t mean_classes;     /* the number of classes so far */
    uint32_t *order;           /* the bins by their mean in this row, in ascending order */
    size_t still;              /* the number of bins whose mean in this row is 0: the first in `order` */
};

/* Starts before row 0. *steps must outlive the walk, which the caller destroys. EPS_NO_MEMORY. */
enum eps_status eps__cc_walk_create(struct eps__cc_walk **walk, const struct eps__cc_steps *steps);
void eps__cc_walk_destroy(struct eps__cc_walk *walk);

/* Advances by one row. walk->at must be less than the number of rows. */
void eps__cc_walk_advance(struct eps__cc_walk *walk);

static inline const double *eps__cc_row(const struct eps__cc_walk *walk)
{
    return walk->steps->shift + walk->at * walk->steps->bins;
}

/* The number of bins before place `at` of the order whose means so far equal that of the bin at `at`. */
size_t eps__cc_walk_equal(const struct eps__cc_walk *walk, size_t at);

#endif
