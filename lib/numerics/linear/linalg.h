/*
 * The few pieces of dense linear algebra that the library needs, over OpenBLAS and LAPACKE. Matrices are square or
 * rectangular, row-major, without padding. Integers of LAPACK are 32 bits: sizes up to 2^15 a side are meant.
 *
 * What takes long at n = 4096 is done in blocks, and `work` is asked between them: 2^34 operations at most, half a second
 * on one core. What was stopped leaves its results undefined, and returns false, or EPS__LAPACK_STOPPED, where it returns
 * something.
 *
 * SPDX-License-Identifier: GPL-3.0-or-later
 */
#ifndef EPS_NUMERICS_LINEAR_LINALG_H
#define EPS_NUMERICS_LINEAR_LINALG_H

#include <stdbool.h>
#include <stddef.h>

#include "lib/base/error.h"

/* Eigenvalues of the symmetric n x n matrix, ascending; destroys the matrix. False if LAPACK did not converge or
 * had no memory. */
bool eps__symmetric_eigenvalues(double *values, double *matrix, size_t n);

/*
 * Whether the symmetric n x n matrix, each entry of which is known up to `error` (absolute, on the diagonal only),
 * is proven positive semidefinite: a Cholesky factorisation of the matrix less a multiple of the identity ran
 * through, the multiple bounding all rounding of the factorisation (Rump 2006, "Verification of positive
 * definiteness"). False proves nothing. Destroys the matrix.
 */
bool eps__proven_positive(double *matrix, size_t n, double error);

/* The multiple of the identity that eps__proven_positive() subtracts for a matrix of this trace: what a matrix must
 * have to spare. */
double eps__positive_margin(double trace, size_t n);

/* Replaces a lower-triangular n x n matrix (its upper triangle is not read, and zero afterwards) by its inverse.
 * False if it is singular. */
bool eps__lower_inverse(struct eps__work *work, double *matrix, size_t n);

/* How LAPACK ended. */
enum eps__lapack { EPS__LAPACK_DONE, EPS__LAPACK_FAILED, EPS__LAPACK_NO_MEMORY, EPS__LAPACK_STOPPED };

/* Replaces an n x n matrix by its inverse. FAILED: it is singular to working precision. */
enum eps__lapack eps__general_inverse(struct eps__work *work, double *matrix, size_t n);

/* Singular values of the n x n matrix, ascending, its right singular vectors, one a row of right, and its left ones, one
 * a column of left; destroys the matrix. Each value is off by a few units of rounding of the largest one, where those
 * from the eigenvalues of a'a lose the small ones; four times as slow. In one piece: half a second at n = 1024. FAILED:
 * LAPACK did not converge. */
enum eps__lapack eps__singular_vectors(double *values, double *right, double *left, double *matrix, size_t n);

/* Replaces an n x n matrix by its polar factor Q, the nearest orthogonal one, to a few units of rounding times sqrt(n);
 * scratch: n x n numbers. FAILED: the matrix is singular. */
enum eps__lapack eps__polar_factor(struct eps__work *work, double *matrix, double *scratch, size_t n);

/* Eigenvalues of the symmetric n x n matrix, ascending, and its eigenvectors in its place, one a row. FAILED: LAPACK did
 * not converge. Takes 2 n^2 numbers of memory. */
enum eps__lapack eps__symmetric_eigenvectors(struct eps__work *work, double *values, double *matrix, size_t n);

/* Replaces a symmetric n x n matrix, of which the lower triangle is read, by its lower Cholesky factor. False if it
 * is not positive definite. */
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
