/*
 * Correlated noise, row by row, compared with its definition: white noise times the rows of C^+ or of B, in every way
 * of drawing it; C gives the white noise back. And compared with its law: the empirical covariance of the rows is
 * sigma^2 C^-1 C^-T. Keys are fixed; a correct generator passes bounds on random numbers with probability 1 - 1e-6 or
 * more.
 *
 * SPDX-License-Identifier: GPL-3.0-or-later
 */
#include <math.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "lib/strategy/decoder.h"
#include "lib/strategy/noise.h"
#include "tests/unit/matrices.h"
#include "tests/unit/test.h"

static const uint8_t key[32] = {3, 1, 4, 1, 5};
static const double sigma = 1.75;

static double *room(size_t len)
{
    double *x = calloc(len, sizeof *x);
    assert_non_null(x);
    return x;
}

/* z, with as many rows as C. */
static struct matrix white_matrix(const struct eps_strategy *s, size_t d)
{
    struct eps__white white = {.sigma = sigma};
    struct matrix z = matrix_new(eps_strategy_rows(s), d);
    double *row = room(d);
    memcpy(white.key, key, sizeof key);
    for (size_t i = 0; i < z.rows; i++) {
        eps__white_row(&white, row, i, 0, d);
        for (size_t j = 0; j < d; j++)
            *entry(&z, i, j) = row[j];
    }
    free(row);
    return z;
}

static void assert_row(const double *got, const struct matrix *wanted, size_t row, const char *what)
{
    for (size_t j = 0; j < wanted->columns; j++) {
        long double x = *entry(wanted, row, j);
        if (!(fabsl(got[j] - x) <= 1e-12L * (10 + fabsl(x))))
            fail_msg("%s: row %zu, coordinate %zu: got %.17g, wanted %.17Lg", what, row, j, got[j], x);
    }
}

/* Every way of the kind that serves the strategy. Returns their number. */
static size_t check_ways(const struct eps_strategy *s, size_t d, const struct matrix *wanted, const char *what)
{
    size_t served = 0;
    double *out = room(d);
    for (const struct eps__noise_way *const *way = s->kind->noise_ways; *way; way++) {
        if (!(*way)->serves(s))
            continue;
        struct eps__noise_run run = {.strategy = s, .part = EPS_PART_NOISE, .white.sigma = sigma, .dimensions = d};
        double numbers = (*way)->numbers(s, EPS_PART_NOISE, (double)d);
        memcpy(run.white.key, key, sizeof key);
        run.memory = room((size_t)numbers + 1);
        assert_int_equal(eps__strategy_inverse(NULL, &run.inverse, NULL, s), EPS_OK);
        for (size_t t = 0; t < wanted->rows; t++) {
            assert_int_equal((*way)->row(&run, NULL, out, NULL, t), EPS_OK);
            assert_row(out, wanted, t, what);
        }
        assert_true((*way)->operations(s, EPS_PART_NOISE, (double)d) > 0);
        free(run.memory);
        served++;
    }
    free(out);
    return served;
}

/* Into n rows of `out`. */
static void draw_all(double *out, const struct eps_strategy *s, enum eps_part part, size_t d)
{
    struct eps_noise *noise = NULL;
    struct eps_error error = {0};
    if (eps_noise_create(NULL, &noise, &error, s, part, sigma, d, key) != EPS_OK)
        fail_msg("%s: %s", error.pointer, error.message);
    for (size_t t = 0; t < eps_strategy_columns(s); t++)
        assert_int_equal(eps_noise_row(NULL, noise, out + t * d, &error), EPS_OK);
    assert_int_equal(eps_noise_row(NULL, noise, out, &error), EPS_INVALID);
    eps_noise_destroy(noise);
}

