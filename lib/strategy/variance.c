/*
 * The error figures: the squared norms of the rows of B = A C^-1, without forming B if possible.
 *
 * Row t of B consists of the block of step t and of the earlier blocks. Within a block, Toeplitz A and C make B
 * Toeplitz, so its row norms are running sums. With a cooldown B is not Toeplitz, and each row is computed from the one
 * above it.
 *
 * For a recursive workload (prefix sum, momentum) the earlier blocks need only three numbers. Let b be the row of B and
 * u the row of the momentum matrix times C^-1, both restricted to the earlier blocks. Then u' = momentum u and b' =
 * decay b + eta u', so <b,b>, <b,u> and <u,u> follow recursively. For any other Toeplitz A, the norm of an earlier
 * block's part depends only on its distance.
 *
 * SPDX-License-Identifier: GPL-3.0-or-later
 */
#include <stdlib.h>
#include <string.h>

#include "lib/numerics/fft/convolve.h"
#include "lib/numerics/linear/linalg.h"
#include "lib/strategy/decoder.h"
#include "lib/strategy/failures.h"

/* Columns in one pass of the cooldown recursion: two arrays of this length fit into the first-level cache. */
enum { COLUMN_CHUNK = 1024 };

/* Entries of B below this do not affect a sum of squares. */
#define NEGLIGIBLE 1e-150

/* Advances the contribution of the earlier blocks by one step. */
static void past_step(struct eps__past *past, const struct eps__workload *w, size_t t)
{
    eps__past_step(past, w, eps__workload_rate(w, t));
}

/* ---- Toeplitz blocks, recursive workload ---- */

/* Adds the steps of the block at `first`, at a constant rate of 1, to out, and the block to the past. u (block numbers)
 * holds the coefficients of the momentum matrix times C0^-1. */
static void steady_block(double *out, struct eps__past *past, const double *u, const struct eps__workload *w, size_t m,
                         size_t first)
{
    double b = 0, bb = 0, bu = 0, uu = 0;
    for (size_t t = 0; t < m; t++) {
        past_step(past, w, first + t);
        b = w->decay * b + u[t];
        bb += b * b;
        bu += b * u[t];
        uu += u[t] * u[t];
        out[first + t] = bb + past->bb;
    }
    past->bb += bb;
    past->bu += bu;
    past->uu += uu;
}

/* A block in which the rate changes. */
struct changing {
    const struct eps__workload *workload;
    const double *u;        /* as in steady_block() */
    const double *reversed; /* u reversed, so that the inner loop runs forwards through all its arrays */
    double *steady;         /* the coefficients of B while the rate is 1 */
    size_t reach;           /* u is zero from here on */
    size_t m, first, start; /* steps of the block; its first step; its first step with a rate below 1 */
};

/* Sets negligible numbers to zero before they become subnormal and slow. True if all are zero. */
static bool flush(double *b, size_t count)
{
    bool empty = true;
    for (size_t j = 0; j < count; j++) {
        if (fabs(b[j]) < NEGLIGIBLE)
            b[j] = 0;
        else
            empty = false;
    }
    return empty;
}

/* b_j <- decay b_j + rate row_j; returns the sum of squares. */
static double next_row(double *restrict b, const double *restrict row, size_t count, double decay, double rate)
{
    double sums[4] = {0};
    size_t j = 0;
    for (; j + 4 <= count; j += 4) {
        for (size_t lane = 0; lane < 4; lane++) {
            b[j + lane] = decay * b[j + lane] + rate * row[j + lane];
            sums[lane] += b[j + lane] * b[j + lane];
        }
    }
    for (; j < count; j++) {
        b[j] = decay * b[j] + rate * row[j];
        sums[0] += b[j] * b[j];
    }
    return (sums[0] + sums[1]) + (sums[2] + sums[3]);
}

