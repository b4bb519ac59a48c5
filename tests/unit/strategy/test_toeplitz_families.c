/*
 * The Toeplitz families whose C or C^-1 is short or streamed: C, C^-1, B and its row norms compared with brute force at
 * small n, the sensitivity with enumeration of patterns; long streams, and refused jobs.
 *
 * SPDX-License-Identifier: GPL-3.0-or-later
 */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "lib/numerics/fft/convolve.h"
#include "tests/unit/test.h"
#include "tests/unit/toeplitz_mechanisms.h"

enum { N = 24 };

/* comparison with dense matrices */

static void check_parts(const struct eps_mechanism *mechanism)
{
    size_t n = mechanism->n;
    double variance[64];
    struct eps_strategy *s = strategy_new(mechanism);
    struct matrix c = part_matrix(s, EPS_PART_ENCODER), inverse = matrix_inverse(&c);
    struct matrix a = workload_matrix(mechanism), b = matrix_product(&a, &inverse);
    struct matrix noise = part_matrix(s, EPS_PART_NOISE), decoder = part_matrix(s, EPS_PART_DECODER);
    assert_int_equal(eps_strategy_variance(NULL, s, variance, NULL), EPS_OK);
    for (size_t i = 0; i < n; i++) {
        long double norm = 0;
        for (size_t j = 0; j < n; j++) {
            assert_near(*entry(&noise, i, j), *entry(&inverse, i, j), 1e-12L);
            assert_near(*entry(&decoder, i, j), *entry(&b, i, j), 1e-12L);
            norm += *entry(&b, i, j) * *entry(&b, i, j);
        }
        assert_near(variance[i], norm, 1e-12L);
    }
    struct matrix *all[] = {&c, &inverse, &a, &b, &noise, &decoder};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        matrix_free(all[i]);
    eps_strategy_destroy(s);
}

TEST(every_family_agrees_with_its_inverse)
{
    for (int which = 0; which < FAMILIES; which++) {
        for (int workload = 0; workload < WORKLOADS; workload++) {
            for (size_t stamps = 1; stamps <= 3; stamps += 2) {
                for (int normalise = 0; normalise < 2; normalise++) {
                    struct eps_mechanism m = mechanism_of((enum which)which, N);
                    set_workload(&m, workload);
                    m.matrix.stamps = stamps;
                    if (normalise)
                        m.matrix.normalization = EPS_NORMALIZATION_SENSITIVITY;
                    check_parts(&m);
                }
            }
        }
    }
}

/* The first len numbers of C's or C^-1's first column. */
TEST(the_inverse_square_root_is_a_root_up_to_its_bands)
{
    double v[N], product[N], square[N];
    for (int workload = 0; workload < WORKLOADS; workload++) {
        for (size_t bands = 1; bands <= N; bands += bands < 5 ? 1 : 19) {
            struct eps_mechanism m = mechanism_of(ISR, N);
            set_workload(&m, workload);
            m.matrix.bands = bands;
            struct eps_strategy *s = strategy_new(&m);
            struct matrix a = workload_matrix(&m);
            column(v, s, EPS_PART_NOISE, N);
            double first[N];
            for (size_t t = 0; t < N; t++)
                first[t] = (double)*entry(&a, t, 0);
            assert_true(eps__convolve(square, N, v, N, v, N) && eps__convolve(product, N, square, N, first, N));
            for (size_t t = 0; t < N; t++) {
                if (t < bands)
                    assert_near(product[t], t == 0, 1e-13L);
                else
                    assert_true(v[t] == 0);
            }
            matrix_free(&a);
            eps_strategy_destroy(s);
        }
    }
}

