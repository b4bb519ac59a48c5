/*
 * Eigenvectors of a symmetric matrix by the method of LAPACK's dsyevd, but in steps between which the caller is polled:
 * LAPACK itself cannot be canceled and takes a minute at n = 4096. Small matrices go to LAPACK whole. Larger ones are
 * reduced to tridiagonal form in panels (dsytrd). The tridiagonal matrix is split into halves until LAPACK solves them
 * (dstedc); the halves are joined by divide and conquer (Cuppen; Gu and Eisenstat); and the reflections are applied to
 * panels of columns (dormqr). When joining, LAPACK finds what deflates (dlaed2) and the roots one at a time (dlaed4);
 * the products of dlaed3, most of the work, are done here.
 *
 * LAPACK's columns are our rows. Below, rows and columns are LAPACK's.
 *
 * SPDX-License-Identifier: GPL-3.0-or-later
 */
#include <cblas.h>
#include <lapacke.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "lib/numerics/linear/linalg.h"

/* WHOLE: up to this size LAPACK solves in one call. PANEL: columns of a panel of the reduction. BLOCK: columns of a
 * panel of a product. ROOTS: roots between two polls. */
enum { WHOLE = 512, PANEL = 32, BLOCK = 256, ROOTS = 64 };

/* LAPACKE does not declare these. */
void LAPACK_GLOBAL(dlatrd, DLATRD)(const char *uplo, const lapack_int *n, const lapack_int *nb, double *a,
                                   const lapack_int *lda, double *e, double *tau, double *w, const lapack_int *ldw,
                                   size_t uplo_len);
void LAPACK_GLOBAL(dlaed2, DLAED2)(lapack_int *k, const lapack_int *n, const lapack_int *n1, double *d, double *q,
                                   const lapack_int *ldq, lapack_int *indxq, double *rho, double *z, double *dlambda,
                                   double *w, double *q2, lapack_int *indx, lapack_int *indxc, lapack_int *indxp,
                                   lapack_int *coltyp, lapack_int *info);
void LAPACK_GLOBAL(dlaed4, DLAED4)(const lapack_int *n, const lapack_int *i, const double *d, const double *z,
                                   double *delta, const double *rho, double *lambda, lapack_int *info);
void LAPACK_GLOBAL(dlamrg, DLAMRG)(const lapack_int *n1, const lapack_int *n2, const double *a, const lapack_int *step1,
                                   const lapack_int *step2, lapack_int *index);

/* The state of one decomposition. */
struct spectrum {
    struct eps__work *work;
    size_t n;
    double *reflectors; /* n x n: the matrix, then the reflectors that made it tridiagonal */
    double *vectors;    /* n x n: the eigenvectors of the tridiagonal matrix */
    double *packed;     /* n x n: the vectors of two halves that do not deflate; panels of the reduction */
    double *panel;      /* n x BLOCK */
    double *values, *off, *tau, *z, *poles, *weights;
    lapack_int *order; /* the permutation that sorts the values of each part; counts from 1 */
    lapack_int *index; /* 4 n, for dlaed2 */
};

static size_t least(size_t a, size_t b)
{
    return a < b ? a : b;
}

/* Reduces the lower triangle to tridiagonal form: fills values and off, and leaves the reflectors below. */
static enum eps__lapack reduce(struct spectrum *s)
{
    size_t n = s->n, at = 0;
    lapack_int order = (lapack_int)n, panel = PANEL;
    for (; n - at > 2 * PANEL; at += PANEL) {
        lapack_int left = (lapack_int)(n - at);
        double *corner = s->reflectors + at * n + at;
        if (!eps__goes_on(s->work))
            return EPS__LAPACK_STOPPED;
        LAPACK_GLOBAL(dlatrd, DLATRD)
        ("L", &left, &panel, corner, &order, s->off + at, s->tau + at, s->packed, &left, 1);
        cblas_dsyr2k(CblasColMajor, CblasLower, CblasNoTrans, left - panel, panel, -1, corner + PANEL, order,
                     s->packed + PANEL, left, 1, corner + PANEL * n + PANEL, order);
        for (size_t j = at; j < at + PANEL; j++) {
            s->reflectors[j * n + j + 1] = s->off[j];
            s->values[j] = s->reflectors[j * n + j];
        }
    }
    return LAPACKE_dsytrd(LAPACK_COL_MAJOR, 'L', (lapack_int)(n - at), s->reflectors + at * n + at, order,
                          s->values + at, s->off + at, s->tau + at) == 0
               ? EPS__LAPACK_DONE
               : EPS__LAPACK_NO_MEMORY;
}

/* Finds the roots of the secular equation. Out: values; each column of vectors holds one root's distances to the
 * poles. */
