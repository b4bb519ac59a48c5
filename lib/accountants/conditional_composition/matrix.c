/*
 * Collects rows one by one. A row that equals an earlier one up to a factor is merged into it, and the merged row keeps
 * the place of the first.
 *
 * SPDX-License-Identifier: GPL-3.0-or-later
 */
#include "lib/accountants/conditional_composition/matrix.h"

#include <assert.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "lib/numerics/bound.h"

#define ALIKE 1e-12 /* the largest relative difference of factors that counts as rounding */

void eps__cc_matrix_clear(struct eps__cc_matrix *matrix)
{
    free(matrix->entry);
    free(matrix->square);
    free(matrix->merged);
    free(matrix->first);
    *matrix = (struct eps__cc_matrix){.bins = matrix->bins, .draws = matrix->draws};
}

/* A factor f with row <= f own entry by entry, if the two rows are equal up to a factor; else 0. */
static double factor_of(const double *own, const double *row, size_t len)
{
    double least = INFINITY, most = 0;
    for (size_t i = 0; i < len; i++) {
        if ((own[i] > 0) != (row[i] > 0))
            return 0;
        if (!(own[i] > 0))
            continue;
        double ratio = row[i] / own[i];
        least = fmin(least, ratio);
        most = fmax(most, ratio);
        if (!(most - least <= ALIKE * least) || !(least > DBL_MIN))
            return 0;
    }
    return eps__raise(most, 4);
}

static bool grow(struct eps__cc_matrix *matrix)
{
    if (matrix->len < matrix->capacity)
        return true;
    size_t capacity = 2 * matrix->capacity + 16;
    double *entry = realloc(matrix->entry, capacity * matrix->bins * sizeof *entry);
    if (entry)
        matrix->entry = entry;
    double *square = realloc(matrix->square, capacity * sizeof *square);
    if (square)
        matrix->square = square;
    uint64_t *merged = realloc(matrix->merged, capacity * sizeof *merged);
    if (merged)
        matrix->merged = merged;
    size_t *first = realloc(matrix->first, capacity * sizeof *first);
    if (first)
        matrix->first = first;
    if (!entry || !square || !merged || !first)
        return false;
    matrix->capacity = capacity;
    return true;
}

enum eps_status eps__cc_matrix_add(struct eps__cc_matrix *matrix, const double *row, double error)
{
    size_t first = 0;
    while (first < matrix->bins && !(row[first] > 0))
        first++;
    if (first == matrix->bins)
        return EPS_OK;
    if (!grow(matrix))
        return EPS_NO_MEMORY;
    double *own = matrix->entry + matrix->len * matrix->bins, units = error / EPS__UNIT_ROUNDOFF + 4;
    for (size_t i = 0; i < matrix->bins; i++)
        own[i] = row[i] > 0 ? fmax(eps__raise(row[i], units), DBL_MIN) : 0;
    matrix->error = fmax(matrix->error, 2 * units * EPS__UNIT_ROUNDOFF);
    matrix->shown++;
    for (size_t k = matrix->len; k-- > 0;) {
        double factor = matrix->first[k] == first ? factor_of(matrix->entry + k * matrix->bins, own, matrix->bins) : 0;
        if (!(factor > 0))
            continue;
        matrix->square[k] = eps__raise(matrix->square[k] + factor * factor, 4);
        matrix->merged[k]++;
        return EPS_OK;
    }
    matrix->first[matrix->len] = first;
    matrix->square[matrix->len] = 1;
    matrix->merged[matrix->len++] = 1;
    return EPS_OK;
}

void eps__cc_matrix_close(struct eps__cc_matrix *matrix)
{
    uint64_t total = 0, most = 0;
    for (size_t k = 0; k < matrix->len; k++) {
        double factor = eps__sqrt_up(matrix->square[k]);
        for (size_t i = 0; i < matrix->bins; i++)
            matrix->entry[k * matrix->bins + i] = eps__multiply_up(matrix->entry[k * matrix->bins + i], factor);
        total += matrix->merged[k];
        most = matrix->merged[k] > most ? matrix->merged[k] : most;
    }
    matrix->error += 2 * ALIKE + 16 * (double)most * EPS__UNIT_ROUNDOFF; /* (A7) */
    assert(total == matrix->shown); /* (A7): a row that is not counted would be released without being accounted for */
}

enum eps_status eps__cc_matrix_class(struct eps__cc_matrix *class, const struct eps__cc_matrix *matrix, size_t classes,
                                     size_t first)
{
    assert(matrix->draws == 1); /* (A12): with several draws, averaging the classes' deltas proves nothing */
    *class = (struct eps__cc_matrix){.bins = (matrix->bins - first + classes - 1) / classes, .draws = 1};
    double *row = malloc(class->bins * sizeof *row);
    enum eps_status status = row ? EPS_OK : EPS_NO_MEMORY;
    for (size_t k = 0; k < matrix->len && status == EPS_OK; k++) {
        for (size_t i = 0; i < class->bins; i++)
            row[i] = matrix->entry[k * matrix->bins + first + i * classes];
        status = eps__cc_matrix_add(class, row, 0);
    }
    free(row);
    if (status == EPS_OK)
        eps__cc_matrix_close(class);
    class->error += matrix->error;
    return status;
}
