/*
 * The best BLT with a given number of buffers. C and C^-1 are rational,
 *
 *     C(x) = product of (1 - q_i x)/(1 - p_i x),      p_1 > q_1 > p_2 > q_2 > ... in (0, 1),
 *
 * where the p are the decays of C and the q those of C^-1. While they interlace, every scale of C is positive and every
 * scale of C^-1 negative, so C is positive and decreasing and its sensitivity exact. (With heavy momentum the best last
 * q would be negative; excluding that costs about 1e-5 of the loss.) In the variables used here, every point satisfies
 * this: -ln of p_1, q_1, p_2... is a running sum of exponentials. One evaluation takes one cascade of first-order
 * filters for C, one for B = A C^-1, and one more filter for each derivative: O(n buffers) for every workload.
 *
 * In these variables the loss has local minima (all but a few buffers cancel), so the search runs from several spacings
 * of the decays, and the best result is kept. A small penalty that pulls the variables towards 0, in total less than a
 * thousandth of the gap, keeps unneeded buffers from going to infinity.
 *
 * SPDX-License-Identifier: GPL-3.0-or-later
 */
#include "lib/strategy/optimise/blt.h"

#include <float.h>
#include <stdlib.h>
#include <string.h>

#include "lib/strategy/failures.h"
#include "lib/strategy/optimise/toeplitz_loss.h"

enum { POLES_MAX = 2 * EPS__BLT_BUFFERS_MAX, LANES = 4 };

struct blt_search {
    struct eps__toeplitz_loss loss;
    size_t buffers;
    double pull;
    double *b, *b_adjoint, *c, *c_adjoint; /* n numbers each */
};

/* out = in times the product of (1 - zero x)/(1 - pole x); in NULL means 1. */
static void cascade(double *out, const double *in, const double *zeros, const double *poles, size_t stride, size_t len,
                    size_t n)
{
    double before[EPS__BLT_BUFFERS_MAX + 1] = {0};
    for (size_t t = 0; t < n; t++) {
        double x = in ? in[t] : t == 0;
        for (size_t i = 0; i < len; i++) {
            double y = x - zeros[i * stride] * before[i] + poles[i * stride] * before[i + 1];
            before[i] = x;
            x = y;
        }
        before[len] = x;
        out[t] = x;
    }
}

/* out_k = sum over t of g_t f_t, f_t = pole_k f_{t-1} + y_{t-1}: the derivative of <g, y> when y is multiplied by 1/(1
 * - pole_k x). Computes a few poles at a time, so that their recursions overlap. */
static void pole_products(double *out, const double *poles, size_t len, const double *y, const double *g, size_t n)
{
    for (size_t from = 0; from < len; from += LANES) {
        double pole[LANES] = {0}, f[LANES] = {0}, sum[LANES] = {0};
        size_t count = len - from < LANES ? len - from : LANES;
        memcpy(pole, poles + from, count * sizeof *pole);
        for (size_t t = 1; t < n; t++) {
            for (size_t i = 0; i < LANES; i++) {
                f[i] = pole[i] * f[i] + y[t - 1];
                sum[i] += g[t] * f[i];
            }
        }
        memcpy(out + from, sum, count * sizeof *sum);
    }
}

/* rates: p_1, q_1, p_2...; gaps: the differences between their logarithms. */
static void rates_of(double *rates, double *gaps, const double *z, size_t len)
{
    double sum = 0;
    for (size_t k = 0; k < len; k++) {
        gaps[k] = exp(z[k]);
        sum += gaps[k];
        rates[k] = exp(-sum);
    }
}

static bool blt_objective(void *user, double *value, double *gradient, const double *z)
{
    struct blt_search *s = user;
    struct eps__toeplitz_loss *loss = &s->loss;
    size_t n = loss->n, d = s->buffers;
    double rates[POLES_MAX], gaps[POLES_MAX], of_b[POLES_MAX], of_c[POLES_MAX], carried = 0;
    loss->status = eps__strategy_poll(loss->context, loss->error);
    if (loss->status)
        return false;
    rates_of(rates, gaps, z, 2 * d);
    cascade(s->b, loss->workload, rates, rates + 1, 2, d, n);
    cascade(s->c, NULL, rates + 1, rates, 2, d, n);
    *value = eps__toeplitz_log_error(loss, s->b_adjoint, s->b) + eps__toeplitz_log_square(loss, s->c_adjoint, s->c, n);
    if (!isfinite(*value))
        return true;
    pole_products(of_b, rates, 2 * d, s->b, s->b_adjoint, n);
    pole_products(of_c, rates, 2 * d, s->c, s->c_adjoint, n);
    for (size_t k = 2 * d; k-- > 0;) {
        double by_rate = k % 2 ? of_b[k] - of_c[k] : of_c[k] - of_b[k];
        carried -= rates[k] * by_rate;
        gradient[k] = gaps[k] * carried + 2 * s->pull * z[k];
        *value += s->pull * z[k] * z[k];
    }
    return true;
}

