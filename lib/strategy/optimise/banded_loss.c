/*
 * The loss of banded strategies with equal column norms, and its gradient, in O(n bands^2) operations and O(n bands)
 * memory.
 *
 * Let x = C^-1 z for white noise z, and s_t the t-th query of x. The loss is a mean of Var(s_t). The forward pass
 * computes all variances from the covariances of the process (kinds/banded_error.c). The backward pass is the adjoint
 * method: the remaining cost is a quadratic form in the state, whose matrix Pi follows from that of the next step by a
 * rank-two update. C_{t,t-d} enters only x_t = (z_t - sum of C_{t,t-d} x_{t-d}) / C_tt, so the derivative of the loss
 * is -2/C_tt E[g x_{t-d}] with g = h' Pi (state), where h is the change of the state per unit of x_t. This needs only
 * the stored covariances with the last `bands` x. (A dense implementation takes O(n^3).)
 *
 * A workload without a short state is processed row by row: dF = -2 <weight B, B dC C^-1>, O(n^2 bands).
 *
 * SPDX-License-Identifier: GPL-3.0-or-later
 */
#include "lib/strategy/optimise/banded_loss.h"

#include <cblas.h>
#include <stdlib.h>
#include <string.h>

#include "lib/strategy/failures.h"
#include "lib/strategy/kinds/kinds.h"

enum eps_status eps__banded_loss_init(struct eps__banded_loss *loss, const struct eps_context *context,
                                      struct eps_error *error, const struct eps__workload *workload, size_t bands)
{
    size_t m = workload->n, band = m * bands;
    bool recursive = workload->recursive;
    *loss = (struct eps__banded_loss){.context = context, .error = error, .power = 1};
    loss->memory = calloc(3 * m + 2 * band + (recursive ? 3 * band + bands * (bands + 7) : 3 * m), sizeof(double));
    if (!loss->memory || (recursive && !eps__process_init(&loss->process, workload, bands)))
        return eps__strategy_no_memory(error);
    loss->variance = loss->memory;
    loss->weight = loss->variance + m;
    loss->norms = loss->weight + m;
    loss->gradient = loss->norms + m;
    loss->c = (struct eps_strategy){.kind = &eps__strategy_banded,
                                    .n = m,
                                    .stamps = 1,
                                    .block = m,
                                    .block_rows = m,
                                    .entries = loss->gradient + band,
                                    .entries_len = band,
                                    .width = bands,
                                    .bands = bands,
                                    .workload = *workload};
    loss->rows = loss->xx = loss->c.entries + band;
    loss->xu = loss->xx + band;
    loss->xs = loss->xu + band;
    loss->adjoint = loss->xs + band;
    return EPS_OK;
}

void eps__banded_loss_clear(struct eps__banded_loss *loss)
{
    free(loss->memory);
    eps__process_clear(&loss->process);
}

bool eps__banded_unit_columns(double *columns, double *norms, size_t n, size_t bands)
{
    for (size_t j = 0; j < n; j++) {
        double *column = columns + j * bands;
        size_t rows = n - j < bands ? n - j : bands;
        norms[j] = cblas_dnrm2((blasint)rows, column, 1);
        if (!(norms[j] > 0) || !isfinite(norms[j]))
            return false;
        for (size_t d = 0; d < bands; d++)
            column[d] = d < rows ? column[d] / norms[j] : 0;
    }
    return true;
}

/* ln of the power mean of the variances; weight: its derivatives with respect to them. */
static double power_mean(const struct eps__banded_loss *loss)
{
    size_t n = loss->c.n;
    double largest = 0, sum = 0;
    for (size_t t = 0; t < n; t++)
        largest = fmax(largest, loss->variance[t]);
    for (size_t t = 0; t < n; t++)
        sum += loss->weight[t] = pow(loss->variance[t] / largest, loss->power);
    for (size_t t = 0; t < n; t++)
        loss->weight[t] /= loss->variance[t] * sum;
    return log(largest) + log(sum / (double)n) / loss->power;
}

static bool poll(struct eps__banded_loss *loss, size_t t, size_t every)
{
    return t % every != 0 || !(loss->status = eps__strategy_poll(loss->context, loss->error));
}

/* ---- recursive workloads ---- */

static bool forwards(struct eps__banded_loss *loss)
{
    struct eps__process *p = &loss->process;
    size_t b = p->bands;
    eps__process_restart(p);
    for (size_t t = 0; t < loss->c.n; t++) {
        if (!poll(loss, t, 256))
            return false;
        eps__process_step(p, &loss->c, t, eps__workload_rate(&loss->c.workload, t));
        loss->variance[t] = p->past.bb;
        for (size_t d = 0, slot = t % b; d < b; d++, slot = slot ? slot - 1 : b - 1) {
            loss->xx[t * b + d] = p->xx[t % b * b + slot];
            loss->xu[t * b + d] = p->xu[slot];
            loss->xs[t * b + d] = p->xs[slot];
        }
    }
    return true;
}

