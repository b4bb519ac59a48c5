/*
 * The decoders of the Fourier mechanism, by transforms (MEMF appendix K).
 *
 * standard: prefix sums are P F* Sigma^(1/2) F, rows of the circulant of the kernel y. For another workload A, the
 * differences D = A S^-1 of its rows are applied to them. Norms of such rows are quadratic forms in the autocorrelation
 * X of y, which is Toeplitz.
 *
 * optimal: A X^-1 C' with X = C'C, a Toeplitz system with a closed solution. The spectrum of the circulant C is zero at
 * the even frequencies except 0, so X = (W + 1 1')/2 with W skew-circulant of eigenvalues 1 / sin(pi k / 2m), k odd.
 * W^-1 has the eigenvalues sin(pi k / 2m). With c_d = 1 / sin((2d + 1) pi / 2m), the sum over k telescopes to W^-1_ij =
 * (c_d - c_(d-1)) / 2m at d = |i - j| (c_(-1) = -c_0), and W^-1 1 = c / m. What remains is the rank-one update by 1 1'.
 * So a row costs one convolution.
 *
 * The norms of all rows follow from Gohberg and Semencul's formula. With the first column g of X^-1,
 *     X^-1 = (L L' - M M') / g_0,
 * where L and M are lower-triangular Toeplitz with first columns g and (0, g_(m-1), ..., g_1). So a' X^-1 a is the
 * difference of the norms for two Toeplitz strategies with these inverses.
 *
 * C is the family's C times s->scale, and its decoder the family's divided by it.
 *
 * SPDX-License-Identifier: GPL-3.0-or-later
 */
#include <stdlib.h>
#include <string.h>

#include "lib/numerics/fft/convolve.h"
#include "lib/strategy/decoder.h"
#include "lib/strategy/failures.h"
#include "lib/strategy/kinds/fourier.h"

/* optimal: 2 m numbers, w and z with (X^-1 a)_i = sum_j w_|i-j| a_j - z_i <z, a>; standard: X by distance. */
enum eps_status eps__fourier_invert(const struct eps_context *context, double **inverse, bool *defined,
                                    struct eps_error *error, const struct eps_strategy *s)
{
    (void)context;
    size_t m = s->block;
    double ignored, sum = 1, *w = *inverse = malloc(2 * m * sizeof *w), square = s->scale * s->scale;
    if (!w)
        return eps__strategy_no_memory(error);
    if (s->decoder == EPS_DECODER_STANDARD) {
        if (!eps__fourier_lags(w, &ignored, s))
            return eps__strategy_no_memory(error);
        *defined = eps__all_finite(w, m);
        return EPS_OK;
    }
    double *z = w + m, angle = M_PI / (2 * (double)m), before = -1 / sin(angle);
    for (size_t d = 0; d < m; d++) {
        /* The sine is symmetric; the smaller of the two arguments is more accurate. */
        double least = 2 * d + 1 < m ? 2 * (double)d + 1 : 2 * (double)(m - d) - 1, c = 1 / sin(least * angle);
        w[d] = (c - before) / ((double)m * square);
        z[d] = c / (double)m;
        sum += z[d];
        before = c;
    }
    for (size_t d = 0; d < m; d++)
        z[d] *= sqrt(2 / (square * sum));
    *defined = eps__all_finite(w, 2 * m);
    return EPS_OK;
}

/* ---- variance, optimal ---- */

static enum eps_status optimal_variance(const struct eps_context *context, double *out, struct eps_error *error,
                                        const struct eps_strategy *s, const double *inverse)
{
    size_t m = s->block;
    const double *w = inverse, *z = inverse + m;
    double *column = calloc(m + s->n, sizeof *column), root = sqrt(w[0] - z[0] * z[0]);
    if (!column)
        return eps__strategy_no_memory(error);
    double *less = column + m;
    for (size_t i = 0; i < m; i++)
        column[i] = (w[i] - z[i] * z[0]) / root;
    enum eps_status status = eps__toeplitz_variance(context, out, error, s, column);
    for (size_t i = 1; i < m - i; i++) {
        double swap = column[i];
        column[i] = column[m - i];
        column[m - i] = swap;
    }
    column[0] = 0;
    if (status == EPS_OK)
        status = eps__toeplitz_variance(context, less, error, s, column);
    for (size_t t = 0; status == EPS_OK && t < s->n; t++)
        out[t] -= less[t];
    free(column);
    return status;
}

/* ---- variance, standard ---- */

/* The first column of A S^-1: differences of that of A. */
static void differences(double *out, const double *a, size_t m)
{
    for (size_t t = m; t-- > 0;)
        out[t] = a[t] - (t ? a[t - 1] : 0);
}

/* A block whose workload is Toeplitz. out[t] gets bb, bu and uu at step t for the rows b and u with the differences d
 * and e. dx and ex are the convolutions of d and e with X by distance; the contribution of the newest step is linear in
 * them. */