/* Columns from..end-1 of the rows from c->start on: b_t,j = decay b_t-1,j + eta_t u_t-j. */
static enum eps_status changing_columns(const struct eps_context *context, double *out, struct eps__past *past,
                                        struct eps_error *error, const struct changing *c, size_t from, size_t end)
{
    const struct eps__workload *w = c->workload;
    double b[COLUMN_CHUNK] = {0};
    for (size_t j = from; j < end && j < c->start; j++)
        b[j - from] = c->steady[c->start - 1 - j];
    for (size_t t = c->start > from ? c->start : from; t < c->m; t++) {
        size_t count = t < end ? t + 1 - from : end - from;
        double rate = eps__workload_rate(w, c->first + t);
        out[c->first + t] += next_row(b, c->reversed + (c->m - 1 - t) + from, count, w->decay, rate);
        enum eps_status status = t % 8192 == 0 ? eps__strategy_poll(context, error) : EPS_OK;
        if (status != EPS_OK)
            return status;
        if (t % 256 == 0 && flush(b, count) && t >= end + c->reach)
            break;
    }
    for (size_t j = from; j < end; j++) {
        double last = b[j - from], unit = c->u[c->m - 1 - j];
        past->bb += last * last;
        past->bu += last * unit;
        past->uu += unit * unit;
    }
    return EPS_OK;
}

static enum eps_status changing_block(const struct eps_context *context, double *out, struct eps__past *past,
                                      struct eps_error *error, struct changing *c)
{
    const struct eps__workload *w = c->workload;
    struct eps__past block = {0};
    double b = 0, bb = 0;
    enum eps_status status = EPS_OK;
    for (c->start = 0; eps__workload_rate(w, c->first + c->start) >= 1; c->start++) {
        c->steady[c->start] = b = w->decay * b + c->u[c->start];
        bb += b * b;
        out[c->first + c->start] = bb;
    }
    for (size_t t = c->start; t < c->m; t++)
        out[c->first + t] = 0;
    for (size_t from = 0; status == EPS_OK && from < c->m; from += COLUMN_CHUNK)
        status = changing_columns(context, out, &block, error, c, from,
                                  c->m - from < COLUMN_CHUNK ? c->m : from + COLUMN_CHUNK);
    for (size_t t = 0; t < c->m; t++) {
        past_step(past, w, c->first + t);
        out[c->first + t] += past->bb;
    }
    past->bb += block.bb;
    past->bu += block.bu;
    past->uu += block.uu;
    return status;
}

static enum eps_status toeplitz_recursive(const struct eps_context *context, double *out, struct eps_error *error,
                                          const struct eps_strategy *s, const double *inverse)
{
    const struct eps__workload *w = &s->workload;
    size_t m = s->block;
    enum eps_status status = EPS_OK;
    struct eps__past past = {0};
    double *u = malloc(m * (w->cooldown ? 3 : 1) * sizeof *u), value = 0;
    if (!u)
        return eps__strategy_no_memory(error);
    struct changing c = {.workload = w, .u = u, .m = m};
    for (size_t t = 0; t < m; t++) {
        value = w->momentum * value + inverse[t];
        u[t] = fabs(value) < NEGLIGIBLE ? 0 : value;
        if (u[t] != 0)
            c.reach = t + 1;
    }
    if (w->cooldown) {
        double *reversed = u + m;
        for (size_t t = 0; t < m; t++)
            reversed[m - 1 - t] = u[t];
        c.reversed = reversed;
        c.steady = u + 2 * m;
    }
    for (c.first = 0; status == EPS_OK && c.first < s->n; c.first += m) {
        if (eps__workload_rate(w, c.first + m - 1) < 1)
            status = changing_block(context, out, &past, error, &c);
        else
            steady_block(out, &past, u, w, m, c.first);
    }
    free(u);
    return status;
}

/* A multiple of the identity: row t of B has the first t + 1 coefficients of A, so no array is needed. */
static void diagonal_figures(const struct eps_strategy *s, double *mean, double *max, double *last)
{
    const struct eps__workload *w = &s->workload;
    struct eps__sum norm = {0}, sum = {0};
    double u = 1 / s->entries[0], b = 0, n = (double)s->n;
    if (w->decay == 1 && w->momentum == 0) { /* prefix sums: row t has t + 1 equal entries */
        *mean = u * u * (n + 1) / 2;
        *max = *last = u * u * n;
        return;
    }
    for (size_t t = 0; t < s->n; t++) {
        b = w->decay * b + u;
        u *= w->momentum;
        eps__sum_add_square(&norm, b);
        eps__sum_add(&sum, eps__sum_value(&norm));
    }
    *mean = eps__sum_value(&sum) / (double)s->n;
    *max = *last = eps__sum_value(&norm);
}

/* ---- dense blocks, recursive workload ---- */