/* The matrix Pi of the remaining cost, in terms of x (by slot), u and s; and Pi h at the current step. */
struct adjoint {
    size_t b;
    double *xx, *xu, *xs; /* upper triangle */
    double uu, us, ss;
    double *qx, qu, qs, rho; /* Pi h, h' Pi h */
    double *row;             /* -C_{t,t-d} / C_tt by slot */
    double *change, *lagged, *product;
};

/* Moves from step t + 1, whose q, row and eta are current, to step t. */
static void adjoint_step(struct adjoint *a, const struct eps__process *p, size_t next, double eta)
{
    size_t b = a->b, slot = next % b;
    double m = p->momentum, tu = m * (a->qu + eta * a->qs), ts = p->decay * a->qs;
    a->qx[slot] = a->xu[slot] = a->xs[slot] = 0;
    for (size_t i = 0; i < slot; i++)
        a->xx[i * b + slot] = 0;
    memset(a->xx + slot * b + slot, 0, (b - slot) * sizeof *a->xx);
    for (size_t i = 0; i < b; i++) {
        a->change[i] = a->qx[i] + a->rho / 2 * a->row[i];
        a->xu[i] = m * (a->xu[i] + eta * a->xs[i]) + tu * a->row[i];
        a->xs[i] = p->decay * a->xs[i] + ts * a->row[i];
    }
    cblas_dsyr2(CblasRowMajor, CblasUpper, (blasint)b, 1, a->change, 1, a->row, 1, a->xx, (blasint)b);
    a->uu = m * m * (a->uu + eta * (2 * a->us + eta * a->ss));
    a->us = p->decay * m * (a->us + eta * a->ss);
    a->ss *= p->decay * p->decay;
}

/* q = Pi h at step t: h has 1 at x_t and u, and eta at s. */
static void adjoint_direction(struct adjoint *a, const struct eps_strategy *c, size_t t, double eta)
{
    size_t b = a->b, slot = t % b;
    for (size_t i = 0; i < b; i++)
        a->qx[i] = (i < slot ? a->xx[i * b + slot] : a->xx[slot * b + i]) + a->xu[i] + eta * a->xs[i];
    a->qu = a->xu[slot] + a->uu + eta * a->us;
    a->qs = a->xs[slot] + a->us + eta * a->ss;
    a->rho = a->qx[slot] + a->qu + eta * a->qs;
    memset(a->row, 0, b * sizeof *a->row);
    for (size_t d = 1; d < b && d <= t; d++)
        a->row[(t - d) % b] = -eps__banded_column(c, t - d)[d] / eps__banded_column(c, t)[0];
}

/* Row t of the gradient: the covariances of the state with x_{t-d}, times q. */
static void gradient_row(const struct eps__banded_loss *loss, struct adjoint *a, size_t t)
{
    size_t b = a->b, reach = t < b - 1 ? t : b - 1;
    double scale = -2 / eps__banded_column(&loss->c, t)[0];
    for (size_t d = 0; d <= reach; d++) {
        a->lagged[d] = a->qx[(t - d) % b];
        a->product[d] = loss->xu[t * b + d] * a->qu + loss->xs[t * b + d] * a->qs;
    }
    for (size_t i = 0; i <= reach; i++) {
        const double *covariance = loss->xx + (t - i) * b;
        size_t rest = reach - i;
        a->product[i] += cblas_ddot((blasint)rest + 1, covariance, 1, a->lagged + i, 1);
        cblas_daxpy((blasint)rest, a->lagged[i], covariance + 1, 1, a->product + i + 1, 1);
    }
    for (size_t d = 0; d <= reach; d++)
        loss->gradient[(t - d) * b + d] = scale * a->product[d];
}

static bool backwards(struct eps__banded_loss *loss)
{
    size_t b = loss->c.width, n = loss->c.n;
    double *memory = loss->adjoint;
    memset(memory, 0, b * (b + 7) * sizeof *memory);
    struct adjoint a = {.b = b,
                        .xx = memory,
                        .xu = memory + b * b,
                        .xs = memory + b * (b + 1),
                        .qx = memory + b * (b + 2),
                        .row = memory + b * (b + 3),
                        .change = memory + b * (b + 4),
                        .lagged = memory + b * (b + 5),
                        .product = memory + b * (b + 6)};
    for (size_t t = n; t-- > 0;) {
        if (!poll(loss, t, 256))
            return false;
        if (t + 1 < n)
            adjoint_step(&a, &loss->process, t + 1, eps__workload_rate(&loss->c.workload, t + 1));
        a.ss += loss->weight[t];
        adjoint_direction(&a, &loss->c, t, eps__workload_rate(&loss->c.workload, t));
        gradient_row(loss, &a, t);
    }
    return true;
}