static void check_drawn(const struct eps_strategy *s, const struct matrix *z, const char *what)
{
    size_t n = eps_strategy_columns(s), d = z->columns;
    double *out = room(n * d);
    for (int part = EPS_PART_DECODER; part <= EPS_PART_NOISE; part++) {
        struct matrix p = part_matrix(s, (enum eps_part)part), wanted = matrix_product(&p, z);
        draw_all(out, s, (enum eps_part)part, d);
        for (size_t t = 0; t < n; t++)
            assert_row(out + t * d, &wanted, t, what);
        if (part == EPS_PART_NOISE)
            assert_true(check_ways(s, d, &wanted, what) > 0);
        matrix_free(&p);
        matrix_free(&wanted);
    }
    /* Checks C x = z, where C can be solved. */
    struct matrix c = part_matrix(s, EPS_PART_ENCODER), x = matrix_new(n, d);
    for (size_t i = 0; i < n * d; i++)
        x.at[i] = out[i];
    struct matrix back = matrix_product(&c, &x);
    for (size_t i = 0; i < n * d && c.rows == n; i++)
        if (!(fabsl(back.at[i] - z->at[i]) <= 1e-12L))
            fail_msg("%s: C x is off z by %Lg", what, back.at[i] - z->at[i]);
    matrix_free(&c);
    matrix_free(&x);
    matrix_free(&back);
    free(out);
}

/* ---------------------------------------------------------------- mechanisms */

static void set_identity(struct eps_matrix *m, size_t block)
{
    (void)block;
    m->family = EPS_FAMILY_IDENTITY;
}

static void set_toeplitz(struct eps_matrix *m, size_t block)
{
    static const double coefficients[] = {2, -1, 0.5, 0.25, 0, 0.125};
    m->family = EPS_FAMILY_TOEPLITZ;
    m->coefficients = coefficients;
    m->coefficients_len = block < 6 ? block : 6;
}

static void set_square_root(struct eps_matrix *m, size_t block)
{
    m->family = EPS_FAMILY_SQUARE_ROOT;
    m->bands = block;
}

static void set_banded_square_root(struct eps_matrix *m, size_t block)
{
    m->family = EPS_FAMILY_SQUARE_ROOT;
    m->bands = block < 4 ? block : 4;
}

static void set_inverse_square_root(struct eps_matrix *m, size_t block)
{
    m->family = EPS_FAMILY_INVERSE_SQUARE_ROOT;
    m->bands = block < 3 ? block : 3;
}

static void set_blt(struct eps_matrix *m, size_t block)
{
    static const double decay[] = {0.95, 0.5}, scale[] = {0.25, 0.375};
    (void)block;
    m->family = EPS_FAMILY_BLT;
    m->decay = decay;
    m->scale = scale;
    m->blt_len = 2;
}

static void set_normalised_bands(struct eps_matrix *m, size_t block)
{
    set_banded_square_root(m, block);
    m->family = EPS_FAMILY_BANDED;
    m->toeplitz = m->column_normalize = true;
    m->gap = 1e-2;
    m->epochs = 1;
    m->separation = block;
}

static void set_free_bands(struct eps_matrix *m, size_t block)
{
    set_normalised_bands(m, block);
    m->toeplitz = m->column_normalize = false;
}

/* lower: with ones above the first bands; else full. */
static void set_rows(struct eps_matrix *m, size_t block, bool lower)
{
    enum { MOST = 300 };
    static double rows[MOST * MOST];
    unsigned long long state = 5;
    assert_true(block <= MOST);
    for (size_t i = 0; i < block; i++)
        for (size_t j = 0; j < block; j++)
            rows[i * block + j] = i == j                          ? 3
                                  : lower && (j > i || i - j > 3) ? 0
                                                                  : scatter(&state) / (4 + (double)block / 8);
    m->family = EPS_FAMILY_DENSE;
    m->rows = rows;
    m->rows_n = block;
}

static void set_lower(struct eps_matrix *m, size_t block)
{
    set_rows(m, block, true);
}

static void set_dense(struct eps_matrix *m, size_t block)
{
    set_rows(m, block, false);
}

static void set_tree(struct eps_matrix *m, size_t block)
{
    (void)block;
    m->family = EPS_FAMILY_TREE;
    m->decoder = EPS_DECODER_ONLINE;
}

static void set_full_tree(struct eps_matrix *m, size_t block)
{
    set_tree(m, block);
    m->decoder = EPS_DECODER_FULL;
}

static void set_fourier(struct eps_matrix *m, size_t block)
{
    (void)block;
    m->family = EPS_FAMILY_FOURIER;
    m->decoder = EPS_DECODER_OPTIMAL;
}

