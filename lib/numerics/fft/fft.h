/*
 * Real Fourier transforms by FFTW, with plans shared between threads and a bound on the rounding error.
 *
 * SPDX-License-Identifier: GPL-3.0-or-later
 */
#ifndef EPS_NUMERICS_FFT_FFT_H
#define EPS_NUMERICS_FFT_FFT_H

#include <complex.h>
#include <stddef.h>

/* FFTW's planner is the library's only global state: hold this lock around every planner call. Executing a plan on new
 * arrays needs no lock. */
void eps__fftw_lock(void);
void eps__fftw_unlock(void);

/* The least length >= n of the form 2^k, 3 2^k or 5 2^k, k >= 1. FFTW is fast at these and uses Cooley-Tukey only, so
 * that eps__fft_error() is finite. There are few of them, because planning a new length costs more than a transform. */
size_t eps__fft_length(size_t n);

/* The same for a length that a computation uses a few times: a power of 2 where planning takes longer than the
 * transforms, so that plans are fewer and quickly made. */
size_t eps__fft_length_seldom(size_t n);

/* Allocate aligned arrays of n numbers for the transforms; NULL if out of memory. Release with eps__fft_free(). */
double *eps__fft_alloc_real(size_t n);
double complex *eps__fft_alloc_complex(size_t n);
void eps__fft_free(void *array);

/* out[k] = sum_j in[j] exp(-2 pi i j k / n), k = 0..n/2; may overwrite in. Both arrays come from eps__fft_alloc_*().
 * Returns 0, or -1 if FFTW made no plan. Thread-safe. */
int eps__fft_forward(double complex *out, double *in, size_t n);

/* out[j] = sum_k in[k] exp(+2 pi i j k / n) over the full Hermitian spectrum, of which `in` holds k = 0..n/2. Not
 * normalised. Overwrites in. Returns 0, or -1 if FFTW made no plan. Thread-safe. */
int eps__fft_backward(double *out, double complex *in, size_t n);

/*
 * A bound kappa such that each number that a transform of length n computes, in either direction, is within kappa *
 * ||in||_1 of the exact transform of the stored input (backward: the 1-norm of the full spectrum), if the 1-norm is 0
 * or at least 1e-250. It is the sum over the codelets of the plans that FFTW made for n (LEMMAS.md, N4). INFINITY if a
 * plan contains anything that the lemma does not cover: then nothing is proven. NAN if out of memory for the plans.
 */
double eps__fft_error(size_t n);

/* That bound for one plan, from the output of fftw_sprint_plan(). For fft.c and its tests. */
double eps__fft_printed_error(const char *text);

#endif
