/*
 * What "optimised" promises for the Toeplitz families: gradients are the slopes, no neighbour is better, no simpler
 * matrix is better, a wider gap costs no more than it says, and a search reports, stops on request, and repeats itself.
 *
 * SPDX-License-Identifier: GPL-3.0-or-later
 */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "lib/strategy/families/banded.h"
#include "lib/strategy/optimise/blt.h"
#include "lib/strategy/optimise/toeplitz_loss.h"
#include "tests/unit/test.h"
#include "tests/unit/toeplitz_mechanisms.h"

/* ---- gradients ---- */

struct probe {
    struct eps__toeplitz_loss loss;
    double *quotient, *adjoint;
    size_t len;
};

/* ln error of a/c plus ln square of c, as in the banded family; of c alone where there is no quotient. */
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

static void check_gradient(const struct eps_mechanism *m, bool barrier, double smoothing, bool quotient,
                           bool either_sign)
{
    struct eps_strategy *s = strategy_new(m);
    struct probe p = {.len = m->matrix.bands};
    double c[64], gradient[64], scratch[64], buffers[128];
    unsigned long long state = 7;
    assert_int_equal(eps__toeplitz_loss_init(&p.loss, NULL, NULL, s, m, eps__target_told(m)), EPS_OK);
    p.loss.barrier = barrier ? 0.3 : 0;
    p.loss.smoothing = smoothing;
    p.loss.either_sign = either_sign;
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

TEST(gradients_are_the_slopes)
{
    static const size_t ks[] = {1, 3, 3, 8}, bs[] = {40, 12, 5, 2};
    for (size_t i = 0; i < 4; i++) {
        for (int variant = 0; variant < 16; variant++) {
            struct eps_mechanism m = mechanism_of(BANDED, 40);
            set_workload(&m, variant % 4 == 3 ? 2 : variant % 2);
            set_participation(&m, ks[i], bs[i]);
            m.matrix.bands = 12;
            m.matrix.objective = variant & 2 ? EPS_OBJECTIVE_MAX_SQUARED : EPS_OBJECTIVE_MEAN_SQUARED;
            m.sampling.schema = variant & 4 ? EPS_SCHEMA_MIN_SEPARATION : EPS_SCHEMA_FIXED_ORDER;
            check_gradient(&m, false, 0, variant & 8, false);
            check_gradient(&m, true, 0, variant & 8, false);
            check_gradient(&m, false, 0.05, variant & 8, false);
            check_gradient(&m, false, 0, variant & 8, true);
            check_gradient(&m, false, 0.05, variant & 8, true);
        }
    }
}

/* The square for entries of both signs is the sum of |X_ij| over the first pattern, also where the stream cuts
 * columns. */
TEST(squares_of_either_sign_sum_the_gram_matrix)
{
    static const size_t ns[] = {40, 40, 40, 37, 12}, ks[] = {3, 7, 40, 5, 12}, bs[] = {12, 5, 1, 9, 1};
    unsigned long long state = 11;
    for (size_t i = 0; i < 5; i++) {
        struct eps_mechanism m = mechanism_of(BANDED, ns[i]);
        struct eps_strategy *s = strategy_new(&m);
        struct eps__toeplitz_loss loss;
        double c[40], gradient[40];
        set_participation(&m, ks[i], bs[i]);
        assert_int_equal(eps__toeplitz_loss_init(&loss, NULL, NULL, s, &m, eps__target_told(&m)), EPS_OK);
        loss.either_sign = true;
        for (size_t len = 1; len <= ns[i]; len++) {
            long double sum = 0;
            for (size_t j = 0; j < len; j++)
                c[j] = scatter(&state);
            for (size_t a = 0; a < ks[i]; a++) {
                for (size_t b = 0; b < ks[i]; b++) {
                    long double product = 0;
                    for (size_t t = 0; t < ns[i]; t++)
                        if (t >= a * bs[i] && t - a * bs[i] < len && t >= b * bs[i] && t - b * bs[i] < len)
                            product += (long double)c[t - a * bs[i]] * c[t - b * bs[i]];
                    sum += fabsl(product);
                }
            }
            assert_near(exp(eps__toeplitz_log_square(&loss, gradient, c, len)), sum, 1e-13L);
        }
        eps__toeplitz_loss_clear(&loss);
        eps_strategy_destroy(s);
    }
}

/* ---- optimality ---- */

/* No small change of a parameter improves the loss: the search stopped at a stationary point. */
TEST(no_neighbour_is_better)
{
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
        /* With momentum some of the best decays of C^-1 would not be positive: the optimum lies on that bound. */
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

TEST(more_freedom_is_never_worse)
{
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

/* Buffers that the search merges into one, or whose decay it drives to 0, still give a valid BLT: its numbers are
 * finite, C follows from the decays and scales, and fewer buffers are not much better. */
TEST(more_buffers_than_are_needed_are_a_blt)
{
    static const struct {
        size_t n, buffers, epochs, separation;
        double gap, momentum;
    } cases[] = {
        {104, 11, 24, 4, 3.421638744987393e-9, 0},
        {16, 9, 6, 2, 2e-3, 0},
        {85, 15, 4, 23, 1e-3, 0},
        {6, 6, 1, 3, 5.6e-9, 0.9},
        {30, 13, 1, 30, 3e-8, 0.5},
        {123, 16, 2, 85, 8.3e-7, 0},
        {281, 16, 3, 55, 1e-9, 0.99},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct eps_mechanism m = mechanism_of(BLT, cases[i].n);
        double decay[16], scale[16];
        m.matrix.buffers = cases[i].buffers;
        m.matrix.gap = cases[i].gap;
        m.workload = (struct eps_workload){.type = EPS_WORKLOAD_MOMENTUM, .momentum = cases[i].momentum, .decay = 1};
        set_participation(&m, cases[i].epochs, cases[i].separation);
        struct eps_strategy *s = strategy_new(&m);
        double loss = loss_of(s, &m);
        assert_int_equal(eps__blt_optimise(NULL, decay, scale, s, NULL, &m), EPS_OK);
        for (size_t j = 0; j < cases[i].buffers; j++)
            assert_true(decay[j] > 0 && decay[j] < 1 && scale[j] >= 0 && scale[j] <= 1);
        eps_strategy_destroy(s);
        m.matrix.buffers = 2;
        double fewer = loss_of_mechanism(&m);
        if (!(loss <= fewer * 1.001))
            fail_msg("case %zu: %.9g, with 2 buffers %.9g", i, loss, fewer);
    }
}

TEST(a_wider_gap_costs_no_more_than_it_says)
{
    for (int which = BANDED; which <= BLT; which++) {
        for (size_t k = 1; k <= 16; k *= 4) {
            double tight = loss_at((enum which)which, 5, k, 256 / k, 1e-9);
            double wide = loss_at((enum which)which, 5, k, 256 / k, 0.05);
            double usual = loss_at((enum which)which, 5, k, 256 / k, 1e-3);
            assert_true(wide <= tight * 1.05 && usual <= tight * (1 + 1e-3) && tight <= usual * (1 + 1e-9));
        }
    }
}

/* Columns of one pattern that overlap want to be orthogonal: the best bands beyond the separation have both signs. */
TEST(bands_beyond_the_separation_have_both_signs)
{
    /* Found in a review, for 32 steps with 4 participations, 8 apart. */
    static const double known[] = {.754811,  .384085, .288408, .238594, .205938, .181748, .162271, .14524,
                                   -.084996, .024313, .043397, .048228, .048151, .045892, .042562, .038774};
    struct eps_mechanism m = mechanism_of(BANDED, 32), other = mechanism_new(EPS_FAMILY_TOEPLITZ, 32);
    m.matrix.bands = 16;
    set_participation(&m, 4, 8);
    other.matrix.coefficients = known;
    other.matrix.coefficients_len = 16;
    set_participation(&other, 4, 8);
    double loss = loss_of_mechanism(&m);
    assert_true(loss < 17.9735 && loss <= loss_of_mechanism(&other) * (1 + 1e-5));
    m.matrix.gap = 1e-9;
    assert_true(loss_of_mechanism(&m) <= loss_of_mechanism(&other));
    /* Better than without bands beyond the separation, by more than the gap. */
    static const size_t ks[] = {4, 16, 50, 2}, bs[] = {32, 16, 2, 100}, wide[] = {96, 64, 10, 200};
    for (size_t i = 0; i < 4; i++) {
        m = mechanism_of(BANDED, ks[i] * bs[i]);
        set_participation(&m, ks[i], bs[i]);
        m.matrix.bands = bs[i];
        double narrow = loss_of_mechanism(&m);
        m.matrix.bands = wide[i];
        loss = loss_of_mechanism(&m);
        if (!(loss <= narrow * (1 - 5e-3)))
            fail_msg("case %zu: %.6f with %zu bands, %.6f with %zu", i, loss, wide[i], narrow, bs[i]);
    }
    /* Signs do not help where the sensitivity would be that of |C|. */
    m.matrix.column_normalize = true;
    assert_false(eps__banded_either_sign(&m));
    m.matrix.column_normalize = false;
    assert_true(eps__banded_either_sign(&m));
    m.matrix.stamps = 2;
    assert_false(eps__banded_either_sign(&m));
    m.matrix.stamps = 1;
    m.sampling.schema = EPS_SCHEMA_MIN_SEPARATION;
    assert_false(eps__banded_either_sign(&m));
    m.sampling.schema = EPS_SCHEMA_FIXED_ORDER;
    m.matrix.epochs = EPS__GRAM_STEPS_MAX + 1;
    assert_false(eps__banded_either_sign(&m));
}

/* Amplification needs C >= 0: where the optimum has negative entries, a sampled job gets the best without. */
TEST(sampled_jobs_get_a_nonnegative_matrix)
{
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
            if (which == BANDED && bins[i] < 32) {
                /* With both signs 32 bands are better by a larger margin; without, they are no worse than bands that do
                 * not overlap. */
                struct eps_mechanism narrow = m;
                narrow.matrix.bands = bins[i];
                best = loss_of_mechanism(&narrow) / 1.02 * (1 + 1e-3);
            }
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

/* ---- the search ---- */

TEST(the_same_job_gives_the_same_bits)
{
    for (int which = 0; which < FAMILIES; which++) {
        struct eps_mechanism m = mechanism_of((enum which)which, 300);
        struct eps_strategy *a = strategy_new(&m), *b = strategy_new(&m);
        assert_string_equal(eps_strategy_id(a), eps_strategy_id(b));
        eps_strategy_destroy(a);
        eps_strategy_destroy(b);
    }
}

static bool after_some(void *user)
{
    size_t *left = user;
    return --*left == 0;
}

TEST(cancellation_is_heard_while_optimising)
{
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

TEST(long_searches_report_progress)
{
    struct seen seen = {0, 0};
    struct eps_context context = {.user = &seen, .progress = note_progress};
    struct eps_mechanism m = mechanism_of(BANDED, 100000);
    struct eps_strategy *s = NULL;
    m.matrix.bands = 100;
    assert_int_equal(eps_strategy_create(&context, &s, NULL, &m), EPS_OK);
    assert_true(seen.reports > 0 && seen.reports < 100);
    eps_strategy_destroy(s);
}
