/*
 * Banded strategies that are not Toeplitz: the kind compared with dense matrices, the gradient with differences, and
 * the optima with numbers computed by others.
 *
 * SPDX-License-Identifier: GPL-3.0-or-later
 */
#include <jansson.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "lib/strategy/optimise/banded_loss.h"
#include "tests/unit/matrices.h"
#include "tests/unit/test.h"

static void assert_near(long double got, long double wanted, long double tolerance)
{
    if (!(fabsl(got - wanted) <= tolerance * fmaxl(1, fabsl(wanted))))
        fail_msg("got %.17Lg, wanted %.17Lg", got, wanted);
}

/* normalised: the Toeplitz optimum, each column divided by its norm; else any banded matrix. */
static struct eps_mechanism banded_mechanism(size_t n, size_t stamps, size_t bands, bool normalised)
{
    struct eps_mechanism m = mechanism_new(EPS_FAMILY_BANDED, n);
    m.matrix.stamps = stamps;
    m.matrix.bands = bands;
    m.matrix.toeplitz = m.matrix.column_normalize = normalised;
    m.matrix.gap = 1e-3;
    m.matrix.epochs = 1;
    m.matrix.separation = n / stamps;
    return m;
}

/* Columns of norm 1, with all bands or fewer below the diagonal; and all parts, from the encoder alone. */
TEST(the_kind_is_a_matrix)
{
    for (size_t bands = 1; bands <= 12; bands += bands < 3 ? 1 : 3)
        for (size_t stamps = 1; stamps <= 3; stamps++)
            for (int which = 0; which < 8; which++) {
                if (which == 2)
                    continue; /* a cooldown has no Toeplitz optimum */
                size_t n = 12 * stamps;
                struct eps_mechanism m = banded_mechanism(n, stamps, bands, which < 4);
                workload_choose(&m, which % 4);
                m.matrix.normalization = stamps == 2 ? EPS_NORMALIZATION_MAX_COLUMN : EPS_NORMALIZATION_NONE;
                struct eps_strategy *strategy = strategy_new(&m);
                struct matrix c = part_matrix(strategy, EPS_PART_ENCODER), inverse = matrix_inverse(&c);
                for (size_t j = 0; j < n; j++) {
                    long double norm = 0;
                    for (size_t i = 0; i < n; i++) {
                        bool inside = i >= j && i - j < bands && i / 12 == j / 12;
                        assert_true(inside || *entry(&c, i, j) == 0);
                        norm += *entry(&c, i, j) * *entry(&c, i, j);
                    }
                    assert_near(norm, 1, 1e-14L);
                    assert_near(eps__strategy_column_norm(strategy, j), 1, 1e-14L);
                }
                check_factorisation(strategy, &m, &c, &inverse, 1e-11L);
                /* A workload with entries of either sign may have an optimum with entries of either sign. */
                assert_true(eps_strategy_bands(strategy) <= bands);
                assert_true(which % 4 == 3 || eps__strategy_nonnegative(strategy));
                assert_true(eps__strategy_lower_triangular(strategy));
                eps_strategy_destroy(strategy);
                matrix_free(&c);
                matrix_free(&inverse);
            }
}

TEST(columns_are_those_of_the_toeplitz_optimum)
{
    struct eps_mechanism m = banded_mechanism(40, 1, 7, true), plain = m;
    plain.matrix.column_normalize = false;
    struct eps_strategy *normalised = strategy_new(&m), *toeplitz = strategy_new(&plain);
    struct matrix got = part_matrix(normalised, EPS_PART_ENCODER), c = part_matrix(toeplitz, EPS_PART_ENCODER);
    for (size_t j = 0; j < 40; j++) {
        long double norm = 0;
        for (size_t i = 0; i < 40; i++)
            norm += *entry(&c, i, j) * *entry(&c, i, j);
        for (size_t i = 0; i < 40; i++)
            assert_near(*entry(&got, i, j), *entry(&c, i, j) / sqrtl(norm), 1e-14L);
    }
    assert_string_not_equal(eps_strategy_id(normalised), eps_strategy_id(toeplitz));
    matrix_free(&got);
    matrix_free(&c);
    eps_strategy_destroy(normalised);
    eps_strategy_destroy(toeplitz);
}

