/*
 * Power series by Newton's iteration over FFT products. Up to direct_max multiplications the plain recursions are used
 * instead: they are as fast, and their error stays relative where the coefficients vary by many orders of magnitude,
 * which a transform cannot guarantee.
 *
 * SPDX-License-Identifier: GPL-3.0-or-later
 */
#include "lib/numerics/fft/convolve.h"

#include <cblas.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "lib/numerics/fft/fft.h"

/* Up to this many multiplications (about a quarter of a second) series are computed by recursion. */
static const double direct_max = 0x1p29;
/* Up to this many multiplications a convolution is computed term by term: the transforms would cost more. */
static const double direct_convolution_max = 0x1p16;
/* If no transform keeps the digits, a convolution may take this many multiplications (a few seconds). */
static const double direct_digits_max = 0x1p33, digits_wanted = 1e-6;

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

static bool is_short(size_t a_len, size_t b_len)
{
    return (double)a_len * (double)b_len <= direct_convolution_max || a_len <= 64 || b_len <= 64;
}

static bool convolve(double *out, size_t out_len, const double *a, size_t a_len, const double *b, size_t b_len,
                     bool directly)
{
    if (!a_len || !b_len) {
        memset(out, 0, out_len * sizeof *out);
        return true;
    }
    if (a_len > b_len)
        return convolve(out, out_len, b, b_len, a, a_len, directly);
    if (!directly)
        return convolve_by_fft(out, out_len, a, a_len, b, b_len);
    convolve_directly(out, out_len, a, a_len, b, b_len);
    return true;
}

bool eps__convolve(double *out, size_t out_len, const double *a, size_t a_len, const double *b, size_t b_len)
{
    a_len = least(a_len, out_len);
    b_len = least(b_len, out_len);
    return convolve(out, out_len, a, a_len, b, b_len, is_short(a_len, b_len));
}

/* Each number of a transform is off by at most kappa times the 1-norm. By Cauchy-Schwarz and Parseval a product is then
 * off by kappa (|a|_1 |b|_2 + |a|_2 |b|_1 + |a|_2 |b|_2), and terms of higher order. */
static double fft_product_error(const double *a, size_t a_len, const double *b, size_t b_len)
{
    double kappa = eps__fft_error(eps__fft_length(a_len + b_len - 1));
    double a1 = cblas_dasum((blasint)a_len, a, 1), a2 = cblas_dnrm2((blasint)a_len, a, 1);
    double b1 = cblas_dasum((blasint)b_len, b, 1), b2 = cblas_dnrm2((blasint)b_len, b, 1);
    return 1.1 * kappa * (a1 * b2 + a2 * b1 + a2 * b2);
}

/* Whether every leading part has the wanted digits, if each out[t] is within error rate^t. */
static bool has_digits(const double *out, size_t len, double error, double rate)
{
    double norm = 0, noise = 0, power = error; /* norms of out[0..t] and of its error, without overflow */
    for (size_t t = 0; t < len; t++, power *= rate) {
        norm = hypot(norm, out[t]);
        noise = hypot(noise, power);
        if (!(noise <= digits_wanted * norm))
            return false;
    }
    return true;
}

static double largest(const double *x, size_t from, size_t end)
{
    double most = 0;
    for (size_t t = from; t < end; t++)
        most = fmax(most, isfinite(x[t]) ? fabs(x[t]) : 0);
    return most;
}

/* The geometric growth rate of the coefficients of a series from their second to their last quarter; at least 1 (no
 * growth). */
static double growth(const double *x, size_t n)
{
    double before = largest(x, n / 4, n / 2), after = largest(x, n - n / 4, n);
    return before > 0 && after > before ? pow(after / before, 2 / (double)n) : 1;
}

/* out_t = in_t rate^t. */
static void scale_by_powers(double *out, const double *in, size_t n, double rate)
{
    double log_rate = log(rate);
    if (rate == 1 && out == in)
        return;
    for (size_t t = 0; t < n; t++)
        out[t] = in[t] == 0 ? 0 : in[t] * exp((double)t * log_rate);
}

struct series {
    const double *at;
    size_t len;
};

/* Convolves by FFT with both series scaled by the powers of a rate, so that the result does not grow. Out: *kept,
 * whether out has its digits. */
