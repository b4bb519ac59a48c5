/*
 * Constraint (34) of MEMF (appendix I.3): u'Xu <= 1 for every sign vector u on a pattern. The multipliers v_u of all
 * these vectors are enumerated, and the fixed point (8), v <- diag((H'VH)^1/2), is iterated. With U = H H' this is v_u
 * <- v_u u'X u. It converges slowly, as the multipliers of inactive constraints go to zero.
 *
 * The constraint bounds contributions of dimension 1 only, so no family uses it; it reproduces the paper's table.
 *
 * SPDX-License-Identifier: GPL-3.0-or-later
 */
#include <stdlib.h>
#include <string.h>

#include "lib/numerics/linear/linalg.h"
#include "lib/strategy/optimise/optimal.h"
#include "lib/strategy/sensitivity/sensitivity.h"

enum { STEPS_MAX = 64, SIGNS_MAX = 1 << 14, ROUNDS = 20000 };

/* Writes the vectors u, one per row; returns their number. */
static size_t write_signs(const struct eps__optimal *o, double *signs)
{
    size_t n = o->n, count = 0;
    for (size_t s = 0; s < o->starts; s++) {
        size_t steps = (n - 1 - s) / o->separation + 1;
        steps = steps < o->epochs ? steps : o->epochs;
        for (size_t mask = 0; mask < (size_t)1 << (steps - 1); mask++, count++)
            for (size_t c = 0; c < steps; c++)
                signs[count * n + s + c * o->separation] = (mask << 1 >> c) & 1 ? -1 : 1;
    }
    return count;
}

/* L of U = sum v u u'. False if it is singular. */
static bool place(const struct eps__optimal *o, struct eps__optimal_point *p, const double *signs, const double *v,
                  size_t count)
{
    size_t n = o->n;
    memset(p->lower, 0, n * n * sizeof *p->lower);
    for (size_t u = 0; u < count; u++)
        for (size_t i = 0; i < n; i++)
            for (size_t j = 0; j <= i; j++)
                p->lower[i * n + j] += v[u] * signs[u * n + i] * signs[u * n + j];
    return eps__cholesky(o->work, p->lower, n) && eps__optimal_evaluate(o, p);
}

/* u'Xu */
static double form(const double *gram, const double *u, size_t n)
{
    double sum = 0;
    for (size_t i = 0; i < n; i++)
        for (size_t j = 0; u[i] != 0 && j < n; j++)
            sum += gram[i * n + j] * u[i] * u[j];
    return sum;
}

static bool solve(const struct eps__optimal *o, struct eps__optimal_point *p, double *c, double *loss, double *bound,
                  double *signs, double *v)
{
    size_t n = o->n, count = write_signs(o, signs);
    bool ok = true;
    for (size_t u = 0; u < count; u++)
        v[u] = 1;
    *bound = 0;
    *loss = INFINITY;
    for (size_t round = 0; ok && round < ROUNDS && !(*loss <= eps__raise(*bound, 1e8)); round++) {
        double total = 0, largest = 0;
        if (!(ok = place(o, p, signs, v, count)))
            break;
        for (size_t u = 0; u < count; u++) {
            double square = form(p->gram, signs + u * n, n);
            total += v[u];
            largest = fmax(largest, square);
            v[u] *= square;
        }
        /* tr(V X^-1) = T; the objective is the mean, the table has the total. */
        *bound = fmax(*bound, p->trace * p->trace / total * (double)n);
        if (largest * p->trace * (double)n < *loss) {
            *loss = largest * p->trace * (double)n;
            for (size_t i = 0; i < n; i++)
                for (size_t j = 0; j <= i; j++)
                    c[(n - 1 - j) * n + (n - 1 - i)] = p->gram[i * n + j] / largest;
        }
    }
    if (!ok || !eps__cholesky(o->work, c, n))
        return false;
    eps__optimal_reverse_transposed(c, n);
    return true;
}

bool eps__optimal_scalar(double *c, double *loss, double *bound, const struct eps__workload *workload, size_t epochs,
                         size_t separation)
{
    size_t n = workload->n;
    struct eps__participation participation = {.epochs = epochs, .separation = separation, .fixed = true};
    struct eps__optimal o = {.workload = workload,
                             .n = n,
                             .epochs = epochs,
                             .separation = separation,
                             .starts = eps__participation_starts(&participation, n)};
    if (n > STEPS_MAX || epochs > 14 || o.starts << (epochs - 1) > SIGNS_MAX || !workload->recursive)
        return false;
    size_t most = o.starts << (epochs - 1);
    struct eps__optimal_point p = {0};
    double *signs = calloc(most * n, sizeof *signs), *v = malloc(most * sizeof *v);
    bool ok = signs && v && eps__optimal_point_init(&p, &o);
    if (ok) {
        for (size_t t = 0; t < n; t++)
            p.weights[t] = 1 / (double)n;
        memset(p.sums, 0, o.starts * sizeof *p.sums);
        ok = solve(&o, &p, c, loss, bound, signs, v);
    }
    eps__optimal_point_clear(&p);
    free(signs);
    free(v);
    return ok;
}