static struct eps_sensitivity sensitivity_of(const struct eps_strategy *strategy, const struct eps_mechanism *m)
{
    struct eps_sensitivity s;
    assert_int_equal(eps__strategy_sensitivity(NULL, &s, NULL, strategy, m), EPS_OK);
    assert_true(s.lower <= s.value);
    return s;
}

/* The same matrix with its signs scattered, for the rules of Gram matrices. */
static struct eps_strategy *with_signs(const struct eps_strategy *s, unsigned long long seed)
{
    struct eps_strategy *copy = calloc(1, sizeof *copy);
    double *entries = malloc(s->entries_len * sizeof *entries);
    assert_true(copy && entries);
    pthread_mutex_init(&copy->lock, NULL);
    copy->lock_made = true;
    copy->n = s->n;
    copy->stamps = s->stamps;
    copy->block = s->block;
    for (size_t i = 0; i < s->entries_len; i++)
        entries[i] = copysign(s->entries[i], scatter(&seed));
    eps__banded_steal(copy, entries, eps__banded_stored(s), s->width);
    assert_true(copy->kind->measure(copy));
    return copy;
}

/* Every pattern of a small matrix, of either sign. */
TEST(sensitivity_bounds_every_pattern)
{
    for (int trial = 0; trial < 12; trial++) {
        size_t stamps = 1 + (size_t)trial % 2, bands = 1 + (size_t)trial % 5, n = 10;
        struct eps_mechanism m = banded_mechanism(n, stamps, bands, trial % 3 == 0);
        struct eps_strategy *plain = strategy_new(&m), *strategy = trial < 6 ? plain : with_signs(plain, 7);
        struct matrix c = part_matrix(strategy, EPS_PART_ENCODER), gram = matrix_gram(&c);
        for (size_t b = 1; b <= n; b++)
            for (size_t k = 1; (k - 1) * b < n; k++)
                for (int schema = 0; schema < 2; schema++) {
                    m.sampling.epochs = k;
                    m.sampling.separation = b;
                    m.sampling.schema = schema ? EPS_SCHEMA_MIN_SEPARATION : EPS_SCHEMA_FIXED_ORDER;
                    struct eps_sensitivity s = sensitivity_of(strategy, &m);
                    double signs = sqrt((double)pattern_square(&gram, &m, true));
                    assert_true(s.value >= signs * (1 - 1e-14));
                    assert_true(s.value <= signs * (schema ? 2 : sqrt(M_PI_2) * (1 + 1e-9)));
                    if (bands <= b || (schema == 0 && eps__strategy_nonnegative(strategy)))
                        assert_true(s.exact && s.value <= signs * (1 + 1e-12));
                }
        if (strategy != plain)
            eps_strategy_destroy(strategy);
        eps_strategy_destroy(plain);
        matrix_free(&c);
        matrix_free(&gram);
    }
}

/* Larger ones compared with the dense kind: both ways through a pattern, few starts and many, and the row bound. */
TEST(sensitivity_is_that_of_the_dense_matrix)
{
    enum { M = 60 };
    double rows[M * M];
    for (int trial = 0; trial < 6; trial++) {
        size_t stamps = 1 + (size_t)trial % 2 * 2, bands = 4 + 3 * ((size_t)trial % 3);
        struct eps_mechanism m = banded_mechanism(M * stamps, stamps, bands, trial % 4 != 3);
        struct eps_mechanism dense = mechanism_new(EPS_FAMILY_DENSE, M * stamps);
        struct eps_strategy *plain = strategy_new(&m), *strategy = trial < 5 ? plain : with_signs(plain, 3);
        struct matrix c = part_matrix(strategy, EPS_PART_ENCODER);
        for (size_t i = 0; i < M; i++)
            for (size_t j = 0; j < M; j++)
                rows[i * M + j] = (double)*entry(&c, i, j);
        dense.matrix.stamps = stamps;
        dense.matrix.rows = rows;
        dense.matrix.rows_n = M;
        struct eps_strategy *same = strategy_new(&dense);
        for (size_t b = 1; b <= 11; b += 2)
            for (size_t k = 2; (k - 1) * b < M * stamps && k < 16; k = 2 * k + 1)
                for (int schema = 0; schema < 2; schema++) {
                    m.sampling.epochs = dense.sampling.epochs = k;
                    m.sampling.separation = dense.sampling.separation = b;
                    m.sampling.schema = dense.sampling.schema =
                        schema ? EPS_SCHEMA_MIN_SEPARATION : EPS_SCHEMA_FIXED_ORDER;
                    struct eps_sensitivity s = sensitivity_of(strategy, &m), wanted = sensitivity_of(same, &dense);
                    assert_near(s.value, wanted.value, 1e-9L);
                    assert_int_equal(s.exact, wanted.exact);
                    assert_string_equal(s.rule, wanted.rule);
                }
        if (strategy != plain)
            eps_strategy_destroy(strategy);
        eps_strategy_destroy(plain);
        eps_strategy_destroy(same);
        matrix_free(&c);
    }
}

