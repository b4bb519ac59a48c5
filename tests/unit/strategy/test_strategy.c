/*
 * Strategy matrices compared with brute force at small n, with reference numbers computed by others, and tested at the
 * sizes that the closed forms and transforms are made for.
 *
 * SPDX-License-Identifier: GPL-3.0-or-later
 */
#include <jansson.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "lib/numerics/fft/convolve.h"
#include "lib/strategy/families/family.h"
#include "lib/strategy/strategy.h"
#include "tests/unit/matrices.h"
#include "tests/unit/test.h"

enum { N = 24 };

static const double decreasing[] = {1, 0.5, 0.25, 0.2, 0.125};
static const double mixed[] = {2, -0.75, 0, 0.5};
static const double weights[] = {1.5, 0.75, -0.25, 0.5, 0, 0.125};

static void assert_near(long double got, long double wanted, long double tolerance)
{
    if (!(fabsl(got - wanted) <= tolerance * fmaxl(1, fabsl(wanted))))
        fail_msg("got %.17Lg, wanted %.17Lg", got, wanted);
}

static void assert_matrices_near(const struct matrix *got, const struct matrix *wanted)
{
    assert_int_equal(got->rows, wanted->rows);
    assert_int_equal(got->columns, wanted->columns);
    for (size_t i = 0; i < got->rows * got->columns; i++)
        assert_near(got->at[i], wanted->at[i], 1e-11L);
}

/* A well-conditioned m x m matrix, lower triangular or full. */
static double *random_rows(size_t m, bool lower)
{
    unsigned long long state = m;
    double *rows = calloc(m * m, sizeof *rows);
    assert_non_null(rows);
    for (size_t i = 0; i < m; i++)
        for (size_t j = 0; j < (lower ? i + 1 : m); j++)
            rows[i * m + j] = i == j ? 2 + scatter(&state) / 2 : scatter(&state) / (double)m;
    return rows;
}

static void set_workload(struct eps_mechanism *mechanism, int which)
{
    struct eps_workload *w = &mechanism->workload;
    *w = (struct eps_workload){.type = EPS_WORKLOAD_PREFIX_SUM, .decay = 1};
    if (which == 1)
        *w = (struct eps_workload){.type = EPS_WORKLOAD_MOMENTUM, .momentum = 0.9, .decay = 0.95};
    if (which == 2)
        *w = (struct eps_workload){.type = EPS_WORKLOAD_MOMENTUM,
                                   .momentum = 0.8,
                                   .decay = 0.9,
                                   .cooldown = true,
                                   .cooldown_from = 0.4,
                                   .cooldown_to = 0.05};
    if (which == 3)
        *w = (struct eps_workload){
            .type = EPS_WORKLOAD_TOEPLITZ, .decay = 1, .coefficients = weights, .coefficients_len = 6};
}

/* C, C^-1, B and the row norms of B, for one mechanism. */
static void check_parts(const struct eps_mechanism *mechanism)
{
    size_t n = mechanism->n;
    double variance[64], mean, max, last;
    struct eps_strategy *strategy = strategy_new(mechanism);
    struct matrix c = family_matrix(mechanism), encoder = part_matrix(strategy, EPS_PART_ENCODER);
    assert_matrices_near(&encoder, &c);
    if (mechanism->matrix.family != EPS_FAMILY_TREE) {
        struct matrix inverse = matrix_inverse(&c), a = workload_matrix(mechanism), b = matrix_product(&a, &inverse);
        struct matrix noise = part_matrix(strategy, EPS_PART_NOISE), decoder = part_matrix(strategy, EPS_PART_DECODER);
        assert_matrices_near(&noise, &inverse);
        assert_matrices_near(&decoder, &b);
        assert_int_equal(eps_strategy_variance(NULL, strategy, variance, NULL), EPS_OK);
        assert_int_equal(eps__strategy_error(NULL, strategy, mechanism, &mean, &max, &last), EPS_OK);
        long double sum = 0, largest = 0, norm = 0;
        for (size_t t = 0; t < n; t++) {
            norm = 0;
            for (size_t j = 0; j < n; j++)
                norm += *entry(&b, t, j) * *entry(&b, t, j);
            assert_near(variance[t], norm, 1e-11L);
            sum += norm;
            largest = fmaxl(largest, norm);
        }
        assert_near(mean, sum / (long double)n, 1e-11L);
        assert_near(max, largest, 1e-11L);
        assert_near(last, norm, 1e-11L);
        matrix_free(&inverse);
        matrix_free(&a);
        matrix_free(&b);
        matrix_free(&noise);
        matrix_free(&decoder);
    }
    matrix_free(&c);
    matrix_free(&encoder);
    eps_strategy_destroy(strategy);
}

