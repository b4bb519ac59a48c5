/*
 * The coordinates of the dual. The obvious choice, the entries of U, is slow: U is nearly singular at the optimum
 * (within a pattern of 20, its eigenvalues span a factor of 500), and steps end at the boundary of the positive
 * definite matrices. With the rows of a triangular factor as coordinates there is no boundary, and the inverse Hessian
 * is nearly diagonal: 14 evaluations instead of 60 to reach 2e-6 for (20,10)-participation. The coordinates are the
 * square roots of v rather than its logarithms, because along a root 2 T - sum v is a concave parabola.
 *
 * Factors cannot keep every entry of U below a bound. So they solve the problem in which nothing outside the patterns
 * is constrained and the columns of one pattern are orthogonal. For disjoint patterns the latter is no restriction: an
 * entry X_ij > 0 within a pattern would require U_ij = U_ii = U_jj, which is not positive definite. If that solution is
 * not good enough (the cut to X >= 0 costs more than the gap allows), the search over entries continues from it. For
 * overlapping patterns it starts from a diagonal U.
 *
 * Entries alone progress slowly along the boundary of the positive definite matrices. So the barrier mu ln det U is
 * added, and with the weights w also mu times the sum of ln w. At the maximum of that sum, X + mu U^-1 in place of X
 * satisfies every constraint, its loss with w is at most T, and no variance exceeds T by more than mu n (LEMMAS.md,
 * F4): C is made from it, and the gap is about mu n / T. optimal_search.c decreases mu.
 *
 * SPDX-License-Identifier: GPL-3.0-or-later
 */
#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "lib/numerics/linear/linalg.h"
#include "lib/strategy/decoder.h"
#include "lib/strategy/optimise/optimal.h"

/* U minus this fraction of its value at the last gradient must stay positive definite. */
static const double barrier_part = 0.02;

/* ---------------------------------------------------------------- where the coordinates lie */

static size_t roots_of(const struct eps__optimal_model *m)
{
    return m->o->max_squared ? m->o->n : 0;
}

/* The number of pairs j < i with a coordinate, in the rows before row i. */
static size_t pairs_before(const struct eps__optimal *o, size_t i)
{
    return o->nonnegative ? i * (i - 1) / 2 : i * (o->epochs - 1);
}

/* The columns left of the diagonal in row i that have a coordinate: every `stride`th one from i downwards, `count` of
 * them. */
static size_t pair_stride(const struct eps__optimal *o)
{
    return o->nonnegative ? 1 : o->separation;
}

static size_t pair_count(const struct eps__optimal *o, size_t i)
{
    size_t fit = i / pair_stride(o);
    return o->nonnegative || fit < o->epochs ? fit : o->epochs - 1;
}

/* Whether one pattern can contain both i and j. */
static bool one_pattern(const struct eps__optimal *o, size_t i, size_t j)
{
    return (i - j) % o->separation == 0 && (i - j) / o->separation < o->epochs;
}

bool eps__optimal_model_init(struct eps__optimal_model *m, const struct eps__optimal *o,
                             enum eps__optimal_coordinates coordinates, double floor, struct eps__optimal_point *from)
{
    *m = (struct eps__optimal_model){.o = o, .coordinates = coordinates, .floor = floor};
    size_t roots = roots_of(m);
    if (coordinates == EPS__OPTIMAL_FACTORS) {
        m->positive = roots + o->starts;
        m->size = m->positive + o->n * o->epochs;
    } else {
        m->positive = roots;
        m->bounded = o->starts + pairs_before(o, o->n);
        m->size = m->positive + m->bounded;
    }
    if (coordinates == EPS__OPTIMAL_ENTRIES && !(m->barrier = malloc(o->n * o->n * sizeof *m->barrier)))
        return false;
    if (from) {
        m->point = *from;
        *from = (struct eps__optimal_point){0};
        return true;
    }
    if (eps__optimal_point_init(&m->point, o))
        return true;
    eps__optimal_model_clear(m);
    return false;
}

void eps__optimal_model_clear(struct eps__optimal_model *m)
{
    eps__optimal_point_clear(&m->point);
    free(m->barrier);
    m->barrier = NULL;
}

void eps__optimal_model_start(const struct eps__optimal_model *m, double *x)
{
    memset(x, 0, m->size * sizeof *x);
    for (size_t i = 0; i < m->positive; i++)
        x[i] = 1;
    for (size_t i = 0; i < m->o->n; i++)
        x[m->positive + i * m->o->epochs] = 1;
}