/* A banded matrix of these entries, all of whose columns are stored. */
static struct eps_strategy *banded_of(size_t n, size_t bands, double (*entry_of)(size_t j, size_t d))
{
    struct eps_strategy *s = calloc(1, sizeof *s);
    double *entries = calloc(n * bands, sizeof *entries);
    assert_true(s && entries && pthread_mutex_init(&s->lock, NULL) == 0);
    s->lock_made = true;
    eps__strategy_size(s, n, 1);
    for (size_t j = 0; j < n; j++)
        for (size_t d = 0; d < bands && j + d < n; d++)
            entries[j * bands + d] = entry_of(j, d);
    eps__banded_steal(s, entries, n, bands);
    assert_true(s->kind->measure(s));
    return s;
}

/* Columns that rise and fall by many orders of magnitude, in three ways. */
static double falling(size_t j, size_t d)
{
    return (1 + 0.1 * (double)d) * exp(-0.05 * (double)(j % 1000)) / 3;
}

static double spikes(size_t j, size_t d)
{
    return (j % 97 == 5 ? 1e8 / 7 : 1.0 / (3 + (double)(j % 11))) / (1 + (double)d);
}

static double rising(size_t j, size_t d)
{
    return pow(1.001, (double)j) / (7 + (double)d + (double)(j % 3));
}

/* F1: many starting points and few steps, compared with sums in quadruple precision; both bounds hold and are close. */
TEST(sums_that_slide_stay_exact)
{
    enum { N = 3000 };
    static double (*const shapes[])(size_t, size_t) = {falling, spikes, rising};
    for (int trial = 0; trial < 24; trial++) {
        size_t bands = trial % 2 ? 5 : 1, k = (size_t[]){2, 3, 40, 300}[trial / 2 % 4],
               b = bands > 1 ? 2 : 1 + (size_t)trial % 3;
        struct eps_strategy *s = banded_of(N, bands, shapes[trial % 3]);
        struct eps_mechanism m = mechanism_new(EPS_FAMILY_BANDED, N);
        m.sampling.epochs = k;
        m.sampling.separation = b;
        struct eps_sensitivity got = sensitivity_of(s, &m);
        __float128 best = 0, *rows = malloc(N * sizeof *rows);
        assert_non_null(rows);
        for (size_t start = 0; start + (k - 1) * b < N; start++) {
            __float128 sum = 0;
            size_t end = start + (k - 1) * b + bands < N ? start + (k - 1) * b + bands : N;
            for (size_t i = start; i < end; i++)
                rows[i] = 0;
            for (size_t c = 0, j = start; c < k; c++, j += b)
                for (size_t d = 0; d < bands && j + d < N; d++)
                    rows[j + d] += eps__banded_column(s, j)[d];
            for (size_t i = start; i < end; i++)
                sum += rows[i] * rows[i];
            best = sum > best ? sum : best;
        }
        long double root = sqrtl((long double)best);
        if (!((long double)got.value >= root * (1 - 1e-18L) && (long double)got.lower <= root * (1 + 1e-18L)))
            fail_msg("trial %d: %.20Lg is outside [%.17g, %.17g]", trial, root, got.lower, got.value);
        assert_true(got.exact && got.value - got.lower <= 2e-14 * got.value);
        free(rows);
        eps_strategy_destroy(s);
    }
}

/* Whole numbers of 26 bits, whose squares are exact. */
static double whole(size_t j, size_t d)
{
    unsigned long long state = 3 * j + 7;
    return d ? (double)(j % 5) : floor(0x1p25 + 0x1p25 * fabs(scatter(&state)));
}

