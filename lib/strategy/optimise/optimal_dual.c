/*
 * One evaluation of the dual: from U = L L' to T, the sum of the singular values of G = diag(w)^1/2 A L, and to X =
 * L^-T (G'G)^1/2 L^-1, the solution of X U X = V, whose entries are the derivatives of 2 T with respect to those of U.
 *
 * It uses one symmetric eigendecomposition of G'G, which takes about 5/6 of the time. Squaring halves the digits of the
 * small singular values. The reported numbers are proven separately (optimal_proof.c). But if small singular values
 * have no digits left, the gradients have none in the directions in which U is small, and the search would end there.
 * In that case a singular value decomposition is used, which takes four times as long. It cannot be interrupted; so for
 * large n, Newton's iteration for the polar factor Q (eight inverses) and the eigendecomposition of (G'G)^1/2 = Q'G are
 * used instead, which take even longer.
 *
 * SPDX-License-Identifier: GPL-3.0-or-later
 */
#include <float.h>
#include <stdlib.h>
#include <string.h>

#include "lib/numerics/linear/linalg.h"
#include "lib/strategy/decoder.h"
#include "lib/strategy/failures.h"
#include "lib/strategy/optimise/optimal.h"

enum eps_status eps__optimal_poll(const struct eps__optimal *o, struct eps_error *error)
{
    return eps__goes_on(o->work) ? EPS_OK : eps__strategy_stopped(error, o->work->status);
}

enum eps_status eps__optimal_failed(const struct eps__optimal *o, struct eps_error *error)
{
    return eps__strategy_stopped(error, eps__stopped(o->work) ? o->work->status : EPS_NO_MEMORY);
}

bool eps__optimal_point_init(struct eps__optimal_point *p, const struct eps__optimal *o)
{
    size_t n = o->n, square = n * n;
    *p = (struct eps__optimal_point){.lower = calloc(square, sizeof(double)),
                                     .images = malloc(square * sizeof(double)),
                                     .vectors = malloc(square * sizeof(double)),
                                     .gram = malloc(square * sizeof(double)),
                                     .weights = malloc(n * sizeof(double)),
                                     .sums = malloc(o->starts * sizeof(double)),
                                     .values = malloc(n * sizeof(double)),
                                     .variances = calloc(n, sizeof(double))};
    if (p->lower && p->images && p->vectors && p->gram && p->weights && p->sums && p->values && p->variances)
        return true;
    eps__optimal_point_clear(p);
    return false;
}

void eps__optimal_point_clear(struct eps__optimal_point *p)
{
    free(p->lower);
    free(p->images);
    free(p->vectors);
    free(p->gram);
    free(p->weights);
    free(p->sums);
    free(p->values);
    free(p->variances);
    *p = (struct eps__optimal_point){0};
}

double eps__optimal_cover(const struct eps__optimal *o, const double *v, size_t i, size_t j)
{
    size_t b = o->separation, s = j;
    if (s >= o->starts)
        s -= (s - o->starts) / b * b + b;
    double sum = 0;
    for (;; s -= b) {
        if (s + (o->epochs - 1) * b < i)
            break;
        sum += v[s];
        if (s < b)
            break;
    }
    return sum;
}

void eps__optimal_apply(const struct eps__optimal *o, double *m)
{
    const struct eps__workload *w = o->workload;
    size_t n = o->n;
    if (o->dense) {
        eps__multiply_lower(o->work, m, o->dense, n, n);
        return;
    }
    /* Row t of the momentum matrix times m, and of A times m, from the rows above: a chunk of columns at a time, which
     * stays in the first-level cache. */
    enum { CHUNK = 256 };
    double u[CHUNK];
    for (size_t from = 0; from < n; from += CHUNK) {
        size_t count = n - from < CHUNK ? n - from : CHUNK;
        memset(u, 0, sizeof u);
        for (size_t t = 0; t < n; t++) {
            double *row = m + t * n + from, rate = eps__workload_rate(w, t);
            for (size_t j = 0; j < count; j++) {
                u[j] = w->momentum * u[j] + row[j];
                row[j] = rate * u[j] + (t ? w->decay * row[(ptrdiff_t)j - (ptrdiff_t)n] : 0);
            }
        }
    }
}

/* The diagonal of A X^-1 A': X^-1 = L Y diag(1/values) Y' L' with the eigenvectors Y. */
static void row_variances(const struct eps__optimal *o, struct eps__optimal_point *p)
{
    size_t n = o->n;
    eps__multiply_transposed(o->work, p->gram, p->images, p->vectors, n);
    for (size_t t = 0; t < n; t++) {
        double sum = 0;
        for (size_t a = 0; a < n; a++)
            sum += p->gram[t * n + a] * p->gram[t * n + a] / p->values[a];
        p->variances[t] = sum / p->weights[t];
    }
}

/* The squares of singular values below this fraction of the largest have too few digits as eigenvalues. */
static const double square_least = 1e-11;