TEST(bands_and_buffers_are_what_was_asked)
{
    double c[N], v[N], square = 0;
    struct eps_mechanism m = mechanism_of(BANDED, N);
    struct eps_strategy *s = strategy_new(&m);
    assert_int_equal(eps_strategy_bands(s), 4);
    assert_true(eps_strategy_iterations(s) > 0 && isnan(eps_strategy_optimality_gap(s)));
    column(c, s, EPS_PART_ENCODER, N);
    for (size_t t = 0; t < N; t++)
        square += c[t] * c[t];
    assert_near(square, 1, 1e-14L);
    eps_strategy_destroy(s);

    m = mechanism_of(BANDED_INVERSE, N);
    s = strategy_new(&m);
    assert_int_equal(eps_strategy_bands(s), N);
    column(v, s, EPS_PART_NOISE, N);
    assert_true(v[0] == 1 && v[3] != 0);
    for (size_t t = 4; t < N; t++)
        assert_true(v[t] == 0);
    eps_strategy_destroy(s);

    m = mechanism_of(BLT_GIVEN, N);
    s = strategy_new(&m);
    column(c, s, EPS_PART_ENCODER, N);
    assert_true(c[0] == 1 && eps_strategy_iterations(s) == 0);
    for (size_t t = 1; t < N; t++) {
        long double wanted = 0;
        for (size_t i = 0; i < 3; i++)
            wanted += m.matrix.scale[i] * powl(m.matrix.decay[i], (long double)(t - 1));
        assert_near(c[t], wanted, 1e-15L);
    }
    eps_strategy_destroy(s);

    /* Two buffers: c_{t+2} = u c_{t+1} + v c_t for all t >= 1. */
    m = mechanism_of(BLT, N);
    s = strategy_new(&m);
    column(c, s, EPS_PART_ENCODER, N);
    double determinant = c[2] * c[2] - c[1] * c[3];
    double x = (c[2] * c[3] - c[1] * c[4]) / determinant, y = (c[2] * c[4] - c[3] * c[3]) / determinant;
    for (size_t t = 1; t + 2 < N; t++) {
        assert_near(c[t + 2], x * c[t + 1] + y * c[t], 1e-10L);
        assert_true(c[t] > c[t + 1] && c[t + 1] > 0);
    }
    eps_strategy_destroy(s);
}

/* ---- sensitivity ---- */

/* The largest squared norm over patterns that continue `chosen` with steps from `next` on. */
static long double worst_pattern(const struct matrix *gram, size_t *chosen, size_t len, size_t next, size_t k, size_t b,
                                 bool fixed)
{
    long double best = 0;
    for (size_t i = 0; i < len; i++)
        for (size_t j = 0; j < len; j++)
            best += *entry(gram, chosen[i], chosen[j]);
    if (len == k)
        return best;
    for (size_t at = next; at < gram->rows; at++) {
        if (fixed && len > 0 && at != chosen[len - 1] + b)
            continue;
        chosen[len] = at;
        best = fmaxl(best, worst_pattern(gram, chosen, len + 1, at + b, k, b, fixed));
    }
    return best;
}

TEST(sensitivities_are_the_worst_pattern)
{
    static const size_t ks[] = {1, 2, 3, 4}, bs[] = {16, 5, 6, 3};
    for (int which = 0; which < FAMILIES; which++) {
        for (size_t i = 0; i < 4; i++) {
            for (int schema = 0; schema < 2; schema++) {
                struct eps_mechanism m = mechanism_of((enum which)which, 16);
                set_participation(&m, ks[i], bs[i]);
                m.sampling.schema = schema ? EPS_SCHEMA_MIN_SEPARATION : EPS_SCHEMA_FIXED_ORDER;
                struct eps_strategy *s = strategy_new(&m);
                struct matrix c = part_matrix(s, EPS_PART_ENCODER), gram = matrix_gram(&c);
                struct eps_sensitivity found;
                size_t chosen[8];
                long double worst = worst_pattern(&gram, chosen, 0, 0, ks[i], bs[i], !schema);
                assert_int_equal(eps__strategy_sensitivity(NULL, &found, NULL, s, &m), EPS_OK);
                assert_true((long double)found.value * found.value >= worst * (1 - 1e-15L));
                /* Contributions of one sign are the worst where C >= 0. */
                if (found.exact && eps__strategy_nonnegative(s))
                    assert_near((long double)found.value * found.value, worst, 1e-11L);
                /* The result may be a mere bound only where C does not decrease. */
                assert_true(found.exact || schema || !eps__strategy_nonnegative(s));
                if (which == ISR || which == BLT || which == BLT_GIVEN)
                    assert_true(found.exact);
                matrix_free(&c);
                matrix_free(&gram);
                eps_strategy_destroy(s);
            }
        }
    }
}