static void set_standard_fourier(struct eps_matrix *m, size_t block)
{
    set_fourier(m, block);
    m->decoder = EPS_DECODER_STANDARD;
}

static const struct form {
    const char *name;
    void (*set)(struct eps_matrix *matrix, size_t block);
    bool follows; /* needs a Toeplitz workload */
} forms[] = {
    {"identity", set_identity, false},
    {"toeplitz", set_toeplitz, false},
    {"square_root", set_square_root, true},
    {"banded square_root", set_banded_square_root, true},
    {"inverse_square_root", set_inverse_square_root, true},
    {"blt", set_blt, false},
    {"banded, columns normalised", set_normalised_bands, true},
    {"banded", set_free_bands, false},
    {"dense, lower", set_lower, false},
    {"dense", set_dense, false},
    {"tree, online", set_tree, false},
    {"tree, full", set_full_tree, false},
    {"fourier, optimal", set_fourier, false},
    {"fourier, standard", set_standard_fourier, false},
};
enum { FORMS = sizeof forms / sizeof *forms };

static struct eps_strategy *form_new(const struct form *form, size_t block, size_t stamps, int workload)
{
    struct eps_mechanism mechanism = mechanism_new(EPS_FAMILY_IDENTITY, block * stamps);
    mechanism.matrix.stamps = stamps;
    workload_choose(&mechanism, workload);
    form->set(&mechanism.matrix, block);
    return strategy_new(&mechanism);
}

TEST(noise_is_the_product_by_its_definition)
{
    static const size_t blocks[] = {1, 2, 3, 5, 8, 11, 16, 23};
    for (size_t i = 0; i < FORMS; i++)
        for (size_t b = 0; b < sizeof blocks / sizeof *blocks; b++)
            for (int which = 0; which < 8; which++) {
                if (forms[i].follows && which % 4 == 2)
                    continue;
                struct eps_strategy *s = form_new(&forms[i], blocks[b], which < 4 ? 1 : 3, which % 4);
                struct matrix z = white_matrix(s, which % 2 ? 1 : 37);
                check_drawn(s, &z, forms[i].name);
                matrix_free(&z);
                eps_strategy_destroy(s);
            }
}

/* More coordinates than a tile. */
TEST(tiles_fit_together)
{
    for (size_t i = 0; i < FORMS; i++) {
        struct eps_strategy *s = form_new(&forms[i], 7, 2, 0);
        struct matrix z = white_matrix(s, 2 * EPS__WHITE_TILE + 3);
        check_drawn(s, &z, forms[i].name);
        matrix_free(&z);
        eps_strategy_destroy(s);
    }
}

/* Blocks of several panels, and of more columns than white rows are made at a time. */
TEST(panels_fit_together)
{
    static const int chosen[] = {2, 9, 10, 11, 13};
    for (size_t i = 0; i < sizeof chosen / sizeof *chosen; i++) {
        struct eps_strategy *s = form_new(&forms[chosen[i]], 300, 1, 1);
        struct matrix z = white_matrix(s, 3);
        check_drawn(s, &z, forms[chosen[i]].name);
        matrix_free(&z);
        eps_strategy_destroy(s);
    }
}

/* ---------------------------------------------------------------- taken up again */

/* Compares the rows from `row` on, bit for bit, with those of a stream of which `drawn` were drawn. */
static void check_skip(const struct eps_strategy *s, enum eps_part part, const double *all, size_t d, size_t drawn,
                       size_t row, const char *what)
{
    size_t n = eps_strategy_columns(s), from = SIZE_MAX;
    struct eps_noise *noise = NULL;
    double *out = room(d);
    assert_int_equal(eps_noise_create(NULL, &noise, NULL, s, part, sigma, d, key), EPS_OK);
    for (size_t t = 0; t < drawn; t++)
        assert_int_equal(eps_noise_row(NULL, noise, out, NULL), EPS_OK);
    assert_int_equal(eps_noise_skip(noise, row, &from, NULL), EPS_OK);
    assert_true(drawn <= from && from <= row);
    for (size_t t = from; t < n; t++) {
        assert_int_equal(eps_noise_row(NULL, noise, out, NULL), EPS_OK);
        if (t >= row && memcmp(out, all + t * d, d * sizeof *out) != 0)
            fail_msg("%s: row %zu is another, from row %zu on, skipped to after %zu", what, t, row, drawn);
    }
    assert_int_equal(eps_noise_row(NULL, noise, out, NULL), EPS_INVALID);
    eps_noise_destroy(noise);
    free(out);
}