static enum eps__lapack find_roots(struct spectrum *s, double *values, double *vectors, double rho, lapack_int k)
{
    for (lapack_int j = 1; j <= k; j++) {
        lapack_int info = 0;
        if (j % ROOTS == 1 && !eps__goes_on(s->work))
            return EPS__LAPACK_STOPPED;
        LAPACK_GLOBAL(dlaed4, DLAED4)
        (&k, &j, s->poles, s->weights, vectors + (size_t)(j - 1) * s->n, &rho, values + j - 1, &info);
        if (info)
            return EPS__LAPACK_FAILED;
    }
    return EPS__LAPACK_DONE;
}

/* Computes into z the weights whose secular equation has exactly these roots (Gu and Eisenstat), so that the
 * eigenvectors computed from them are orthogonal. */
static void reweigh(struct spectrum *s, const double *vectors, size_t k)
{
    for (size_t i = 0; i < k; i++)
        s->z[i] = vectors[i * s->n + i];
    for (size_t j = 0; j < k; j++)
        for (size_t i = 0; i < k; i++)
            if (i != j)
                s->z[i] *= vectors[j * s->n + i] / (s->poles[i] - s->poles[j]);
    for (size_t i = 0; i < k; i++)
        s->z[i] = copysign(sqrt(-s->z[i]), s->weights[i]);
}

/* Writes the eigenvectors of the diagonal matrix plus rank one from `count` columns of distances, in the order in which
 * the halves are packed. */
static void write_panel(struct spectrum *s, const double *columns, const lapack_int *packed_order, size_t k,
                        size_t count)
{
    for (size_t j = 0; j < count; j++) {
        const double *distances = columns + j * s->n;
        double *out = s->panel + j * k;
        if (k <= 2) { /* dlaed4 returns the vector itself */
            for (size_t i = 0; i < k; i++)
                out[i] = distances[packed_order[i] - 1];
            continue;
        }
        double square = 0;
        for (size_t i = 0; i < k; i++) {
            size_t from = (size_t)packed_order[i] - 1;
            out[i] = s->z[from] / distances[from];
            square += out[i] * out[i];
        }
        cblas_dscal((blasint)k, 1 / sqrt(square), out, 1);
    }
}

/* The packed vectors of one of the halves, and the row of the panel with which they begin. */
struct half {
    const double *at;
    size_t rows, inner, first;
};

/* out = half times the rows of the panel from its first on, or 0 if inner is 0. */
static void multiply_half(struct spectrum *s, double *out, const struct half *half, size_t k, size_t count)
{
    if (half->inner)
        cblas_dgemm(CblasColMajor, CblasNoTrans, CblasNoTrans, (blasint)half->rows, (blasint)count,
                    (blasint)half->inner, 1, half->at, (blasint)half->rows, s->panel + half->first, (blasint)k, 0, out,
                    (blasint)s->n);
    for (size_t j = 0; !half->inner && j < count; j++)
        memset(out + j * s->n, 0, half->rows * sizeof *out);
}

/* Joins the two solved halves of the part at `at`, of `upper` and `lower` columns. off: the element that coupled
 * them. */
static enum eps__lapack join(struct spectrum *s, size_t at, size_t upper, size_t lower, double off)
{
    size_t n = s->n, both = upper + lower;
    lapack_int size = (lapack_int)both, half = (lapack_int)upper, ld = (lapack_int)n, kept = 0, info = 0, one = 1,
               back = -1, *types = s->index + 3 * n, *packed_order = s->index + n;
    double *values = s->values + at, *vectors = s->vectors + at * n + at, rho = off;
    for (size_t j = 0; j < both; j++)
        s->z[j] = vectors[j * n + (j < upper ? upper - 1 : upper)];
    LAPACK_GLOBAL(dlaed2, DLAED2)
    (&kept, &size, &half, values, vectors, &ld, s->order + at, &rho, s->z, s->poles, s->weights, s->packed, s->index,
     packed_order, s->index + 2 * n, types, &info);
    if (info)
        return EPS__LAPACK_FAILED;
    size_t k = (size_t)kept, above = (size_t)types[0] + (size_t)types[1], below = (size_t)types[1] + (size_t)types[2];
    const struct half high = {s->packed, upper, above, 0},
                      deep = {s->packed + upper * above, lower, below, (size_t)types[0]};
    enum eps__lapack end = find_roots(s, values, vectors, rho, kept);
    if (end != EPS__LAPACK_DONE)
        return end;
    if (k > 2)
        reweigh(s, vectors, k);
    for (size_t j = 0; j < k; j += BLOCK) {
        size_t count = least(BLOCK, k - j);
        double *columns = vectors + j * n;
        if (!eps__goes_on(s->work))
            return EPS__LAPACK_STOPPED;
        write_panel(s, columns, packed_order, k, count);
        multiply_half(s, columns, &high, k, count);
        multiply_half(s, columns + upper, &deep, k, count);
    }
    /* The deflated values come last, in descending order. */
    lapack_int rest = size - kept;
    if (k)
        LAPACK_GLOBAL(dlamrg, DLAMRG)(&kept, &rest, values, &one, &back, s->order + at);
    for (size_t i = 0; !k && i < both; i++)
        s->order[at + i] = (lapack_int)i + 1;
    return EPS__LAPACK_DONE;
}

