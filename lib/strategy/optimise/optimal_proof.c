/*
 * The proof of the gap: an upper bound on the loss of C and a lower bound on the least loss, rounding included.
 *
 * Lower bound: L is taken as exact, so U = L L' is exact, and so is the dual's value T^2 / (sum v + excess) / sum w.
 * The excess is that of U over the pattern sums, entry by entry, times the largest value that X can have there: 1 on
 * the diagonal and between patterns, 1/4 within a pattern (X_ij <= (X_ii + X_jj)/2, and X_ii + X_jj + 2 X_ij <= 1). T,
 * the sum of the singular values of G = diag(w)^1/2 A L, is the maximum of <Q, G> over Q of norm at most 1. The
 * computed polar factor is such a Q once its norm is bounded through ||Q'Q - I||. The proof relies on no computed
 * eigenvalue.
 *
 * Upper bound: C^-1 = R (I - E)^-1 with the computed inverse R and E = I - C R, so the norm of a row of A C^-1 is at
 * most that of A R divided by 1 - ||E||. The sensitivity comes from the Gram matrices of C's columns, with absolute
 * values summed. Both bounds also hold for the returned C, which is scaled afterwards and whose entries are rounded by
 * up to EPS__DIVISORS_MAX divisions (F3).
 *
 * The rounding error of products and recursions with m operations per entry is at most m 2^-52 times the product of
 * absolute values.
 *
 * SPDX-License-Identifier: GPL-3.0-or-later
 */
#include <stdlib.h>
#include <string.h>

#include "lib/numerics/linear/linalg.h"
#include "lib/numerics/normal.h"
#include "lib/strategy/kind.h"
#include "lib/strategy/optimise/optimal.h"

enum { REFINEMENTS = 30 };

/* A bound on the relative change of an entry by the divisions that scale C: twice their number of roundings. */
static const double scaling = 2 * EPS__DIVISORS_MAX * EPS__UNIT_ROUNDOFF;

/* A bound on the relative rounding error of any chain of `terms` operations in this file. */
static double rounding(size_t terms)
{
    return 2 * ((double)terms + 16) * EPS__UNIT_ROUNDOFF;
}

static double frobenius_up(const double *m, size_t count)
{
    struct eps__sum sum = {0};
    for (size_t i = 0; i < count; i++)
        eps__sum_add_square(&sum, m[i]);
    return eps__sqrt_up(eps__sum_interval(&sum, 0).upper + EPS__SUM_TINY);
}

/* out = diag(w)^1/2 |A| |m|, up to rounding, which its users allow for. A recursive A has no negative entries. False:
 * no memory. */
static bool magnitudes(const struct eps__optimal *o, double *out, const double *m, const double *weights)
{
    struct eps__optimal absolute = *o;
    size_t n = o->n;
    double *dense = o->dense;
    for (size_t i = 0; i < n * n; i++)
        out[i] = fabs(m[i]);
    if (dense)
        for (size_t t = 0; t < n; t++) /* the first column holds every coefficient */
            if (dense[t * n] < 0)
                absolute.dense = NULL;
    if (dense && !absolute.dense) {
        absolute.dense = malloc(n * n * sizeof *dense);
        if (!absolute.dense)
            return false;
        for (size_t i = 0; i < n * n; i++)
            absolute.dense[i] = fabs(dense[i]);
    }
    eps__optimal_apply(&absolute, out);
    if (absolute.dense != dense)
        free(absolute.dense);
    for (size_t t = 0; weights && t < n; t++)
        for (size_t j = 0; j < n; j++)
            out[t * n + j] *= sqrt(weights[t]);
    return true;
}

/* ---------------------------------------------------------------- below */

/* out = m m' for the n x n matrix m; m is transposed into scratch. */
static void gram_of_rows(const struct eps__optimal *o, double *out, double *scratch, const double *m)
{
    size_t n = o->n;
    for (size_t i = 0; i < n; i++)
        for (size_t j = 0; j < n; j++)
            scratch[i * n + j] = m[j * n + i];
    eps__gram(o->work, out, scratch, n, n);
}