/* Every form and workload, in blocks and panels, and wider than a tile. */
TEST(a_stream_goes_on_with_the_same_bits)
{
    static const struct {
        size_t block, stamps, d;
    } sizes[] = {{11, 1, 3}, {8, 3, 3}, {7, 2, EPS__WHITE_TILE + 5}, {300, 1, 2}};
    for (size_t i = 0; i < FORMS; i++)
        for (size_t size = 0; size < sizeof sizes / sizeof *sizes; size++)
            for (int workload = 0; workload < 4; workload++) {
                size_t n = sizes[size].block * sizes[size].stamps, d = sizes[size].d;
                if ((forms[i].follows && workload == 2) || (size >= 2 && workload % 3) || (n == 300 && i != 2 && i < 9))
                    continue;
                struct eps_strategy *s = form_new(&forms[i], sizes[size].block, sizes[size].stamps, workload);
                double *all = room(n * d);
                for (int part = EPS_PART_DECODER; part <= EPS_PART_NOISE; part++) {
                    draw_all(all, s, (enum eps_part)part, d);
                    for (size_t k = 0; k < 4; k++) {
                        size_t row = (size_t[]){0, n / 3, n - 2, n - 1}[k];
                        check_skip(s, (enum eps_part)part, all, d, 0, row, forms[i].name);
                        check_skip(s, (enum eps_part)part, all, d, row < 5 ? row : 5, row, forms[i].name);
                    }
                }
                free(all);
                eps_strategy_destroy(s);
            }
}

/* The number of rows that are drawn for nothing. */
static size_t rows_before(const struct form *form, enum eps_part part, size_t row)
{
    struct eps_strategy *s = form_new(form, 64, 1, 0);
    struct eps_noise *noise = NULL;
    size_t from;
    assert_int_equal(eps_noise_create(NULL, &noise, NULL, s, part, sigma, 1, key), EPS_OK);
    assert_int_equal(eps_noise_skip(noise, row, &from, NULL), EPS_OK);
    eps_noise_destroy(noise);
    eps_strategy_destroy(s);
    return row - from;
}

TEST(rows_are_left_out_where_they_can_be)
{
    assert_int_equal(rows_before(&forms[0], EPS_PART_NOISE, 63), 0);    /* identity */
    assert_int_equal(rows_before(&forms[0], EPS_PART_DECODER, 63), 63); /* prefix sums */
    assert_int_equal(rows_before(&forms[3], EPS_PART_NOISE, 63), 63);   /* banded: a recursion */
    assert_int_equal(rows_before(&forms[4], EPS_PART_NOISE, 63), 2);    /* C^-1 with 3 bands */
    assert_int_equal(rows_before(&forms[4], EPS_PART_NOISE, 1), 1);
}

TEST(only_later_rows_can_be_skipped_to)
{
    struct eps_strategy *s = form_new(&forms[0], 10, 1, 0);
    struct eps_noise *noise = NULL;
    struct eps_error error;
    double out;
    size_t from = 7;
    assert_int_equal(eps_noise_create(NULL, &noise, NULL, s, EPS_PART_NOISE, sigma, 1, key), EPS_OK);
    assert_int_equal(eps_noise_row(NULL, noise, &out, NULL), EPS_OK);
    assert_int_equal(eps_noise_skip(noise, 10, &from, &error), EPS_INVALID);
    assert_string_equal(error.message, "must lie in [1, 9], the rows not yet drawn");
    assert_int_equal(eps_noise_skip(noise, 0, &from, NULL), EPS_INVALID);
    assert_int_equal(from, 7);
    eps_noise_destroy(noise);
    eps_strategy_destroy(s);
}

