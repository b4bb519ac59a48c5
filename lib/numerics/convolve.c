/*
 * Power series by Newton's iteration over FFT products. Up to DIRECT_MAX multiplications the plain recursions are
 * used instead: they are as fast there, and their error stays relative where the coefficients vary by many orders
 * of magnitude, which a transform cannot promise.
 *
 * SPDX-License-Identifier: GPL-3.0-or-later
 */
#include "lib/numerics/convolve.h"

#include <cblas.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "lib/numerics/fft.h"

/* Multiplications under which the direct way is taken: about a quarter of a second. */
static const double direct_max = 0x1p29;
/* A convolution is also direct where that costs less than the transforms. */
static const double direct_convolution_max = 0x1p16;

static size_t least(size_t a, size_t b)
{
    return a < b ? a : b;
}

static void convolve_directly(double *out, size_t out_len, const double *a, size_t a_len, const double *b, size_t b_len)
{
    memset(out, 0, out_len * sizeof *out);
    for (size_t j = 0; j < a_len && j < out_len; j++)
        if (a[j] != 0)
            cblas_daxpy((blasint)least(b_len, out_len - j), a[j], b, 1, out + j, 1);
}

static bool convolve_by_fft(double *out, size_t out_len, const double *a, size_t a_len, const double *b, size_t b_len)
{
    bool ok = false;
    size_t n = eps__fft_length(a_len + b_len - 1), half = n / 2 + 1;
    double *real = eps__fft_alloc_real(n);
    double complex *x = eps__fft_alloc_complex(half), *y = eps__fft_alloc_complex(half);
    if (!real || !x || !y)
        goto out;
    memcpy(real, a, a_len * sizeof *a);
    memset(real + a_len, 0, (n - a_len) * sizeof *real);
    if (eps__fft_forward(x, real, n))
        goto out;
    memcpy(real, b, b_len * sizeof *b);
    memset(real + b_len, 0, (n - b_len) * sizeof *real);
    if (eps__fft_forward(y, real, n))
        goto out;
    for (size_t k = 0; k < half; k++)
        x[k] *= y[k] / (double)n;
    if (eps__fft_backward(real, x, n))
        goto out;
    size_t whole = least(out_len, a_len + b_len - 1);
    memcpy(out, real, whole * sizeof *out);
    memset(out + whole, 0, (out_len - whole) * sizeof *out);
    ok = true;
out:
    eps__fft_free(real);
    eps__fft_free(x);
    eps__fft_free(y);
    return ok;
}

bool eps__convolve(double *out, size_t out_len, const double *a, size_t a_len, const double *b, size_t b_len)
{
    a_len = least(a_len, out_len);
    b_len = least(b_len, out_len);
    if (!a_len || !b_len) {
        memset(out, 0, out_len * sizeof *out);
        return true;
    }
    if (a_len > b_len)
        return eps__convolve(out, out_len, b, b_len, a, a_len);
    if ((double)a_len * (double)b_len <= direct_convolution_max || a_len <= 64) {
        convolve_directly(out, out_len, a, a_len, b, b_len);
        return true;
    }
    return convolve_by_fft(out, out_len, a, a_len, b, b_len);
}

/* out_t = (1_{t=0} - sum_{j>=1} a_j out_{t-j}) / a_0, with a reversed so that the sum is a plain dot product. */
static bool inverse_directly(double *out, size_t n, const double *a, size_t a_len)
{
    double *reversed = malloc(a_len * sizeof *reversed);
    if (!reversed)
        return false;
    for (size_t j = 0; j < a_len; j++)
        reversed[j] = a[a_len - 1 - j];
    out[0] = 1 / a[0];
    for (size_t t = 1; t < n; t++) {
        size_t terms = least(t, a_len - 1);
        const double *tail = reversed + (a_len - 1 - terms);
        double sum = 0;
        if (terms < 16)
            for (size_t j = 0; j < terms; j++)
                sum += tail[j] * out[t - terms + j];
        else
            sum = cblas_ddot((blasint)terms, tail, 1, out + t - terms, 1);
        out[t] = -sum / a[0];
    }
    free(reversed);
    return true;
}

/* One doubling of g = 1/a: g <- g + g (1 - a g), from m to n coefficients. work has 2 n numbers. */
static bool inverse_step(double *g, size_t m, size_t n, const double *a, size_t a_len, double *work)
{
    double *residual = work, *change = work + n;
    if (!eps__convolve(residual, n, a, a_len, g, m))
        return false;
    /* The first m coefficients of a g are 1, 0, 0...: what is left of them is rounding. */
    for (size_t i = m; i < n; i++)
        residual[i - m] = -residual[i];
    if (!eps__convolve(change, n - m, residual, n - m, g, m))
        return false;
    memcpy(g + m, change, (n - m) * sizeof *g);
    return true;
}

bool eps__series_inverse(double *out, size_t n, const double *a, size_t a_len)
{
    a_len = least(a_len, n);
    if ((double)n * (double)a_len <= direct_max)
        return inverse_directly(out, n, a, a_len);
    size_t m = least(n, 4096);
    double *work = malloc(2 * n * sizeof *work);
    bool ok = work && inverse_directly(out, m, a, least(a_len, m));
    while (ok && m < n) {
        size_t next = least(2 * m, n);
        ok = inverse_step(out, m, next, a, a_len, work);
        m = next;
    }
    free(work);
    return ok;
}

/* y_j = (a_j - sum_{0<i<j} y_i y_{j-i}) / (2 y_0), the sum folded in half. */
static void sqrt_directly(double *out, size_t n, const double *a, size_t a_len)
{
    out[0] = sqrt(a[0]);
    for (size_t j = 1; j < n; j++) {
        double sum = 0;
        for (size_t i = 1; 2 * i < j; i++)
            sum += out[i] * out[j - i];
        sum *= 2;
        if (j % 2 == 0)
            sum += out[j / 2] * out[j / 2];
        out[j] = ((j < a_len ? a[j] : 0) - sum) / (2 * out[0]);
    }
}

bool eps__series_sqrt(double *out, size_t n, const double *a, size_t a_len)
{
    a_len = least(a_len, n);
    size_t m = least(n, (size_t)1 << 14);
    sqrt_directly(out, m, a, a_len);
    if (m == n)
        return true;
    double *work = malloc(3 * n * sizeof *work);
    if (!work)
        return false;
    double *inverse = work + n, *square = work + 2 * n;
    bool ok = true;
    while (ok && m < n) {
        /* y <- y + (a - y^2)/(2 y): the inverse is needed to as many coefficients as are gained. */
        size_t next = least(2 * m, n);
        ok = eps__convolve(square, next, out, m, out, m) && eps__series_inverse(inverse, next - m, out, m);
        for (size_t i = m; ok && i < next; i++)
            square[i - m] = ((i < a_len ? a[i] : 0) - square[i]) / 2;
        ok = ok && eps__convolve(work, next - m, square, next - m, inverse, next - m);
        if (ok)
            memcpy(out + m, work, (next - m) * sizeof *out);
        m = next;
    }
    free(work);
    return ok;
}
