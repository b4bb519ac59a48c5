/*
 * Dense linear algebra in blocks: every routine, at a size of several blocks and a part of one, compared entry by entry
 * with the definition of its result; eigenvectors of matrices most of which deflates, all of which deflates, and
 * nothing of which does. Each routine polls between its blocks, stops on request, and reports it.
 *
 * SPDX-License-Identifier: GPL-3.0-or-later
 */
#include <math.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "lib/numerics/linear/linalg.h"
#include "tests/unit/matrices.h"
#include "tests/unit/test.h"

enum { N = 1100, BLOCKS = 4 };

static double *new_matrix(size_t n)
{
    double *m = calloc(n * n, sizeof *m);
    assert_non_null(m);
    return m;
}

static double *copy_of(const double *m, size_t n)
{
    double *copy = new_matrix(n);
    memcpy(copy, m, n * n * sizeof *m);
    return copy;
}

/* Numbers in [-1, 1], plus `diagonal` on the diagonal; symmetric, lower triangular, or neither. */
static double *scattered(size_t n, double diagonal, bool symmetric, bool lower)
{
    unsigned long long state = 17;
    double *m = new_matrix(n);
    for (size_t i = 0; i < n; i++)
        for (size_t j = 0; j < n; j++) {
            double x = scatter(&state) + (i == j ? diagonal : 0);
            m[i * n + j] = symmetric && j < i ? m[j * n + i] : lower && j > i ? 0 : x;
        }
    return m;
}

/* The product of row or column i of a and row or column j of b. */
static double entry_of(const double *a, bool a_columns, const double *b, bool b_rows, size_t n, size_t i, size_t j)
{
    long double sum = 0;
    for (size_t k = 0; k < n; k++)
        sum += (long double)a[a_columns ? k * n + i : i * n + k] * b[b_rows ? j * n + k : k * n + j];
    return (double)sum;
}

/* Some of the entries of a b, with either factor transposed, including those at the borders of blocks. */
static void assert_product(const double *wanted, const double *a, bool a_columns, const double *b, bool b_rows,
                           size_t n, double error)
{
    for (size_t i = 0; i<n; i += i % 256> 253 || i % 256 < 2 ? 1 : 41)
        for (size_t j = 0; j<n; j += j % 256> 253 || j % 256 < 2 ? 1 : 37) {
            double entry = entry_of(a, a_columns, b, b_rows, n, i, j),
                   want = wanted ? wanted[i * n + j] : (double)(i == j);
            if (!(fabs(entry - want) <= error))
                fail_msg("entry %zu, %zu: %.17g, not %.17g", i, j, entry, want);
        }
}

/* a caller that counts, and stops after this many polls */

struct watch {
    size_t polls, stop_after;
};

static bool stopping(void *user)
{
    struct watch *w = user;
    return ++w->polls > w->stop_after;
}

/* One routine on matrices of its own; true: it completed. */
typedef bool routine(struct eps__work *work, size_t n);

/* It polls at least once a block; wherever it is stopped it reports that, and polls no more. */
static void assert_stops(routine *run, size_t n)
{
    struct watch w = {.stop_after = SIZE_MAX};
    struct eps_context context = {.user = &w, .canceled = stopping};
    struct eps__work work = {.context = &context};
    assert_true(run(&work, n));
    assert_int_equal(work.status, EPS_OK);
    size_t polls = w.polls;
    assert_true(polls >= BLOCKS);
    for (size_t after = 0; after < polls; after += 1 + polls / 4) {
        w = (struct watch){.stop_after = after};
        work = (struct eps__work){.context = &context};
        assert_false(run(&work, n));
        assert_int_equal(work.status, EPS_CANCELED);
        assert_int_equal(w.polls, after + 1);
    }
}

/* ---- the routines ---- */

static bool run_cholesky(struct eps__work *work, size_t n)
{
    double *m = scattered(n, 2 * (double)n, true, false), *l = copy_of(m, n);
    bool ok = eps__cholesky(work, l, n);
    if (ok) {
        assert_product(m, l, false, l, true, n, 1e-10);
        for (size_t i = 0; i + 1 < n; i++)
            assert_true(l[i * n + i + 1] == 0 && l[i * n + n - 1] == 0);
    }
    free(m);
    free(l);
    return ok;
}