/* rates[k] - rates[l], k <= l, from the gaps between them, which is accurate for close rates. */
static double difference(const double *rates, const double *gaps, size_t k, size_t l)
{
    double sum = 0;
    for (size_t i = k + 1; i <= l; i++)
        sum += gaps[i];
    return rates[k] * -expm1(-sum);
}

/* The scales of C: scale i is the product of (p_i - q_j) over j, divided by that of (p_i - p_j) over j != i. They are
 * computed in factors of at most 1, which the decreasing rates allow. A factor 0/0 comes from rates that are equal in
 * double precision: their buffers merge into the last of them, and the scales of the others are 0. */
static void scales_of(double *scale, const double *rates, const double *gaps, size_t d)
{
    for (size_t i = 0; i < d; i++) {
        double product = difference(rates, gaps, 2 * i, 2 * d - 1);
        for (size_t j = 0; j < i; j++) {
            double whole = difference(rates, gaps, 2 * j, 2 * i);
            product *= whole > 0 ? difference(rates, gaps, 2 * j + 1, 2 * i) / whole : 1;
        }
        for (size_t j = i; j + 1 < d; j++) {
            double whole = difference(rates, gaps, 2 * i, 2 * j + 2);
            product *= whole > 0 ? difference(rates, gaps, 2 * i, 2 * j + 1) / whole : 0;
        }
        scale[i] = product;
    }
}

/* -ln of the rates in geometric progression from `from` to `to`, as variables z. */
static void log_spaced(double *z, size_t len, double from, double to)
{
    double before = 0;
    for (size_t k = 0; k < len; k++) {
        double u = len > 1 ? from * pow(to / from, (double)k / (double)(len - 1)) : from;
        z[k] = log(u - before);
        before = u;
    }
}

/* Searches from spacings that begin at the length of the stream, or of one separation, or at a tenth of these. */
static enum eps_status search(struct blt_search *s, double *best, struct eps_strategy *strategy, double gap)
{
    size_t len = 2 * s->buffers, starts = s->loss.separation < s->loss.n ? 4 : 2;
    double n = (double)s->loss.n, separation = (double)s->loss.separation, least = INFINITY;
    const double from[] = {1 / n, 10 / n, 1 / separation, 10 / separation};
    const struct eps__toeplitz_search search = {&s->loss, blt_objective, s, len, gap, &strategy->iterations};
    for (size_t i = 0; i < starts; i++) {
        double z[POLES_MAX], value;
        log_spaced(z, len, fmin(from[i], 0.1), 1);
        enum eps_status status = eps__toeplitz_minimise(&search, z, &value);
        if (status != EPS_OK)
            return status;
        if (i == 0 || value < least) {
            least = value;
            memcpy(best, z, len * sizeof *z);
        }
    }
    return EPS_OK;
}

enum eps_status eps__blt_optimise(const struct eps_context *context, double *decay, double *scale,
                                  struct eps_strategy *s, struct eps_error *error,
                                  const struct eps_mechanism *mechanism)
{
    struct blt_search blt = {.buffers = mechanism->matrix.buffers, .pull = 1e-6 * fmax(mechanism->matrix.gap, 1e-7)};
    double z[POLES_MAX], rates[POLES_MAX], gaps[POLES_MAX];
    size_t n = s->block, d = blt.buffers;
    enum eps_status status = eps__toeplitz_loss_init(&blt.loss, context, error, s, mechanism, (struct eps__target){0});
    blt.b = malloc(4 * n * sizeof *blt.b);
    if (status == EPS_OK && !blt.b)
        status = eps__strategy_no_memory(error);
    if (status == EPS_OK) {
        blt.b_adjoint = blt.b + n;
        blt.c = blt.b + 2 * n;
        blt.c_adjoint = blt.b + 3 * n;
        status = search(&blt, z, s, mechanism->matrix.gap);
    }
    if (status == EPS_OK) {
        /* If a buffer ran to the end of its range, its decay must still be valid. */
        rates_of(rates, gaps, z, 2 * d);
        scales_of(scale, rates, gaps, d);
        for (size_t i = 0; i < d; i++)
            decay[i] = fmin(fmax(rates[2 * i], DBL_MIN), 1 - DBL_EPSILON / 2);
    }
    free(blt.b);
    eps__toeplitz_loss_clear(&blt.loss);
    return status;
}