static enum eps_status dense_recursive(const struct eps_context *context, double *out, struct eps_error *error,
                                       const struct eps_strategy *s, const double *inverse)
{
    const struct eps__workload *w = &s->workload;
    size_t m = s->block;
    enum eps_status status = EPS_OK;
    struct eps__past past = {0};
    double *b = malloc(2 * m * sizeof *b);
    if (!b)
        return eps__strategy_no_memory(error);
    double *u = b + m;
    for (size_t t = 0; t < s->n; t++) {
        if (t % 256 == 0 && (status = eps__strategy_poll(context, error)))
            break;
        const double *row = inverse + t % m * m;
        double rate = eps__workload_rate(w, t), bb = 0, bu = 0, uu = 0;
        if (t % m == 0)
            memset(b, 0, 2 * m * sizeof *b);
        past_step(&past, w, t);
        for (size_t j = 0; j < m; j++) {
            u[j] = w->momentum * u[j] + row[j];
            b[j] = w->decay * b[j] + rate * u[j];
            bb += b[j] * b[j];
        }
        out[t] = bb + past.bb;
        if (t % m != m - 1)
            continue;
        for (size_t j = 0; j < m; j++) {
            bu += b[j] * u[j];
            uu += u[j] * u[j];
        }
        past.bb += bb;
        past.bu += bu;
        past.uu += uu;
    }
    free(b);
    return status;
}

/* ---- any Toeplitz workload ---- */

/* out[t]: the squared norm of row t of a block's own part of B; NAN if cancellation leaves no correct digits. */
static bool own_norms(struct eps__work *work, double *out, const struct eps_strategy *s, const double *inverse)
{
    size_t m = s->block;
    const struct eps__workload *w = &s->workload;
    bool ok = false, kept;
    double sum = 0, *a = malloc(m * (s->kind->inverse_is_matrix ? 2 * m : 1) * sizeof *a);
    if (!a)
        return false;
    if (!s->kind->inverse_is_matrix) {
        ok = eps__convolve_digits(a, m, w->coefficients, w->coefficients_len, inverse, m, &kept);
        for (size_t t = 0; ok && t < m; t++)
            out[t] = kept ? sum += a[t] * a[t] : NAN;
    } else {
        memset(a, 0, m * m * sizeof *a);
        for (size_t t = 0; t < m; t++)
            eps__workload_row(w, a + t * m, t);
        eps__multiply(work, a + m * m, a, inverse, m);
        for (size_t t = 0; t < m && !eps__stopped(work); t++, sum = 0) {
            for (size_t j = 0; j < m; j++)
                sum += a[m * m + t * m + j] * a[m * m + t * m + j];
            out[t] = sum;
        }
        ok = true;
    }
    free(a);
    return ok;
}

/*
 * past[d], d = 1..n - m: the squared norm of y with y C0 = (a_{d+m-1}, ..., a_d), for a block that ended d steps ago.
 * The next such row is this one shifted right by one place. For Toeplitz C0, so is y, except for its first entry and
 * the contribution of the number that was shifted out.
 */
static enum eps_status past_norms(const struct eps_context *context, double *past, struct eps_error *error,
                                  const struct eps_strategy *s, const double *inverse)
{
    size_t m = s->block;
    const struct eps__workload *w = &s->workload;
    enum eps_status status = EPS_OK;
    double *a = malloc(s->n * sizeof *a), *y = calloc(2 * m, sizeof *y);
    if (!a || !y) {
        status = eps__strategy_no_memory(error);
        goto out;
    }
    double *window = y + m;
    eps__workload_coefficients(w, a, s->n);
    bool toeplitz = !s->kind->inverse_is_matrix;
    /* Windows entirely beyond the last coefficient contribute nothing. */
    for (size_t d = toeplitz ? 0 : 1; d <= s->n - m; d++) {
        double sum = 0;
        if (d % 64 == 0 && (status = eps__strategy_poll(context, error)))
            break;
        for (size_t j = 0; j < m; j++)
            window[j] = a[d + m - 1 - j];
        if (!toeplitz) {
            eps__multiply_row(y, window, inverse, m, m);
        } else if (d == 0) {
            for (size_t i = 0; i < m; i++)
                for (size_t j = i; j < m; j++)
                    y[i] += window[j] * inverse[j - i];
        } else {
            double gone = a[d - 1], head = 0;
            for (size_t i = m - 1; i > 0; i--)
                y[i] = y[i - 1] - gone * inverse[m - i];
            for (size_t j = 0; j < m; j++)
                head += window[j] * inverse[j];
            y[0] = head;
        }
        for (size_t j = 0; j < m; j++)
            sum += y[j] * y[j];
        past[d] = sum;
    }
out:
    free(a);
    free(y);
    return status;
}