/* The largest |C 1|^2 over the patterns of k consecutive steps of such a matrix of one or two bands, exactly. */
static __float128 largest_of_whole(size_t n, size_t bands, size_t k)
{
    __float128 sum = 0, best = 0;
    for (size_t end = 0; end < n; end++) {
        __float128 own = (__float128)whole(end, 0), below = bands > 1 && end + 1 < n ? (__float128)whole(end, 1) : 0;
        __float128 before = bands > 1 && end > 0 ? (__float128)whole(end - 1, 1) : 0;
        sum += own * own + below * below + (k > 1 ? 2 * own * before : 0);
        if (end >= k) { /* the step that leaves, and what it shared with the one after it */
            size_t start = end - k;
            __float128 left = (__float128)whole(start, 0), shared = bands > 1 ? (__float128)whole(start, 1) : 0;
            sum -= left * left + shared * shared + 2 * shared * (__float128)whole(start + 1, 0);
        }
        if (end + 1 >= k)
            best = sum > best ? sum : best;
    }
    return best;
}

/* F1: tens of thousands of differences, and the last bit of short sums, compared with integers. */
TEST(sums_that_slide_far_do_not_drift)
{
    for (size_t trial = 0; trial < 400; trial++) {
        bool far = trial < 6;
        size_t n = far ? 60000 : 400, k = far ? (size_t[]){3, 20000, 20011}[trial / 2] : trial / 2 + 1;
        size_t bands = 1 + trial % 2;
        struct eps_strategy *s = banded_of(n, bands, whole);
        struct eps_mechanism m = mechanism_new(EPS_FAMILY_BANDED, n);
        m.sampling.epochs = k;
        m.sampling.separation = 1;
        struct eps_sensitivity got = sensitivity_of(s, &m);
        __float128 square = largest_of_whole(n, bands, k), value = got.value, lower = got.lower;
        if (!(value * value >= square && lower * lower <= square))
            fail_msg("n %zu, k %zu, bands %zu: %.20Lg is outside [%.17g, %.17g]", n, k, bands,
                     sqrtl((long double)square), got.lower, got.value);
        assert_true(got.exact && got.value - got.lower <= 2e-14 * got.value);
        eps_strategy_destroy(s);
    }
}

TEST(the_gradient_is_the_limit_of_differences)
{
    enum { M = 14 };
    for (int trial = 0; trial < 24; trial++) {
        size_t bands = 1 + (size_t)trial % 5;
        unsigned long long state = 5 + (unsigned long long)trial;
        struct eps_mechanism m = banded_mechanism(M, 1, bands, false);
        workload_choose(&m, trial % 4);
        struct eps_strategy *s = strategy_new(&m);
        struct eps__banded_loss loss;
        double x[M * 5], gradient[M * 5], other[M * 5], value, up, down;
        assert_int_equal(eps__banded_loss_init(&loss, NULL, NULL, &s->workload, bands), EPS_OK);
        loss.power = trial % 3 ? 20 : 1;
        loss.squares = trial % 2;
        for (size_t i = 0; i < M * bands; i++)
            x[i] = i % bands ? 0.5 * scatter(&state) : 1.5 + scatter(&state);
        assert_true(eps__banded_log_loss(&loss, &value, gradient, x));
        for (size_t i = 0; i < M * bands; i++) {
            double kept = x[i], h = 1e-5;
            x[i] = kept + h;
            assert_true(eps__banded_log_loss(&loss, &up, other, x));
            x[i] = kept - h;
            assert_true(eps__banded_log_loss(&loss, &down, other, x));
            x[i] = kept;
            assert_near(gradient[i], (up - down) / (2 * h), 1e-7L);
        }
        eps__banded_loss_clear(&loss);
        eps_strategy_destroy(s);
    }
}