double eps__optimal_excess(const struct eps__optimal *o, struct eps__optimal_point *p)
{
    size_t n = o->n;
    double error = rounding(n + o->epochs), sum = 0, *u = p->gram, *sizes = p->images;
    for (size_t i = 0; i < n * n; i++)
        u[i] = fabs(p->lower[i]);
    gram_of_rows(o, sizes, p->vectors, u);
    gram_of_rows(o, u, p->vectors, p->lower);
    for (size_t i = 0; i < n && eps__optimal_row_goes_on(o, i); i++) {
        for (size_t j = 0; j <= i; j++) {
            /* A sum whose products are all 0 is exact: its size is 0. A sum that is 0 need not be exact (F2). */
            double size = error * sizes[i * n + j], entry = u[i * n + j];
            bool inside = (i - j) % o->separation == 0 && (i - j) / o->separation < o->epochs;
            double most = inside ? eps__optimal_cover(o, p->sums, i, j) : 0;
            double over = entry + size - most * (1 - error);
            if (!inside && !o->nonnegative)
                over = fabs(entry) + size;
            if (over > 0)
                sum += over * (i == j ? 1 : inside ? 0.5 : 2);
        }
    }
    return sum * (1 + rounding(n * n)) + (double)n * EPS__SUM_TINY;
}

double eps__optimal_bound(const struct eps__optimal *o, const struct eps__optimal_point *p)
{
    size_t n = o->n, b = o->separation;
    double excess = 0;
    for (size_t i = 0; o->overlapping && i < n && eps__optimal_row_goes_on(o, i); i++)
        for (size_t c = 1, j = i; c < o->epochs && j >= b; c++) {
            j -= b;
            double entry = 0;
            for (size_t d = 0, column = j;; d++, column -= b) {
                entry += p->lower[i * n + column] * p->lower[j * n + column];
                if (column < b || d + 1 == o->epochs)
                    break;
            }
            excess += fmax(entry - eps__optimal_cover(o, p->sums, i, j), 0) / 2;
        }
    return p->trace * p->trace / (p->total + excess);
}

/* Newton-Schulz steps, Q <- Q (3 - Q'Q)/2, which move the singular values of gram, if below sqrt 3, to 1. */
static void orthogonalise(const struct eps__optimal *o, struct eps__optimal_point *p, double *correction)
{
    size_t n = o->n;
    for (size_t step = 0; step < REFINEMENTS && !eps__stopped(o->work); step++) {
        double defect = 0;
        eps__gram(o->work, correction, p->gram, n, n);
        for (size_t i = 0; i < n; i++) {
            double sum = 0;
            for (size_t j = 0; j < n; j++)
                sum += fabs(correction[i * n + j] - (i == j));
            defect = fmax(defect, sum);
        }
        if (defect < 1e-10)
            break;
        double shrink = step > 0 || defect < 1 ? 1 : 1 / (1 + defect);
        for (size_t i = 0; i < n * n; i++)
            correction[i] = sqrt(shrink) * ((i % (n + 1) == 0 ? 1.5 : 0) - shrink * correction[i] / 2);
        eps__multiply(o->work, p->vectors, p->gram, correction, n);
        memcpy(p->gram, p->vectors, n * n * sizeof *p->gram);
    }
}

/* Writes the polar factor Q of the point's images to vectors; gram is scratch. False: there is none, or no memory
 * (p->no_memory). */
static bool polar_factor(const struct eps__optimal *o, struct eps__optimal_point *p)
{
    size_t n = o->n;
    bool whole, ok = false;
    double *q = malloc(n * n * sizeof *q);
    p->no_memory |= !q;
    if (!q || !eps__optimal_decompose(o, p, q, &whole))
        goto out;
    if (whole) {
        memcpy(p->gram, q, n * n * sizeof *p->gram);
    } else {
        /* G (G'G)^-1/2, from the right singular vectors. */
        for (size_t a = 0; a < n; a++)
            for (size_t i = 0; i < n; i++)
                p->vectors[a * n + i] /= sqrt(p->values[a]);
        eps__gram(o->work, p->gram, p->vectors, n, n);
        eps__multiply(o->work, p->vectors, p->images, p->gram, n);
        memcpy(p->gram, p->vectors, n * n * sizeof *p->gram);
    }
    orthogonalise(o, p, q);
    memcpy(p->vectors, p->gram, n * n * sizeof *p->gram);
    ok = !eps__stopped(o->work);
out:
    free(q);
    return ok;
}