/* Solves the tridiagonal matrix of `count` columns from `at` on. */
static enum eps__lapack solve(struct spectrum *s, size_t at, size_t count)
{
    if (!eps__goes_on(s->work))
        return EPS__LAPACK_STOPPED;
    if (count <= WHOLE) {
        lapack_int info = LAPACKE_dstedc(LAPACK_COL_MAJOR, 'I', (lapack_int)count, s->values + at, s->off + at,
                                         s->vectors + at * s->n + at, (lapack_int)s->n);
        for (size_t i = 0; i < count; i++)
            s->order[at + i] = (lapack_int)i + 1;
        return info == 0 ? EPS__LAPACK_DONE : info > 0 ? EPS__LAPACK_FAILED : EPS__LAPACK_NO_MEMORY;
    }
    size_t upper = count / 2, middle = at + upper;
    double off = s->off[middle - 1];
    s->values[middle - 1] -= fabs(off);
    s->values[middle] -= fabs(off);
    enum eps__lapack end = solve(s, at, upper);
    if (end == EPS__LAPACK_DONE)
        end = solve(s, middle, count - upper);
    return end == EPS__LAPACK_DONE ? join(s, at, upper, count - upper, off) : end;
}

/* Applies the reflections to panels of columns. */
static enum eps__lapack reflect(struct spectrum *s)
{
    size_t n = s->n;
    lapack_int order = (lapack_int)n;
    for (size_t at = 0; at < n; at += BLOCK) {
        if (!eps__goes_on(s->work))
            return EPS__LAPACK_STOPPED;
        if (LAPACKE_dormqr(LAPACK_COL_MAJOR, 'L', 'N', order - 1, (lapack_int)least(BLOCK, n - at), order - 1,
                           s->reflectors + 1, order, s->tau, s->vectors + at * n + 1, order) != 0)
            return EPS__LAPACK_NO_MEMORY;
    }
    return EPS__LAPACK_DONE;
}

static enum eps__lapack decompose(struct spectrum *s, double *values, double *matrix)
{
    size_t n = s->n;
    double largest = 0;
    for (size_t i = 0; i < n * n; i++)
        largest = fmax(largest, fabs(matrix[i]));
    if (!isfinite(largest))
        return EPS__LAPACK_FAILED;
    /* Scale by a power of two to a size whose squares neither overflow nor underflow. */
    int exponent = largest > 0 ? ilogb(largest) : 0;
    for (size_t i = 0; i < n * n; i++)
        matrix[i] = scalbn(matrix[i], -exponent);
    enum eps__lapack end = reduce(s);
    if (end == EPS__LAPACK_DONE)
        end = solve(s, 0, n);
    if (end == EPS__LAPACK_DONE)
        end = reflect(s);
    for (size_t i = 0; end == EPS__LAPACK_DONE && i < n; i++) {
        size_t from = (size_t)s->order[i] - 1;
        values[i] = scalbn(s->values[from], exponent);
        memcpy(matrix + i * n, s->vectors + from * n, n * sizeof *matrix);
    }
    return end;
}

enum eps__lapack eps__symmetric_eigenvectors(struct eps__work *work, double *values, double *matrix, size_t n)
{
    if (!eps__goes_on(work))
        return EPS__LAPACK_STOPPED;
    if (n <= WHOLE) {
        lapack_int order = (lapack_int)n,
                   info = LAPACKE_dsyevd(LAPACK_COL_MAJOR, 'V', 'U', order, matrix, order, values);
        return info == 0 ? EPS__LAPACK_DONE : info > 0 ? EPS__LAPACK_FAILED : EPS__LAPACK_NO_MEMORY;
    }
    double *memory = calloc(2 * n * n + (BLOCK + 6) * n, sizeof *memory);
    lapack_int *index = calloc(5 * n, sizeof *index);
    enum eps__lapack end = EPS__LAPACK_NO_MEMORY;
    if (memory && index) {
        double *rest = memory + 2 * n * n + BLOCK * n;
        struct spectrum s = {.work = work,
                             .n = n,
                             .reflectors = matrix,
                             .vectors = memory,
                             .packed = memory + n * n,
                             .panel = memory + 2 * n * n,
                             .values = rest,
                             .off = rest + n,
                             .tau = rest + 2 * n,
                             .z = rest + 3 * n,
                             .poles = rest + 4 * n,
                             .weights = rest + 5 * n,
                             .order = index,
                             .index = index + n};
        end = decompose(&s, values, matrix);
    }
    free(memory);
    free(index);
    return end;
}