/* The place of item i of n among `coarse` items: *left, and *share of the one after it. */
static void find_place(size_t i, size_t n, size_t coarse, size_t *left, double *share)
{
    double at = ((double)i + 0.5) * (double)coarse / (double)n - 0.5;
    at = fmin(fmax(at, 0), (double)(coarse - 1));
    *left = (size_t)at < coarse - 1 ? (size_t)at : coarse > 1 ? coarse - 2 : 0;
    *share = coarse > 1 ? at - (double)*left : 0;
}

/* to[i stride] for i < n: between from[j stride], j < coarse. */
static void interpolate(double *to, size_t n, const double *from, size_t coarse, size_t stride)
{
    for (size_t i = 0; i < n; i++) {
        size_t left;
        double share;
        find_place(i, n, coarse, &left, &share);
        to[i * stride] =
            share > 0 ? (1 - share) * from[left * stride] + share * from[(left + 1) * stride] : from[left * stride];
    }
}

void eps__optimal_model_refine(const struct eps__optimal_model *m, double *x, const struct eps__optimal_model *coarse,
                               const double *coarse_x)
{
    const struct eps__optimal *o = m->o, *c = coarse->o;
    size_t k = o->epochs, roots = roots_of(m);
    assert(m->coordinates == EPS__OPTIMAL_FACTORS && coarse->coordinates == EPS__OPTIMAL_FACTORS && c->epochs == k);
    if (roots > 0)
        interpolate(x, o->n, coarse_x, c->n, 1);
    interpolate(x + roots, o->starts, coarse_x + roots_of(coarse), c->starts, 1);
    double *rows = x + m->positive;
    const double *coarse_rows = coarse_x + coarse->positive;
    for (size_t epoch = 0; epoch < k; epoch++) { /* the last epoch may be shorter */
        size_t at = epoch * o->separation, coarse_at = epoch * c->separation;
        size_t len = o->n - at < o->separation ? o->n - at : o->separation;
        size_t coarse_len = c->n - coarse_at < c->separation ? c->n - coarse_at : c->separation;
        for (size_t s = 0; s < k; s++)
            interpolate(rows + at * k + s, len, coarse_rows + coarse_at * k + s, coarse_len, k);
    }
}

/* ---------------------------------------------------------------- from coordinates to U */

static void place_weights(struct eps__optimal_model *m, const double *roots)
{
    size_t n = m->o->n;
    double sum = 0;
    for (size_t t = 0; m->o->max_squared && t < n; t++)
        sum += roots[t] * roots[t];
    for (size_t t = 0; t < n; t++)
        m->point.weights[t] =
            m->o->max_squared ? (1 - m->floor) * roots[t] * roots[t] / sum + m->floor / (double)n : 1 / (double)n;
}

static void place_factors(struct eps__optimal_model *m, const double *x)
{
    const struct eps__optimal *o = m->o;
    size_t n = o->n, k = o->epochs, b = o->separation;
    const double *roots = x + roots_of(m), *rows = roots + o->starts;
    for (size_t s = 0; s < o->starts; s++)
        m->point.sums[s] = roots[s] * roots[s];
    for (size_t i = 0; i < n; i++) {
        const double *row = rows + i * k;
        double length = 0, wanted = eps__optimal_cover(o, m->point.sums, i, i);
        for (size_t c = 0; c < k && c * b <= i; c++)
            length += row[c] * row[c];
        for (size_t c = 0; c < k && c * b <= i; c++)
            m->point.lower[i * n + i - c * b] = row[c] * sqrt(wanted / length);
    }
}

/* Writes the lower triangle of U, with zeros above it. */
static void write_entries(const struct eps__optimal_model *m, double *u, const double *x)
{
    const struct eps__optimal *o = m->o;
    size_t n = o->n, stride = pair_stride(o);
    const double *v = x + roots_of(m), *w = v + o->starts;
    memset(u, 0, n * n * sizeof *u);
    for (size_t i = 0; i < n && eps__optimal_row_goes_on(o, i); i++) {
        const double *row = w + pairs_before(o, i);
        u[i * n + i] = eps__optimal_cover(o, v, i, i);
        for (size_t c = 1; c <= pair_count(o, i); c++) {
            size_t j = i - c * stride;
            u[i * n + j] = (one_pattern(o, i, j) ? eps__optimal_cover(o, v, i, j) : 0) - row[c - 1];
        }
    }
}

