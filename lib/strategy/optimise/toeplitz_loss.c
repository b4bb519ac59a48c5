/*
 * See toeplitz_loss.h. Recursions run over contiguous arrays, with one dot product of the bandwidth's length per step;
 * correlations are computed in pieces that stay in the first-level cache. For n = 10^6 and 64 bands, one evaluation
 * with its gradient takes about 2 10^8 multiplications.
 *
 * SPDX-License-Identifier: GPL-3.0-or-later
 */
#include "lib/strategy/optimise/toeplitz_loss.h"

#include <assert.h>
#include <cblas.h>
#include <stdlib.h>
#include <string.h>

#include "lib/strategy/decoder.h"
#include "lib/strategy/failures.h"
#include "lib/strategy/kinds/kinds.h"

enum { PIECE = 1024, POLL_OPERATIONS = 1 << 22 };

/* The multiplications between two progress reports: a fraction of a second. */
static const double report_operations = 3e8;

static double dot(const double *a, const double *b, size_t n)
{
    if (n >= 16)
        return cblas_ddot((blasint)n, a, 1, b, 1);
    double sum = 0;
    for (size_t i = 0; i < n; i++)
        sum += a[i] * b[i];
    return sum;
}

/* ---- making ---- */

static enum eps_status copy_workload(struct eps__toeplitz_loss *loss, struct eps_error *error,
                                     const struct eps_strategy *s)
{
    double largest = 0;
    eps__workload_coefficients(&s->workload, loss->workload, loss->n);
    for (size_t t = 0; t < loss->n; t++)
        largest = fmax(largest, fabs(loss->workload[t]));
    if (!eps__all_finite(loss->workload, loss->n))
        return eps__error(error, EPS_INVALID, "/workload", "its coefficients must be finite");
    if (!(largest > 0))
        return eps__error(error, EPS_INVALID, "/workload/coefficients",
                          "are all zero within one block of C, so there is no error to optimise");
    for (size_t t = 0; t < loss->n; t++)
        loss->workload[t] /= largest;
    return EPS_OK;
}

enum eps_status eps__toeplitz_loss_init(struct eps__toeplitz_loss *loss, const struct eps_context *context,
                                        struct eps_error *error, const struct eps_strategy *s,
                                        const struct eps_mechanism *mechanism, struct eps__target target)
{
    const struct eps_matrix *matrix = &mechanism->matrix;
    size_t n = s->block, fit;
    *loss = (struct eps__toeplitz_loss){.context = context, .error = error, .n = n};
    loss->last_step = matrix->objective == EPS_OBJECTIVE_MAX_SQUARED;
    loss->epochs = matrix->epochs ? matrix->epochs : 1;
    loss->separation = matrix->separation ? matrix->separation : n / loss->epochs;
    if (!loss->separation)
        loss->separation = 1;
    loss->cost = (double)n * (6 * (double)matrix->bands + 30 * (double)matrix->buffers + 30);
    fit = (n - 1) / loss->separation + 1;
    loss->epochs = loss->epochs < fit ? loss->epochs : fit;
    loss->majorant = target.separated;
    loss->positive = loss->epochs == 1 || target.sampled;
    loss->workload = malloc(n * sizeof *loss->workload);
    loss->window = malloc(3 * n * sizeof *loss->window);
    if (!loss->workload || !loss->window)
        return eps__strategy_no_memory(error);
    return copy_workload(loss, error, s);
}

void eps__toeplitz_loss_clear(struct eps__toeplitz_loss *loss)
{
    free(loss->workload);
    free(loss->window);
    loss->workload = loss->window = NULL;
}

/* ---- error ---- */

double eps__toeplitz_log_error(const struct eps__toeplitz_loss *loss, double *gradient, const double *b)
{
    size_t n = loss->n;
    double weight = loss->last_step ? 0 : 1 / (double)n;
    for (size_t t = 0; t < n; t++)
        gradient[t] = (1 - weight * (double)t) * b[t];
    double error = dot(gradient, b, n);
    cblas_dscal((blasint)n, 2 / error, gradient, 1);
    return log(error);
}

/* ---- sensitivity ---- */

static bool overlap(const struct eps__toeplitz_loss *loss, size_t len)
{
    return loss->epochs > 1 && len > loss->separation;
}