static void steady_norms(struct eps__past *out, const double *x, const double *d, const double *e, const double *dx,
                         const double *ex, size_t m)
{
    struct eps__past sum = {0};
    for (size_t t = 0; t < m; t++) {
        sum.bb += d[t] * (2 * dx[t] - d[t] * x[0]);
        sum.bu += d[t] * ex[t] + e[t] * (dx[t] - d[t] * x[0]);
        sum.uu += e[t] * (2 * ex[t] - e[t] * x[0]);
        out[t] = sum;
    }
}

/* The same for a changing rate, from the differences d and e of the rows themselves (2 m numbers); O(m^2). */
static enum eps_status changing_norms(const struct eps_context *context, struct eps__past *out, struct eps_error *error,
                                      const struct eps_strategy *s, const double *x, double *d, size_t first)
{
    const struct eps__workload *w = &s->workload;
    size_t m = s->block;
    double *e = d + m;
    struct eps__past past = {0};
    for (size_t t = 0; t < m; t++) {
        enum eps_status status = t % 64 == 0 ? eps__strategy_poll(context, error) : EPS_OK;
        if (status != EPS_OK)
            return status;
        /* The newest row of N is y_t - y_(t-1), or y_0. */
        double eta = eps__workload_rate(w, first + t), b = 0, u = 0, square = t ? 2 * (x[0] - x[m > 1]) : x[0];
        for (size_t i = 0; i < t; i++) {
            double lag = x[t - i] - x[t - 1 - i];
            b += d[i] * lag;
            u += e[i] * lag;
        }
        double ub = w->momentum * past.bu + b, uu = w->momentum * past.uu + u;
        struct eps__past now;
        now.uu = w->momentum * (uu + u) + square;
        /* b' = decay b + eta u', and u' = momentum u + the row */
        now.bu = w->decay * ub + eta * now.uu;
        now.bb = w->decay * (w->decay * past.bb + 2 * eta * ub) + eta * eta * now.uu;
        out[t] = past = now;
        d[t] = e[t] = 0;
        for (size_t i = 0; i <= t; i++) {
            e[i] *= w->momentum;
            if (i + 1 == t)
                e[i] -= 1;
            if (i == t)
                e[i] += 1;
            d[i] = w->decay * d[i] + eta * e[i];
        }
    }
    return EPS_OK;
}

static enum eps_status standard_recursive(const struct eps_context *context, double *out, struct eps_error *error,
                                          const struct eps_strategy *s, const double *x)
{
    const struct eps__workload *w = &s->workload;
    struct eps__workload steady = {.recursive = true, .momentum = w->momentum, .decay = w->decay, .n = w->n};
    struct eps__past past = {0};
    enum eps_status status = EPS_OK;
    size_t m = s->block;
    double *d = malloc(4 * m * sizeof *d), value = 1;
    struct eps__past *norms = malloc(2 * m * sizeof *norms);
    if (!d || !norms) {
        status = eps__strategy_no_memory(error);
        goto out;
    }
    double *e = d + m, *dx = d + 2 * m, *ex = d + 3 * m;
    eps__workload_coefficients(&steady, d, m);
    differences(d, d, m);
    for (size_t t = 0; t < m; t++, value *= w->momentum)
        e[t] = value;
    differences(e, e, m);
    if (!eps__convolve(dx, m, d, m, x, m) || !eps__convolve(ex, m, e, m, x, m)) {
        status = eps__strategy_no_memory(error);
        goto out;
    }
    steady_norms(norms, x, d, e, dx, ex, m);
    for (size_t first = 0; first < s->n; first += m) {
        const struct eps__past *block = norms;
        if (eps__workload_rate(w, first + m - 1) < 1) {
            status = changing_norms(context, norms + m, error, s, x, d, first);
            block = norms + m;
        }
        if (status != EPS_OK)
            goto out;
        for (size_t t = 0; t < m; t++) {
            eps__past_step(&past, w, eps__workload_rate(w, first + t));
            out[first + t] = block[t].bb + past.bb;
        }
        past.bb += block[m - 1].bb;
        past.bu += block[m - 1].bu;
        past.uu += block[m - 1].uu;
    }
out:
    free(d);
    free(norms);
    return status;
}

/* (X f)_i, where f has m numbers. */
static double lagged(const double *x, const double *f, size_t m, size_t i)
{
    double sum = 0;
    for (size_t j = 0; j < m; j++)
        sum += x[i > j ? i - j : j - i] * f[j];
    return sum;
}

/*
 * The contribution of a block that has ended. There, row t has the differences f of (a_t, ..., a_(t-m)), plus a_(t-m)
 * at the block's last step, after which the row of A continues. From row to row f shifts by one place.
 */
