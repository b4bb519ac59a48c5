/*
 * The maximum of the sum of X_ij <g_i, g_j> over k unit vectors, by coordinate ascent on vectors of low rank (Burer and
 * Monteiro; the "mixing method"). g_i is set to the direction of h_i = sum over j != i of X_ij g_j, which never lowers
 * the sum. At a maximum, d_i = X_ii + ||h_i|| are the multipliers of the dual problem, the least sum of d with diag(d)
 * - X positive semidefinite.
 *
 * A rank above sqrt(2k) has no spurious maxima in general, but the bound does not rely on that: the final d is shifted
 * until a Cholesky factorisation, with a margin for its rounding, proves it feasible.
 *
 * The starting point is pseudo-random and fixed, so that results are reproducible.
 *
 * SPDX-License-Identifier: GPL-3.0-or-later
 */
#include <cblas.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "lib/numerics/linear/linalg.h"
#include "lib/numerics/normal.h"
#include "lib/strategy/sensitivity/sensitivity.h"

/* The ascent stops when the relative gap between bound and attained value is this small, or after this many
 * multiplications. */
static const double gap_wanted = 1e-10, work_max = 1e9;

/* A number in (-1, 1) from a counter, by the finaliser of SplitMix64. */
static double scatter(uint64_t counter)
{
    uint64_t z = (counter + 1) * 0x9e3779b97f4a7c15u;
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
    return (double)(int64_t)(z ^ (z >> 31)) * 0x1p-63;
}

static void normalise(double *g, const double *h, size_t rank, double norm)
{
    for (size_t r = 0; r < rank; r++)
        g[r] = h[r] / norm;
}

/* h = sum over j != i of X_ij g_j; returns its norm. */
static double pull(double *h, const double *x, const double *g, size_t k, size_t rank, size_t i)
{
    cblas_dgemv(CblasRowMajor, CblasTrans, (blasint)k, (blasint)rank, 1, g, (blasint)rank, x + i * k, 1, 0, h, 1);
    cblas_daxpy((blasint)rank, -x[i * k + i], g + i * rank, 1, h, 1);
    return cblas_dnrm2((blasint)rank, h, 1);
}

static void sweep(double *g, double *h, const double *x, size_t k, size_t rank)
{
    for (size_t i = 0; i < k; i++) {
        double norm = pull(h, x, g, k, rank, i);
        if (norm > 0)
            normalise(g + i * rank, h, rank, norm);
    }
}

/* Returns the attained value, lowered by its rounding error; d: the multipliers. */
static double attained(double *d, double *h, const double *x, const double *g, size_t k, size_t rank)
{
    double value = 0, magnitude = 0;
    for (size_t i = 0; i < k; i++) {
        double norm = pull(h, x, g, k, rank, i);
        d[i] = x[i * k + i] + norm;
        value += x[i * k + i] + cblas_ddot((blasint)rank, h, 1, g + i * rank, 1);
        magnitude += cblas_dasum((blasint)k, x + i * k, 1);
    }
    return value - 4 * ((double)(k + rank) + 8) * EPS__UNIT_ROUNDOFF * magnitude;
}

double eps__semidefinite_certify(const double *x, const double *d, size_t k, double *work, double *values)
{
    double trace = 0, largest = 0, total = 0;
    memcpy(work, x, k * k * sizeof *work);
    for (size_t i = 0; i < k * k; i++)
        work[i] = -work[i];
    for (size_t i = 0; i < k; i++) {
        work[i * k + i] += d[i];
        trace += fabs(work[i * k + i]);
        largest = fmax(largest, fabs(d[i]) + fabs(x[i * k + i]));
        total += d[i];
    }
    if (!eps__symmetric_eigenvalues(values, work, k))
        return INFINITY;
    double margin = eps__positive_margin(trace, k) + 4 * EPS__UNIT_ROUNDOFF * largest;
    double shift = eps__raise(fmax(-values[0], 0), 1e10) + 2 * margin;
    for (int attempt = 0; attempt < 60; attempt++, shift = 2 * shift + margin) {
        memcpy(work, x, k * k * sizeof *work);
        for (size_t i = 0; i < k * k; i++)
            work[i] = -work[i];
        for (size_t i = 0; i < k; i++)
            work[i * k + i] += d[i] + shift;
        if (eps__proven_positive(work, k, 4 * EPS__UNIT_ROUNDOFF * (largest + shift)))
            return eps__raise(total + (double)k * shift, 2 * ((double)k + 5));
    }
    return INFINITY;
}

bool eps__semidefinite_square(struct eps__interval *out, const double *x, size_t k)
{
    bool ok = false;
    size_t rank = (size_t)sqrt(2 * (double)k) + 2;
    rank = rank < k ? rank : k;
    double *g = malloc(k * rank * sizeof *g), *h = malloc(rank * sizeof *h), *d = malloc(k * sizeof *d);
    double *work = malloc(k * k * sizeof *work), *values = malloc(k * sizeof *values);
    if (!g || !h || !d || !work || !values)
        goto out;
    for (size_t i = 0; i < k; i++) {
        for (size_t r = 0; r < rank; r++)
            h[r] = scatter(i * rank + r);
        normalise(g + i * rank, h, rank, cblas_dnrm2((blasint)rank, h, 1));
    }
    *out = (struct eps__interval){0, INFINITY};
    double per_sweep = (double)(k * k * rank);
    for (double sweeps = 16, done = 0;; sweeps *= 2) {
        for (; done < sweeps; done++)
            sweep(g, h, x, k, rank);
        out->lower = fmax(out->lower, attained(d, h, x, g, k, rank));
        out->upper = fmin(out->upper, eps__semidefinite_certify(x, d, k, work, values));
        if (out->upper - out->lower <= gap_wanted * out->upper || 2 * sweeps * per_sweep > work_max)
            break;
    }
    ok = true;
out:
    free(g);
    free(h);
    free(d);
    free(work);
    free(values);
    return ok;
}
