/*
 * Dense linear algebra over OpenBLAS. LAPACKE is called in column-major order on row-major data, that is on the
 * transpose: eigenvalues and inverses do not mind, and no copy is made. What has to be proven is proven by a
 * Cholesky factorisation with a margin, never by computed eigenvalues, which carry no bound of their own.
 *
 * SPDX-License-Identifier: GPL-3.0-or-later
 */
#include "lib/numerics/linalg.h"

#include <cblas.h>
#include <float.h>
#include <lapacke.h>
#include <math.h>
#include <stdlib.h>

#include "lib/numerics/normal.h"

bool eps__symmetric_eigenvalues(double *values, double *matrix, size_t n)
{
    lapack_int order = (lapack_int)n;
    return LAPACKE_dsyevd(LAPACK_COL_MAJOR, 'N', 'U', order, matrix, order, values) == 0;
}

static enum eps__lapack ending(lapack_int info)
{
    return info == 0                                                                   ? EPS__LAPACK_DONE
           : info == LAPACK_WORK_MEMORY_ERROR || info == LAPACK_TRANSPOSE_MEMORY_ERROR ? EPS__LAPACK_NO_MEMORY
                                                                                       : EPS__LAPACK_FAILED;
}

enum eps__lapack eps__symmetric_eigenvectors(double *values, double *matrix, size_t n)
{
    lapack_int order = (lapack_int)n;
    return ending(LAPACKE_dsyevd(LAPACK_COL_MAJOR, 'V', 'U', order, matrix, order, values));
}

enum eps__lapack eps__singular_vectors(double *values, double *right, double *left, double *matrix, size_t n)
{
    lapack_int order = (lapack_int)n;
    /* LAPACK sees the transpose: its left vectors, in columns, are our right ones in rows, and the other way round. */
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

bool eps__cholesky(double *matrix, size_t n)
{
    lapack_int order = (lapack_int)n;
    if (LAPACKE_dpotrf(LAPACK_COL_MAJOR, 'U', order, matrix, order) != 0)
        return false;
    for (size_t i = 0; i < n; i++)
        for (size_t j = i + 1; j < n; j++)
            matrix[i * n + j] = 0;
    return true;
}

void eps__solve_lower(double *a, const double *l, size_t rows, size_t n)
{
    cblas_dtrsm(CblasRowMajor, CblasRight, CblasLower, CblasNoTrans, CblasNonUnit, (blasint)rows, (blasint)n, 1, l,
                (blasint)n, a, (blasint)n);
}

void eps__multiply_lower(double *a, const double *l, size_t n, size_t columns)
{
    cblas_dtrmm(CblasRowMajor, CblasLeft, CblasLower, CblasNoTrans, CblasNonUnit, (blasint)n, (blasint)columns, 1, l,
                (blasint)n, a, (blasint)columns);
}

void eps__multiply_transposed(double *out, const double *a, const double *b, size_t n)
{
    blasint order = (blasint)n;
    cblas_dgemm(CblasRowMajor, CblasNoTrans, CblasTrans, order, order, order, 1, a, order, b, order, 0, out, order);
}

double eps__positive_margin(double trace, size_t n)
{
    /* Rump: gamma/(1 - gamma) trace with gamma = (n + 1)u/(1 - (n + 1)u); twice that, for the trace's own rounding
     * and that of the subtraction. */
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

bool eps__lower_inverse(double *matrix, size_t n)
{
    lapack_int order = (lapack_int)n;
    if (LAPACKE_dtrtri(LAPACK_COL_MAJOR, 'U', 'N', order, matrix, order) != 0)
        return false;
    for (size_t i = 0; i < n; i++)
        for (size_t j = i + 1; j < n; j++)
            matrix[i * n + j] = 0;
    return true;
}

enum eps__lapack eps__general_inverse(double *matrix, size_t n)
{
    lapack_int order = (lapack_int)n;
    double norm = LAPACKE_dlange(LAPACK_COL_MAJOR, '1', order, order, matrix, order), reciprocal = 0;
    lapack_int *pivots = malloc(n * sizeof *pivots);
    if (!pivots)
        return EPS__LAPACK_NO_MEMORY;
    lapack_int info = LAPACKE_dgetrf(LAPACK_COL_MAJOR, order, order, matrix, order, pivots);
    if (info == 0)
        info = LAPACKE_dgecon(LAPACK_COL_MAJOR, '1', order, matrix, order, norm, &reciprocal);
    enum eps__lapack end = ending(info);
    if (end == EPS__LAPACK_DONE && !(reciprocal > EPS__UNIT_ROUNDOFF))
        end = EPS__LAPACK_FAILED;
    if (end == EPS__LAPACK_DONE)
        end = ending(LAPACKE_dgetri(LAPACK_COL_MAJOR, order, matrix, order, pivots));
    free(pivots);
    return end;
}

void eps__gram(double *out, const double *a, size_t rows, size_t n)
{
    cblas_dsyrk(CblasRowMajor, CblasUpper, CblasTrans, (blasint)n, (blasint)rows, 1, a, (blasint)n, 0, out, (blasint)n);
    for (size_t i = 0; i < n; i++)
        for (size_t j = 0; j < i; j++)
            out[i * n + j] = out[j * n + i];
}

void eps__multiply(double *out, const double *a, const double *b, size_t n)
{
    blasint order = (blasint)n;
    cblas_dgemm(CblasRowMajor, CblasNoTrans, CblasNoTrans, order, order, order, 1, a, order, b, order, 0, out, order);
}

void eps__multiply_row(double *out, const double *v, const double *a, size_t rows, size_t n)
{
    cblas_dgemv(CblasRowMajor, CblasTrans, (blasint)rows, (blasint)n, 1, a, (blasint)n, v, 1, 0, out, 1);
}