static bool run_lower_inverse(struct eps__work *work, size_t n)
{
    double *m = scattered(n, 30, false, true), *inverse = copy_of(m, n);
    if (n > 1)
        inverse[1] = 7; /* above the diagonal: not read */
    bool ok = eps__lower_inverse(work, inverse, n);
    if (ok)
        assert_product(NULL, m, false, inverse, false, n, 1e-12);
    free(m);
    free(inverse);
    return ok;
}

static bool run_general_inverse(struct eps__work *work, size_t n)
{
    double *m = scattered(n, 0, false, false), *inverse = copy_of(m, n); /* rows are swapped */
    enum eps__lapack end = eps__general_inverse(work, inverse, n);
    if (end == EPS__LAPACK_DONE)
        assert_product(NULL, m, false, inverse, false, n, 1e-9);
    else
        assert_int_equal(end, EPS__LAPACK_STOPPED);
    free(m);
    free(inverse);
    return end == EPS__LAPACK_DONE;
}

static bool run_polar_factor(struct eps__work *work, size_t n)
{
    double *m = scattered(n, 1, false, true), *scratch = new_matrix(n);
    for (size_t i = 0; i < n; i++) /* graded, as the images of weighted sums are */
        for (size_t j = 0; j <= i; j++)
            m[i * n + j] = exp(-18 * (double)i / (double)n) * (1 + 0.3 * m[i * n + j]);
    double *q = copy_of(m, n);
    enum eps__lapack end = eps__polar_factor(work, q, scratch, n);
    if (end == EPS__LAPACK_DONE) {
        assert_product(NULL, q, true, q, false, n, 1e-13);
        eps__multiply_first_transposed(NULL, scratch, q, m, n);
        for (size_t i = 0; i < n; i++)
            for (size_t j = 0; j < i; j++)
                assert_true(fabs(scratch[i * n + j] - scratch[j * n + i]) <= 1e-11);
        for (size_t i = 0; i < n; i++)
            assert_true(scratch[i * n + i] > 0);
    } else {
        assert_int_equal(end, EPS__LAPACK_STOPPED);
    }
    free(m);
    free(q);
    free(scratch);
    return end == EPS__LAPACK_DONE;
}

static bool run_products(struct eps__work *work, size_t n)
{
    double *a = scattered(n, 1, false, false), *b = scattered(n, 2, false, true), *out = new_matrix(n);
    eps__multiply(work, out, a, b, n);
    if (!eps__stopped(work))
        assert_product(out, a, false, b, false, n, 1e-11);
    eps__multiply_transposed(work, out, a, b, n);
    if (!eps__stopped(work))
        assert_product(out, a, false, b, true, n, 1e-11);
    eps__multiply_first_transposed(work, out, a, b, n);
    if (!eps__stopped(work))
        assert_product(out, a, true, b, false, n, 1e-11);
    eps__gram(work, out, a, n, n);
    if (!eps__stopped(work))
        assert_product(out, a, true, a, false, n, 1e-11);
    double *product = copy_of(a, n);
    eps__multiply_lower(work, product, b, n, n);
    if (!eps__stopped(work))
        assert_product(product, b, false, a, false, n, 1e-11);
    for (size_t i = 0; i < n; i++) /* and back again, with a diagonal that allows it */
        b[i * n + i] += 30;
    memcpy(product, a, n * n * sizeof *a);
    eps__solve_lower(work, product, b, n, n);
    if (!eps__stopped(work))
        assert_product(a, product, false, b, false, n, 1e-11);
    bool ok = !eps__stopped(work);
    free(a);
    free(b);
    free(out);
    free(product);
    return ok;
}