static enum eps_status any_toeplitz(const struct eps_context *context, double *out, struct eps_error *error,
                                    const struct eps_strategy *s, const double *inverse)
{
    size_t m = s->block, n = s->n;
    struct eps__work work = {.context = context};
    if (!own_norms(&work, out, s, inverse))
        return eps__strategy_no_memory(error);
    if (eps__stopped(&work))
        return eps__strategy_stopped(error, work.status);
    if (m == n)
        return EPS_OK;
    double *past = malloc((n - m + 1) * sizeof *past);
    enum eps_status status = past ? past_norms(context, past, error, s, inverse) : eps__strategy_no_memory(error);
    /* Earlier blocks ended d, d + m, d + 2 m... steps ago: running sums with stride m. */
    for (size_t d = m + 1; status == EPS_OK && d <= n - m; d++)
        past[d] += past[d - m];
    for (size_t t = m; status == EPS_OK && t < n; t++)
        out[t] = out[t % m] + past[t + 1 - m];
    free(past);
    return status;
}

enum eps_status eps__toeplitz_variance(const struct eps_context *context, double *out, struct eps_error *error,
                                       const struct eps_strategy *s, const double *inverse)
{
    return s->workload.recursive ? toeplitz_recursive(context, out, error, s, inverse)
                                 : any_toeplitz(context, out, error, s, inverse);
}

enum eps_status eps__dense_variance(const struct eps_context *context, double *out, struct eps_error *error,
                                    const struct eps_strategy *s, const double *inverse)
{
    return s->workload.recursive ? dense_recursive(context, out, error, s, inverse)
                                 : any_toeplitz(context, out, error, s, inverse);
}

/* ---- the figures ---- */

/* *defined is false if there is no inverse, or if a number is not finite; out must then not be used. */
static enum eps_status variance(const struct eps_context *context, double *out, bool *defined, struct eps_error *error,
                                const struct eps_strategy *s)
{
    const double *inverse;
    enum eps_status status = eps__strategy_inverse(context, &inverse, error, s);
    *defined = inverse != NULL;
    if (status != EPS_OK || !inverse)
        return status;
    status = s->kind->variance(context, out, error, s, inverse);
    for (size_t t = 0; status == EPS_OK && t < s->n; t++)
        if (!isfinite(out[t]))
            *defined = false;
    return status != EPS_OK ? status : eps__strategy_poll(context, error);
}

enum eps_status eps_strategy_variance(const struct eps_context *context, const struct eps_strategy *strategy,
                                      double *out, struct eps_error *error)
{
    bool defined;
    enum eps_status status = variance(context, out, &defined, error, strategy);
    if (status == EPS_OK && !defined)
        return eps__error(error, EPS_UNSUPPORTED, "/matrix",
                          "A C^-1 is not defined: C has no inverse, or its entries overflow");
    return status;
}

enum eps_status eps__strategy_error(const struct eps_context *context, const struct eps_strategy *strategy,
                                    const struct eps_mechanism *mechanism, double *mean, double *max, double *last)
{
    (void)mechanism; /* the strategy keeps its workload */
    bool defined;
    size_t n = strategy->n;
    if (strategy->kind->shape == EPS__SHAPE_TOEPLITZ && strategy->bands == 1 && strategy->entries[0] != 0 &&
        strategy->workload.recursive && !strategy->workload.cooldown) {
        diagonal_figures(strategy, mean, max, last);
        return eps__strategy_poll(context, NULL);
    }
    double *out = malloc(n * sizeof *out);
    if (!out)
        return EPS_NO_MEMORY;
    enum eps_status status = variance(context, out, &defined, NULL, strategy);
    if (status == EPS_OK) {
        struct eps__sum sum = {0};
        double largest = 0;
        for (size_t t = 0; defined && t < n; t++) {
            eps__sum_add(&sum, out[t]);
            largest = fmax(largest, out[t]);
        }
        *mean = defined ? eps__sum_value(&sum) / (double)n : NAN;
        *max = defined ? largest : NAN;
        *last = defined ? out[n - 1] : NAN;
    }
    free(out);
    return status;
}
