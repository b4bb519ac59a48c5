/*
 * Phases that have no pairs: their curves, composed, against draws by hand and enumeration.
 *
 * SPDX-License-Identifier: GPL-3.0-or-later
 */
#include "lib/epsilon.h"

#include <math.h>

#include "lib/training/curves.h"
#include "tests/unit/solved.h"
#include "tests/unit/test.h"
#include "tests/unit/training/phases.h"

/* ------------------------------------------------------------ curves */

/* Every bin drawn anew in its epoch: phases of one epoch each are the same law. */
TEST(epochs_as_phases_are_drawn_anew)
{
    struct eps_phase epochs = bins(10, 10, false, 3), whole = bins(30, 10, true, 1);
    struct eps_job apart = training_of(&epochs, 1, NAN, 1e-6, 0.9), together = training_of(&whole, 1, NAN, 1e-6, 0.9);
    struct eps_result *a = solved(NULL, apart), *b = solved(NULL, together);
    assert_agree(a, b, 1.1e-3);
    eps_result_destroy(a);
    eps_result_destroy(b);
}

/* A Gaussian beside bins: once by the curve of the steps, once as one more epoch of a single bin. */
TEST(steps_beside_bins)
{
    struct eps_phase phases[] = {bins(20, 10, false, 1), unsampled(5, 2, 1)},
                     alike[] = {bins(20, 10, false, 1), bins(1, 1, false, 1)};
    alike[1].noise_scale = 2;
    struct eps_job one = training_of(phases, 2, NAN, 1e-6, 1), other = training_of(alike, 2, NAN, 1e-6, 1);
    struct eps_result *a = solved(NULL, one), *b = solved(NULL, other);
    assert_agree(a, b, 1.1e-3);
    eps_result_destroy(a);
    eps_result_destroy(b);
}

/* Poisson steps beside a Gaussian, which is a bin by itself: once by the curve of the steps, whose directions
 * differ, once as steps. */
TEST(sampled_steps_beside_bins)
{
    static const struct {
        size_t n;
        double p, epsilon, delta;
    } cases[] = {{60, 0.05, NAN, 1e-6}, {60, 0.05, 0.5, NAN}, {2, 0.3, NAN, 0.05}};
    for (int i = 0; i < 3;
         i++) { /* at a small epsilon half of what counts is under loss 0; few steps have a least loss */
        struct eps_phase curves[] = {poisson(cases[i].n, cases[i].p, 1, 1), bins(1, 1, false, 1)},
                         steps[] = {curves[0], unsampled(1, 3, 1)};
        curves[1].noise_scale = 3;
        struct eps_job one = training_of(curves, 2, cases[i].epsilon, cases[i].delta, 0.8),
                       other = training_of(steps, 2, cases[i].epsilon, cases[i].delta, 0.8);
        one.query.accountant.method = other.query.accountant.method = EPS_ACCOUNTANT_PLD; /* and not gaussian */
        struct eps_result *a = solved(NULL, one), *b = solved(NULL, other);
        assert_agree(a, b, 1.1e-3);
        eps_result_destroy(a);
        eps_result_destroy(b);
    }
}

/* A Gaussian by its curve beside others of so much more noise that no grid serves both: composed they are one
 * Gaussian, which the answer is near to where they are few, and never under. */
TEST(curves_of_all_sizes_compose)
{
    const double scales[] = {400, 1e4, 400, 1e3};
    const size_t counts[] = {1, 3, 10000, 1};
    for (size_t i = 0; i < 4; i++) {
        struct eps_phase phases[] = {bins(1, 1, false, 1), bins(1, 1, false, counts[i]), unsampled(3, 1e6, 1)};
        struct eps_phase all = unsampled(1, 1 / sqrt(1 + (double)counts[i] / (scales[i] * scales[i]) + 3e-12), 1);
        phases[1].noise_scale = scales[i];
        struct eps_job apart = training_of(phases, i == 3 ? 3 : 2, NAN, 1e-6, 1.5),
                       one = training_of(&all, 1, NAN, 1e-6, 1.5);
        struct eps_result *found = solved(NULL, apart), *exact = solved(NULL, one);
        assert_true(found->bracket_lower <= exact->epsilon && found->epsilon >= exact->bracket_lower);
        assert_true(found->epsilon <= exact->epsilon * (counts[i] > 3 ? 1.5 : 1.001));
        assert_true(counts[i] > 3 || found->bracket_upper <= 1.001 * found->bracket_lower);
        apart.query.epsilon = one.query.epsilon = 2;
        apart.query.delta = one.query.delta = NAN;
        struct eps_result *deltas[] = {solved(NULL, apart), solved(NULL, one)};
        assert_true(deltas[0]->delta >= deltas[1]->bracket_lower && deltas[0]->bracket_lower <= deltas[1]->delta);
        eps_result_destroy(deltas[0]);
        eps_result_destroy(deltas[1]);
        eps_result_destroy(found);
        eps_result_destroy(exact);
    }
}