/* Numbers computed by others (group dense): unit diagonal of X, or 1/epochs; bands or the whole triangle. */
TEST(optima_are_those_of_others)
{
    json_t *file = json_load_file("tests/paper/reference.json", 0, NULL), *row;
    size_t index, met = 0;
    assert_non_null(file);
    json_array_foreach (json_object_get(json_object_get(file, "strategies"), "dense"), index, row) {
        size_t n = (size_t)json_integer_value(json_object_get(row, "n")), bands = n;
        double epochs = (double)json_integer_value(json_object_get(row, "epochs")), mean, max, last;
        if (json_is_integer(json_object_get(row, "bands")))
            bands = (size_t)json_integer_value(json_object_get(row, "bands"));
        bool equal = json_is_true(json_object_get(row, "equal_norm"));
        /* With one participation norms are equal anyway; with more, we compute only bands within the separation. */
        if (epochs > 1 && (!equal || (double)bands > (double)n / epochs))
            continue;
        struct eps_mechanism m = banded_mechanism(n, 1, bands, false);
        m.matrix.gap = 1e-7;
        struct eps_strategy *strategy = strategy_new(&m);
        assert_int_equal(eps__strategy_error(NULL, strategy, &m, &mean, &max, &last), EPS_OK);
        double wanted = json_real_value(json_object_get(row, "mean_sq_err"));
        assert_near(mean * epochs, wanted, 1e-8L);
        assert_true(eps_strategy_iterations(strategy) > 0);
        eps_strategy_destroy(strategy);
        met++;
    }
    assert_int_equal(met, 5);
    json_decref(file);
}

/* A cooldown is no Toeplitz workload. Over the whole triangle, where the least loss at equal column norms is that of a
 * single participation, the optimum lies within the bound that another optimiser proves; with fewer bands no neighbour
 * is better, by brute force; and with stamps a block is the best for a job of its own length. */
TEST(cooldowns_have_their_optimum)
{
    enum { M = 10 };
    for (size_t bands = 2; bands <= M; bands += 4) {
        struct eps_mechanism m = banded_mechanism(M, 1, bands, false);
        workload_choose(&m, 2);
        m.matrix.gap = 1e-6;
        struct eps_strategy *strategy = strategy_new(&m);
        double mean, max, last;
        assert_int_equal(eps__strategy_error(NULL, strategy, &m, &mean, &max, &last), EPS_OK);
        if (bands == M) {
            struct eps_mechanism optimal = m;
            optimal.matrix.family = EPS_FAMILY_OPTIMAL;
            struct eps_strategy *best = strategy_new(&optimal);
            struct eps_sensitivity s = sensitivity_of(best, &optimal);
            double other, gap = eps_strategy_optimality_gap(best);
            assert_int_equal(eps__strategy_error(NULL, best, &optimal, &other, &max, &last), EPS_OK);
            other *= s.value * s.value;
            assert_true(gap <= 1e-6 && mean >= other / (1 + gap) * (1 - 1e-10) && mean <= other * (1 + 1e-5));
            eps_strategy_destroy(best);
        }
        struct matrix c = part_matrix(strategy, EPS_PART_ENCODER), a = workload_matrix(&m);
        for (size_t at = 0; at < M * bands; at++) {
            size_t j = at / bands, i = j + at % bands;
            for (int sign = -1; sign <= 1 && i < M; sign += 2) {
                struct matrix trial = matrix_new(M, M);
                long double norms[M] = {0}, loss = 0;
                memcpy(trial.at, c.at, M * M * sizeof *c.at);
                *entry(&trial, i, j) += sign * 0.03L;
                if (*entry(&trial, i, j) >= 0) { /* amplification needs C >= 0, and the optimiser stays there */
                    for (size_t r = 0; r < M * M; r++)
                        norms[r % M] += trial.at[r] * trial.at[r];
                    for (size_t r = 0; r < M * M; r++)
                        trial.at[r] /= sqrtl(norms[r % M]);
                    struct matrix inverse = matrix_inverse(&trial), b = matrix_product(&a, &inverse);
                    for (size_t r = 0; r < M * M; r++)
                        loss += b.at[r] * b.at[r] / M;
                    assert_true(loss > (long double)mean * (1 - 1e-9L));
                    matrix_free(&inverse);
                    matrix_free(&b);
                }
                matrix_free(&trial);
            }
        }
        m.n = 2 * M;
        m.matrix.stamps = 2;
        struct eps_strategy *stamped = strategy_new(&m);
        struct matrix twice = part_matrix(stamped, EPS_PART_ENCODER);
        for (size_t i = 0; i < 2 * M; i++)
            for (size_t j = 0; j < 2 * M; j++)
                assert_near(*entry(&twice, i, j), i / M == j / M ? *entry(&c, i % M, j % M) : 0, 1e-15L);
        matrix_free(&twice);
        matrix_free(&c);
        matrix_free(&a);
        eps_strategy_destroy(stamped);
        eps_strategy_destroy(strategy);
    }
}

