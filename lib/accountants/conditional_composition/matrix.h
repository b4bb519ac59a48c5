/*
 * The matrix [m_0 .. m_{b-1}] of the means of balls in bins, row by row, as conditional composition uses it.
 *
 * Only the Gram matrix of the m_i matters. So rows may be taken in any order, and rows that are equal up to a factor
 * are merged into one row, by the root of the sum of the squared factors (A7). Larger entries dominate, so entries may
 * be rounded up (A8).
 *
 * SPDX-License-Identifier: GPL-3.0-or-later
 */
#ifndef EPS_ACCOUNTANTS_CONDITIONAL_COMPOSITION_MATRIX_H
#define EPS_ACCOUNTANTS_CONDITIONAL_COMPOSITION_MATRIX_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "lib/epsilon.h"

/* len merged rows of `bins` numbers. Initialise it to zero except for bins and draws. Thread-compatible. */
struct eps__cc_matrix {
    size_t bins, len, capacity;
    uint64_t draws;   /* >= 1: how often these rows are released, each time with a newly drawn bin (A13) */
    double *entry;    /* by row: entries that are at least the exact ones */
    double *square;   /* by row: the sum of its squared factors, whose root eps__cc_matrix_close() applies */
    uint64_t *merged; /* by row: the number of rows that it represents */
    size_t *first;    /* by row: the index of its first nonzero entry */
    uint64_t shown;   /* the number of nonzero rows, which is the sum of `merged` */
    double error;     /* the largest relative amount by which an entry exceeds the exact one */
};

/* Adds the next row of [m_0 .. m_{b-1}]. Each entry is >= 0 and has a relative error of at most `error`.
 * EPS_NO_MEMORY. */
enum eps_status eps__cc_matrix_add(struct eps__cc_matrix *matrix, const double *row, double error);

/* Completes the matrix after the last row. */
void eps__cc_matrix_close(struct eps__cc_matrix *matrix);

/* Makes a completed matrix of the bins first, first + classes, ... (A12) from another completed matrix with draws = 1.
 * The caller clears it, also on failure. EPS_NO_MEMORY. */
enum eps_status eps__cc_matrix_class(struct eps__cc_matrix *class, const struct eps__cc_matrix *matrix, size_t classes,
                                     size_t first);

void eps__cc_matrix_clear(struct eps__cc_matrix *matrix);

#endif
