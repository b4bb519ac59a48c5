/*
 * Dense linear algebra over OpenBLAS, in blocks; eigenvectors are in eigenvectors.c. LAPACKE is called in column-major
 * order on row-major data, that is, on the transpose, which makes no difference to eigenvalues and inverses and saves a
 * copy. Proofs rest on a Cholesky factorisation with a margin, never on computed eigenvalues, which have no error
 * bound.
 *
 * SPDX-License-Identifier: GPL-3.0-or-later
 */
#include "lib/numerics/linear/linalg.h"

#include <assert.h>
#include <cblas.h>
#include <float.h>
#include <lapacke.h>
#include <math.h>
#include <stdint.h>
#include <stdlib.h>

#include "lib/numerics/normal.h"

/* Columns of a block. A block takes up to 2 n^2 BLOCK operations, with no poll in between. */
enum { BLOCK = 256 };

bool eps__symmetric_eigenvalues(double *values, double *matrix, size_t n)
{
    lapack_int order = (lapack_int)n;
    return LAPACKE_dsyevd(LAPACK_COL_MAJOR, 'N', 'U', order, matrix, order, values) == 0;
}

static size_t least(size_t a, size_t b)
{
    return a < b ? a : b;
}

static enum eps__lapack ending(lapack_int info)
{
    return info == 0                                                                   ? EPS__LAPACK_DONE
           : info == LAPACK_WORK_MEMORY_ERROR || info == LAPACK_TRANSPOSE_MEMORY_ERROR ? EPS__LAPACK_NO_MEMORY
                                                                                       : EPS__LAPACK_FAILED;
}

enum eps__lapack eps__singular_vectors(double *values, double *right, double *left, double *matrix, size_t n)
{
    lapack_int order = (lapack_int)n;
    /* LAPACK sees the transpose: its left vectors, in columns, are our right ones, in rows, and vice versa. */
    enum eps__lapack end =
        ending(LAPACKE_dgesdd(LAPACK_COL_MAJOR, 'A', order, order, matrix, order, values, right, order, left, order));
    if (end != EPS__LAPACK_DONE)
        return end;
    for (size_t i = 0, j = n; i + 1 < j--; i++) {
        double swap = values[i];
        values[i] = values[j];
        values[j] = swap;
        cblas_dswap((blasint)n, right + i * n, 1, right + j * n, 1);
        cblas_dswap((blasint)n, left + i, order, left + j, order);
    }
    return EPS__LAPACK_DONE;
}

static void clear_above(double *matrix, size_t n)
{
    for (size_t i = 0; i < n; i++)
        for (size_t j = i + 1; j < n; j++)
            matrix[i * n + j] = 0;
}

bool eps__cholesky(struct eps__work *work, double *matrix, size_t n)
{
    for (size_t at = 0; at < n; at += BLOCK) {
        size_t count = least(BLOCK, n - at), rest = n - at - count;
        double *corner = matrix + at * n + at, *below = corner + count * n, *beyond = below + count;
        if (!eps__goes_on(work) || LAPACKE_dpotrf(LAPACK_COL_MAJOR, 'U', (lapack_int)count, corner, (lapack_int)n) != 0)
            return false;
        if (!rest)
            break;
        cblas_dtrsm(CblasRowMajor, CblasRight, CblasLower, CblasTrans, CblasNonUnit, (blasint)rest, (blasint)count, 1,
                    corner, (blasint)n, below, (blasint)n);
        cblas_dsyrk(CblasRowMajor, CblasLower, CblasNoTrans, (blasint)rest, (blasint)count, -1, below, (blasint)n, 1,
                    beyond, (blasint)n);
    }
    clear_above(matrix, n);
    return true;
}

void eps__solve_lower(struct eps__work *work, double *a, const double *l, size_t rows, size_t n)
{
    for (size_t at = 0; at < rows && eps__goes_on(work); at += BLOCK)
        cblas_dtrsm(CblasRowMajor, CblasRight, CblasLower, CblasNoTrans, CblasNonUnit, (blasint)least(BLOCK, rows - at),
                    (blasint)n, 1, l, (blasint)n, a + at * n, (blasint)n);
}

