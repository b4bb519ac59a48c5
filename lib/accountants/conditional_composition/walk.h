/*
 * The steps of conditional composition one after another: at each, what the rows before it say of every bin, by the Gram
 * matrix of the means so far and by which of these are equal.
 *
 * SPDX-License-Identifier: GPL-3.0-or-later
 */
#ifndef EPS_ACCOUNTANTS_CONDITIONAL_COMPOSITION_WALK_H
#define EPS_ACCOUNTANTS_CONDITIONAL_COMPOSITION_WALK_H

#include "lib/accountants/conditional_composition/matrix.h"

/* The rows over sigma, rounded up: what is analysed is this matrix, exactly, at sigma = 1 (A8). Borrows nothing. */
struct eps__cc_steps {
    size_t bins, len;
    double *shift;   /* len rows of `bins` */
    uint64_t draws;  /* how often all rows are released, each time for a bin of its own (A13) */
    uint64_t bounds; /* how many tail bounds all rows of one draw need (A10) */
    double error;    /* relative, of a shift over the exact one */
};

/* reversed: the rows in the opposite order. EPS_NO_MEMORY, EPS_CANCELED, EPS_TIMEOUT. */
enum eps_status eps__cc_steps_create(struct eps__cc_steps **steps, const struct eps_context *context,
                                     const struct eps__cc_matrix *matrix, double sigma, bool reversed);
void eps__cc_steps_destroy(struct eps__cc_steps *steps);

/* ln of what each tail bound may leave: delta_1 in as many equal parts as all draws have bounds, rounded down (A10, A13). */
double eps__cc_log_beta(const struct eps__cc_steps *steps, double log_delta1);

/* Before row `at`. */
struct eps__cc_walk {
    const struct eps__cc_steps *steps;
    size_t at;
    double *gram;              /* bins x bins, of the rows before */
    uint32_t *near, *near_len; /* by bin: those whose product with it is not 0 */
    uint64_t *mean_class;      /* by bin: equal exactly where the means so far are */
    uint64_t mean_classes;
    uint32_t *order; /* the bins by their mean in this row, least first */
    size_t still;    /* so many of them have none there */
};

enum eps_status eps__cc_walk_create(struct eps__cc_walk **walk, const struct eps__cc_steps *steps);
void eps__cc_walk_destroy(struct eps__cc_walk *walk);

/* To the next row; not after the last. */
void eps__cc_walk_advance(struct eps__cc_walk *walk);

static inline const double *eps__cc_row(const struct eps__cc_walk *walk)
{
    return walk->steps->shift + walk->at * walk->steps->bins;
}

/* How many bins before the place `at` of the order have had the same mean so far as its bin. */
size_t eps__cc_walk_equal(const struct eps__cc_walk *walk, size_t at);

#endif