/* ---- any workload ---- */

/* Solves b C = (row t of A), so that b is row t of B, and then y = b C'^-1: t + 1 numbers each. */
static void solve_row(const struct eps__banded_loss *loss, double *b, double *y, size_t t)
{
    const struct eps_strategy *c = &loss->c;
    size_t bands = c->width;
    eps__workload_row(&c->workload, b, t);
    for (size_t j = t + 1; j-- > 0;) {
        const double *column = eps__banded_column(c, j);
        size_t reach = t - j < bands - 1 ? t - j : bands - 1;
        b[j] = (b[j] - cblas_ddot((blasint)reach, column + 1, 1, b + j + 1, 1)) / column[0];
    }
    memcpy(y, b, (t + 1) * sizeof *y);
    for (size_t j = 0; j <= t; j++) {
        const double *column = eps__banded_column(c, j);
        size_t reach = t - j < bands - 1 ? t - j : bands - 1;
        y[j] /= column[0];
        cblas_daxpy((blasint)reach, -y[j], column + 1, 1, y + j + 1, 1);
    }
}

static bool row_variances(struct eps__banded_loss *loss)
{
    for (size_t t = 0; t < loss->c.n; t++) {
        if (!poll(loss, t, 16))
            return false;
        solve_row(loss, loss->rows, loss->rows + loss->c.n, t);
        loss->variance[t] = cblas_ddot((blasint)(t + 1), loss->rows, 1, loss->rows, 1);
    }
    return true;
}

static bool row_gradients(struct eps__banded_loss *loss)
{
    size_t n = loss->c.n, bands = loss->c.width;
    double *b = loss->rows, *y = b + n;
    memset(loss->gradient, 0, n * bands * sizeof *loss->gradient);
    for (size_t t = 0; t < n; t++) {
        if (!poll(loss, t, 16))
            return false;
        solve_row(loss, b, y, t);
        for (size_t j = 0; j <= t; j++) {
            size_t reach = t - j < bands - 1 ? t - j : bands - 1;
            cblas_daxpy((blasint)reach + 1, -2 * loss->weight[t] * y[j], b + j, 1, loss->gradient + j * bands, 1);
        }
    }
    return true;
}

/* ---- the objective ---- */

/* The number of evaluations is unknown in advance, so the reported remainder shrinks by a constant factor with each. */
static void report(struct eps__banded_loss *loss)
{
    const struct eps_context *context = loss->context;
    loss->evaluations++;
    if (context && context->progress && loss->expected > 0)
        context->progress(context->user, -expm1(-2 * (double)loss->evaluations / loss->expected), "optimise", NAN);
}

bool eps__banded_log_loss(void *user, double *value, double *gradient, const double *x)
{
    struct eps__banded_loss *loss = user;
    size_t n = loss->c.n, bands = loss->c.width;
    bool recursive = loss->c.workload.recursive;
    *value = INFINITY;
    report(loss);
    for (size_t i = 0; i < n * bands; i++)
        loss->c.entries[i] = loss->squares ? x[i] * x[i] : x[i];
    if (!eps__banded_unit_columns(loss->c.entries, loss->norms, n, bands))
        return true;
    for (size_t j = 0; j < n; j++)
        if (loss->c.entries[j * bands] == 0)
            return true;
    if (!(recursive ? forwards(loss) : row_variances(loss)))
        return false;
    *value = power_mean(loss);
    if (!isfinite(*value))
        return true;
    if (!(recursive ? backwards(loss) : row_gradients(loss)))
        return false;
    /* Through the division by the norm: the part of the gradient that is orthogonal to the column remains. */
    for (size_t j = 0; j < n; j++) {
        blasint len = (blasint)(n - j < bands ? n - j : bands);
        const double *unit = loss->c.entries + j * bands, *g = loss->gradient + j * bands;
        double along = cblas_ddot(len, g, 1, unit, 1);
        for (size_t d = 0; d < bands; d++)
            gradient[j * bands + d] = j + d < n ? (g[d] - along * unit[d]) / loss->norms[j] : 0;
    }
    for (size_t i = 0; i < n * bands && loss->squares; i++)
        gradient[i] *= 2 * x[i];
    return true;
}