/* Truncated batches go by their profiles: at every loss the better of two pairs, where the mechanism takes one of
 * them throughout. */
TEST(truncated_phases_compose)
{
    struct eps_phase two[2] = {poisson(60, 0.01, 1, 1), poisson(40, 0.01, 1, 1)};
    for (int i = 0; i < 2; i++) {
        struct eps_sampling *sampling = &two[i].mechanism.sampling;
        sampling->truncation = true;
        sampling->dataset_size = 1000;
        sampling->max_batch_size = 20;
    }
    struct eps_job single, apart = training_of(two, 2, NAN, 1e-6, 1), drawn;
    eps_job_init(&single);
    single.mechanism = two[0].mechanism;
    single.mechanism.n = 100;
    single.query = apart.query;
    drawn = single;
    drawn.mechanism.sampling.truncation = false;
    drawn.mechanism.sampling.max_batch_size = 0;
    struct eps_result *a = solved(NULL, single), *b = solved(NULL, apart), *c = solved(NULL, drawn);
    assert_true(b->epsilon <= a->epsilon * 1.001 && b->epsilon >= a->epsilon * 0.98);
    assert_true(b->epsilon >= c->bracket_lower); /* a batch that is hardly ever full */
    eps_result_destroy(a);
    eps_result_destroy(b);
    eps_result_destroy(c);
}

/* Of each run another part of the data set may be the worst: no less than where it is one part throughout, and no
 * more than a Gaussian of the largest norms would do. */
TEST(parts_compose)
{
    static const double rows[16] = {1, 0, 0, 0, 0, 0.9, 0, 0, 0, 0, 0.5, 0, 0, 0, 0, 0.8};
    static const double large[16] = {1, 0, 0, 0, 0, 1, 0, 0, 0, 0, 0.8, 0, 0, 0, 0, 0.8};
    struct eps_phase phase = poisson(4, 0.1, 1, 2);
    phase.mechanism.sampling.scheme = EPS_SCHEME_CYCLIC_POISSON;
    phase.mechanism.sampling.groups = 2;
    phase.mechanism.matrix.family = EPS_FAMILY_DENSE;
    phase.mechanism.matrix.normalization = EPS_NORMALIZATION_NONE;
    phase.mechanism.matrix.rows = rows;
    phase.mechanism.matrix.rows_n = 4;
    struct eps_job apart = training_of(&phase, 1, NAN, 1e-6, 1), stamped;
    eps_job_init(&stamped);
    stamped.mechanism = phase.mechanism;
    stamped.mechanism.n = 8;
    stamped.mechanism.matrix.stamps = 2;
    stamped.query = apart.query;
    struct eps_result *a = solved(NULL, stamped), *b = solved(NULL, apart);
    assert_true(b->epsilon >= a->bracket_lower);
    eps_result_destroy(a);
    stamped.mechanism.matrix.rows = large;
    a = solved(NULL, stamped);
    assert_true(b->bracket_lower <= a->epsilon);
    assert_true(b->epsilon - b->bracket_lower <= 2e-3 * b->epsilon);
    eps_result_destroy(a);
    eps_result_destroy(b);
}

/* Bad events of both accountants add up: no less than the law that is known, and not much more than conditional
 * composition makes of one. */
TEST(bad_events_add_up)
{
    struct eps_phase phases[] = {bins(100, 100, false, 1), unsampled(5, 3, 1)};
    struct eps_job job = training_of(phases, 2, NAN, 1e-5, 2), law = job, alone = training_of(phases, 1, NAN, 1e-5, 2);
    job.query.accountant.method = EPS_ACCOUNTANT_AUTO;
    phases[0].mechanism.matrix.family = EPS_FAMILY_SQUARE_ROOT;
    phases[0].mechanism.matrix.bands = 4;
    struct eps_result *whole = solved(NULL, job), *one = solved(NULL, alone);
    phases[0].mechanism.matrix.family = EPS_FAMILY_IDENTITY;
    phases[0].mechanism.matrix.bands = 0;
    struct eps_result *less = solved(NULL, law);
    assert_true(whole->epsilon > one->epsilon && whole->epsilon > less->bracket_lower);
    assert_true(whole->epsilon < 2 * (one->epsilon + 1.5));
    eps_result_destroy(whole);
    eps_result_destroy(one);
    eps_result_destroy(less);
}

