/*
 * The Toeplitz families whose C or C^-1 is short or streamed: C, C^-1, B and its row norms by brute force at small n,
 * the sensitivity by enumeration of patterns, gradients by differences, and what "optimised" promises: nothing near is
 * better, nothing simpler is better, and a wider gap costs no more than it says.
 *
 * SPDX-License-Identifier: GPL-3.0-or-later
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include <math.h>

#include "lib/numerics/convolve.h"
#include "lib/strategy/toeplitz_loss.h"
#include "tests/unit/matrices.h"

enum { N = 24, WORKLOADS = 3 };

static const double decays[] = {0.97, 0.6, 0.2}, scales[] = {0.1, 0.25, 0.05};
static const double weights[] = {1.5, 0.75, 0.25, 0.5, 0, 0.125};

static void assert_near(long double got, long double wanted, long double tolerance)
{
    if (!(fabsl(got - wanted) <= tolerance * fmaxl(1, fabsl(wanted))))
        fail_msg("got %.17Lg, wanted %.17Lg", got, wanted);
}

static void set_workload(struct eps_mechanism *m, int which)
{
    if (which == 1)
        m->workload = (struct eps_workload){.type = EPS_WORKLOAD_MOMENTUM, .momentum = 0.9, .decay = 0.98};
    if (which == 2)
        m->workload = (struct eps_workload){
            .type = EPS_WORKLOAD_TOEPLITZ, .decay = 1, .coefficients = weights, .coefficients_len = 6};
}

/* One mechanism of each family, with 4 bands or 2 buffers. */
enum which { ISR, BANDED, BANDED_INVERSE, BLT, BLT_GIVEN, FAMILIES };

static struct eps_mechanism mechanism_of(enum which which, size_t n)
{
    static const enum eps_family families[FAMILIES] = {EPS_FAMILY_INVERSE_SQUARE_ROOT, EPS_FAMILY_BANDED,
                                                       EPS_FAMILY_BANDED_INVERSE, EPS_FAMILY_BLT, EPS_FAMILY_BLT};
    struct eps_mechanism m = mechanism_new(families[which], n);
    m.matrix.toeplitz = true;
    m.matrix.gap = 1e-3;
    if (which == BLT) {
        m.matrix.buffers = 2;
    } else if (which == BLT_GIVEN) {
        m.matrix.decay = decays;
        m.matrix.scale = scales;
        m.matrix.blt_len = 3;
    } else {
        m.matrix.bands = 4;
    }
    return m;
}

static void set_participation(struct eps_mechanism *m, size_t epochs, size_t separation)
{
    m->sampling.epochs = m->matrix.epochs = epochs;
    m->sampling.separation = m->matrix.separation = separation;
}

static double loss_of(const struct eps_strategy *s, const struct eps_mechanism *m)
{
    double mean, max, last;
    struct eps_sensitivity sensitivity;
    assert_int_equal(eps__strategy_error(NULL, s, m, &mean, &max, &last), EPS_OK);
    assert_int_equal(eps__strategy_sensitivity(NULL, &sensitivity, NULL, s, m), EPS_OK);
    return (m->matrix.objective == EPS_OBJECTIVE_MAX_SQUARED ? max : mean) * sensitivity.value * sensitivity.value;
}

static double loss_of_mechanism(const struct eps_mechanism *m)
{
    struct eps_strategy *s = strategy_new(m);
    double loss = loss_of(s, m);
    eps_strategy_destroy(s);
    return loss;
}

/* ---- against dense matrices ---- */

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

