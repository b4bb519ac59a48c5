/*
 * The norms of the rows of B = A C^-1 for banded C.
 *
 * Recursive workloads (prefix sum, momentum, cooldown): row t of B times white noise is a process with a state of
 * `bands` numbers and two more, so its variances follow from a recursion in covariances. It is exact and takes O(n
 * bands^2) operations for all rows together and bands^2 numbers of memory, against O(n^2 bands) operations for the rows
 * themselves. Any other Toeplitz workload has no such state; the columns of B are then computed one by one in O(n^2
 * bands).
 *
 * SPDX-License-Identifier: GPL-3.0-or-later
 */
#include <cblas.h>
#include <stdlib.h>
#include <string.h>

#include "lib/numerics/fft/convolve.h"
#include "lib/strategy/failures.h"
#include "lib/strategy/kinds/banded.h"

bool eps__process_init(struct eps__process *p, const struct eps__workload *w, size_t bands)
{
    *p = (struct eps__process){.bands = bands, .momentum = w->momentum, .decay = w->decay};
    p->xx = calloc(bands * (bands + 4), sizeof *p->xx);
    if (!p->xx)
        return false;
    p->xu = p->xx + bands * bands;
    p->xs = p->xu + bands;
    p->scratch = p->xs + bands;
    return true;
}

void eps__process_clear(struct eps__process *p)
{
    free(p->xx);
    p->xx = NULL;
}

void eps__process_restart(struct eps__process *p)
{
    memset(p->xx, 0, p->bands * (p->bands + 2) * sizeof *p->xx);
    p->past = (struct eps__past){0};
}

void eps__process_step(struct eps__process *p, const struct eps_strategy *s, size_t t, double eta)
{
    size_t b = p->bands, slot = t % b;
    double *row = p->scratch, *cross = row + b, m = p->momentum;
    double diagonal = eps__banded_column(s, t)[0];
    /* x_t = (z_t - sum of C_t,t-d x_t-d) / C_tt: the weights, by slot. */
    memset(row, 0, b * sizeof *row);
    for (size_t d = 1; d < b && d <= t; d++)
        row[slot >= d ? slot - d : slot + b - d] = -eps__banded_column(s, t - d)[d] / diagonal;
    cblas_dsymv(CblasRowMajor, CblasUpper, (blasint)b, 1, p->xx, (blasint)b, row, 1, 0, cross, 1);
    double square = cblas_ddot((blasint)b, row, 1, cross, 1) + 1 / (diagonal * diagonal);
    double u = cblas_ddot((blasint)b, row, 1, p->xu, 1), v = cblas_ddot((blasint)b, row, 1, p->xs, 1);
    cross[slot] = square;
    for (size_t i = 0; i < b; i++)
        p->xx[slot * b + i] = p->xx[i * b + slot] = cross[i];
    /* Covariances with u and s: first the old ones, then updated for the new x. */
    p->xu[slot] = u;
    p->xs[slot] = v;
    for (size_t i = 0; i < b; i++) {
        p->xu[i] = m * p->xu[i] + cross[i];
        p->xs[i] = p->decay * p->xs[i] + eta * p->xu[i];
    }
    double us = m * p->past.bu + v, uu = m * p->past.uu + u;
    struct eps__past now;
    now.uu = m * (uu + u) + square;
    now.bu = p->decay * us + eta * now.uu;
    now.bb = p->decay * (p->decay * p->past.bb + 2 * eta * us) + eta * eta * now.uu;
    p->past = now;
}

/* One block; overwrites out[t] for all its steps. */
static enum eps_status block_variance(const struct eps_context *context, struct eps__past *out, struct eps_error *error,
                                      struct eps__process *process, const struct eps_strategy *s, size_t first)
{
    eps__process_restart(process);
    for (size_t t = 0; t < s->block; t++) {
        enum eps_status status = t % 1024 == 0 ? eps__strategy_poll(context, error) : EPS_OK;
        if (status != EPS_OK)
            return status;
        eps__process_step(process, s, t, eps__workload_rate(&s->workload, first + t));
        out[t] = process->past;
    }
    return EPS_OK;
}

static enum eps_status recursive_variance(const struct eps_context *context, double *out, struct eps_error *error,
                                          const struct eps_strategy *s)
{
    const struct eps__workload *w = &s->workload;
    struct eps__process process = {0};
    struct eps__past past = {0}, *block = malloc(s->block * sizeof *block);
    enum eps_status status = EPS_OK;
    if (!block || !eps__process_init(&process, w, s->bands)) {
        status = eps__strategy_no_memory(error);
        goto out;
    }
    for (size_t first = 0; first < s->n; first += s->block) {
        /* Blocks without a change of rate are all equal. */
        if (first == 0 || eps__workload_rate(w, first + s->block - 1) < 1)
            status = block_variance(context, block, error, &process, s, first);
        if (status != EPS_OK)
            goto out;
        for (size_t t = 0; t < s->block; t++) {
            eps__past_step(&past, w, eps__workload_rate(w, first + t));
            out[first + t] = block[t].bb + past.bb;
        }
        past.bb += block[s->block - 1].bb;
        past.bu += block[s->block - 1].bu;
        past.uu += block[s->block - 1].uu;
    }
out:
    free(block);
    eps__process_clear(&process);
    return status;
}

/* Column by column of C0^-1, each of which the workload spreads over all later rows. An earlier block contributes as
 * the same block that started earlier. */
static enum eps_status toeplitz_variance(const struct eps_context *context, double *out, struct eps_error *error,
                                         const struct eps_strategy *s, const double *inverse)
{
    const struct eps__workload *w = &s->workload;
    size_t m = s->block, n = s->n;
    enum eps_status status = EPS_OK;
    double *x = malloc((m + n) * sizeof *x);
    if (!x)
        return eps__strategy_no_memory(error);
    double *y = x + m;
    memset(out, 0, n * sizeof *out);
    for (size_t first = 0; first < m; first++) {
        if (first % 16 == 0 && (status = eps__strategy_poll(context, error)))
            break;
        memset(x, 0, m * sizeof *x);
        x[first] = 1;
        for (size_t j = first; j < m; j++) {
            const double *column = eps__banded_column(s, j);
            x[j] *= inverse[s->kind->square_index(s, j)];
            for (size_t d = 1; d < s->bands && j + d < m; d++)
                x[j + d] -= column[d] * x[j];
        }
        bool kept;
        if (!eps__convolve_digits(y, n - first, x + first, m - first, w->coefficients, w->coefficients_len, &kept)) {
            status = eps__strategy_no_memory(error);
            break;
        }
        for (size_t t = first; t < n; t++)
            out[t] += kept ? y[t - first] * y[t - first] : NAN;
    }
    for (size_t t = m; status == EPS_OK && t < n; t++)
        out[t] += out[t - m];
    free(x);
    return status;
}

enum eps_status eps__banded_variance(const struct eps_context *context, double *out, struct eps_error *error,
                                     const struct eps_strategy *s, const double *inverse)
{
    return s->workload.recursive ? recursive_variance(context, out, error, s)
                                 : toeplitz_variance(context, out, error, s, inverse);
}