static bool place_entries(struct eps__optimal_model *m, const double *x)
{
    struct eps__optimal_point *p = &m->point;
    size_t n = m->o->n;
    memcpy(p->sums, x + roots_of(m), m->o->starts * sizeof *p->sums);
    write_entries(m, p->lower, x);
    if (m->guarded) {
        for (size_t i = 0; i < n * n; i++)
            p->vectors[i] = p->lower[i] - barrier_part * m->barrier[i];
        if (!eps__cholesky(m->o->work, p->vectors, n))
            return false;
    }
    return eps__cholesky(m->o->work, p->lower, n);
}

/* Returns mu ln det U plus mu times the sum of ln w. X becomes X + mu U^-1, half the derivative of the maximised
 * function. */
static double add_path(struct eps__optimal_model *m)
{
    struct eps__optimal_point *p = &m->point;
    size_t n = m->o->n;
    double sum = 0;
    memcpy(p->images, p->lower, n * n * sizeof *p->images);
    for (size_t i = 0; i < n; i++)
        sum += 2 * log(p->lower[i * n + i]) + (m->o->max_squared ? log(p->weights[i]) : 0);
    if (!eps__lower_inverse(m->o->work, p->images, n))
        return -INFINITY;
    eps__gram(m->o->work, p->vectors, p->images, n, n);
    for (size_t i = 0; i < n * n; i++)
        p->gram[i] += m->mu * p->vectors[i];
    return eps__all_finite(p->gram, n * n) && !eps__stopped(m->o->work) ? m->mu * sum : -INFINITY;
}

double eps__optimal_value(struct eps__optimal_model *m, const double *x)
{
    place_weights(m, x);
    if (m->coordinates == EPS__OPTIMAL_FACTORS)
        place_factors(m, x);
    else if (!place_entries(m, x))
        return -INFINITY;
    if (!eps__all_finite(m->point.lower, m->o->n * m->o->n) || !eps__optimal_evaluate(m->o, &m->point))
        return -INFINITY;
    return 2 * m->point.trace - m->point.total + (m->mu > 0 ? add_path(m) : 0);
}

void eps__optimal_model_rescale(struct eps__optimal_model *m, double *x)
{
    const struct eps__optimal *o = m->o;
    double factor = m->point.trace / m->point.total;
    size_t first = roots_of(m), end = m->coordinates == EPS__OPTIMAL_FACTORS ? first + o->starts : m->size;
    for (size_t i = first; i < end; i++)
        x[i] *= m->coordinates == EPS__OPTIMAL_FACTORS ? factor : factor * factor;
    eps__optimal_rescale(o, &m->point, factor);
}

void eps__optimal_model_identity(const struct eps__optimal_model *m, double *x)
{
    const struct eps__optimal *o = m->o;
    size_t stride = pair_stride(o), roots = roots_of(m);
    double *v = x + roots, *w = v + o->starts;
    memset(x, 0, m->size * sizeof *x);
    for (size_t i = 0; i < roots + o->starts; i++)
        x[i] = 1;
    for (size_t i = 0; i < o->n; i++)
        for (size_t c = 1; c <= pair_count(o, i); c++)
            if (one_pattern(o, i, i - c * stride))
                w[pairs_before(o, i) + c - 1] = eps__optimal_cover(o, v, i, i - c * stride);
}

void eps__optimal_model_continue(struct eps__optimal_model *m, double *x, const struct eps__optimal_model *factors,
                                 const double *factors_x, double share)
{
    const struct eps__optimal *o = m->o;
    struct eps__optimal_point *p = &m->point;
    size_t n = o->n, stride = pair_stride(o), roots = roots_of(m);
    double *v = x + roots, *w = v + o->starts, part = 1;
    for (size_t t = 0; t < roots; t++)
        x[t] = sqrt(fmax(p->weights[t], share / (double)n));
    for (size_t s = 0; s < o->starts; s++)
        v[s] = factors_x[roots_of(factors) + s] * factors_x[roots_of(factors) + s];
    /* U from the factor, shrunk off the diagonal until it is positive definite and below the pattern sums. */
    eps__multiply_transposed(o->work, p->gram, p->lower, p->lower, n);
    for (;; part *= 0.8) {
        memset(p->vectors, 0, n * n * sizeof *p->vectors);
        for (size_t i = 0; i < n && eps__optimal_row_goes_on(o, i); i++) {
            p->vectors[i * n + i] = eps__optimal_cover(o, v, i, i);
            for (size_t c = 1; c <= pair_count(o, i); c++) {
                size_t j = i - c * stride;
                double most = one_pattern(o, i, j) ? eps__optimal_cover(o, v, i, j) : 0;
                double entry = most > 0 ? fmin(part * p->gram[i * n + j], most) : 0;
                w[pairs_before(o, i) + c - 1] = most - entry;
                p->vectors[i * n + j] = entry;
            }
        }
        if (part < 1e-3 || eps__stopped(o->work) || eps__cholesky(o->work, p->vectors, n))
            break;
    }
}