/* ---------------------------------------------------------------- its law */

/* Whitened by the Cholesky factor of the wanted covariance, the empirical covariance of d columns is I, up to errors
 * that are approximately normal, of variance 1/d off the diagonal and 2/d on it; their scaled squares add up to a
 * chi-square. */
static void check_covariance(const struct eps_strategy *s, enum eps_part part, const char *what)
{
    enum { D = 40000 };
    size_t n = eps_strategy_columns(s);
    double *x = room(n * D), mean_square = 0, chi_square = 0, freedom = (double)(n * (n + 1)) / 2;
    struct matrix p = part_matrix(s, part), wanted = matrix_new(n, n);
    draw_all(x, s, part, D);
    for (size_t i = 0; i < n; i++)
        for (size_t j = 0; j < n; j++)
            for (size_t k = 0; k < p.columns; k++)
                *entry(&wanted, i, j) += (long double)(sigma * sigma) * *entry(&p, i, k) * *entry(&p, j, k);
    /* wanted = L L', in its lower half. */
    for (size_t j = 0; j < n; j++) {
        for (size_t k = 0; k < j; k++)
            for (size_t i = j; i < n; i++)
                *entry(&wanted, i, j) -= *entry(&wanted, i, k) * *entry(&wanted, j, k);
        long double root = sqrtl(*entry(&wanted, j, j));
        for (size_t i = j; i < n; i++)
            *entry(&wanted, i, j) /= root;
    }
    for (size_t i = 0; i < n; i++)
        for (size_t c = 0; c < D; c++) {
            for (size_t k = 0; k < i; k++)
                x[i * D + c] -= (double)*entry(&wanted, i, k) * x[k * D + c];
            x[i * D + c] /= (double)*entry(&wanted, i, i);
        }
    for (size_t i = 0; i < n; i++) {
        double mean = 0;
        for (size_t c = 0; c < D; c++)
            mean += x[i * D + c] / D;
        mean_square += D * mean * mean;
        for (size_t j = 0; j <= i; j++) {
            double sum = 0;
            for (size_t c = 0; c < D; c++)
                sum += x[i * D + c] * x[j * D + c] / D;
            chi_square += i == j ? D * (sum - 1) * (sum - 1) / 2 : D * sum * sum;
        }
    }
    /* Six standard deviations: a chi-square of f degrees has mean f and variance 2 f; its upper tail is longer. */
    if (!(fabs(chi_square - freedom) < 6 * sqrt(2 * freedom) + 12))
        fail_msg("%s: chi-square of the covariance %g for %g degrees of freedom", what, chi_square, freedom);
    if (!(mean_square < (double)n + 6 * sqrt(2 * (double)n) + 12))
        fail_msg("%s: chi-square of the means %g for %zu degrees of freedom", what, mean_square, n);
    free(x);
    matrix_free(&p);
    matrix_free(&wanted);
}

TEST(its_covariance_is_that_of_the_mechanism)
{
    for (size_t i = 0; i < FORMS; i++) {
        struct eps_strategy *s = form_new(&forms[i], 6, 2, forms[i].follows ? 1 : 2);
        check_covariance(s, EPS_PART_NOISE, forms[i].name);
        check_covariance(s, EPS_PART_DECODER, forms[i].name);
        eps_strategy_destroy(s);
    }
}

/* ---------------------------------------------------------------- memory, and refusals */

static double bytes_of(const struct eps_context *context, const struct eps_strategy *s, enum eps_part part, size_t d)
{
    struct eps_error error = {0};
    double bytes, operations;
    if (eps_noise_cost(context, &error, s, part, d, &operations, &bytes) != EPS_OK)
        fail_msg("%s", error.message);
    assert_int_equal(eps_noise_cost(context, &error, s, part, d, NULL, NULL), EPS_OK);
    assert_true(operations >= (double)eps_strategy_columns(s) * (double)d);
    return bytes;
}