/* ------------------------------------------------------------ mmcc, by enumeration */

/*
 * Two steps of a strategy of two bands under Poisson sampling, so that there are four patterns, and then a Gaussian.
 * The truth is a double integral over the first mechanism's outputs of the second one's closed form.
 */
TEST(mmcc_phases_hold_against_enumeration)
{
    const double p = 0.3, sigma = 1.2, mu = 0.5;
    const double epsilons[] = {0.2, 0.7, 1.5};
    struct eps_phase phases[] = {poisson(2, p, 1, 1), poisson(1, 1, 1 / (sigma * mu), 1)}; /* the second a Gaussian */
    const double c = 0.5 / sqrt(1.25), b = 1 / sqrt(1.25);
    const double coefficients[] = {b, c};
    phases[0].mechanism.matrix.family = EPS_FAMILY_TOEPLITZ;
    phases[0].mechanism.matrix.coefficients = coefficients;
    phases[0].mechanism.matrix.coefficients_len = 2;
    phases[0].mechanism.matrix.normalization = EPS_NORMALIZATION_NONE;
    for (size_t i = 0; i < sizeof epsilons / sizeof *epsilons; i++) {
        struct eps_job job = training_of(phases, 2, epsilons[i], NAN, sigma);
        job.query.accountant.method = EPS_ACCOUNTANT_MMCC;
        struct eps_result *result = solved(NULL, job);
        const double means[4][2] = {{0, 0}, {b, c}, {0, b}, {b, c + b}};
        const double weights[4] = {(1 - p) * (1 - p), p * (1 - p), p * (1 - p), p * p};
        double truth[2] = {0, 0}, h = 0.08;
        for (double x = -9; x < 12; x += h)
            for (double y = -9; y < 12; y += h) {
                double with = 0, without = exp(-0.5 * (x * x + y * y)) / (2 * M_PI);
                for (int k = 0; k < 4; k++)
                    with += weights[k] *
                            exp(-0.5 * (pow(x - means[k][0] / sigma, 2) + pow(y - means[k][1] / sigma, 2))) /
                            (2 * M_PI);
                for (int d = 0; d < 2; d++) {
                    double mass = d == EPS_REMOVE ? with : without,
                           loss = log(with / without) * (d == EPS_REMOVE ? 1 : -1);
                    double at = epsilons[i] - loss;
                    double delta =
                        0.5 * erfc((at / mu - mu / 2) / M_SQRT2) - exp(at) * 0.5 * erfc((at / mu + mu / 2) / M_SQRT2);
                    truth[d] += mass * delta * h * h;
                }
            }
        for (int d = 0; d < 2; d++) {
            assert_true(result->directions[d].value >= truth[d]);
            assert_true(result->directions[d].value <= truth[d] * 4); /* the rows' bounds, and not phases', are loose */
        }
        assert_int_equal(result->phases[0].composed[EPS_REMOVE], EPS_ACCOUNTANT_MMCC);
        eps_result_destroy(result);
    }
}

/* Two runs of rows are no better than one run of all of them twice, stamped. */
TEST(rows_are_run_again)
{
    struct eps_phase twice = poisson(24, 0.1, 1, 2);
    struct eps_job runs = training_of(&twice, 1, NAN, 1e-5, 2), stamped;
    twice.mechanism.matrix.family = EPS_FAMILY_SQUARE_ROOT;
    twice.mechanism.matrix.bands = 3;
    runs.query.accountant.method = EPS_ACCOUNTANT_MMCC;
    runs.query.accountant.bad_event_share = 0.5;
    eps_job_init(&stamped);
    stamped.mechanism = twice.mechanism;
    stamped.mechanism.n = 48;
    stamped.mechanism.matrix.stamps = 2;
    stamped.query = runs.query;
    struct eps_result *a = solved(NULL, stamped), *b = solved(NULL, runs);
    assert_agree(a, b, 2e-3);
    eps_result_destroy(a);
    eps_result_destroy(b);
}