/* ---------------------------------------------------------------- gradients */

/* The parts of X and L in one residue class, and the product of these. */
struct class
{
    size_t first, count;
    double *gram, *lower, *product; /* count x count each; one allocation, at gram */
};

static void class_close(struct class *c)
{
    free(c->gram);
}

/* Copies the class that starts at step `first` and multiplies. False: no memory, or stopped. */
static bool class_open(struct class *c, const struct eps__optimal_model *m, size_t first)
{
    size_t n = m->o->n, b = m->o->separation, count = (n - 1 - first) / b + 1;
    *c = (struct class){.first = first, .count = count, .gram = malloc(3 * count * count * sizeof(double))};
    if (!c->gram)
        return false;
    c->lower = c->gram + count * count;
    c->product = c->lower + count * count;
    for (size_t i = 0; i < count; i++)
        for (size_t j = 0; j < count; j++) {
            c->gram[i * count + j] = m->point.gram[(first + i * b) * n + first + j * b];
            c->lower[i * count + j] = m->point.lower[(first + i * b) * n + first + j * b];
        }
    eps__multiply(m->o->work, c->product, c->gram, c->lower, count);
    if (!eps__stopped(m->o->work))
        return true;
    class_close(c);
    return false;
}

/* 2 T changes by 2 <X L, dL>. A row of L is its coordinates, scaled to the length that v determines, so the part of the
 * gradient along the row goes to v. */
static void factor_rows(const struct eps__optimal_model *m, const struct class *c, double *along, double *gradient,
                        double *scale, const double *rows)
{
    size_t k = m->o->epochs, b = m->o->separation, count = c->count;
    for (size_t a = 0; a < count; a++) {
        size_t i = c->first + a * b, slots = a + 1 < k ? a + 1 : k;
        const double *row = rows + i * k, *product = c->product + a * count + a, *lower = c->lower + a * count + a;
        double length = 0, wanted = 0, inner = 0, diagonal = c->gram[a * count + a];
        for (size_t s = 0; s < slots; s++) {
            length += row[s] * row[s];
            wanted += lower[-(ptrdiff_t)s] * lower[-(ptrdiff_t)s];
            inner += product[-(ptrdiff_t)s] * lower[-(ptrdiff_t)s];
        }
        along[i] = inner / wanted;
        for (size_t s = 0; s < k; s++) {
            double steep = s < slots ? product[-(ptrdiff_t)s] - along[i] * lower[-(ptrdiff_t)s] : 0;
            gradient[i * k + s] = 2 * sqrt(wanted / length) * steep;
            scale[i * k + s] = length / (2 * diagonal * wanted);
        }
    }
}

static bool factor_gradient(const struct eps__optimal_model *m, double *gradient, double *scale, const double *x)
{
    const struct eps__optimal *o = m->o;
    size_t first = roots_of(m);
    const double *roots = x + first, *rows = roots + o->starts;
    double *along = malloc(o->n * sizeof *along);
    bool ok = along != NULL;
    for (size_t r = 0; ok && r < o->separation && r < o->n; r++) {
        struct class c;
        if (!(ok = class_open(&c, m, r)))
            break;
        factor_rows(m, &c, along, gradient + first + o->starts, scale + first + o->starts, rows);
        class_close(&c);
    }
    for (size_t s = 0; ok && s < o->starts; s++) {
        double sum = -1;
        for (size_t c = 0, i = s; c < o->epochs && i < o->n; c++, i += o->separation)
            sum += along[i];
        gradient[first + s] = 2 * roots[s] * sum;
        scale[first + s] = 0.5;
    }
    free(along);
    return ok;
}

