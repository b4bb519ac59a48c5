/*
 * The dense linear algebra that the library needs, over OpenBLAS and LAPACKE. Matrices are row-major without padding.
 * LAPACK's integers have 32 bits; sides up to 2^15 are supported.
 *
 * Functions with a `work` argument compute in blocks and poll `work` between them: a block takes at most 2^34
 * operations at n = 4096, half a second on one core. If `work` stops them, they leave their results undefined and, if
 * they return something, return false or EPS__LAPACK_STOPPED.
 *
 * SPDX-License-Identifier: GPL-3.0-or-later
 */
#ifndef EPS_NUMERICS_LINEAR_LINALG_H
#define EPS_NUMERICS_LINEAR_LINALG_H

#include <stdbool.h>
#include <stddef.h>

#include "lib/base/error.h"

/* Eigenvalues of the symmetric n x n matrix, ascending; destroys the matrix. False if LAPACK did not converge or was
 * out of memory. */
bool eps__symmetric_eigenvalues(double *values, double *matrix, size_t n);

/*
 * Whether the symmetric n x n matrix is proven positive semidefinite. Each diagonal entry is known up to the absolute
 * error `error`, the other entries are exact. The proof is a Cholesky factorisation, without a breakdown, of the matrix
 * minus a multiple of the identity that bounds all rounding errors of the factorisation (Rump 2006, "Verification of
 * positive definiteness"). False proves nothing. Destroys the matrix.
 */
bool eps__proven_positive(double *matrix, size_t n, double error);

/* The multiple of the identity that eps__proven_positive() subtracts for a matrix of this trace: how positive a matrix
 * must be for the proof to succeed. */
double eps__positive_margin(double trace, size_t n);

/* Replaces a lower-triangular n x n matrix by its inverse. The upper triangle is not read and is zero afterwards. False
 * if the matrix is singular or `work` stopped. */
bool eps__lower_inverse(struct eps__work *work, double *matrix, size_t n);

/* The outcome of a computation. */
enum eps__lapack { EPS__LAPACK_DONE, EPS__LAPACK_FAILED, EPS__LAPACK_NO_MEMORY, EPS__LAPACK_STOPPED };

/* Replaces an n x n matrix by its inverse. FAILED if it is singular to working precision. */
enum eps__lapack eps__general_inverse(struct eps__work *work, double *matrix, size_t n);

/* Singular values of the n x n matrix, ascending; its right singular vectors, one in each row of right; and its left
 * ones, one in each column of left. Destroys the matrix. Each value is off by a few units of roundoff of the largest
 * one (the eigenvalues of a'a would lose the small ones, but take a quarter of the time). Cannot be canceled: half a
 * second at n = 1024. FAILED if LAPACK did not converge. */
enum eps__lapack eps__singular_vectors(double *values, double *right, double *left, double *matrix, size_t n);

/* Replaces an n x n matrix by its polar factor Q, the nearest orthogonal matrix, with an error of a few units of
 * roundoff times sqrt(n). scratch: n x n numbers. FAILED if the matrix is singular. */
enum eps__lapack eps__polar_factor(struct eps__work *work, double *matrix, double *scratch, size_t n);

/* Eigenvalues of the symmetric n x n matrix, ascending; replaces the matrix by its eigenvectors, one in each row.
 * FAILED if LAPACK did not converge. Allocates about 2 n^2 numbers. */
enum eps__lapack eps__symmetric_eigenvectors(struct eps__work *work, double *values, double *matrix, size_t n);

/* Replaces a symmetric n x n matrix, of which only the lower triangle is read, by its lower Cholesky factor. False if
 * the matrix is not positive definite or `work` stopped. */
bool eps__cholesky(struct eps__work *work, double *matrix, size_t n);

/* a = a l^-1 for the rows x n matrix a and the lower-triangular n x n matrix l. */
void eps__solve_lower(struct eps__work *work, double *a, const double *l, size_t rows, size_t n);

/* a = l a for the n x columns matrix a and the lower-triangular n x n matrix l. */
void eps__multiply_lower(struct eps__work *work, double *a, const double *l, size_t n, size_t columns);

/* out = a b' for n x n matrices. */
void eps__multiply_transposed(struct eps__work *work, double *out, const double *a, const double *b, size_t n);

/* out = a' b for n x n matrices. */
void eps__multiply_first_transposed(struct eps__work *work, double *out, const double *a, const double *b, size_t n);

/* out = a' a (n x n, both triangles) for the rows x n matrix a. Each entry (i, j) is within
 * (rows + 8) 2^-53 ||a_i|| ||a_j|| of the exact one. */
void eps__gram(struct eps__work *work, double *out, const double *a, size_t rows, size_t n);

/* out = a b for n x n matrices. */
void eps__multiply(struct eps__work *work, double *out, const double *a, const double *b, size_t n);

/* out = v' a for the rows x n matrix a. */
void eps__multiply_row(double *out, const double *v, const double *a, size_t rows, size_t n);

#endif