/* Half of delta is spent, whoever spends it: the bad events of ten runs of three pairs each are those of thirty,
 * and a delta that is hardly over what is spent has no finite epsilon that spends more. */
TEST(what_is_spent_is_shared)
{
    struct eps_phase runs = poisson(24, 0.1, 1, 10);
    struct eps_job job = training_of(&runs, 1, NAN, 1e-5, 2), stamped;
    runs.mechanism.matrix.family = EPS_FAMILY_SQUARE_ROOT;
    runs.mechanism.matrix.bands = 3;
    job.query.accountant.method = EPS_ACCOUNTANT_MMCC;
    job.query.accountant.bad_event_share = 0.9;
    eps_job_init(&stamped);
    stamped.mechanism = runs.mechanism;
    stamped.mechanism.n = 240;
    stamped.mechanism.matrix.stamps = 10;
    stamped.query = job.query;
    struct eps_result *a = solved(NULL, stamped), *b = solved(NULL, job);
    assert_agree(a, b, 2e-3);
    assert_true(fabs(b->directions[EPS_REMOVE].bad_event_share - 0.9) < 1e-3);
    eps_result_destroy(a);
    eps_result_destroy(b);
}

/* The curve of a phase that spends: its profile's bound, less what is spent, and no more than that; where little
 * else is left, a part of it too much or too little shows. */
TEST(a_curve_is_what_is_left)
{
    const double spent = -14, epsilons[] = {0, 1.1, 2.5, 3, 3.5, 4};
    struct eps_phase phase = bins(40, 40, false, 2);
    struct eps_job job = training_of(&phase, 1, NAN, 1e-5, 1.5);
    struct eps__training *open = NULL;
    struct eps_error error = {0};
    struct eps__phases_plan plan = {
        .use = EPS_REMOVE, .direction = EPS_REMOVE, .sigma = 1.5, .finer = 1, .log_delta1 = spent, .proven = true};
    phase.mechanism.matrix.family = EPS_FAMILY_SQUARE_ROOT;
    phase.mechanism.matrix.bands = 4;
    job.query.accountant.method = EPS_ACCOUNTANT_CONDITIONAL_COMPOSITION;
    eps_job_defaults(&job);
    assert_int_equal(eps__training_open(&open, &error, NULL, &job, false), EPS_OK);
    assert_int_equal(eps__training_begin(open, &error), EPS_OK);
    struct eps__phase *own = &open->phases[0];
    own->job.query.accountant.bad_event_share = 0.5;
    struct eps__curve *curve = eps__curve_phase(own, &plan);
    const struct eps__accuracy accuracy = {EPS_SOLVE_DELTA, 1e-2, spent + M_LN2};
    struct eps__profile *profile = NULL;
    assert_int_equal(own->accountants[EPS_REMOVE]->open(&own->setting, 1.5, &accuracy, &profile, &error), EPS_OK);
    for (enum eps_direction d = 0; d < EPS_DIRECTIONS; d++)
        for (size_t i = 0; i < sizeof epsilons / sizeof *epsilons; i++) {
            double left[2], whole[2];
            for (enum eps__estimate estimate = EPS__UPPER; estimate <= EPS__LOWER; estimate++) {
                assert_int_equal(
                    curve->class->log_delta(curve, d != EPS_REMOVE, estimate, epsilons[i], 1e-2, &left[estimate]),
                    EPS_OK);
                assert_int_equal(profile->class->log_delta(profile, d, estimate, epsilons[i], &whole[estimate], &error),
                                 EPS_OK);
                left[estimate] = exp(left[estimate]);
                whole[estimate] = exp(whole[estimate]);
            }
            double delta1 = profile->class->bad_event_share(profile, d, 0), rounding = 1e-12;
            assert_true(fabs(log(delta1) - spent) < 1e-9);
            assert_true(left[EPS__UPPER] >= whole[EPS__LOWER] - delta1 - rounding);
            assert_true(left[EPS__UPPER] <= (whole[EPS__UPPER] - delta1) * 1.02 + rounding);
            assert_true(left[EPS__LOWER] <= whole[EPS__UPPER] - delta1 + rounding);
            assert_true(left[EPS__LOWER] >= (whole[EPS__LOWER] - delta1) * 0.98 - rounding);
            assert_true(i < 3 || whole[EPS__UPPER] < 1.5 * delta1);
        }
    profile->class->destroy(profile);
    curve->class->destroy(curve);
    eps__training_close(open);
}