static void every_family_agrees_with_its_inverse(void **unused)
{
    (void)unused;
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
static void column(double *out, const struct eps_strategy *s, enum eps_part part, size_t len)
{
    assert_int_equal(eps_strategy_coefficients(s, out, NULL, part, len), EPS_OK);
}

static void the_inverse_square_root_is_a_root_up_to_its_bands(void **unused)
{
    (void)unused;
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

static void bands_and_buffers_are_what_was_asked(void **unused)
{
    (void)unused;
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
            wanted += scales[i] * powl(decays[i], (long double)(t - 1));
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

static void sensitivities_are_the_worst_pattern(void **unused)
{
    (void)unused;
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
                /* Only where C does not decrease may there be no more than a bound. */
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

/* A first column that settles at a constant, up to rounding, has decreased. */
static void rounding_does_not_make_a_column_rise(void **unused)
{
    (void)unused;
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

/* ---- gradients ---- */

struct probe {
    struct eps__toeplitz_loss loss;
    double *quotient, *adjoint;
    size_t len;
};

/* ln error of a/c plus ln square of c, as the banded family has it; of c alone where there is no quotient. */
static double probe_value(struct probe *p, double *gradient, const double *c)
{
    double value = eps__toeplitz_log_square(&p->loss, gradient, c, p->len);
    if (!p->quotient)
        return value;
    assert_true(eps__toeplitz_loss_quotient(&p->loss, p->quotient, p->loss.workload, c, p->len));
    value += eps__toeplitz_log_error(&p->loss, p->adjoint, p->quotient);
    assert_true(eps__toeplitz_quotient_gradient(&p->loss, gradient, p->adjoint, p->quotient, c, p->len));
    return value;
}

static void check_gradient(const struct eps_mechanism *m, bool barrier, double smoothing, bool quotient)
{
    struct eps_strategy *s = strategy_new(m);
    struct probe p = {.len = m->matrix.bands};
    double c[64], gradient[64], scratch[64], buffers[128];
    unsigned long long state = 7;
    assert_int_equal(eps__toeplitz_loss_init(&p.loss, NULL, NULL, s, m), EPS_OK);
    p.loss.barrier = barrier ? 0.3 : 0;
    p.loss.smoothing = smoothing;
    if (quotient) {
        p.quotient = buffers;
        p.adjoint = buffers + 64;
    }
    for (size_t j = 0; j < p.len; j++)
        c[j] = (j ? 0.4 : 2) + 0.3 * scatter(&state) * (barrier ? 1 : 2);
    probe_value(&p, gradient, c);
    for (size_t j = 0; j < p.len; j++) {
        double kept = c[j], h = 1e-5;
        c[j] = kept + h;
        double above = probe_value(&p, scratch, c);
        c[j] = kept - h;
        double below = probe_value(&p, scratch, c);
        c[j] = kept;
        assert_near(gradient[j], (above - below) / (2 * h), 1e-8L);
    }
    eps__toeplitz_loss_clear(&p.loss);
    eps_strategy_destroy(s);
}

static void gradients_are_the_slopes(void **unused)
{
    (void)unused;
    static const size_t ks[] = {1, 3, 3, 8}, bs[] = {40, 12, 5, 2};
    for (size_t i = 0; i < 4; i++) {
        for (int variant = 0; variant < 16; variant++) {
            struct eps_mechanism m = mechanism_of(BANDED, 40);
            set_workload(&m, variant % 4 == 3 ? 2 : variant % 2);
            set_participation(&m, ks[i], bs[i]);
            m.matrix.bands = 12;
            m.matrix.objective = variant & 2 ? EPS_OBJECTIVE_MAX_SQUARED : EPS_OBJECTIVE_MEAN_SQUARED;
            m.sampling.schema = variant & 4 ? EPS_SCHEMA_MIN_SEPARATION : EPS_SCHEMA_FIXED_ORDER;
            check_gradient(&m, false, 0, variant & 8);
            check_gradient(&m, true, 0, variant & 8);
            check_gradient(&m, false, 0.05, variant & 8);
        }
    }
}

/* ---- optimality ---- */

/* No small change of a parameter improves the loss: what the search stopped at is stationary. */
static void no_neighbour_is_better(void **unused)
{
    (void)unused;
    for (int variant = 0; variant < 8; variant++) {
        struct eps_mechanism m = mechanism_of(BLT, 200);
        m.matrix.gap = 1e-9;
        m.matrix.objective = variant & 1 ? EPS_OBJECTIVE_MAX_SQUARED : EPS_OBJECTIVE_MEAN_SQUARED;
        set_workload(&m, variant & 2 ? 1 : 0);
        if (variant & 4)
            set_participation(&m, 4, 50);
        struct eps_strategy *s = strategy_new(&m);
        double decay[2], scale[2], best = loss_of(s, &m);
        assert_int_equal(eps__blt_optimise(NULL, decay, scale, s, NULL, &m), EPS_OK);
        eps_strategy_destroy(s);
        struct eps_mechanism near = m;
        near.matrix.buffers = 0;
        near.matrix.decay = decay;
        near.matrix.scale = scale;
        near.matrix.blt_len = 2;
        /* With momentum the best decays of C^-1 would not all be positive: the optimum lies on that bound. */
        double tolerance = variant & 2 ? 1e-4 : 1e-6;
        assert_near(loss_of_mechanism(&near), best, 1e-12L);
        for (size_t i = 0; i < 8; i++) {
            double *parameter = i < 4 ? &decay[i / 2] : &scale[i / 2 - 2], kept = *parameter;
            double step = 1e-3 * (i < 4 ? fmin(kept, 1 - kept) : kept);
            *parameter += i % 2 ? step : -step;
            assert_true(loss_of_mechanism(&near) > best * (1 - tolerance));
            *parameter = kept;
        }
    }
    for (int variant = 0; variant < 8; variant++) {
        struct eps_mechanism m = mechanism_of(BANDED, 100), near = mechanism_new(EPS_FAMILY_TOEPLITZ, 100);
        double c[6];
        m.matrix.bands = 6;
        m.matrix.gap = 1e-9;
        m.matrix.objective = near.matrix.objective =
            variant & 1 ? EPS_OBJECTIVE_MAX_SQUARED : EPS_OBJECTIVE_MEAN_SQUARED;
        set_workload(&m, variant & 2 ? 1 : 0);
        near.workload = m.workload;
        set_participation(&m, variant & 4 ? 5 : 1, variant & 4 ? 4 : 100);
        near.sampling = m.sampling;
        struct eps_strategy *s = strategy_new(&m);
        double best = loss_of(s, &m);
        column(c, s, EPS_PART_ENCODER, 6);
        eps_strategy_destroy(s);
        near.matrix.coefficients = c;
        near.matrix.coefficients_len = 6;
        for (size_t i = 0; i < 12; i++) {
            double kept = c[i / 2];
            c[i / 2] *= i % 2 ? 1.001 : 0.999;
            assert_true(loss_of_mechanism(&near) > best * (1 - 1e-6));
            c[i / 2] = kept;
        }
    }
}

static double loss_at(enum which which, size_t size, size_t epochs, size_t separation, double gap)
{
    struct eps_mechanism m = mechanism_of(which, 256);
    set_participation(&m, epochs, separation);
    m.matrix.gap = gap;
    if (which == BLT)
        m.matrix.buffers = size;
    else
        m.matrix.bands = size;
    return loss_of_mechanism(&m);
}

static double square_root_loss(size_t bands, size_t epochs, size_t separation)
{
    struct eps_mechanism m = mechanism_new(EPS_FAMILY_SQUARE_ROOT, 256);
    m.matrix.bands = bands;
    set_participation(&m, epochs, separation);
    return loss_of_mechanism(&m);
}

static void more_freedom_is_never_worse(void **unused)
{
    (void)unused;
    static const size_t ks[] = {1, 4, 16}, bs[] = {256, 64, 16};
    for (size_t i = 0; i < 3; i++) {
        double banded = INFINITY, inverse = INFINITY, blt = INFINITY;
        for (size_t size = 1; size <= 32; size *= 2) {
            double b = loss_at(BANDED, size, ks[i], bs[i], 1e-3), v = loss_at(BANDED_INVERSE, size, ks[i], bs[i], 1e-3);
            assert_true(b <= banded * (1 + 1e-6) && v <= inverse * (1 + 1e-4));
            assert_true(b <= square_root_loss(size, ks[i], bs[i]) * (1 + 1e-9));
            assert_true(v <= loss_at(ISR, size, ks[i], bs[i], 1e-3) * (1 + 1e-9));
            banded = b;
            inverse = v;
        }
        for (size_t buffers = 1; buffers <= 4; buffers++) {
            double loss = loss_at(BLT, buffers, ks[i], bs[i], 1e-3);
            assert_true(loss <= blt * (1 + 1e-6));
            blt = loss;
        }
        /* The full optimum over Toeplitz matrices bounds them all, for one participation. */
        if (ks[i] == 1) {
            double full = loss_at(BANDED, 256, 1, 256, 1e-6);
            assert_true(full <= banded && full <= inverse && full <= blt && full > 0.99 * blt);
        }
    }
}

static void a_wider_gap_costs_no_more_than_it_says(void **unused)
{
    (void)unused;
    for (int which = BANDED; which <= BLT; which++) {
        for (size_t k = 1; k <= 16; k *= 4) {
            double tight = loss_at((enum which)which, 5, k, 256 / k, 1e-9);
            double wide = loss_at((enum which)which, 5, k, 256 / k, 0.05);
            double usual = loss_at((enum which)which, 5, k, 256 / k, 1e-3);
            assert_true(wide <= tight * 1.05 && usual <= tight * (1 + 1e-3) && tight <= usual * (1 + 1e-9));
        }
    }
}

/* Amplification needs C >= 0: where the optimum has negative entries, a sampled job gets the best without. */
static void sampled_jobs_get_a_nonnegative_matrix(void **unused)
{
    (void)unused;
    static const size_t bins[] = {16, 8, 64};
    bool negative = false;
    for (int which = BANDED; which <= BLT; which++) {
        for (size_t i = 0; i < 3; i++) {
            struct eps_mechanism m = mechanism_of((enum which)which, 256);
            m.matrix.bands = which == BLT ? 0 : 32;
            set_participation(&m, 256 / bins[i], bins[i]);
            struct eps_strategy *open = strategy_new(&m);
            double best = loss_of(open, &m);
            negative = negative || !eps__strategy_nonnegative(open);
            m.sampling =
                (struct eps_sampling){.scheme = EPS_SCHEME_BALLS_IN_BINS, .bins = bins[i], .examples_per_user = 1};
            struct eps_strategy *sampled = strategy_new(&m);
            assert_true(eps__strategy_nonnegative(sampled));
            assert_true(loss_of(sampled, &m) < best * 1.02);
            eps_strategy_destroy(open);
            eps_strategy_destroy(sampled);
        }
    }
    assert_true(negative);
    struct eps_mechanism m = mechanism_of(BANDED_INVERSE, 256);
    m.matrix.bands = 32;
    struct eps_strategy *once = strategy_new(&m);
    assert_true(eps__strategy_nonnegative(once));
    eps_strategy_destroy(once);
}

/* ---- sizes, errors, cancellation ---- */

static void streams_of_a_hundred_thousand_steps_are_quick_and_accurate(void **unused)
{
    (void)unused;
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

static void the_whole_root_knows_its_inverse(void **unused)
{
    (void)unused;
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

static void the_same_job_gives_the_same_bits(void **unused)
{
    (void)unused;
    for (int which = 0; which < FAMILIES; which++) {
        struct eps_mechanism m = mechanism_of((enum which)which, 300);
        struct eps_strategy *a = strategy_new(&m), *b = strategy_new(&m);
        assert_string_equal(eps_strategy_id(a), eps_strategy_id(b));
        eps_strategy_destroy(a);
        eps_strategy_destroy(b);
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

/* Both the checks before a job and, for callers who skip them, the builder name the member. */
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

static void wrong_jobs_are_refused_by_member(void **unused)
{
    (void)unused;
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

static void a_workload_without_error_is_refused(void **unused)
{
    (void)unused;
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
        /* One without a root is served all the same. */
        m.workload = (struct eps_workload){.type = EPS_WORKLOAD_TOEPLITZ, .decay = 1, .coefficients_len = 3};
        m.workload.coefficients = shifted;
        s = strategy_new(&m);
        eps_strategy_destroy(s);
    }
}

static bool after_some(void *user)
{
    size_t *left = user;
    return --*left == 0;
}

static void cancellation_is_heard_while_optimising(void **unused)
{
    (void)unused;
    for (int which = 0; which < FAMILIES; which++) {
        for (size_t polls = 1; polls <= (which == ISR || which == BLT_GIVEN ? 1 : 3); polls += 2) {
            size_t left = polls;
            struct eps_context context = {.user = &left, .canceled = after_some};
            struct eps_mechanism m = mechanism_of((enum which)which, 200000);
            struct eps_error error = {0};
            struct eps_strategy *s = NULL;
            assert_int_equal(eps_strategy_create(&context, &s, &error, &m), EPS_CANCELED);
            assert_null(s);
        }
    }
}

struct seen {
    double fraction;
    int reports;
};

static void note_progress(void *user, double fraction, const char *stage, double remaining)
{
    struct seen *seen = user;
    (void)remaining;
    assert_string_equal(stage, "optimise");
    assert_true(fraction >= seen->fraction && fraction < 1);
    seen->fraction = fraction;
    seen->reports++;
}

static void long_searches_report_progress(void **unused)
{
    (void)unused;
    struct seen seen = {0, 0};
    struct eps_context context = {.user = &seen, .progress = note_progress};
    struct eps_mechanism m = mechanism_of(BANDED, 100000);
    struct eps_strategy *s = NULL;
    m.matrix.bands = 100;
    assert_int_equal(eps_strategy_create(&context, &s, NULL, &m), EPS_OK);
    assert_true(seen.reports > 0 && seen.reports < 100);
    eps_strategy_destroy(s);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_family_agrees_with_its_inverse),
        cmocka_unit_test(the_inverse_square_root_is_a_root_up_to_its_bands),
        cmocka_unit_test(bands_and_buffers_are_what_was_asked),
        cmocka_unit_test(sensitivities_are_the_worst_pattern),
        cmocka_unit_test(rounding_does_not_make_a_column_rise),
        cmocka_unit_test(gradients_are_the_slopes),
        cmocka_unit_test(no_neighbour_is_better),
        cmocka_unit_test(more_freedom_is_never_worse),
        cmocka_unit_test(a_wider_gap_costs_no_more_than_it_says),
        cmocka_unit_test(sampled_jobs_get_a_nonnegative_matrix),
        cmocka_unit_test(streams_of_a_hundred_thousand_steps_are_quick_and_accurate),
        cmocka_unit_test(the_whole_root_knows_its_inverse),
        cmocka_unit_test(the_same_job_gives_the_same_bits),
        cmocka_unit_test(wrong_jobs_are_refused_by_member),
        cmocka_unit_test(a_workload_without_error_is_refused),
        cmocka_unit_test(cancellation_is_heard_while_optimising),
        cmocka_unit_test(long_searches_report_progress),
    };
    return cmocka_run_group_tests_name("toeplitz families", tests, NULL, NULL);
}