/* m y = value y for every pair, and the vectors are orthonormal; destroys m. */
static bool check_eigenvectors(struct eps__work *work, double *m, size_t n, double size)
{
    double *vectors = copy_of(m, n), *values = calloc(n, sizeof *values), *images = new_matrix(n);
    enum eps__lapack end = eps__symmetric_eigenvectors(work, values, vectors, n);
    if (end == EPS__LAPACK_DONE) {
        assert_product(NULL, vectors, false, vectors, true, n, 1e-13 * sqrt((double)n));
        eps__multiply(NULL, images, vectors, m, n);
        for (size_t a = 0; a < n; a++) {
            assert_true(a == 0 || values[a] >= values[a - 1]);
            for (size_t i = 0; i < n; i++)
                assert_true(fabs(images[a * n + i] - values[a] * vectors[a * n + i]) <= 2e-15 * (double)n * size);
        }
    } else {
        assert_int_equal(end, EPS__LAPACK_STOPPED);
    }
    free(m);
    free(vectors);
    free(values);
    free(images);
    return end == EPS__LAPACK_DONE;
}

static bool run_eigenvectors(struct eps__work *work, size_t n)
{
    return check_eigenvectors(work, scattered(n, 1, true, false), n, 40);
}

static void sizes(routine *run)
{
    static const size_t ns[] = {1, 2, 31, 255, 257, 520};
    for (size_t i = 0; i < sizeof ns / sizeof *ns; i++)
        assert_true(run(NULL, ns[i]));
    assert_stops(run, N);
}

TEST(choleskys_are_right_and_stop)
{
    sizes(run_cholesky);
    /* Not positive definite, because of the last of its blocks. */
    double *m = scattered(600, 1200, true, false);
    m[599 * 600 + 599] = -1;
    assert_false(eps__cholesky(NULL, m, 600));
    free(m);
}

TEST(inverses_are_right_and_stop)
{
    sizes(run_lower_inverse);
    sizes(run_general_inverse);
    double *m = scattered(600, 1, false, true);
    m[500 * 600 + 500] = 0;
    assert_false(eps__lower_inverse(NULL, m, 600));
    free(m);
    m = scattered(600, 1, false, false); /* two rows alike */
    memcpy(m + 20 * 600, m + 590 * 600, 600 * sizeof *m);
    assert_int_equal(eps__general_inverse(NULL, m, 600), EPS__LAPACK_FAILED);
    free(m);
}

TEST(polar_factors_are_right_and_stop)
{
    static const size_t ns[] = {1, 2, 31, 257};
    for (size_t i = 0; i < sizeof ns / sizeof *ns; i++)
        assert_true(run_polar_factor(NULL, ns[i]));
    assert_stops(run_polar_factor, 300);
    double *m = scattered(40, 1, false, true), *scratch = new_matrix(40);
    m[0] = 0; /* the first row is 0 */
    assert_int_equal(eps__polar_factor(NULL, m, scratch, 40), EPS__LAPACK_FAILED);
    free(m);
    free(scratch);
}

TEST(products_are_right_and_stop)
{
    sizes(run_products);
}

TEST(eigenvectors_are_right_and_stop)
{
    sizes(run_eigenvectors);
    enum { M = 700 };
    for (int which = 0; which < 6; which++) {
        double *m = new_matrix(M), size = 1;
        for (size_t i = 0; i < M; i++)
            for (size_t j = 0; j <= i; j++) {
                double x = which == 0   ? 0                /* nothing */
                           : which == 1 ? (double)(i == j) /* all alike */
                           : which == 2 ? (i == j) + 1e-3  /* two values */
                           : which == 3 ? (i == j       ? 2
                                           : i == j + 1 ? -1
                                                        : 0)                                     /* nothing deflates */
                           : which == 4 ? exp(-0.05 * (double)(i + j)) + 1e-9 * (double)(i == j) /* graded */
                                        : 1e200 / (1 + (double)i + (double)j);                   /* large */
                m[i * M + j] = m[j * M + i] = x;
            }
        size = which == 5 ? 4e200 : which == 0 ? 0 : 4;
        assert_true(check_eigenvectors(NULL, m, M, size));
    }
}
