/*
 * Convolutions and power series with real coefficients, truncated: short ones term by term, long ones by FFT. A series
 * is the array of its coefficients, constant first.
 *
 * Accuracy: term by term, each coefficient is as accurate as a dot product. By FFT the error is absolute, about 1e-16
 * ||a|| ||b|| times the logarithm of the length, so that small coefficients beside large ones may have no correct
 * digits; use eps__convolve_digits() where that matters. Inverses and roots that grow geometrically are computed scaled
 * by the powers of their growth rate. These are estimates for matrices and error estimates, not bounds.
 *
 * SPDX-License-Identifier: GPL-3.0-or-later
 */
#ifndef EPS_NUMERICS_FFT_CONVOLVE_H
#define EPS_NUMERICS_FFT_CONVOLVE_H

#include <stdbool.h>
#include <stddef.h>

/* out[i] = sum_j a[j] b[i - j] for i < out_len; out overlaps neither input. False if out of memory. */
bool eps__convolve(double *out, size_t out_len, const double *a, size_t a_len, const double *b, size_t b_len);

/* The same, but with at least six correct digits. Uses an FFT, plain or scaled, only if a bound on its error shows that
 * every leading part out[0..t], as a vector, has six digits. Otherwise computes term by term, up to 2^33
 * multiplications. Out: *kept, whether the result has these digits. */
bool eps__convolve_digits(double *out, size_t out_len, const double *a, size_t a_len, const double *b, size_t b_len,
                          bool *kept);

/* The first n coefficients of 1/a; a[0] != 0, out is not a. False if out of memory. */
bool eps__series_inverse(double *out, size_t n, const double *a, size_t a_len);

/* The first n coefficients of the square root of a with a positive constant; a[0] > 0, out is not a. False if out of
 * memory. */
bool eps__series_sqrt(double *out, size_t n, const double *a, size_t a_len);

#endif
