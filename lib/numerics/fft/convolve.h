/*
 * Convolutions and power series with real coefficients, truncated: short ones term by term, long ones by FFT.
 * A series is the array of its coefficients, constant first.
 *
 * Accuracy: term by term, each coefficient is as good as a dot product; by FFT the error is absolute, about
 * 1e-16 ||a|| ||b|| times the logarithm of the length, so that small coefficients beside large ones have no digits:
 * eps__convolve_digits() is for where that matters. Inverses and roots that grow geometrically are computed scaled by the
 * powers of their growth. These are figures for matrices and error estimates, not for bounds.
 *
 * SPDX-License-Identifier: GPL-3.0-or-later
 */
#ifndef EPS_NUMERICS_FFT_CONVOLVE_H
#define EPS_NUMERICS_FFT_CONVOLVE_H

#include <stdbool.h>
#include <stddef.h>

/* out[i] = sum_j a[j] b[i - j] for i < out_len; out overlaps neither input. False without memory. */
bool eps__convolve(double *out, size_t out_len, const double *a, size_t a_len, const double *b, size_t b_len);

/* The same, but by FFT, plain or scaled, only where every leading part out[0..t] has at least six digits left as a
 * vector, by a bound on the error; else it is done term by term, up to 2^33 multiplications. *kept: it has these digits. */
bool eps__convolve_digits(double *out, size_t out_len, const double *a, size_t a_len, const double *b, size_t b_len,
                          bool *kept);

/* The first n coefficients of 1/a; a[0] != 0, out is not a. False without memory. */
bool eps__series_inverse(double *out, size_t n, const double *a, size_t a_len);

/* The first n coefficients of the square root of a with positive constant; a[0] > 0, out is not a. False without
 * memory. */
bool eps__series_sqrt(double *out, size_t n, const double *a, size_t a_len);

#endif