TEST(every_family_has_a_whole_row)
{
    for (enum eps_family name = 0; name < EPS_FAMILY_COUNT; name++) {
        const struct eps__family *family = eps__family_of(&(struct eps_matrix){.family = name});
        assert_int_equal(family->family, name);
        assert_non_null(family->name);
        assert_true(family->kept ? !family->build : family->build != NULL);
        assert_true(!family->told || family->optimised);
        assert_true(eps_serves_family(name));
    }
    const struct eps__family *none = eps__family_of(&(struct eps_matrix){.family = EPS_FAMILY_COUNT});
    assert_true(!none->name && !none->build && !none->kept);
    assert_false(eps_serves_family(EPS_FAMILY_COUNT));
}

TEST(every_family_is_its_definition)
{
    static const size_t stamps[] = {1, 3, 4};
    for (size_t s = 0; s < 3; s++) {
        double *lower = random_rows(N / stamps[s], true), *full = random_rows(N / stamps[s], false);
        for (int workload = 0; workload < 4; workload++) {
            struct eps_mechanism m = mechanism_new(EPS_FAMILY_IDENTITY, N);
            set_workload(&m, workload);
            m.matrix.stamps = stamps[s];
            check_parts(&m);
            m.matrix.family = EPS_FAMILY_TREE;
            check_parts(&m);
            m.matrix.family = EPS_FAMILY_TOEPLITZ;
            m.matrix.coefficients = decreasing;
            m.matrix.coefficients_len = 5;
            check_parts(&m);
            m.matrix.coefficients = mixed;
            m.matrix.coefficients_len = 4;
            check_parts(&m);
            m.matrix.family = EPS_FAMILY_DENSE;
            m.matrix.rows_n = N / stamps[s];
            m.matrix.rows = lower;
            check_parts(&m);
            m.matrix.rows = full;
            check_parts(&m);
            m.matrix.family = EPS_FAMILY_SQUARE_ROOT;
            if (workload == 2)
                continue; /* not Toeplitz */
            check_parts(&m);
            m.matrix.bands = 5;
            check_parts(&m);
        }
        free(lower);
        free(full);
    }
}

TEST(trees_of_any_size)
{
    for (size_t n = 1; n <= 17; n++) {
        struct eps_mechanism m = mechanism_new(EPS_FAMILY_TREE, n);
        struct eps_strategy *strategy = strategy_new(&m);
        struct matrix c = part_matrix(strategy, EPS_PART_ENCODER);
        check_parts(&m);
        /* Causal: no row up to the first one that contains a step contains a later step. */
        for (size_t i = 0, seen = 0; i < c.rows; i++)
            for (size_t j = 0; j < n; j++)
                if (*entry(&c, i, j) != 0 && j >= seen) {
                    assert_int_equal(j, seen);
                    seen = j + 1;
                }
        assert_true(eps__strategy_lower_triangular(strategy));
        matrix_free(&c);
        eps_strategy_destroy(strategy);
    }
}