void eps__multiply_lower(struct eps__work *work, double *a, const double *l, size_t n, size_t columns)
{
    for (size_t at = 0; at < columns && eps__goes_on(work); at += BLOCK)
        cblas_dtrmm(CblasRowMajor, CblasLeft, CblasLower, CblasNoTrans, CblasNonUnit, (blasint)n,
                    (blasint)least(BLOCK, columns - at), 1, l, (blasint)n, a + at, (blasint)columns);
}

/* out = a b, with a or b transposed as how_a and how_b say. */
static void multiply(struct eps__work *work, double *out, CBLAS_TRANSPOSE how_a, const double *a, CBLAS_TRANSPOSE how_b,
                     const double *b, size_t n)
{
    blasint order = (blasint)n;
    for (size_t at = 0; at < n && eps__goes_on(work); at += BLOCK)
        cblas_dgemm(CblasRowMajor, how_a, how_b, (blasint)least(BLOCK, n - at), order, order, 1,
                    a + (how_a == CblasNoTrans ? at * n : at), order, b, order, 0, out + at * n, order);
}

void eps__multiply_transposed(struct eps__work *work, double *out, const double *a, const double *b, size_t n)
{
    multiply(work, out, CblasNoTrans, a, CblasTrans, b, n);
}

void eps__multiply_first_transposed(struct eps__work *work, double *out, const double *a, const double *b, size_t n)
{
    multiply(work, out, CblasTrans, a, CblasNoTrans, b, n);
}

double eps__positive_margin(double trace, size_t n)
{
    /* Rump: gamma/(1 - gamma) trace with gamma = (n + 1)u/(1 - (n + 1)u). Doubled for the rounding of the trace and of
     * the subtraction. */
    return 2 * ((double)n + 4) * EPS__UNIT_ROUNDOFF * trace + (double)n * DBL_MIN;
}

bool eps__proven_positive(double *matrix, size_t n, double error)
{
    double trace = 0;
    for (size_t i = 0; i < n; i++) {
        if (!(matrix[i * n + i] >= 0))
            return false;
        trace += matrix[i * n + i];
    }
    double margin = eps__positive_margin(trace, n) + error;
    for (size_t i = 0; i < n; i++)
        matrix[i * n + i] -= margin;
    lapack_int order = (lapack_int)n;
    return LAPACKE_dpotrf(LAPACK_COL_MAJOR, 'U', order, matrix, order) == 0;
}

/* Inverts the lower triangle in place, as LAPACK's dtrtri does on the transpose; does not touch what is above the
 * diagonal. */
static enum eps__lapack invert_lower(struct eps__work *work, double *matrix, size_t n)
{
    for (size_t i = 0; i < n; i++)
        if (matrix[i * n + i] == 0)
            return EPS__LAPACK_FAILED;
    for (size_t at = 0; at < n; at += BLOCK) {
        size_t count = least(BLOCK, n - at);
        double *rows = matrix + at * n, *corner = rows + at;
        if (!eps__goes_on(work))
            return EPS__LAPACK_STOPPED;
        if (at) {
            cblas_dtrmm(CblasRowMajor, CblasRight, CblasLower, CblasNoTrans, CblasNonUnit, (blasint)count, (blasint)at,
                        1, matrix, (blasint)n, rows, (blasint)n);
            cblas_dtrsm(CblasRowMajor, CblasLeft, CblasLower, CblasNoTrans, CblasNonUnit, (blasint)count, (blasint)at,
                        -1, corner, (blasint)n, rows, (blasint)n);
        }
        enum eps__lapack end =
            ending(LAPACKE_dtrtri(LAPACK_COL_MAJOR, 'U', 'N', (lapack_int)count, corner, (lapack_int)n));
        if (end != EPS__LAPACK_DONE)
            return end;
    }
    return EPS__LAPACK_DONE;
}

bool eps__lower_inverse(struct eps__work *work, double *matrix, size_t n)
{
    if (invert_lower(work, matrix, n) != EPS__LAPACK_DONE)
        return false;
    clear_above(matrix, n);
    return true;
}