static enum eps_status past_norms(const struct eps_context *context, double *out, struct eps_error *error,
                                  const double *a, const double *x, size_t m, size_t n)
{
    double *f = calloc(m + 1, sizeof *f), square = 0;
    if (!f)
        return eps__strategy_no_memory(error);
    enum eps_status status = EPS_OK;
    for (size_t i = 0; i < m; i++)
        f[i] = a[m - i] - a[m - i - 1];
    for (size_t i = 0; i < m; i++)
        square += f[i] * lagged(x, f, m, i);
    for (size_t t = m; t < n; t++) {
        if (t % 64 == 0 && (status = eps__strategy_poll(context, error)))
            break;
        if (t > m) {
            square -= f[m - 1] * (2 * lagged(x, f, m, m - 1) - f[m - 1] * x[0]);
            memmove(f + 1, f, (m - 1) * sizeof *f);
            f[0] = a[t] - a[t - 1];
            square += f[0] * (2 * lagged(x, f, m, 0) - f[0] * x[0]);
        }
        out[t] = square + a[t - m] * (2 * lagged(x, f, m, m - 1) + a[t - m] * x[0]);
    }
    free(f);
    return status;
}

static enum eps_status standard_toeplitz(const struct eps_context *context, double *out, struct eps_error *error,
                                         const struct eps_strategy *s, const double *x)
{
    size_t m = s->block, n = s->n;
    double *a = malloc((n + 2 * m) * sizeof *a), sum = 0;
    if (!a)
        return eps__strategy_no_memory(error);
    double *d = a + n, *dx = d + m;
    eps__workload_coefficients(&s->workload, a, n);
    differences(d, a, m);
    bool kept;
    enum eps_status status = eps__convolve_digits(dx, m, d, m, x, m, &kept) ? EPS_OK : eps__strategy_no_memory(error);
    for (size_t t = 0; status == EPS_OK && t < m; t++)
        out[t] = kept ? sum += d[t] * (2 * dx[t] - d[t] * x[0]) : NAN;
    if (status == EPS_OK && n > m)
        status = past_norms(context, out, error, a, x, m, n);
    for (size_t t = m; status == EPS_OK && t < n; t++)
        out[t] += out[t - m];
    free(a);
    return status;
}

enum eps_status eps__fourier_variance(const struct eps_context *context, double *out, struct eps_error *error,
                                      const struct eps_strategy *s, const double *inverse)
{
    if (s->decoder == EPS_DECODER_OPTIMAL)
        return optimal_variance(context, out, error, s, inverse);
    enum eps_status status = s->workload.recursive ? standard_recursive(context, out, error, s, inverse)
                                                   : standard_toeplitz(context, out, error, s, inverse);
    double square = s->scale * s->scale;
    for (size_t t = 0; status == EPS_OK && t < s->n; t++)
        out[t] /= square * square;
    return status;
}

/* ---- rows ---- */

/* out = the circulant of the kernel (2 m numbers) times (x, 0), where x has m numbers. work has 3 m numbers. */
static bool circulant(double *out, double *work, const double *kernel, const double *x, size_t m)
{
    if (!eps__convolve(work, 3 * m - 1, kernel, 2 * m, x, m))
        return false;
    work[3 * m - 1] = 0;
    for (size_t i = 0; i < 2 * m; i++)
        out[i] = work[i] + (i < m ? work[i + 2 * m] : 0);
    return true;
}

/* C X^-1 a */
static bool optimal_solve(const struct eps_strategy *s, double *out, const double *inverse, const double *a, size_t len,
                          double *work)
{
    size_t m = s->block;
    const double *w = inverse, *z = inverse + m;
    double *kernel = out, product = 0, *x = work + 3 * m;
    for (size_t i = 0; i < 2 * m - 1; i++)
        kernel[i] = w[i < m ? m - 1 - i : i - (m - 1)];
    for (size_t j = 0; j < len; j++)
        product += z[j] * a[j];
    if (!eps__convolve(work, 2 * m - 1, kernel, 2 * m - 1, a, len))
        return false;
    for (size_t i = 0; i < m; i++)
        x[i] = work[m - 1 + i] - z[i] * product;
    return circulant(out, work, s->entries, x, m);
}

/* The differences of a, times the transpose of the circulant. */
static bool standard_solve(const struct eps_strategy *s, double *out, const double *inverse, const double *a,
                           size_t len, double *work)
{
    (void)inverse;
    size_t m = s->block;
    double *x = work + 3 * m, *kernel = malloc(2 * m * sizeof *kernel), square = s->scale * s->scale;
    if (!kernel)
        return false;
    for (size_t i = 0; i < m; i++)
        x[i] = ((i < len ? a[i] : 0) - (i + 1 < len ? a[i + 1] : 0)) / square;
    for (size_t i = 0; i < 2 * m; i++)
        kernel[i] = s->entries[i ? 2 * m - i : 0];
    bool ok = circulant(out, work, kernel, x, m);
    free(kernel);
    return ok;
}

enum eps_status eps__fourier_decoder_row(const struct eps_strategy *s, double *out, struct eps_error *error,
                                         const double *inverse, size_t row)
{
    return eps__decoder_row_by_blocks(s, out, error, inverse, row,
                                      s->decoder == EPS_DECODER_OPTIMAL ? optimal_solve : standard_solve);
}

enum eps_status eps__fourier_noise_row(const struct eps_strategy *s, double *out, struct eps_error *error,
                                       const double *inverse, size_t row)
{
    return eps__noise_row_by_solving(s, out, error, inverse, row,
                                     s->decoder == EPS_DECODER_OPTIMAL ? optimal_solve : standard_solve);
}