TEST(toeplitz_parts_have_coefficients)
{
    for (int workload = 0; workload < 4; workload++) {
        struct eps_mechanism m = mechanism_new(EPS_FAMILY_TOEPLITZ, N);
        m.matrix.coefficients = mixed;
        m.matrix.coefficients_len = 4;
        set_workload(&m, workload);
        struct eps_strategy *strategy = strategy_new(&m);
        for (int part = 0; part < EPS_PART_COUNT; part++) {
            double c[N];
            struct matrix rows = part_matrix(strategy, (enum eps_part)part);
            enum eps_status status = eps_strategy_coefficients(strategy, c, NULL, (enum eps_part)part, N);
            assert_int_equal(status, part == EPS_PART_DECODER && workload == 2 ? EPS_UNSUPPORTED : EPS_OK);
            for (size_t i = 0; !status && i < N; i++)
                assert_near(c[i], *entry(&rows, i, 0), 1e-13L);
            matrix_free(&rows);
        }
        assert_true(eps_strategy_is_toeplitz(strategy));
        assert_int_equal(eps_strategy_bands(strategy), 4);
        eps_strategy_destroy(strategy);
        m.matrix.stamps = 2;
        strategy = strategy_new(&m);
        double c[N];
        assert_false(eps_strategy_is_toeplitz(strategy));
        assert_int_equal(eps_strategy_coefficients(strategy, c, NULL, EPS_PART_ENCODER, N), EPS_UNSUPPORTED);
        eps_strategy_destroy(strategy);
    }
}

TEST(columns_and_signs_are_measured)
{
    double rows[] = {1, 0, 0, 0, 0.5, 3, 0, 0, 0, -1, 1, 0, 0, 0, 2, 1};
    struct eps_mechanism m = mechanism_new(EPS_FAMILY_DENSE, 4);
    m.matrix.rows = rows;
    m.matrix.rows_n = 4;
    m.matrix.normalization = EPS_NORMALIZATION_MAX_COLUMN;
    struct eps_strategy *strategy = strategy_new(&m);
    assert_int_equal(eps_strategy_bands(strategy), 2);
    assert_false(eps__strategy_nonnegative(strategy));
    assert_true(eps__strategy_lower_triangular(strategy));
    assert_near(eps__strategy_column_norm(strategy, 1), 1, 1e-15L);
    assert_near(eps__strategy_column_norm(strategy, 0), sqrtl(1.25L / 10), 1e-15L);
    eps_strategy_destroy(strategy);
    rows[3] = 0.1;
    rows[9] = 1;
    strategy = strategy_new(&m);
    assert_true(eps__strategy_nonnegative(strategy));
    assert_false(eps__strategy_lower_triangular(strategy));
    assert_int_equal(eps_strategy_bands(strategy), 4);
    eps_strategy_destroy(strategy);
    double diagonal[] = {1, 0, 0, 2};
    m = mechanism_new(EPS_FAMILY_DENSE, 2);
    m.matrix.rows = diagonal;
    m.matrix.rows_n = 2;
    strategy = strategy_new(&m);
    assert_true(eps__strategy_is_diagonal(strategy));
    assert_true(eps__strategy_column_norm(strategy, 1) == 2);
    eps_strategy_destroy(strategy);
}

