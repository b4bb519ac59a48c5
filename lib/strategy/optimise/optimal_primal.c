/*
 * A feasible C from the dual's X: entries that violate the constraints are cut, and each step is scaled so that its
 * fullest pattern sums to 1. Far from the dual's optimum the result may not be positive definite; near it, the cut
 * costs about as much as the gap of the dual, to first order.
 *
 * C is the lower-triangular matrix with C'C = X: the Cholesky factor of X with rows and columns reversed, reversed
 * back.
 *
 * SPDX-License-Identifier: GPL-3.0-or-later
 */
#include <string.h>

#include "lib/numerics/linear/linalg.h"
#include "lib/strategy/optimise/optimal.h"

/* Writes the lower triangle of X without the forbidden entries; *cut: a negative entry outside the patterns was cut. */
static void constrain(const struct eps__optimal *o, double *x, const double *gram, const struct eps__optimal_cut *how,
                      bool *cut)
{
    size_t n = o->n;
    *cut = false;
    for (size_t i = 0; i < n; i++) {
        for (size_t j = 0; j < i; j++) {
            double entry = gram[i * n + j];
            bool inside = (i - j) % o->separation == 0 && (i - j) / o->separation < o->epochs;
            if (inside && how->apart) {
                entry = 0;
            } else if (entry < 0 && (inside || (o->nonnegative && !how->relaxed))) {
                *cut = *cut || !inside;
                entry = 0;
            }
            x[i * n + j] = entry;
        }
        x[i * n + i] = gram[i * n + i] * (1 + how->lift);
    }
}

/* fill[i]: the sum over the fullest pattern that contains step i. */
static void fill_of(const struct eps__optimal *o, double *fill, const double *x)
{
    size_t n = o->n, b = o->separation;
    memset(fill, 0, n * sizeof *fill);
    for (size_t s = 0; s < o->starts && eps__optimal_row_goes_on(o, s); s++) {
        double sum = 0;
        for (size_t c = 0, i = s; c < o->epochs && i < n; c++, i += b) {
            for (size_t j = s; j < i; j += b)
                sum += 2 * x[i * n + j];
            sum += x[i * n + i];
        }
        for (size_t c = 0, i = s; c < o->epochs && i < n; c++, i += b)
            fill[i] = fmax(fill[i], sum);
    }
}

void eps__optimal_reverse_transposed(double *m, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        for (size_t j = 0; j + i < n - 1; j++) {
            double *a = m + i * n + j, *b = m + (n - 1 - j) * n + (n - 1 - i), swap = *a;
            *a = *b;
            *b = swap;
        }
    }
}

double eps__optimal_recover(const struct eps__optimal *o, struct eps__optimal_point *p, double *c,
                            const struct eps__optimal_cut *how, bool *cut)
{
    size_t n = o->n;
    double *fill = p->values, loss = 0; /* the singular values are no longer needed */
    constrain(o, p->images, p->gram, how, cut);
    fill_of(o, fill, p->images);
    for (size_t i = 0; i < n; i++)
        for (size_t j = 0; j <= i; j++)
            c[(n - 1 - j) * n + (n - 1 - i)] = p->images[i * n + j] / sqrt(fill[i] * fill[j]);
    if (!eps__cholesky(o->work, c, n))
        return INFINITY;
    eps__optimal_reverse_transposed(c, n);
    memcpy(p->images, c, n * n * sizeof *c);
    if (!eps__lower_inverse(o->work, p->images, n))
        return INFINITY;
    eps__optimal_apply(o, p->images);
    for (size_t t = 0; t < n; t++) {
        double square = 0;
        for (size_t j = 0; j <= t; j++)
            square += p->images[t * n + j] * p->images[t * n + j];
        loss = o->max_squared ? fmax(loss, square) : loss + square / (double)n;
    }
    return isfinite(loss) && !eps__stopped(o->work) ? loss : INFINITY;
}