static void entry_gradient(struct eps__optimal_model *m, double *gradient, double *scale, const double *x)
{
    const struct eps__optimal *o = m->o;
    size_t n = o->n, b = o->separation, stride = pair_stride(o), first = roots_of(m);
    const double *gram = m->point.gram;
    double mean = m->point.total / (double)o->starts;
    for (size_t s = 0; s < o->starts && eps__optimal_row_goes_on(o, s); s++) {
        double sum = -1;
        for (size_t c = 0, i = s; c < o->epochs && i < n; c++, i += b)
            for (size_t d = 0, j = s; d < o->epochs && j < n; d++, j += b)
                sum += gram[i * n + j];
        gradient[first + s] = sum;
        scale[first + s] = 2 * fmax(x[first + s], 0.1 * mean);
    }
    write_entries(m, m->barrier, x);
    m->guarded = true;
    for (size_t i = 0; i < n; i++) {
        size_t at = first + o->starts + pairs_before(o, i);
        double own = m->barrier[i * n + i] / gram[i * n + i];
        size_t slots = o->nonnegative ? i : o->epochs - 1;
        for (size_t c = 1; c <= slots; c++) {
            bool pair = c <= pair_count(o, i);
            size_t j = pair ? i - c * stride : i;
            gradient[at + c - 1] = pair ? -2 * gram[i * n + j] : 0;
            scale[at + c - 1] = (own + m->barrier[j * n + j] / gram[j * n + j]) / 2;
        }
    }
}

/* 2 T changes by the variances times dw. */
static void weight_gradient(const struct eps__optimal_model *m, double *gradient, double *scale, const double *roots)
{
    size_t n = m->o->n;
    double sum = 0, mean = 0;
    for (size_t t = 0; t < n; t++) {
        sum += roots[t] * roots[t];
        mean += roots[t] * roots[t] * m->point.variances[t];
    }
    for (size_t t = 0; t < n; t++) {
        gradient[t] = (1 - m->floor) * 2 * roots[t] / sum * (m->point.variances[t] - mean / sum) +
                      m->mu * 2 * (1 / roots[t] - (double)n * roots[t] / sum);
        scale[t] = sum / (2 * m->point.trace);
    }
}

bool eps__optimal_gradient(struct eps__optimal_model *m, double *gradient, double *scale, const double *x)
{
    if (m->o->max_squared)
        weight_gradient(m, gradient, scale, x);
    if (m->coordinates == EPS__OPTIMAL_FACTORS)
        return factor_gradient(m, gradient, scale, x);
    entry_gradient(m, gradient, scale, x);
    return !eps__stopped(m->o->work);
}

/* ---------------------------------------------------------------- the fixed point */

/*
 * For a class on its own, X U X is its part of V, and the U that makes X diagonal with trace 1 is D^-1 V D^-1. So the
 * rows of the next factor are those of X L, and v is the square of the sum of their lengths. For patterns of one step,
 * this squares the update of MEMF (8), v <- v X_ii, which takes half the step.
 */
static bool fixed_class(const struct eps__optimal_model *m, double *next, const double *x, size_t r)
{
    const struct eps__optimal *o = m->o;
    size_t k = o->epochs, b = o->separation, first = roots_of(m);
    struct class c;
    if (!class_open(&c, m, r))
        return false;
    size_t count = c.count;
    double sum = 0, wanted = m->point.sums[r];
    eps__multiply_transposed(o->work, c.gram, c.product, c.product, count);
    if (eps__stopped(o->work)) {
        class_close(&c);
        return false;
    }
    for (size_t a = 0; a < count; a++)
        c.lower[a] = sqrt(c.gram[a * count + a]);
    for (size_t a = 0; a < count; a++) {
        sum += c.lower[a] / wanted;
        for (size_t d = 0; d < count; d++)
            c.product[a * count + d] = c.gram[a * count + d] / (c.lower[a] * c.lower[d]);
    }
    if (eps__cholesky(o->work, c.product, count)) {
        for (size_t a = 0; a < count; a++)
            for (size_t s = 0; s <= a; s++)
                next[first + o->starts + (r + a * b) * k + s] = c.product[a * count + a - s];
        next[first + r] = x[first + r] * sum;
    }
    class_close(&c);
    return true;
}

bool eps__optimal_fixed_point(const struct eps__optimal_model *m, double *next, const double *x)
{
    const struct eps__optimal *o = m->o;
    size_t first = roots_of(m);
    memcpy(next, x, m->size * sizeof *next);
    for (size_t t = 0; t < first; t++)
        next[t] = x[t] * m->point.variances[t] / m->point.trace;
    for (size_t r = 0; r < o->starts; r++)
        if (!fixed_class(m, next, x, r))
            return false;
    return true;
}