/* The columns of one pattern share no row: each entry counts once for each column that is long enough to contain it. */
static double separate_columns(const struct eps__toeplitz_loss *loss, double *gradient, const double *c, size_t len)
{
    double square = 0;
    for (size_t j = 0; j < len; j++) {
        size_t fit = (loss->n - 1 - j) / loss->separation + 1;
        double count = (double)(fit < loss->epochs ? fit : loss->epochs);
        square += count * c[j] * c[j];
        gradient[j] = 2 * count * c[j];
    }
    return square;
}

/* v_t = x_t + x_{t-s} + ..., `epochs` terms, from running sums with stride s; in place. */
static void sum_window(double *v, double *sums, size_t n, size_t s, size_t epochs)
{
    memcpy(sums, v, n * sizeof *v);
    for (size_t t = s; t < n; t++)
        sums[t] += sums[t - s];
    memcpy(v, sums, n * sizeof *v);
    for (size_t t = epochs * s; t < n; t++)
        v[t] -= sums[t - epochs * s];
}

/* The transpose of sum_window(): v_t = x_t + x_{t+s} + ... */
static void sum_window_back(double *v, double *sums, size_t n, size_t s, size_t epochs)
{
    memcpy(sums, v, n * sizeof *v);
    for (size_t t = n - s; t-- > 0;)
        sums[t] += sums[t + s];
    memcpy(v, sums, n * sizeof *v);
    for (size_t t = 0; t + epochs * s < n; t++)
        v[t] -= sums[t + epochs * s];
}

/* m_t is the least non-increasing sequence above |c|, or a smooth one slightly above it; weights: dm_t/d|c_t|, where 1
 * minus the weight is dm_t/dm_{t+1}. */
static void majorise(double *m, double *weights, const double *c, size_t len, double smoothing)
{
    double above = 0;
    for (size_t t = len; t-- > 0;) {
        double lead = fabs(c[t]) - above, rise = 0;
        weights[t] = lead >= 0;
        if (fabs(lead) < 40 * smoothing && t + 1 < len) {
            double ratio = exp(-fabs(lead) / smoothing);
            weights[t] = (lead >= 0 ? 1 : ratio) / (1 + ratio);
            rise = smoothing * log1p(ratio);
        }
        m[t] = above = fmax(fabs(c[t]), above) + rise;
    }
}

/* For overlapping columns, with absolute values in place of the entries. */
static double overlapping_columns(const struct eps__toeplitz_loss *loss, double *gradient, const double *c, size_t len)
{
    size_t n = loss->n, s = loss->separation;
    double *v = loss->window, *sums = v + n, *weights = v + 2 * n, carried = 0;
    memset(v, 0, n * sizeof *v);
    if (loss->majorant)
        majorise(v, weights, c, len, loss->smoothing);
    else
        for (size_t t = 0; t < len; t++)
            v[t] = fabs(c[t]);
    sum_window(v, sums, n, s, loss->epochs);
    double square = dot(v, v, n);
    sum_window_back(v, sums, n, s, loss->epochs);
    for (size_t t = 0; t < len; t++) {
        double own = loss->majorant ? weights[t] : 1;
        carried += 2 * v[t];
        gradient[t] = copysign(own * carried, c[t]);
        carried *= 1 - own;
    }
    return square;
}

/* The contribution of the pairs of columns that are e steps of the first pattern apart: 2 |X_ij| each, where |x| is
 * smoothed to the root of x^2 + width^2; columns at the end of the stream are cut off. weights: of c_t c_{t+lag} in the
 * gradient; *spread is increased by the derivative with respect to the width. */
static double lag_square(const struct eps__toeplitz_loss *loss, double *weights, double *spread, const double *c,
                         size_t len, size_t e, double width)
{
    size_t s = loss->separation, k = loss->epochs, lag = e * s, whole = len - lag, done = 0, j = k;
    double product = 0, square = 0;
    memset(weights, 0, whole * sizeof *weights);
    while (j > e) {
        size_t rows = loss->n - (j - 1) * s, end = rows < whole ? rows : whole;
        size_t pairs = end == whole ? j - e : 1;
        product += dot(c + lag + done, c + done, end - done);
        done = end;
        double root = hypot(product, width), twice = 2 * (double)pairs;
        square += twice * root;
        if (root > 0) {
            weights[end - 1] += twice * product / root;
            *spread += twice * width / root;
        }
        j -= pairs;
    }
    assert(done == whole); /* columns 0 and lag are not cut off */
    for (size_t t = whole - 1; t-- > 0;)
        weights[t] += weights[t + 1];
    return square;
}