TEST(ids_name_the_matrix_not_the_question)
{
    static const double one[] = {1, 0}, two[] = {2}, minus_zero[] = {1, -0.0, 0.5}, zero[] = {1, 0, 0.5};
    struct eps_mechanism m = mechanism_new(EPS_FAMILY_IDENTITY, 12), t = mechanism_new(EPS_FAMILY_TOEPLITZ, 12);
    struct eps_mechanism r = mechanism_new(EPS_FAMILY_SQUARE_ROOT, 12);
    t.matrix.coefficients = one;
    t.matrix.coefficients_len = 2;
    r.matrix.bands = 1;
    struct eps_strategy *identity = strategy_new(&m), *same = strategy_new(&t), *root = strategy_new(&r);
    assert_int_equal(strlen(eps_strategy_id(identity)), 64);
    assert_string_equal(eps_strategy_id(identity), eps_strategy_id(same));
    assert_string_equal(eps_strategy_id(identity), eps_strategy_id(root));
    eps_strategy_destroy(same);
    m.matrix.stamps = 3;
    same = strategy_new(&m);
    assert_string_equal(eps_strategy_id(identity), eps_strategy_id(same));
    eps_strategy_destroy(same);
    t.matrix.coefficients = two;
    t.matrix.coefficients_len = 1;
    struct eps_strategy *other = strategy_new(&t);
    assert_string_not_equal(eps_strategy_id(identity), eps_strategy_id(other));
    eps_strategy_destroy(other);
    t.matrix.normalization = EPS_NORMALIZATION_MAX_COLUMN;
    same = strategy_new(&t);
    assert_string_equal(eps_strategy_id(identity), eps_strategy_id(same));
    eps_strategy_destroy(same);
    t.matrix.coefficients = zero;
    t.matrix.coefficients_len = 3;
    same = strategy_new(&t);
    t.matrix.coefficients = minus_zero;
    other = strategy_new(&t);
    assert_string_equal(eps_strategy_id(other), eps_strategy_id(same));
    eps_strategy_destroy(other);
    t.matrix.stamps = 2;
    other = strategy_new(&t);
    assert_string_not_equal(eps_strategy_id(other), eps_strategy_id(same));
    eps_strategy_destroy(other);
    eps_strategy_destroy(same);
    eps_strategy_destroy(root);
    eps_strategy_destroy(identity);
}

TEST(normalizations_scale)
{
    for (int family = 0; family < EPS_FAMILY_COUNT; family++) {
        if (!eps_serves_family((enum eps_family)family) || family == EPS_FAMILY_STORED)
            continue;
        struct eps_sensitivity sensitivity;
        double *rows = random_rows(N / 2, true), largest = 0;
        struct eps_mechanism m = mechanism_new((enum eps_family)family, N);
        m.matrix.stamps = 2;
        m.matrix.rows = rows;
        m.matrix.rows_n = N / 2;
        m.matrix.coefficients = mixed;
        m.matrix.coefficients_len = 4;
        m.matrix.bands = 4;
        m.matrix.toeplitz = true;
        m.matrix.buffers = 2;
        m.matrix.gap = 1e-3;
        m.matrix.normalization = EPS_NORMALIZATION_MAX_COLUMN;
        m.sampling.epochs = 6;
        m.sampling.separation = 3;
        struct eps_strategy *strategy = strategy_new(&m);
        for (size_t j = 0; j < N; j++)
            largest = fmax(largest, eps__strategy_column_norm(strategy, j));
        assert_near(largest, 1, 1e-14L);
        eps_strategy_destroy(strategy);
        m.matrix.normalization = EPS_NORMALIZATION_SENSITIVITY;
        strategy = strategy_new(&m);
        assert_int_equal(eps__strategy_sensitivity(NULL, &sensitivity, NULL, strategy, &m), EPS_OK);
        assert_near(sensitivity.value, 1, 1e-9L);
        eps_strategy_destroy(strategy);
        free(rows);
    }
}

static void assert_refused(const struct eps_context *context, const struct eps_mechanism *mechanism,
                           enum eps_status status, const char *pointer, const char *word)
{
    struct eps_strategy *strategy = NULL;
    struct eps_error error = {0};
    assert_int_equal(eps_strategy_create(context, &strategy, &error, mechanism), status);
    assert_null(strategy);
    assert_int_equal(error.status, status);
    assert_string_equal(error.pointer, pointer);
    if (!strstr(error.message, word))
        fail_msg("'%s' does not say '%s'", error.message, word);
}

static bool always(void *user)
{
    (void)user;
    return true;
}

