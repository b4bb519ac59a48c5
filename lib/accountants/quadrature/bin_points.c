/*
 * See bin_points.h. The matrix is moved by a little more than the rounding errors, in a way that keeps it positive
 * semidefinite, and what comes out is compared with what was wanted, entry by entry.
 *
 * SPDX-License-Identifier: GPL-3.0-or-later
 */
#include "lib/accountants/quadrature/bin_points.h"

#include <assert.h>
#include <string.h>

#include "lib/numerics/linear/linalg.h"

enum { MOST = EPS__BIN_POINTS_MOST };

#define UNDERFLOW 1e-299 /* by how much more than its share an entry may exceed the exact one */
#define LITTLE 0x1p-40   /* what the entries are moved by, relative to the largest: far more than rounding errors */

/* The coordinates of points with this matrix of inner products, approximately. */
static bool place(struct eps__bin_points *points, double gram[MOST][MOST])
{
    size_t len = points->len;
    double rest[MOST * MOST], values[MOST], total = 0, with_all[MOST] = {0};
    for (size_t i = 0; i < len; i++) {
        for (size_t j = 0; j < len; j++)
            with_all[i] += gram[i][j];
        total += with_all[i];
    }
    if (!(total > 0))
        return false;
    for (size_t i = 0; i < len; i++)
        points->along[i] = with_all[i] / sqrt(total);
    for (size_t i = 0; i < len; i++)
        for (size_t j = 0; j < len; j++)
            rest[i * len + j] = gram[i][j] - points->along[i] * points->along[j];
    if (eps__symmetric_eigenvectors(NULL, values, rest, len) != EPS__LAPACK_DONE)
        return false;
    /* ascending; the least one belongs to the sum, and is 0 but for rounding errors */
    for (size_t k = 0; k < points->axes; k++)
        for (size_t i = 0; i < len; i++)
            points->across[i][k] = sqrt(fmax(values[k + 1], 0)) * rest[(k + 1) * len + i];
    return true;
}

/* A bound on the inner product of two points. */
static double product(const struct eps__bin_points *points, size_t i, size_t j, enum eps__estimate estimate)
{
    double sum = points->along[i] * points->along[j], sizes = fabs(sum);
    for (size_t k = 0; k < points->axes; k++) {
        double term = points->across[i][k] * points->across[j][k];
        sum += term;
        sizes += fabs(term);
    }
    return eps__shift(estimate, sum, 8 * EPS__UNIT_ROUNDOFF * sizes);
}

bool eps__bin_points_make(struct eps__bin_points *points, const struct eps__bin_gram *bins, enum eps__estimate estimate)
{
    size_t len = bins->len;
    bool upper = estimate == EPS__UPPER;
    double gram[MOST][MOST], wanted[MOST][MOST], little = LITTLE * bins->most, shortest = bins->most;
    assert(len >= 1 && len <= MOST && !bins->count);
    for (size_t i = 0; i < len; i++)
        shortest = fmin(shortest, bins->diagonal[i]);
    double scaled = upper ? 1 : 1 - 32 * (bins->most / shortest) * (LITTLE + bins->excess);
    if (!(scaled > 0.9))
        return false;
    *points = (struct eps__bin_points){.len = len, .axes = len - 1};
    for (size_t i = 0; i < len; i++) {
        double row = 0;
        for (size_t j = 0; j < len; j++)
            row += eps__bin_gram_entry(bins, i, j);
        for (size_t j = 0; j < len; j++) {
            double entry = eps__bin_gram_entry(bins, i, j), exact = entry - bins->excess * (i == j ? row : entry);
            wanted[i][j] = upper ? entry : eps__shift(EPS__LOWER, exact, 8 * EPS__UNIT_ROUNDOFF * entry + UNDERFLOW);
            /* Upwards, a multiple of the matrix of ones is added; downwards, it is subtracted, with a multiple of the
             * identity added that outweighs it, and all is scaled down. */
            double least = i == j ? 4 * little : 0;
            gram[i][j] = scaled * entry + least + (upper ? little : -little);
        }
    }
    if (!place(points, gram))
        return false;
    for (size_t i = 0; i < len; i++) {
        if (!(points->along[i] >= 0))
            return false;
        for (size_t j = 0; j < len; j++)
            if (upper ? !(product(points, i, j, EPS__LOWER) >= wanted[i][j])
                      : !(product(points, i, j, EPS__UPPER) <= wanted[i][j]))
                return false;
    }
    return true;
}