/* For overlapping columns with entries of either sign: the sum of |X_ij| over the Gram matrix of the first pattern. It
 * equals the square if no entry is negative, and is never less (gram_rules.c). */
static double signed_columns(const struct eps__toeplitz_loss *loss, double *gradient, const double *c, size_t len)
{
    double *weights = loss->window, own = dot(c, c, len), width = loss->smoothing * own, spread = 0;
    double square = separate_columns(loss, gradient, c, len);
    for (size_t e = 1; e < loss->epochs && e * loss->separation < len; e++) {
        size_t lag = e * loss->separation;
        square += lag_square(loss, weights, &spread, c, len, e, width);
        for (size_t t = 0; t + lag < len; t++) {
            gradient[t] += weights[t] * c[t + lag];
            gradient[t + lag] += weights[t] * c[t];
        }
    }
    cblas_daxpy((blasint)len, 2 * spread * loss->smoothing, c, 1, gradient, 1);
    return square;
}

/* The number of evaluations is unknown in advance, so the reported fraction approaches 1 without reaching it. */
static void report(struct eps__toeplitz_loss *loss)
{
    const struct eps_context *context = loss->context;
    loss->evaluations++;
    loss->unreported += loss->cost;
    if (!context || !context->progress || loss->unreported < report_operations)
        return;
    double done = (double)loss->evaluations / (40 + (double)loss->evaluations);
    loss->unreported = 0;
    context->progress(context->user, done, "optimise", NAN);
}

double eps__toeplitz_log_square(struct eps__toeplitz_loss *loss, double *gradient, const double *c, size_t len)
{
    double square = !overlap(loss, len) ? separate_columns(loss, gradient, c, len)
                    : loss->either_sign ? signed_columns(loss, gradient, c, len)
                                        : overlapping_columns(loss, gradient, c, len);
    double barrier = loss->barrier / (double)len, value = log(square);
    report(loss);
    loss->negative = false;
    for (size_t j = 0; j < len; j++) {
        gradient[j] /= square;
        loss->negative = loss->negative || c[j] < 0;
    }
    for (size_t j = 0; barrier > 0 && j < len; j++) {
        if (!(c[j] > 0))
            return INFINITY;
        value -= barrier * log(c[j]);
        gradient[j] -= barrier / c[j];
    }
    return value;
}

/* ---- quotients ---- */

static bool keep_going(struct eps__toeplitz_loss *loss)
{
    if (loss->status == EPS_OK)
        loss->status = eps__strategy_poll(loss->context, loss->error);
    return loss->status == EPS_OK;
}

bool eps__toeplitz_loss_quotient(struct eps__toeplitz_loss *loss, double *out, const double *a, const double *c,
                                 size_t len)
{
    loss->status = eps__toeplitz_quotient(loss->context, out, loss->error, a, loss->n, c, len);
    return loss->status == EPS_OK;
}

/* C' lambda = adjoint is the same recursion from the end; the derivative by c_j is then -sum of lambda_t q_{t-j}. */
bool eps__toeplitz_quotient_gradient(struct eps__toeplitz_loss *loss, double *out, double *adjoint, const double *q,
                                     const double *c, size_t len)
{
    size_t n = loss->n, order = len - 1, every = POLL_OPERATIONS / len + 1;
    for (size_t t = n; t-- > 0;) {
        size_t terms = n - 1 - t < order ? n - 1 - t : order;
        adjoint[t] = (adjoint[t] - dot(c + 1, adjoint + t + 1, terms)) / c[0];
        if (t % every == 0 && !keep_going(loss))
            return false;
    }
    for (size_t t = 0; t < n; t++)
        adjoint[t] = -adjoint[t];
    eps__toeplitz_correlate(out, len, adjoint, q, n);
    return true;
}

void eps__toeplitz_correlate(double *out, size_t len, const double *x, const double *y, size_t n)
{
    for (size_t from = 0; from < n; from += PIECE) {
        size_t end = n - from < PIECE ? n : from + PIECE;
        for (size_t j = 0; j < len && j < end; j++) {
            size_t first = from > j ? from : j;
            out[j] += dot(x + first, y + first - j, end - first);
        }
    }
}