TEST(what_cannot_be_computed_is_refused)
{
    static const double zeros[] = {0, 0}, huge[9] = {1e200}, negative[] = {-1, 1};
    struct eps_mechanism m = mechanism_new(EPS_FAMILY_COUNT, 8);
    assert_refused(NULL, &m, EPS_UNSUPPORTED, "/matrix/family", "square_root");
    m.matrix.family = EPS_FAMILY_TOEPLITZ;
    m.matrix.coefficients = zeros;
    m.matrix.coefficients_len = 2;
    m.matrix.normalization = EPS_NORMALIZATION_MAX_COLUMN;
    assert_refused(NULL, &m, EPS_INVALID, "/matrix", "zero");
    m.matrix.coefficients = huge;
    m.matrix.coefficients_len = 1;
    assert_refused(NULL, &m, EPS_INVALID, "/matrix/coefficients", "1e100");
    m.matrix.coefficients_len = 9;
    assert_refused(NULL, &m, EPS_INVALID, "/matrix/coefficients", "between 1 and 8");
    m.matrix.family = EPS_FAMILY_IDENTITY;
    m.matrix.stamps = 3;
    assert_refused(NULL, &m, EPS_INVALID, "/matrix/stamps", "divide");
    m.matrix.stamps = 1;
    m.matrix.family = EPS_FAMILY_SQUARE_ROOT;
    set_workload(&m, 2);
    assert_refused(NULL, &m, EPS_INVALID, "/workload/cooldown", "Toeplitz");
    set_workload(&m, 3);
    m.workload.coefficients = negative;
    m.workload.coefficients_len = 2;
    assert_refused(NULL, &m, EPS_INVALID, "/workload/coefficients/0", "positive");
    m = mechanism_new(EPS_FAMILY_SQUARE_ROOT, 1000);
    struct eps_context context = {.max_bytes = 1000};
    assert_refused(&context, &m, EPS_TOO_COSTLY, "/n", "bytes");
    context = (struct eps_context){.canceled = always};
    assert_refused(&context, &m, EPS_CANCELED, "", "canceled");
    context = (struct eps_context){.expired = always};
    assert_refused(&context, &m, EPS_TIMEOUT, "", "time");
}

/* C without an inverse still has a sensitivity; its error figures are undefined. */
TEST(a_singular_strategy_keeps_its_encoder)
{
    static const double late[] = {0, 1}, rows[] = {1, 0, 1, 0}, full[] = {1, 2, 2, 4};
    const struct eps_matrix matrices[] = {
        {.family = EPS_FAMILY_TOEPLITZ, .coefficients = late, .coefficients_len = 2},
        {.family = EPS_FAMILY_DENSE, .rows = rows, .rows_n = 2},
        {.family = EPS_FAMILY_DENSE, .rows = full, .rows_n = 2},
    };
    for (size_t i = 0; i < 3; i++) {
        double row[2], mean = 0, max = 0, last = 0;
        size_t shape[2];
        struct eps_mechanism m = mechanism_new(EPS_FAMILY_IDENTITY, 2);
        m.matrix = matrices[i];
        m.matrix.stamps = 1;
        struct eps_strategy *strategy = strategy_new(&m);
        assert_int_equal(eps__strategy_error(NULL, strategy, &m, &mean, &max, &last), EPS_OK);
        assert_true(isnan(mean) && isnan(max) && isnan(last));
        assert_int_equal(eps_strategy_row(strategy, row, NULL, EPS_PART_ENCODER, 1), EPS_OK);
        assert_int_equal(eps_strategy_row(strategy, row, NULL, EPS_PART_NOISE, 1), EPS_UNSUPPORTED);
        assert_int_equal(eps_strategy_row(strategy, row, NULL, EPS_PART_ENCODER, 2), EPS_INVALID);
        assert_int_equal(eps_strategy_shape(strategy, NULL, EPS_PART_DECODER, shape, shape + 1), EPS_UNSUPPORTED);
        assert_int_equal(eps_strategy_variance(NULL, strategy, row, NULL), EPS_UNSUPPORTED);
        eps_strategy_destroy(strategy);
    }
}