/* A first column that settles at a constant, up to rounding, counts as decreasing. */
TEST(rounding_does_not_make_a_column_rise)
{
    double c[40];
    for (size_t t = 0; t < 40; t++)
        c[t] = t ? 0.5 + (t % 2 ? 1e-16 : 0) : 1;
    struct eps_mechanism m = mechanism_new(EPS_FAMILY_TOEPLITZ, 40);
    m.matrix.coefficients = c;
    m.matrix.coefficients_len = 40;
    set_participation(&m, 3, 7);
    m.sampling.schema = EPS_SCHEMA_MIN_SEPARATION;
    struct eps_strategy *s = strategy_new(&m);
    struct eps_sensitivity found;
    assert_int_equal(eps__strategy_sensitivity(NULL, &found, NULL, s, &m), EPS_OK);
    assert_string_equal(found.rule, "decreasing_toeplitz");
    assert_true(found.exact && found.lower <= found.value && found.lower > found.value * (1 - 1e-13));
    eps_strategy_destroy(s);
    c[20] += 1e-6;
    s = strategy_new(&m);
    assert_int_equal(eps__strategy_sensitivity(NULL, &found, NULL, s, &m), EPS_OK);
    assert_false(found.exact);
    eps_strategy_destroy(s);
}

/* ---- sizes, errors ---- */

TEST(streams_of_a_hundred_thousand_steps_are_quick_and_accurate)
{
    for (int which = 0; which < FAMILIES; which++) {
        struct eps_mechanism m = mechanism_of((enum which)which, 100000);
        struct eps_strategy *s = strategy_new(&m);
        double *c = malloc(3 * m.n * sizeof *c), *v = c + m.n, *product = c + 2 * m.n;
        assert_non_null(c);
        column(c, s, EPS_PART_ENCODER, m.n);
        column(v, s, EPS_PART_NOISE, m.n);
        assert_true(eps__convolve(product, m.n, c, m.n, v, m.n));
        for (size_t t = 0; t < m.n; t++)
            assert_near(product[t], t == 0, 1e-11L);
        free(c);
        eps_strategy_destroy(s);
    }
}

TEST(the_whole_root_knows_its_inverse)
{
    for (int workload = 0; workload < 2; workload++) {
        struct eps_mechanism m = mechanism_new(EPS_FAMILY_SQUARE_ROOT, 3000);
        double *v = malloc(2 * m.n * sizeof *v), *wanted = v + m.n;
        assert_non_null(v);
        set_workload(&m, workload);
        struct eps_strategy *s = strategy_new(&m);
        column(wanted, s, EPS_PART_ENCODER, m.n);
        column(v, s, EPS_PART_NOISE, m.n);
        double *c = malloc(m.n * sizeof *c);
        assert_non_null(c);
        memcpy(c, wanted, m.n * sizeof *c);
        assert_true(eps__series_inverse(wanted, m.n, c, m.n));
        for (size_t t = 0; t < m.n; t++)
            assert_near(v[t], wanted[t], 1e-12L);
        free(c);
        free(v);
        eps_strategy_destroy(s);
    }
}

struct wanted {
    const char *pointer;
    bool seen;
};