/* Factors the matrix that LAPACK sees into P L U, in place. Pivots count from 1, as LAPACK's. */
static enum eps__lapack factorise(struct eps__work *work, double *matrix, lapack_int *pivots, size_t n)
{
    lapack_int order = (lapack_int)n;
    for (size_t at = 0; at < n; at += BLOCK) {
        size_t count = least(BLOCK, n - at), end = at + count, rest = n - end;
        double *corner = matrix + at * n + at;
        if (!eps__goes_on(work))
            return EPS__LAPACK_STOPPED;
        enum eps__lapack how = ending(
            LAPACKE_dgetrf(LAPACK_COL_MAJOR, (lapack_int)(n - at), (lapack_int)count, corner, order, pivots + at));
        if (how != EPS__LAPACK_DONE)
            return how;
        for (size_t i = at; i < end; i++)
            pivots[i] += (lapack_int)at;
        lapack_int first = (lapack_int)at + 1, last = (lapack_int)end;
        if (at)
            LAPACKE_dlaswp(LAPACK_COL_MAJOR, (lapack_int)at, matrix, order, first, last, pivots, 1);
        if (!rest)
            break;
        double *right = matrix + end * n;
        LAPACKE_dlaswp(LAPACK_COL_MAJOR, (lapack_int)rest, right, order, first, last, pivots, 1);
        cblas_dtrsm(CblasColMajor, CblasLeft, CblasLower, CblasNoTrans, CblasUnit, (blasint)count, (blasint)rest, 1,
                    corner, order, right + at, order);
        cblas_dgemm(CblasColMajor, CblasNoTrans, CblasNoTrans, (blasint)rest, (blasint)rest, (blasint)count, -1,
                    corner + count, order, right + at, order, 1, right + end, order);
    }
    return EPS__LAPACK_DONE;
}

/* The inverse from P L U: inverts U, then solves X L = U^-1 for blocks of columns from the last one on. panel: n x
 * BLOCK. */
static enum eps__lapack invert_factors(struct eps__work *work, double *matrix, double *panel, const lapack_int *pivots,
                                       size_t n)
{
    blasint order = (blasint)n;
    enum eps__lapack end = invert_lower(work, matrix, n);
    for (size_t at = (n - 1) / BLOCK * BLOCK; end == EPS__LAPACK_DONE; at -= BLOCK) {
        size_t count = least(BLOCK, n - at), next = at + count;
        double *columns = matrix + at * n;
        if (!eps__goes_on(work))
            return EPS__LAPACK_STOPPED;
        for (size_t j = 0; j < count; j++)
            for (size_t i = at + j + 1; i < n; i++) {
                panel[j * n + i] = columns[j * n + i];
                columns[j * n + i] = 0;
            }
        if (next < n)
            cblas_dgemm(CblasColMajor, CblasNoTrans, CblasNoTrans, order, (blasint)count, (blasint)(n - next), -1,
                        matrix + next * n, order, panel + next, order, 1, columns, order);
        cblas_dtrsm(CblasColMajor, CblasRight, CblasLower, CblasNoTrans, CblasUnit, order, (blasint)count, 1,
                    panel + at, order, columns, order);
        if (at == 0)
            break;
    }
    for (size_t j = n; end == EPS__LAPACK_DONE && j-- > 0;)
        if ((size_t)pivots[j] != j + 1)
            cblas_dswap(order, matrix + j * n, 1, matrix + ((size_t)pivots[j] - 1) * n, 1);
    return end;
}

/* checked: FAILED if the matrix is singular to working precision; otherwise only if a pivot is 0. */
static enum eps__lapack invert(struct eps__work *work, double *matrix, size_t n, bool checked)
{
    lapack_int order = (lapack_int)n;
    assert(n > 0 && n <= INT32_MAX);
    double norm = LAPACKE_dlange(LAPACK_COL_MAJOR, '1', order, order, matrix, order), reciprocal = 0;
    lapack_int *pivots = malloc(n * sizeof *pivots);
    double *panel = calloc(n, least(BLOCK, n) * sizeof *panel);
    enum eps__lapack end = pivots && panel ? factorise(work, matrix, pivots, n) : EPS__LAPACK_NO_MEMORY;
    if (end == EPS__LAPACK_DONE && checked) {
        end = ending(LAPACKE_dgecon(LAPACK_COL_MAJOR, '1', order, matrix, order, norm, &reciprocal));
        if (end == EPS__LAPACK_DONE && !(reciprocal > EPS__UNIT_ROUNDOFF))
            end = EPS__LAPACK_FAILED;
    }
    if (end == EPS__LAPACK_DONE)
        end = invert_factors(work, matrix, panel, pivots, n);
    free(pivots);
    free(panel);
    return end;
}