/* Each objective is better at its own criterion, and both beat the Toeplitz optimum with columns of norm 1; a list of
 * coefficients takes another way to the same optimum; many steps attain a bound on the largest variance. */
TEST(objectives_do_what_they_say)
{
    enum { M = 96, BANDS = 8 };
    double mean[4], max[4], last, ones[M];
    for (int i = 0; i < 4; i++) {
        struct eps_mechanism m = banded_mechanism(M, 1, BANDS, i == 2);
        m.matrix.objective = i == 1 ? EPS_OBJECTIVE_MAX_SQUARED : EPS_OBJECTIVE_MEAN_SQUARED;
        m.matrix.gap = 1e-4;
        for (size_t t = 0; t < M; t++)
            ones[t] = 1;
        if (i == 3)
            m.workload =
                (struct eps_workload){.type = EPS_WORKLOAD_TOEPLITZ, .coefficients = ones, .coefficients_len = M};
        struct eps_strategy *strategy = strategy_new(&m);
        assert_int_equal(eps__strategy_error(NULL, strategy, &m, &mean[i], &max[i], &last), EPS_OK);
        eps_strategy_destroy(strategy);
    }
    assert_true(mean[0] < mean[1] && mean[0] < mean[2] && max[1] < max[0] && max[1] < max[2]);
    assert_near(mean[3], mean[0], 1e-5L);
    assert_true(max[1] < 0.9 * max[0]);
}

static bool always(void *user)
{
    (void)user;
    return true;
}

TEST(what_cannot_be_computed_is_refused)
{
    struct eps_mechanism m = banded_mechanism(64, 1, 8, false);
    struct eps_strategy *strategy = NULL;
    struct eps_error error = {0};
    m.matrix.epochs = 16;
    m.matrix.separation = 4;
    assert_int_equal(eps_strategy_create(NULL, &strategy, &error, &m), EPS_INVALID);
    assert_string_equal(error.pointer, "/matrix/bands");
    m = banded_mechanism(64, 1, 8, false);
    struct eps_context context = {.canceled = always};
    assert_int_equal(eps_strategy_create(&context, &strategy, &error, &m), EPS_CANCELED);
    context = (struct eps_context){.expired = always};
    assert_int_equal(eps_strategy_create(&context, &strategy, &error, &m), EPS_TIMEOUT);
}

/* 2^18 steps, 16 bands: rows that no shortened column reaches are those of the Toeplitz optimum. */
TEST(many_steps_are_fast)
{
    size_t n = (size_t)1 << 18;
    struct eps_mechanism m = banded_mechanism(n, 1, 16, true), plain = m;
    plain.matrix.column_normalize = false;
    double *got = malloc(n * sizeof *got), *wanted = malloc(n * sizeof *wanted), operations, bytes;
    assert_true(got && wanted);
    struct eps_strategy *strategy = strategy_new(&m), *toeplitz = strategy_new(&plain);
    assert_int_equal(eps_strategy_variance(NULL, strategy, got, NULL), EPS_OK);
    assert_int_equal(eps_strategy_variance(NULL, toeplitz, wanted, NULL), EPS_OK);
    for (size_t t = 0; t + 16 < n; t++)
        assert_near(got[t], wanted[t], 1e-9L);
    assert_true(got[n - 1] < wanted[n - 1]);
    /* The last row, solved for. */
    long double norm = 0;
    assert_int_equal(eps_strategy_row(strategy, wanted, NULL, EPS_PART_DECODER, n - 1), EPS_OK);
    for (size_t j = 0; j < n; j++)
        norm += (long double)wanted[j] * wanted[j];
    assert_near(got[n - 1], norm, 1e-9L);
    eps__strategy_cost(&m, &operations, &bytes);
    assert_true(bytes < 3 * 8.0 * 16 * (double)n);
    eps_strategy_destroy(strategy);
    eps_strategy_destroy(toeplitz);
    free(got);
    free(wanted);
}