static void look_for(void *user, const char *pointer, const char *message)
{
    struct wanted *wanted = user;
    (void)message;
    wanted->seen = wanted->seen || strcmp(pointer, wanted->pointer) == 0;
}

/* Both the checks before a job and the builder, for callers that skip them, name the member. */
static void assert_refused(const struct eps_mechanism *m, const char *pointer)
{
    struct eps_job job;
    struct wanted wanted = {pointer, false};
    struct eps_error error = {0};
    struct eps_strategy *s = NULL;
    eps_job_init(&job);
    job.mechanism = *m;
    job.query.noise_multiplier = 1;
    job.query.delta = 1e-6;
    eps_job_defaults(&job);
    eps_job_check(&job, 0, look_for, &wanted);
    if (!wanted.seen)
        fail_msg("eps_job_check() does not name %s", pointer);
    assert_int_equal(eps_strategy_create(NULL, &s, &error, m), EPS_INVALID);
    assert_string_equal(error.pointer, pointer);
}

TEST(wrong_jobs_are_refused_by_member)
{
    static const enum which banded[] = {ISR, BANDED, BANDED_INVERSE};
    for (size_t i = 0; i < 3; i++) {
        struct eps_mechanism m = mechanism_of(banded[i], 30);
        m.matrix.bands = 31;
        assert_refused(&m, "/matrix/bands");
        m.matrix.bands = 0;
        assert_refused(&m, "/matrix/bands");
    }
    static const enum which toeplitz[] = {ISR, BANDED, BANDED_INVERSE, BLT};
    for (size_t i = 0; i < 4; i++) {
        struct eps_mechanism m = mechanism_of(toeplitz[i], 30);
        m.workload = (struct eps_workload){.type = EPS_WORKLOAD_MOMENTUM,
                                           .momentum = 0.5,
                                           .decay = 1,
                                           .cooldown = true,
                                           .cooldown_from = 0.5,
                                           .cooldown_to = 0.1};
        assert_refused(&m, "/workload/cooldown");
    }
    struct eps_mechanism m = mechanism_of(BLT, 30);
    m.matrix.buffers = 17;
    assert_refused(&m, "/matrix/buffers");
    m.matrix.buffers = 0;
    assert_refused(&m, "/matrix/buffers");
    static const double wrong[] = {0.5, 1.0, 0.0};
    m = mechanism_of(BLT_GIVEN, 30);
    m.matrix.decay = wrong;
    assert_refused(&m, "/matrix/decay/1");
    m.matrix.decay = wrong + 2;
    m.matrix.blt_len = 1;
    assert_refused(&m, "/matrix/decay/0");
}

TEST(a_workload_without_error_is_refused)
{
    static const double none[] = {0, 0, 0}, shifted[] = {0, 1, 0.5};
    for (int which = BANDED; which <= BLT; which++) {
        struct eps_mechanism m = mechanism_of((enum which)which, 30);
        struct eps_error error = {0};
        struct eps_strategy *s = NULL;
        m.workload = (struct eps_workload){
            .type = EPS_WORKLOAD_TOEPLITZ, .decay = 1, .coefficients = none, .coefficients_len = 3};
        assert_int_equal(eps_strategy_create(NULL, &s, &error, &m), EPS_INVALID);
        assert_string_equal(error.pointer, "/workload/coefficients");
        m.workload = (struct eps_workload){.type = EPS_WORKLOAD_MOMENTUM, .momentum = NAN, .decay = 1};
        assert_int_equal(eps_strategy_create(NULL, &s, &error, &m), EPS_INVALID);
        assert_string_equal(error.pointer, "/workload");
        /* A workload without a root is served as well. */
        m.workload = (struct eps_workload){.type = EPS_WORKLOAD_TOEPLITZ, .decay = 1, .coefficients_len = 3};
        m.workload.coefficients = shifted;
        s = strategy_new(&m);
        eps_strategy_destroy(s);
    }
}