/* Reference numbers computed by others: error, sensitivity and loss of the banded square root (group
 * banded_sqrt_BSR). */
TEST(the_banded_square_root_agrees_with_others)
{
    json_t *file = json_load_file("tests/paper/reference.json", 0, NULL), *row;
    size_t index;
    json_t *rows = json_object_get(json_object_get(file, "strategies"), "banded_sqrt_BSR");
    assert_true(json_array_size(rows) >= 20);
    json_array_foreach (rows, index, row) {
        struct eps_mechanism m =
            mechanism_new(EPS_FAMILY_SQUARE_ROOT, (size_t)json_integer_value(json_object_get(row, "n")));
        m.matrix.bands = (size_t)json_integer_value(json_object_get(row, "bands"));
        m.sampling.epochs = (size_t)json_integer_value(json_object_get(row, "k"));
        m.sampling.separation = (size_t)json_integer_value(json_object_get(row, "min_sep"));
        bool mean_wanted = !strcmp(json_string_value(json_object_get(row, "objective")), "mean");
        double mean, max, last;
        struct eps_sensitivity fixed, least;
        struct eps_strategy *strategy = strategy_new(&m);
        assert_int_equal(eps__strategy_error(NULL, strategy, &m, &mean, &max, &last), EPS_OK);
        assert_int_equal(eps__strategy_sensitivity(NULL, &fixed, NULL, strategy, &m), EPS_OK);
        m.sampling.schema = EPS_SCHEMA_MIN_SEPARATION;
        assert_int_equal(eps__strategy_sensitivity(NULL, &least, NULL, strategy, &m), EPS_OK);
        double error = mean_wanted ? mean : max, loss = json_real_value(json_object_get(row, "sqrt_loss"));
        assert_near(error, json_real_value(json_object_get(row, "err")), 1e-11L);
        assert_near(least.value * least.value, json_number_value(json_object_get(row, "sens2")), 1e-11L);
        assert_near(fixed.value * fixed.value, json_number_value(json_object_get(row, "sens2")), 1e-11L);
        assert_true(least.exact && fixed.exact);
        assert_near(sqrt(error) * least.value, loss, 1e-11L);
        eps_strategy_destroy(strategy);
    }
    json_decref(file);
}

/* A = R R with R the square root of prefix sums, so B = R and the figures are sums of its squares. */
TEST(a_million_steps_are_fast)
{
    size_t n = (size_t)1 << 20;
    double mean, max, last;
    struct eps_mechanism m = mechanism_new(EPS_FAMILY_SQUARE_ROOT, n);
    struct eps_strategy *strategy = strategy_new(&m);
    assert_int_equal(eps__strategy_error(NULL, strategy, &m, &mean, &max, &last), EPS_OK);
    long double root = 1, sum = 0, total = 0;
    for (size_t t = 0; t < n; t++) {
        sum += root * root;
        total += sum;
        root *= 1 - 1 / (2 * (long double)(t + 1));
    }
    assert_near(max, sum, 1e-11L);
    assert_near(last, sum, 1e-11L);
    assert_near(mean, total / (long double)n, 1e-11L);
    assert_near(eps__strategy_column_norm(strategy, 0), sqrtl(sum), 1e-12L);
    assert_int_equal(eps_strategy_bands(strategy), n);
    eps_strategy_destroy(strategy);

    m.matrix.bands = 64;
    strategy = strategy_new(&m);
    assert_int_equal(eps__strategy_error(NULL, strategy, &m, &mean, &max, &last), EPS_OK);
    double operations, bytes;
    eps__strategy_cost(&m, &operations, &bytes);
    assert_true(bytes < 8.0 * (double)n * 64);
    /* C B = A: the last row, multiplied out. */
    double *b = malloc(n * sizeof *b), *c = malloc(n * sizeof *c), product = 0;
    assert_non_null(b);
    assert_non_null(c);
    assert_int_equal(eps_strategy_coefficients(strategy, b, NULL, EPS_PART_DECODER, n), EPS_OK);
    assert_int_equal(eps_strategy_coefficients(strategy, c, NULL, EPS_PART_ENCODER, 64), EPS_OK);
    for (size_t j = 0; j < 64; j++)
        product += c[j] * b[n - 1 - j];
    assert_near(product, 1, 1e-12L);
    free(b);
    free(c);
    eps_strategy_destroy(strategy);
}