enum eps__lapack eps__general_inverse(struct eps__work *work, double *matrix, size_t n)
{
    return invert(work, matrix, n, true);
}

static bool is_lower(const double *matrix, size_t n)
{
    for (size_t i = 0; i < n; i++)
        for (size_t j = i + 1; j < n; j++)
            if (matrix[i * n + j] != 0)
                return false;
    return true;
}

/* The geometric mean of the 1-norm and the infinity norm, which is at least the spectral norm. */
static double norm_of(const double *matrix, size_t n)
{
    lapack_int order = (lapack_int)n;
    return sqrt(LAPACKE_dlange(LAPACK_COL_MAJOR, '1', order, order, matrix, order)) *
           sqrt(LAPACKE_dlange(LAPACK_COL_MAJOR, 'I', order, order, matrix, order));
}

/* x <- (scale x + inverse' / scale)/2, in tiles for the cache. Returns the Frobenius norm of the change. */
static double newton_step(double *x, const double *inverse, double scale, size_t n)
{
    enum { TILE = 32 };
    double change = 0;
    for (size_t first = 0; first < n; first += TILE)
        for (size_t left = 0; left < n; left += TILE)
            for (size_t i = first; i < least(first + TILE, n); i++)
                for (size_t j = left; j < least(left + TILE, n); j++) {
                    double next = (scale * x[i * n + j] + inverse[j * n + i] / scale) / 2;
                    change += (next - x[i * n + j]) * (next - x[i * n + j]);
                    x[i * n + j] = next;
                }
    return sqrt(change);
}

/* Newton's iteration, scaled by norms (Higham 1986). It converges quadratically, so that after a change of at most 1e-9
 * relative to the norm sqrt(n) no further step is needed. */
enum eps__lapack eps__polar_factor(struct eps__work *work, double *matrix, double *scratch, size_t n)
{
    enum { STEPS = 40 };
    double change = INFINITY, size = sqrt((double)n);
    for (size_t step = 0; step < STEPS && !(change <= 1e-9 * size); step++) {
        for (size_t i = 0; i < n * n; i++)
            scratch[i] = matrix[i];
        enum eps__lapack end = is_lower(scratch, n) ? invert_lower(work, scratch, n) : invert(work, scratch, n, false);
        if (end != EPS__LAPACK_DONE)
            return end;
        double scale = change <= 1e-2 * size ? 1 : sqrt(norm_of(scratch, n) / norm_of(matrix, n));
        if (!(scale > 0 && isfinite(scale)))
            return EPS__LAPACK_FAILED;
        change = newton_step(matrix, scratch, scale, n);
    }
    return isfinite(change) ? EPS__LAPACK_DONE : EPS__LAPACK_FAILED;
}

void eps__gram(struct eps__work *work, double *out, const double *a, size_t rows, size_t n)
{
    for (size_t at = 0; at < n; at += BLOCK) {
        size_t count = least(BLOCK, n - at), rest = n - at - count;
        double *corner = out + at * n + at;
        if (!eps__goes_on(work))
            return;
        cblas_dsyrk(CblasRowMajor, CblasUpper, CblasTrans, (blasint)count, (blasint)rows, 1, a + at, (blasint)n, 0,
                    corner, (blasint)n);
        if (rest)
            cblas_dgemm(CblasRowMajor, CblasTrans, CblasNoTrans, (blasint)count, (blasint)rest, (blasint)rows, 1,
                        a + at, (blasint)n, a + at + count, (blasint)n, 0, corner + count, (blasint)n);
    }
    for (size_t i = 0; i < n; i++)
        for (size_t j = 0; j < i; j++)
            out[i * n + j] = out[j * n + i];
}

void eps__multiply(struct eps__work *work, double *out, const double *a, const double *b, size_t n)
{
    multiply(work, out, CblasNoTrans, a, CblasNoTrans, b, n);
}

void eps__multiply_row(double *out, const double *v, const double *a, size_t rows, size_t n)
{
    cblas_dgemv(CblasRowMajor, CblasTrans, (blasint)rows, (blasint)n, 1, a, (blasint)n, v, 1, 0, out, 1);
}