/* ---- searching ---- */

static bool has_kinks(const struct eps__toeplitz_loss *loss, size_t len)
{
    return loss->majorant || (loss->either_sign && overlap(loss, len));
}

/* Restarts a search that ended at a kink or at its limit, with an empty history, as long as that gains. */
static enum eps_status descend(const struct eps__toeplitz_search *search, double *x)
{
    enum { RESTARTS = 8 };
    const struct eps__toeplitz_loss *loss = search->loss;
    size_t len = search->len;
    const struct eps__lbfgs options = {.memory = len < 30 ? len : 30, .tolerance = fmax(1e-3 * search->gap, 1e-13)};
    double before = INFINITY, value = 0;
    for (int i = 0; i < RESTARTS; i++) {
        size_t taken;
        enum eps__lbfgs_end end =
            eps__lbfgs_minimise(&options, x, &value, &taken, len, search->objective, search->user);
        *search->iterations += taken;
        if (end == EPS__LBFGS_NO_MEMORY)
            return eps__strategy_no_memory(loss->error);
        if (loss->status || (end != EPS__LBFGS_STALLED && end != EPS__LBFGS_LIMIT) ||
            !(before - value > options.tolerance))
            break;
        before = value;
    }
    return loss->status;
}

/* Moves x to `found`, and *value to its value, if that is better. spare: len numbers. */
static enum eps_status keep_better(const struct eps__toeplitz_search *search, double *x, double *value,
                                   const double *found, double *spare)
{
    double after;
    if (!search->objective(search->user, value, spare, x) || !search->objective(search->user, &after, spare, found))
        return search->loss->status;
    if (after < *value) {
        *value = after;
        memcpy(x, found, search->len * sizeof *x);
    }
    return EPS_OK;
}

/* Continues from x with smoothing, or behind a barrier, or both, which are reduced in stages. Keeps x if the result is
 * no better. */
static enum eps_status descend_smoothly(const struct eps__toeplitz_search *search, double *x, double *value,
                                        bool inside)
{
    struct eps__toeplitz_loss *loss = search->loss;
    size_t len = search->len;
    double *found = malloc(2 * len * sizeof *found), least = 1e-2 * fmax(search->gap, 1e-7);
    enum eps_status status = found ? EPS_OK : eps__strategy_no_memory(loss->error);
    if (status != EPS_OK)
        return status;
    memcpy(found, x, len * sizeof *x);
    for (double width = 0.01; status == EPS_OK && width > least; width /= 4) {
        loss->barrier = inside ? width : 0;
        loss->smoothing = has_kinks(loss, len) ? width / 10 : 0;
        status = descend(search, found);
    }
    loss->smoothing = 0;
    if (status == EPS_OK && loss->majorant)
        status = descend(search, found);
    loss->barrier = 0;
    if (status == EPS_OK)
        status = keep_better(search, x, value, found, found + len);
    free(found);
    return status;
}

enum eps_status eps__toeplitz_minimise(const struct eps__toeplitz_search *search, double *x, double *value)
{
    struct eps__toeplitz_loss *loss = search->loss;
    size_t len = search->len;
    double *start = malloc(2 * len * sizeof *start), at_start;
    if (!start)
        return eps__strategy_no_memory(loss->error);
    double *gradient = start + len;
    memcpy(start, x, len * sizeof *x);
    /* A starting point with zeros, or with orthogonal bands, lies on kinks of |X_ij|. */
    bool on_kinks = has_kinks(loss, len) && loss->either_sign;
    enum eps_status status = on_kinks ? EPS_OK : descend(search, x);
    if (status == EPS_OK && has_kinks(loss, len))
        status = descend_smoothly(search, x, value, false);
    if (status == EPS_OK && !search->objective(search->user, value, gradient, x))
        status = loss->status;
    if (status != EPS_OK || !loss->positive || !loss->negative)
        goto out;
    if (!search->objective(search->user, &at_start, gradient, start))
        status = loss->status;
    if (status != EPS_OK || loss->negative || !isfinite(at_start))
        goto out;
    memcpy(x, start, len * sizeof *x);
    status = descend_smoothly(search, x, value, true);
out:
    free(start);
    return status;
}