/* More columns than one pass of the recursion, and rows long enough for entries to fade: compared with rows of B. */
TEST(long_cooldowns_match_their_rows)
{
    static const double decays[] = {1, 0.97, 0.3};
    enum { LONG = 3000 };
    double *row = malloc(LONG * sizeof *row), *variance = malloc(LONG * sizeof *variance);
    assert_true(row && variance);
    for (size_t i = 0; i < 6; i++) {
        struct eps_mechanism m = mechanism_new(EPS_FAMILY_TOEPLITZ, LONG);
        set_workload(&m, 2);
        m.workload.decay = decays[i % 3];
        m.workload.cooldown_from = 0.35;
        m.matrix.coefficients = decreasing;
        m.matrix.coefficients_len = 5;
        m.matrix.stamps = i < 3 ? 1 : 2;
        struct eps_strategy *strategy = strategy_new(&m);
        assert_int_equal(eps_strategy_variance(NULL, strategy, variance, NULL), EPS_OK);
        for (size_t t = 0; t<LONG; t += t> 1000 && t < 1100 ? 1 : 97) {
            long double norm = 0;
            assert_int_equal(eps_strategy_row(strategy, row, NULL, EPS_PART_DECODER, t), EPS_OK);
            for (size_t j = 0; j < LONG; j++)
                norm += (long double)row[j] * row[j];
            assert_near(variance[t], norm, 1e-11L);
        }
        eps_strategy_destroy(strategy);
    }
    free(row);
    free(variance);
}

TEST(long_series_multiply_back)
{
    enum { LONG = 40000 };
    double *a = malloc(LONG * sizeof *a), *x = malloc(LONG * sizeof *x), *y = malloc(LONG * sizeof *y);
    assert_true(a && x && y);
    for (size_t i = 0; i < LONG; i++)
        a[i] = 1 / pow((double)i + 1, 1.2);
    assert_true(eps__series_inverse(x, LONG, a, LONG));
    assert_true(eps__convolve(y, LONG, a, LONG, x, LONG));
    for (size_t i = 0; i < LONG; i++)
        assert_near(y[i], i == 0, 1e-14L);
    assert_true(eps__series_sqrt(x, LONG, a, LONG));
    for (size_t i = 0; i < LONG; i += 997) {
        long double product = 0;
        for (size_t j = 0; j <= i; j++)
            product += (long double)x[j] * x[i - j];
        assert_near(product, a[i], 1e-14L);
    }
    free(a);
    free(x);
    free(y);
}

/* Step by step, relative to each number, compared with y C = (row t of A) in quadruple precision: rows that span 85
 * orders of magnitude, of which a plain transform leaves the first thousand no digits. */
