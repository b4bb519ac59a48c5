/*
 * What conditional composition needs of the means m_0 .. m_{b-1} of balls in bins: any non-negative vectors with the same
 * Gram matrix, row by row, in any order.
 *
 * Only the Gram matrix matters, so rows that are equal up to a factor are one row, by the root of the sum of their squares
 * (A7); and larger entries dominate, so that a row is known by doubles that are nowhere less (A8).
 *
 * SPDX-License-Identifier: GPL-3.0-or-later
 */
#ifndef EPS_ACCOUNTANTS_CONDITIONAL_COMPOSITION_MATRIX_H
#define EPS_ACCOUNTANTS_CONDITIONAL_COMPOSITION_MATRIX_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "lib/epsilon.h"

/* len merged rows of `bins` numbers. Zero-initialise, but for bins and draws. Thread-compatible. */
struct eps__cc_matrix {
    size_t bins, len, capacity;
    uint64_t draws;   /* >= 1: how often these rows are released, each time for a bin of its own (A13) */
    double *entry;    /* row by row: at least the mean's */
    double *square;   /* by row: the sum of the squares of its factors; scaled in by eps__cc_matrix_close() */
    uint64_t *merged; /* by row: how many rows it stands for */
    size_t *first;    /* by row: its first entry that is not 0 */
    uint64_t shown;   /* rows that show anything: what `merged` adds up to */
    double error;     /* relative: what an entry may exceed the mean's by */
};

/* The next row of [m_0 .. m_{b-1}], each entry >= 0 and relatively within `error` of the exact one. EPS_NO_MEMORY. */
enum eps_status eps__cc_matrix_add(struct eps__cc_matrix *matrix, const double *row, double error);

/* After the last row. */
void eps__cc_matrix_close(struct eps__cc_matrix *matrix);

/* The same for the bins first, first + classes, ... alone (A12), from a closed matrix; closed. EPS_NO_MEMORY. */
enum eps_status eps__cc_matrix_class(struct eps__cc_matrix *class, const struct eps__cc_matrix *matrix, size_t classes,
                                     size_t first);

void eps__cc_matrix_clear(struct eps__cc_matrix *matrix);

#endif