/* The largest n for which a singular value decomposition takes less than about a second. */
enum { SINGULAR_MOST = 1024 };

/* Computes values, vectors and the polar factor q without squaring; gram is scratch. */
static enum eps__lapack by_singular_vectors(const struct eps__optimal *o, struct eps__optimal_point *p, double *q)
{
    size_t n = o->n;
    memcpy(p->gram, p->images, n * n * sizeof *p->gram);
    enum eps__lapack end = eps__singular_vectors(p->values, p->vectors, q, p->gram, n);
    if (end != EPS__LAPACK_DONE)
        return end;
    eps__multiply(o->work, p->gram, q, p->vectors, n);
    memcpy(q, p->gram, n * n * sizeof *q);
    return EPS__LAPACK_DONE;
}

/* The same; the values are those of Q'G, which is symmetric up to rounding. */
static enum eps__lapack by_polar_factor(const struct eps__optimal *o, struct eps__optimal_point *p, double *q)
{
    size_t n = o->n;
    memcpy(q, p->images, n * n * sizeof *q);
    enum eps__lapack end = eps__polar_factor(o->work, q, p->gram, n);
    if (end != EPS__LAPACK_DONE)
        return end;
    eps__multiply_first_transposed(o->work, p->vectors, q, p->images, n);
    for (size_t i = 0; i < n; i++)
        for (size_t j = 0; j < i; j++)
            p->vectors[i * n + j] = p->vectors[j * n + i] = (p->vectors[i * n + j] + p->vectors[j * n + i]) / 2;
    return eps__symmetric_eigenvectors(o->work, p->values, p->vectors, n);
}

bool eps__optimal_decompose(const struct eps__optimal *o, struct eps__optimal_point *p, double *polar, bool *found)
{
    size_t n = o->n;
    *found = false;
    eps__gram(o->work, p->vectors, p->images, n, n);
    if (!eps__all_finite(p->vectors, n * n))
        return false;
    enum eps__lapack end = eps__symmetric_eigenvectors(o->work, p->values, p->vectors, n);
    p->no_memory |= end == EPS__LAPACK_NO_MEMORY;
    if (end != EPS__LAPACK_DONE)
        return false;
    double largest = p->values[n - 1];
    if (!(largest > 0))
        return false;
    if (p->values[0] >= square_least * largest) {
        for (size_t a = 0; a < n; a++)
            p->values[a] = sqrt(p->values[a]);
        return true;
    }
    double *own = polar ? NULL : malloc(n * n * sizeof *own), *q = polar ? polar : own;
    end = !q ? EPS__LAPACK_NO_MEMORY : n <= SINGULAR_MOST ? by_singular_vectors(o, p, q) : by_polar_factor(o, p, q);
    p->no_memory |= end == EPS__LAPACK_NO_MEMORY;
    *found = end == EPS__LAPACK_DONE;
    free(own);
    if (!*found)
        return false;
    for (size_t a = 0; a < n; a++)
        p->values[a] = fmax(p->values[a], p->values[n - 1] * 4 * DBL_EPSILON);
    return true;
}

bool eps__optimal_evaluate(const struct eps__optimal *o, struct eps__optimal_point *p)
{
    size_t n = o->n;
    memcpy(p->images, p->lower, n * n * sizeof *p->images);
    eps__optimal_apply(o, p->images);
    for (size_t t = 0; t < n; t++) {
        double root = sqrt(p->weights[t]);
        for (size_t j = 0; j < n; j++)
            p->images[t * n + j] *= root;
    }
    bool ignored;
    if (!eps__optimal_decompose(o, p, NULL, &ignored))
        return false;
    double trace = 0, total = 0;
    for (size_t a = 0; a < n; a++)
        trace += p->values[a];
    for (size_t s = 0; s < o->starts; s++)
        total += p->sums[s];
    p->trace = trace;
    p->total = total;
    if (o->max_squared)
        row_variances(o, p);
    eps__solve_lower(o->work, p->vectors, p->lower, n, n);
    for (size_t a = 0; a < n; a++) {
        double root = sqrt(p->values[a]);
        for (size_t i = 0; i < n; i++)
            p->vectors[a * n + i] *= root;
    }
    eps__gram(o->work, p->gram, p->vectors, n, n);
    return !eps__stopped(o->work) && eps__all_finite(p->gram, n * n);
}

void eps__optimal_rescale(const struct eps__optimal *o, struct eps__optimal_point *p, double factor)
{
    size_t n = o->n;
    for (size_t i = 0; i < n * n; i++) {
        p->lower[i] *= factor;
        p->gram[i] /= factor;
    }
    for (size_t s = 0; s < o->starts; s++)
        p->sums[s] *= factor * factor;
    for (size_t t = 0; t < n; t++)
        p->variances[t] *= factor;
    p->trace *= factor;
    p->total *= factor * factor;
}