TEST(figures_keep_their_digits)
{
    enum { LONG = 1200, WEIGHTS = 72, SHAPES = 5 };
    static double workload[LONG], variance[LONG], row[LONG];
    __float128 *c = malloc((size_t)LONG * LONG * sizeof *c), *y = malloc(LONG * sizeof *y);
    assert_true(c && y);
    workload[0] = 1;
    workload[1] = 1.1;
    for (size_t j = 2; j < LONG; j++)
        workload[j] = j < WEIGHTS ? 0.01 : 1e-30 * pow(1.1, (double)j);
    for (int shape = 0; shape < SHAPES; shape++) {
        struct eps_mechanism m = mechanism_new(shape == 1   ? EPS_FAMILY_INVERSE_SQUARE_ROOT
                                               : shape == 2 ? EPS_FAMILY_BANDED
                                                            : EPS_FAMILY_SQUARE_ROOT,
                                               LONG);
        m.workload = (struct eps_workload){
            .type = EPS_WORKLOAD_TOEPLITZ, .coefficients = workload, .coefficients_len = shape < 3 ? WEIGHTS : LONG};
        m.matrix.bands = shape == 1 ? 9 : shape == 2 ? 4 : shape == 4 ? 70 : 0;
        m.matrix.toeplitz = m.matrix.column_normalize = shape == 2;
        m.matrix.epochs = 1;
        m.matrix.separation = LONG;
        struct eps_strategy *strategy = strategy_new(&m);
        for (size_t i = 0; i < LONG; i++) {
            assert_int_equal(eps_strategy_row(strategy, row, NULL, EPS_PART_ENCODER, i), EPS_OK);
            for (size_t j = 0; j <= i; j++)
                c[i * LONG + j] = row[j];
        }
        assert_int_equal(eps_strategy_variance(NULL, strategy, variance, NULL), EPS_OK);
        for (size_t t = 0; t < LONG; t += t < 4 ? 1 : 239) {
            __float128 norm = 0;
            for (size_t j = t + 1; j-- > 0;) {
                __float128 sum = t - j < m.workload.coefficients_len ? workload[t - j] : 0;
                for (size_t i = j + 1; i <= t; i++)
                    sum -= y[i] * c[i * LONG + j];
                y[j] = sum / c[j * LONG + j];
                norm += y[j] * y[j];
            }
            if (!(fabsl(variance[t] / (long double)norm - 1) <= 1e-9L))
                fail_msg("shape %d, step %zu: %.17g, not %.17Lg", shape, t, variance[t], (long double)norm);
        }
        eps_strategy_destroy(strategy);
    }
    free(c);
    free(y);
}

/* Series that grow, beyond the length at which they are computed directly: relative to each number. */
TEST(long_series_that_grow_have_digits)
{
    enum { LONG = 40000 };
    double *a = malloc(4 * LONG * sizeof *a), *x = a + LONG, *y = a + 2 * LONG, *z = a + 3 * LONG;
    bool kept;
    assert_non_null(a);
    /* 1/(1 - r x - ...): the coefficients fall, the inverse grows like 1.004^t. */
    for (size_t i = 0; i < LONG; i++)
        a[i] = i ? -0.004 * pow(0.9999, (double)i) : 1;
    assert_true(eps__series_inverse(x, LONG, a, LONG));
    for (size_t i = 1; i < LONG; i += 1111) {
        long double sum = 0;
        for (size_t j = 1; j <= i; j++)
            sum -= (long double)a[j] * x[i - j];
        assert_true(fabsl(x[i] / sum - 1) <= 1e-9L);
    }
    assert_true(x[LONG - 1] > 1e60);
    assert_true(eps__series_sqrt(y, LONG, x, LONG));
    assert_true(eps__convolve_digits(z, LONG, y, LONG, y, LONG, &kept) && kept);
    for (size_t i = 0; i < LONG; i++)
        assert_true(fabs(z[i] / x[i] - 1) <= 1e-9);
    /* Zeros are exact, and what cannot be computed is reported. */
    y[0] = y[1] = 0;
    assert_true(eps__convolve_digits(z, LONG, y, LONG, y, LONG, &kept) && kept);
    assert_true(z[0] == 0 && z[3] == 0 && z[4] > 0);
    free(a);
    enum { WILD = 1 << 17 };
    unsigned long long state = 1;
    a = malloc((size_t)3 * WILD * sizeof *a);
    assert_non_null(a);
    for (size_t i = 0; i < 2 * WILD; i++)
        a[i] = pow(10, 80 * scatter(&state));
    assert_true(eps__convolve_digits(a + (size_t)2 * WILD, WILD, a, WILD, a + WILD, WILD, &kept) && !kept);
    free(a);
}