/* Rows of d numbers, whatever n is. */
TEST(it_keeps_few_rows)
{
    enum { N = 60000, D = 20000 };
    static const struct {
        int form;
        double rows;
    } kept[] = {{0, 0}, {1, 5}, {3, 3}, {4, 3}, {5, 2}, {10, 17}, {11, 34}};
    for (size_t i = 0; i < sizeof kept / sizeof *kept; i++) {
        struct eps_strategy *s = form_new(&forms[kept[i].form], N, 1, 0);
        double slack = 8.0 * (2 * EPS__WHITE_TILE + 6 * N);
        double noise = bytes_of(NULL, s, EPS_PART_NOISE, D), decoder = bytes_of(NULL, s, EPS_PART_DECODER, D);
        assert_true(noise <= 8.0 * kept[i].rows * D + slack);
        assert_true(decoder <= 8.0 * (kept[i].rows + 2) * D + slack);
        eps_strategy_destroy(s);
    }
    /* A full matrix in panels: far fewer than n d numbers. */
    struct eps_strategy *s = form_new(&forms[2], N, 1, 0);
    assert_true(bytes_of(NULL, s, EPS_PART_NOISE, D) < 0x1p27);
    /* The permitted memory decides between ways that differ in work. */
    struct eps_context context = {.max_bytes = 1e6};
    eps_strategy_destroy(s);
    s = form_new(&forms[2], 64, 1, 0);
    assert_true(bytes_of(NULL, s, EPS_PART_NOISE, 1000) > 4e6);
    assert_true(bytes_of(&context, s, EPS_PART_NOISE, 1000) < 1e6);
    eps_strategy_destroy(s);
}

/* A list of coefficients as long as the stream does not make B z keep the stream. */
TEST(long_lists_are_multiplied_by_panels)
{
    enum { N = 200, D = 120000 };
    double list[N];
    struct eps_mechanism mechanism = mechanism_new(EPS_FAMILY_TOEPLITZ, N);
    set_toeplitz(&mechanism.matrix, N);
    for (size_t i = 0; i < N; i++)
        list[i] = 1 / (1 + (double)i);
    mechanism.workload = (struct eps_workload){.type = EPS_WORKLOAD_TOEPLITZ, .coefficients = list};
    mechanism.workload.coefficients_len = N;
    struct eps_strategy *s = strategy_new(&mechanism);
    struct eps_context context = {.max_bytes = 8.0 * D};
    struct eps_error error = {0};
    struct eps_noise *noise = NULL;
    assert_int_equal(eps_noise_create(&context, &noise, &error, s, EPS_PART_DECODER, 1, D, key), EPS_TOO_COSTLY);
    assert_true(error.bytes > context.max_bytes);
    context.max_bytes = 8.0 * N * D / 2;
    assert_true(bytes_of(&context, s, EPS_PART_DECODER, D) <= context.max_bytes);
    struct matrix z = white_matrix(s, 5);
    check_drawn(s, &z, "long list");
    matrix_free(&z);
    eps_strategy_destroy(s);
}

static void assert_refused(const struct eps_context *context, const struct eps_strategy *s, enum eps_part part,
                           double multiplier, size_t d, enum eps_status status, const char *pointer)
{
    struct eps_noise *noise = NULL;
    struct eps_error error = {0};
    assert_int_equal(eps_noise_create(context, &noise, &error, s, part, multiplier, d, key), status);
    assert_null(noise);
    assert_int_equal(error.status, status);
    assert_string_equal(error.pointer, pointer);
}

static bool yes(void *user)
{
    (void)user;
    return true;
}