static bool convolve_scaled(double *out, size_t out_len, struct series a, struct series b, double rate, bool *kept)
{
    double *scaled = malloc((a.len + b.len) * sizeof *scaled);
    if (!scaled)
        return false;
    scale_by_powers(scaled, a.at, a.len, 1 / rate);
    scale_by_powers(scaled + a.len, b.at, b.len, 1 / rate);
    bool ok = convolve_by_fft(out, out_len, scaled, a.len, scaled + a.len, b.len);
    double error = fft_product_error(scaled, a.len, scaled + a.len, b.len);
    free(scaled);
    scale_by_powers(out, out, out_len, rate);
    ok = ok && !isnan(error); /* out of memory */
    *kept = ok && has_digits(out, least(out_len, a.len + b.len - 1), error, rate);
    return ok;
}

static size_t leading_zeros(const double *a, size_t len)
{
    size_t zeros = 0;
    while (zeros < len && a[zeros] == 0)
        zeros++;
    return zeros;
}

bool eps__convolve_digits(double *out, size_t out_len, const double *a, size_t a_len, const double *b, size_t b_len,
                          bool *kept)
{
    /* Leading zeros stay exact, so that the first number that a transform computes is a product. */
    size_t skip_a = leading_zeros(a, a_len), skip_b = leading_zeros(b, b_len), skip = least(skip_a + skip_b, out_len);
    memset(out, 0, skip * sizeof *out);
    out += skip;
    out_len -= skip;
    a_len = least(a_len - skip_a, out_len);
    b_len = least(b_len - skip_b, out_len);
    a += skip_a;
    b += skip_b;
    *kept = true;
    if (is_short(a_len, b_len))
        return convolve(out, out_len, a, a_len, b, b_len, true);
    double rate = fmax(growth(a, a_len), growth(b, b_len));
    const struct series first = {a, a_len}, second = {b, b_len};
    if (!convolve_scaled(out, out_len, first, second, 1, kept) ||
        (!*kept && rate > 1 && !convolve_scaled(out, out_len, first, second, rate, kept)))
        return false;
    if (*kept)
        return true;
    *kept = (double)least(a_len, b_len) * (double)out_len <= direct_digits_max;
    return !*kept || convolve(out, out_len, a, a_len, b, b_len, true);
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
    /* The first m coefficients of a g are 1, 0, 0, ..., apart from rounding. */
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
    double *work = malloc((2 * n + a_len) * sizeof *work), *scaled = work ? work + 2 * n : NULL;
    bool ok = work && inverse_directly(out, m, a, least(a_len, m));
    while (ok && m < n) {
        /* The inverse of a(x/rate) hardly grows, so that the errors of the transforms are nearly relative. */
        size_t next = least(2 * m, n);
        double rate = growth(out, m);
        scale_by_powers(scaled, a, least(a_len, next), 1 / rate);
        scale_by_powers(out, out, m, 1 / rate);
        ok = inverse_step(out, m, next, scaled, least(a_len, next), work);
        scale_by_powers(out, out, next, rate);
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
    double *work = malloc((3 * n + a_len) * sizeof *work);
    if (!work)
        return false;
    double *inverse = work + n, *square = work + 2 * n, *scaled = work + 3 * n;
    bool ok = true;
    while (ok && m < n) {
        /* y <- y + (a - y^2)/(2 y). The inverse is needed to as many coefficients as are gained. Scaled as in
         * eps__series_inverse(). */
        size_t next = least(2 * m, n);
        double rate = growth(out, m);
        scale_by_powers(scaled, a, least(a_len, next), 1 / rate);
        scale_by_powers(out, out, m, 1 / rate);
        ok = eps__convolve(square, next, out, m, out, m) && eps__series_inverse(inverse, next - m, out, m);
        for (size_t i = m; ok && i < next; i++)
            square[i - m] = ((i < a_len ? scaled[i] : 0) - square[i]) / 2;
        ok = ok && eps__convolve(work, next - m, square, next - m, inverse, next - m);
        if (ok)
            memcpy(out + m, work, (next - m) * sizeof *out);
        scale_by_powers(out, out, next, rate);
        m = next;
    }
    free(work);
    return ok;
}