bool eps__optimal_bound_lower(const struct eps__optimal *o, struct eps__optimal_point *p, double *bound)
{
    size_t n = o->n;
    double error = rounding(4 * n), taken = 0;
    *bound = 0;
    struct eps__sum total = {0}, weights = {0}, trace = {0};
    for (size_t s = 0; s < o->starts; s++)
        eps__sum_add(&total, p->sums[s]);
    for (size_t t = 0; t < n; t++)
        eps__sum_add(&weights, p->weights[t]);
    double most = eps__sum_interval(&total, 0).upper + eps__optimal_excess(o, p);
    memcpy(p->images, p->lower, n * n * sizeof *p->images);
    eps__optimal_apply(o, p->images);
    for (size_t t = 0; t < n; t++)
        for (size_t j = 0; j < n; j++)
            p->images[t * n + j] *= sqrt(p->weights[t]);
    if (!polar_factor(o, p))
        return !p->no_memory;
    if (!magnitudes(o, p->gram, p->lower, p->weights))
        return false;
    for (size_t i = 0; i < n * n; i++) {
        eps__sum_add(&trace, p->vectors[i] * p->images[i]);
        taken += fabs(p->vectors[i]) * p->gram[i];
    }
    double inner = eps__sum_value(&trace) - (error + EPS__SUM_ERROR) * taken * (1 + rounding(n * n));
    eps__gram(o->work, p->gram, p->vectors, n, n);
    double norm = frobenius_up(p->vectors, n * n);
    for (size_t i = 0; i < n; i++)
        p->gram[i * n + i] -= 1;
    norm = eps__sqrt_up(eps__raise(1 + frobenius_up(p->gram, n * n) + rounding(n) * norm * norm, 8));
    if (inner > 0 && isfinite(most))
        *bound = eps__lower(inner / norm * (inner / norm) / (most * eps__sum_interval(&weights, 0).upper), 32);
    return true;
}

/* ---------------------------------------------------------------- above */

/* The square of the sensitivity: the largest sum, over a pattern, of absolute inner products of columns of C. */
static bool square_up(const struct eps__optimal *o, const double *c, double *square)
{
    size_t n = o->n, b = o->separation;
    *square = 0;
    for (size_t r = 0; r < b && r < n; r++) {
        size_t count = (n - 1 - r) / b + 1;
        double *columns = malloc((n + count) * count * sizeof *columns);
        if (!columns)
            return false;
        double *gram = columns + n * count;
        for (size_t i = 0; i < n; i++)
            for (size_t a = 0; a < count; a++)
                columns[i * count + a] = c[i * n + r + a * b];
        eps__gram(o->work, gram, columns, n, count);
        for (size_t s = r; s < o->starts && eps__optimal_row_goes_on(o, s); s += b) {
            size_t from = (s - r) / b, end = from + o->epochs < count ? from + o->epochs : count;
            double sum = 0, norms = 0;
            for (size_t i = from; i < end; i++) {
                norms += sqrt(gram[i * count + i]);
                for (size_t j = from; j < end; j++)
                    sum += fabs(gram[i * count + j]);
            }
            sum = (sum + (rounding(n) + 2 * scaling) * norms * norms) * (1 + rounding(count * count));
            *square = fmax(*square, sum);
        }
        free(columns);
    }
    return true;
}

bool eps__optimal_loss_upper(const struct eps__optimal *o, struct eps__optimal_point *p, const double *c, double *loss)
{
    size_t n = o->n;
    double square, worst = 0;
    struct eps__sum total = {0};
    *loss = INFINITY;
    if (!square_up(o, c, &square))
        return false;
    memcpy(p->images, c, n * n * sizeof *c);
    if (!eps__lower_inverse(o->work, p->images, n))
        return true;
    double sizes = frobenius_up(c, n * n) * frobenius_up(p->images, n * n);
    memcpy(p->gram, p->images, n * n * sizeof *c);
    eps__multiply_lower(o->work, p->gram, c, n, n);
    for (size_t i = 0; i < n; i++)
        p->gram[i * n + i] -= 1;
    double residual = frobenius_up(p->gram, n * n) + (rounding(n) + scaling) * sizes;
    if (!magnitudes(o, p->vectors, p->images, NULL))
        return false;
    eps__optimal_apply(o, p->images);
    for (size_t t = 0; t < n; t++) {
        double row = frobenius_up(p->images + t * n, n) + rounding(4 * n) * 2 * frobenius_up(p->vectors + t * n, n);
        worst = fmax(worst, row);
        eps__sum_add_square(&total, row);
    }
    double figure = o->max_squared ? worst * worst : eps__sum_interval(&total, 0).upper / (double)n;
    if (residual < 0.5)
        *loss = eps__raise(figure * square / ((1 - residual) * (1 - residual)), 32);
    return true;
}