TEST(what_cannot_be_drawn_is_refused)
{
    struct eps_strategy *s = form_new(&forms[3], 8, 1, 0);
    struct eps_context poor = {.max_bytes = 100}, idle = {.max_operations = 100}, canceled = {.canceled = yes};
    assert_refused(NULL, s, EPS_PART_ENCODER, 1, 1, EPS_INVALID, "/part");
    assert_refused(NULL, s, EPS_PART_NOISE, -1, 1, EPS_INVALID, "/noise_multiplier");
    assert_refused(NULL, s, EPS_PART_NOISE, NAN, 1, EPS_INVALID, "/noise_multiplier");
    assert_refused(NULL, s, EPS_PART_NOISE, 1.1e9, 1, EPS_INVALID, "/noise_multiplier");
    assert_refused(NULL, s, EPS_PART_NOISE, 1, 0, EPS_INVALID, "/dimensions");
    assert_refused(NULL, s, EPS_PART_NOISE, 1, (size_t)1 << 31, EPS_INVALID, "/dimensions");
    assert_refused(&poor, s, EPS_PART_NOISE, 1, 50, EPS_TOO_COSTLY, "/dimensions");
    assert_refused(&idle, s, EPS_PART_NOISE, 1, 50, EPS_TOO_COSTLY, "/dimensions");
    struct eps_noise *noise = NULL;
    double x[3];
    assert_int_equal(eps_noise_create(NULL, &noise, NULL, s, EPS_PART_NOISE, 1, 3, key), EPS_OK);
    assert_int_equal(eps_noise_row(&canceled, noise, x, NULL), EPS_CANCELED);
    eps_noise_destroy(noise);
    eps_noise_destroy(NULL);
    eps_strategy_destroy(s);
    /* Singular. */
    static const double zero[] = {0, 1};
    struct eps_mechanism mechanism = mechanism_new(EPS_FAMILY_TOEPLITZ, 2);
    mechanism.matrix.coefficients = zero;
    mechanism.matrix.coefficients_len = 2;
    s = strategy_new(&mechanism);
    assert_refused(NULL, s, EPS_PART_NOISE, 1, 1, EPS_UNSUPPORTED, "/matrix");
    eps_strategy_destroy(s);
}

/* Numbers beyond the range of doubles are an error, and never infinite. */
TEST(what_exceeds_doubles_is_refused)
{
    static const double column[] = {0.01, 1}, large[] = {1e100};
    const size_t n = 120; /* the last entry of C^-1 is about 1e240 */
    struct eps_mechanism mechanism = mechanism_new(EPS_FAMILY_TOEPLITZ, n);
    mechanism.matrix.coefficients = column;
    mechanism.matrix.coefficients_len = 2;
    mechanism.workload.type = EPS_WORKLOAD_TOEPLITZ;
    mechanism.workload.coefficients = large;
    mechanism.workload.coefficients_len = 1;
    struct eps_strategy *s = strategy_new(&mechanism);
    struct eps_noise *noise = NULL;
    double numbers[120];
    assert_int_equal(eps_strategy_row(s, numbers, NULL, EPS_PART_NOISE, n - 1), EPS_OK);
    assert_true(isfinite(numbers[0]) && fabs(numbers[0]) > 1e230);
    assert_int_equal(eps_strategy_row(s, numbers, NULL, EPS_PART_DECODER, 0), EPS_OK);
    assert_int_equal(eps_strategy_row(s, numbers, NULL, EPS_PART_DECODER, n - 1), EPS_UNSUPPORTED);
    assert_int_equal(eps_strategy_coefficients(s, numbers, NULL, EPS_PART_DECODER, n), EPS_UNSUPPORTED);
    assert_int_equal(eps_noise_create(NULL, &noise, NULL, s, EPS_PART_DECODER, 1, 1, key), EPS_OK);
    enum eps_status status = EPS_OK;
    for (size_t t = 0; t < n && status == EPS_OK; t++) {
        status = eps_noise_row(NULL, noise, numbers, NULL);
        assert_true(status != EPS_OK || isfinite(numbers[0]));
    }
    assert_int_equal(status, EPS_UNSUPPORTED);
    eps_noise_destroy(noise);
    eps_strategy_destroy(s);
}

/* With no noise the rows are 0. */
TEST(without_sigma_it_is_zero)
{
    for (size_t i = 0; i < FORMS; i++) {
        struct eps_strategy *s = form_new(&forms[i], 4, 1, 0);
        struct eps_noise *noise = NULL;
        double x[9];
        assert_int_equal(eps_noise_create(NULL, &noise, NULL, s, EPS_PART_DECODER, 0, 9, key), EPS_OK);
        for (size_t t = 0; t < 4; t++) {
            assert_int_equal(eps_noise_row(NULL, noise, x, NULL), EPS_OK);
            for (size_t c = 0; c < 9; c++)
                assert_true(x[c] == 0);
        }
        eps_noise_destroy(noise);
        eps_strategy_destroy(s);
    }
}
