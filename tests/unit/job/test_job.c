/*
 * A job's defaults and its rules.
 *
 * SPDX-License-Identifier: GPL-3.0-or-later
 */
#include <math.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include "lib/sampling/sampling.h"
#include "tests/unit/job/checked.h"

/* ---------------------------------------------------------------- defaults */

TEST(every_scheme_has_a_valid_simplest_job)
{
    for (int scheme = 0; scheme < EPS_SCHEME_COUNT; scheme++) {
        struct eps_job job = valid_job((enum eps_scheme)scheme);
        job.mechanism.sampling.bins = scheme == EPS_SCHEME_BALLS_IN_BINS ? 20 : 0;
        assert_refused(&job, "");
    }
}

TEST(defaults_are_filled_in_once_and_for_all)
{
    struct eps_job job = valid_job(EPS_SCHEME_NONE), again;
    double toeplitz[] = {1.0, 0.5, 0.0};
    double dense[] = {1, 0, 0, 0.5, 1, 0, 0, 0.5, 1};

    job.mechanism.sampling.epochs = 3;
    job.mechanism.matrix.family = EPS_FAMILY_SQUARE_ROOT;
    job.mechanism.matrix.stamps = 4;
    eps_job_defaults(&job);
    assert_int_equal(job.mechanism.sampling.separation, 33);
    assert_int_equal(job.mechanism.matrix.bands, 25);
    again = job;
    eps_job_defaults(&again);
    assert_memory_equal(&again, &job, sizeof job);

    job = valid_job(EPS_SCHEME_B_MIN_SEP);
    job.mechanism.matrix.family = EPS_FAMILY_TOEPLITZ;
    job.mechanism.matrix.coefficients = toeplitz;
    job.mechanism.matrix.coefficients_len = 3;
    job.mechanism.sampling.examples_per_user = 2;
    eps_job_defaults(&job);
    assert_int_equal(job.mechanism.sampling.separation, 2);
    assert_false(job.mechanism.sampling.warm_start);

    job = valid_job(EPS_SCHEME_CYCLIC_POISSON);
    job.mechanism.n = 3;
    job.mechanism.matrix.family = EPS_FAMILY_DENSE;
    job.mechanism.matrix.rows = dense;
    job.mechanism.matrix.rows_n = 3;
    eps_job_defaults(&job);
    assert_int_equal(job.mechanism.sampling.groups, 2);
    dense[1] = 1.0; /* above the diagonal: full, so groups cannot be told */
    job.mechanism.sampling.groups = 0;
    assert_refused(&job, "/sampling/groups ");

    job = valid_job(EPS_SCHEME_NONE);
    job.mechanism.matrix.family = EPS_FAMILY_TREE;
    eps_job_defaults(&job);
    assert_int_equal(job.mechanism.matrix.decoder, EPS_DECODER_ONLINE);
}

TEST(optimised_families_aim_at_the_participation_of_the_job)
{
    struct eps_job job = valid_job(EPS_SCHEME_NONE);
    const struct eps_matrix *matrix = &job.mechanism.matrix;

    job.mechanism.matrix.family = EPS_FAMILY_BANDED;
    job.mechanism.matrix.bands = 4;
    job.mechanism.sampling.epochs = 5;
    assert_refused(&job, "");
    assert_int_equal(matrix->epochs, 5);
    assert_int_equal(matrix->separation, 20);

    job = valid_job(EPS_SCHEME_BALLS_IN_BINS);
    job.mechanism.matrix.family = EPS_FAMILY_OPTIMAL;
    job.mechanism.sampling.batch_size = 64;
    job.mechanism.sampling.dataset_size = 64 * 25 + 63;
    assert_refused(&job, "");
    assert_int_equal(matrix->epochs, 4);
    assert_int_equal(matrix->separation, 25);

    job = valid_job(EPS_SCHEME_NONE);
    job.mechanism.matrix.family = EPS_FAMILY_BANDED;
    job.mechanism.matrix.bands = 4;
    job.mechanism.matrix.stamps = 5;
    job.mechanism.sampling.epochs = 5;
    assert_refused(&job, "");
    assert_int_equal(matrix->epochs, 1);
    assert_int_equal(matrix->separation, 20);
}

TEST(the_unknown_is_the_one_not_given)
{
    struct eps_job job = valid_job(EPS_SCHEME_POISSON);

    assert_int_equal(eps_job_unknown(&job), EPS_SOLVE_EPSILON);
    job.query.epsilon = 1.0;
    job.query.delta = NAN;
    assert_int_equal(eps_job_unknown(&job), EPS_SOLVE_DELTA);
    job.query.delta = 1e-6;
    job.query.noise_multiplier = NAN;
    assert_int_equal(eps_job_unknown(&job), EPS_SOLVE_NOISE_MULTIPLIER);
    job.query = (struct eps_query){.epsilon = NAN, .delta = NAN, .noise_multiplier = 1.0, .curve = true};
    assert_int_equal(eps_job_unknown(&job), EPS_SOLVE_CURVE);
}

/* ---------------------------------------------------------------- rules */

TEST(steps_are_bounded_by_what_the_caller_allows)
{
    struct eps_job job = valid_job(EPS_SCHEME_POISSON);

    job.mechanism.n = (size_t)1 << 24;
    assert_refused(&job, "");
    assert_int_equal(eps_job_check(&job, 1000, NULL, NULL), 1);
    job.mechanism.n++;
    assert_refused(&job, "/n ");
    job.mechanism.n = 0;
    assert_refused(&job, "/n ");
}

TEST(participations_have_to_fit_the_steps)
{
    struct eps_job job = valid_job(EPS_SCHEME_NONE);
    struct eps_sampling *sampling = &job.mechanism.sampling;

    sampling->epochs = 10;
    sampling->separation = 11; /* 9 * 11 + 1 = 100 */
    assert_refused(&job, "");
    sampling->separation = 12;
    assert_refused(&job, "/sampling/separation ");
    sampling->separation = SIZE_MAX;
    assert_refused(&job, "/sampling/separation ");
    sampling->epochs = 1;
    assert_refused(&job, "");
    sampling->epochs = 101;
    assert_refused(&job, "/sampling/epochs ");
    /* without n there is nothing to measure them in */
    job.mechanism.n = 0;
    assert_refused(&job, "/n ");
}

TEST(bins_that_do_not_divide_n_are_told_the_nearest_n)
{
    static const struct {
        size_t n, bins;
        const char *nearest;
    } rows[] = {{100, 30, "90"}, {110, 30, "120"}, {105, 30, "90"}, {10, 30, "30"}, {16777215, 16777214, "16777214"}};

    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        struct eps_job job = valid_job(EPS_SCHEME_BALLS_IN_BINS);
        char wanted[64];
        job.mechanism.n = rows[i].n;
        job.mechanism.sampling.bins = rows[i].bins;
        struct seen seen = check(&job);
        assert_string_equal(seen.pointers, "/sampling/bins ");
        snprintf(wanted, sizeof wanted, "nearest n that works is %s", rows[i].nearest);
        assert_non_null(strstr(seen.last, wanted));
    }
}

TEST(a_batch_that_no_probability_reaches_is_refused)
{
    struct eps_job job = valid_job(EPS_SCHEME_CYCLIC_POISSON);
    struct eps_sampling *sampling = &job.mechanism.sampling;

    sampling->p = NAN;
    sampling->groups = 7;
    sampling->dataset_size = 700;
    sampling->batch_size = 100; /* p = 1 */
    assert_refused(&job, "");
    sampling->batch_size = 101;
    struct seen seen = check(&job);
    assert_string_equal(seen.pointers, "/sampling/batch_size ");
    assert_non_null(strstr(seen.last, "at most 100"));

    sampling->scheme = EPS_SCHEME_B_MIN_SEP;
    sampling->groups = 0;
    sampling->separation = 7;
    sampling->batch_size = 100;
    assert_refused(&job, "");
    assert_true(eps__sampling_probability(&job.mechanism) == 1.0);
    sampling->batch_size = 101;
    assert_refused(&job, "/sampling/batch_size ");
    sampling->batch_size = 400; /* p0 (b-1) over 1 */
    assert_refused(&job, "/sampling/batch_size ");
}

TEST(p_and_sizes_exclude_each_other)
{
    struct eps_job job = valid_job(EPS_SCHEME_POISSON);
    struct eps_sampling *sampling = &job.mechanism.sampling;

    sampling->dataset_size = 1000;
    assert_refused(&job, "");
    sampling->batch_size = 10;
    assert_refused(&job, "/sampling/p ");
    sampling->p = NAN;
    assert_refused(&job, "");
    sampling->dataset_size = 9;
    assert_refused(&job, "/sampling/batch_size ");
    sampling->dataset_size = 0;
    assert_refused(&job, "/sampling/dataset_size ");
    sampling->batch_size = 0;
    assert_refused(&job, "/sampling/p ");
    for (size_t i = 0; i < 4; i++) {
        sampling->p = (double[]){0.0, -0.5, 1.0000000000000002, INFINITY}[i];
        assert_refused(&job, "/sampling/p ");
    }
}

TEST(additions_go_with_their_schemes_only)
{
    struct eps_job job = valid_job(EPS_SCHEME_NONE);

    job.mechanism.sampling.truncation = true;
    job.mechanism.sampling.max_batch_size = 4;
    job.mechanism.sampling.examples_per_user = 2;
    job.mechanism.sampling.last_iterate = true;
    assert_refused(&job, "/sampling/truncation /sampling/examples_per_user /sampling/last_iterate ");

    job = valid_job(EPS_SCHEME_POISSON);
    job.mechanism.sampling.truncation = true;
    assert_refused(&job, "/sampling/dataset_size /sampling/truncation/max_batch_size ");

    job = valid_job(EPS_SCHEME_POISSON);
    job.mechanism.sampling.last_iterate = true;
    assert_refused(&job, "");
    job.mechanism.matrix.family = EPS_FAMILY_TREE;
    assert_refused(&job, "/sampling/last_iterate ");
}

/* All pairs of additions under every scheme: served only where a pair is derived (groups and the last iterate), else
 * refused by a message that names both. */
TEST(additions_combine_only_as_derived)
{
    static const char *const pointer[] = {"/sampling/truncation ", "/sampling/examples_per_user ",
                                          "/sampling/last_iterate "};
    static const char *const name[] = {"truncation", "examples_per_user", "last_iterate"};

    for (enum eps_scheme scheme = 0; scheme < EPS_SCHEME_COUNT; scheme++)
        for (int a = 0; a < 3; a++)
            for (int b = a + 1; b < 3; b++) {
                struct eps_job job = valid_job(scheme);
                struct eps_sampling *sampling = &job.mechanism.sampling;
                bool poisson = scheme == EPS_SCHEME_POISSON, b_min_sep = scheme == EPS_SCHEME_B_MIN_SEP;
                const bool takes[] = {poisson || b_min_sep || scheme == EPS_SCHEME_CYCLIC_POISSON, poisson || b_min_sep,
                                      poisson};
                sampling->warm_start = false;
                sampling->groups = scheme == EPS_SCHEME_CYCLIC_POISSON ? 4 : 0;
                sampling->separation = b_min_sep ? 4 : 0;
                sampling->bins = scheme == EPS_SCHEME_BALLS_IN_BINS ? 10 : 0;
                sampling->truncation = a == 0;
                sampling->max_batch_size = a == 0 ? 5 : 0;
                sampling->dataset_size = a == 0 && takes[a] ? 1000 : 0;
                sampling->examples_per_user = a == 1 || b == 1 ? 3 : 1;
                sampling->last_iterate = b == 2;
                struct seen seen = check(&job);
                char expected[128] = "";
                if (!takes[a])
                    strcat(expected, pointer[a]);
                if (!takes[b])
                    strcat(expected, pointer[b]);
                bool refused = takes[a] && takes[b] && a == 0;
                if (refused)
                    strcat(expected, pointer[0]);
                assert_string_equal(seen.pointers, expected);
                assert_true(!refused || strstr(seen.last, name[b]));
            }
}

TEST(a_matrix_has_the_size_of_its_stamp)
{
    struct eps_job job = valid_job(EPS_SCHEME_NONE);
    struct eps_matrix *matrix = &job.mechanism.matrix;
    double numbers[2500] = {1.0};

    matrix->family = EPS_FAMILY_TOEPLITZ;
    matrix->coefficients = numbers;
    matrix->coefficients_len = 51;
    assert_refused(&job, "");
    matrix->stamps = 2;
    assert_refused(&job, "/matrix/coefficients ");
    matrix->stamps = 3;
    assert_refused(&job, "/matrix/stamps ");
    matrix->stamps = 0;
    assert_refused(&job, "/matrix/stamps ");
    matrix->stamps = 1;
    numbers[2] = NAN;
    numbers[50] = INFINITY;
    assert_refused(&job, "/matrix/coefficients/2 /matrix/coefficients/50 ");

    matrix->family = EPS_FAMILY_DENSE;
    matrix->rows = numbers;
    matrix->rows_n = 50;
    assert_refused(&job, "/matrix/rows ");
    matrix->stamps = 2;
    assert_refused(&job, "/matrix/rows/0/2 /matrix/rows/1/0 ");

    matrix->family = EPS_FAMILY_BANDED_INVERSE;
    numbers[2] = numbers[50] = 0;
    matrix->coefficients_len = matrix->bands = 25;
    assert_refused(&job, "");
    matrix->coefficients_len = 24;
    assert_refused(&job, "/matrix/coefficients ");
    matrix->coefficients_len = 0;
    matrix->bands = 51;
    assert_refused(&job, "/matrix/bands ");
    matrix->bands = 0;
    assert_refused(&job, "/matrix/bands ");
}

TEST(families_have_their_own_rules)
{
    struct eps_job job = valid_job(EPS_SCHEME_POISSON);
    struct eps_matrix *matrix = &job.mechanism.matrix;
    double decay[17] = {0.5, 1.0}, scale[17] = {0.5, -1.0};

    matrix->family = EPS_FAMILY_FOURIER;
    assert_refused(&job, "/matrix/family ");
    matrix->family = EPS_FAMILY_BLT;
    assert_refused(&job, "/matrix/buffers ");
    matrix->decay = decay;
    matrix->scale = scale;
    matrix->blt_len = 2;
    assert_refused(&job, "/matrix/decay/1 ");
    decay[1] = 0.25;
    assert_refused(&job, "");
    matrix->buffers = 3;
    assert_refused(&job, "/matrix/buffers ");
    matrix->buffers = 0;
    for (size_t i = 2; i < 17; i++)
        decay[i] = 0.5;
    matrix->blt_len = 16;
    assert_refused(&job, "");
    matrix->blt_len = 17;
    assert_refused(&job, "/matrix/decay ");

    matrix->family = EPS_FAMILY_OPTIMAL;
    job.mechanism.n = 4097;
    matrix->epochs = 0;
    matrix->separation = 0;
    assert_refused(&job, "/n ");

    job = valid_job(EPS_SCHEME_POISSON);
    matrix->normalization = EPS_NORMALIZATION_SENSITIVITY;
    assert_refused(&job, "/matrix/normalization ");

    job = valid_job(EPS_SCHEME_NONE);
    matrix->family = EPS_FAMILY_SQUARE_ROOT;
    job.mechanism.workload = (struct eps_workload){
        .type = EPS_WORKLOAD_MOMENTUM, .momentum = 0.9, .decay = 1.0, .cooldown = true, .cooldown_to = 2.0};
    assert_refused(&job, "/workload/cooldown /workload/cooldown/to ");

    /* Of the banded strategies only those that are Toeplitz need a Toeplitz workload. */
    job.mechanism.workload.cooldown_to = 0.5;
    matrix->family = EPS_FAMILY_BANDED;
    matrix->bands = 4;
    assert_refused(&job, "/workload/cooldown ");
    matrix->toeplitz = false;
    assert_refused(&job, "");
    matrix->epochs = 30;
    matrix->separation = 3;
    assert_refused(&job, "/matrix/bands ");
}

TEST(exactly_two_of_three_are_given)
{
    for (unsigned given = 0; given < 8; given++) {
        struct eps_job job = valid_job(EPS_SCHEME_POISSON);
        bool two = given == 3 || given == 5 || given == 6;
        job.query.epsilon = given & 1 ? 1.0 : NAN;
        job.query.delta = given & 2 ? 1e-6 : NAN;
        job.query.noise_multiplier = given & 4 ? 1.0 : NAN;
        assert_refused(&job, two ? "" : "- ");
        job.query.curve = true;
        struct seen seen = check(&job);
        assert_true((seen.pointers[0] == '\0') == (given == 4));
    }
}

TEST(tuning_goes_with_the_methods_that_know_it)
{
    struct eps_job job = valid_job(EPS_SCHEME_POISSON);
    struct eps_tuning *tuning = &job.query.accountant;

    tuning->given = 1u << EPS_TUNING_TOLERANCE | 1u << EPS_TUNING_THRESHOLD_SHARE | 1u << EPS_TUNING_ESTIMATOR;
    tuning->bad_event_share = 0.5;
    tuning->max_order = 8;
    tuning->bandwidth = 2;
    tuning->samples = 1000;
    tuning->seed = 0;
    tuning->max_seconds = 1.0;
    tuning->audit = 1000;
    assert_refused(&job, ""); /* auto takes all */
    tuning->method = EPS_ACCOUNTANT_RENYI;
    assert_refused(&job, "/accountant/bad_event_share /accountant/samples /accountant/seed /accountant/threshold_share "
                         "/accountant/estimator /accountant/max_seconds ");
    tuning->method = EPS_ACCOUNTANT_MONTE_CARLO;
    assert_refused(&job, "/accountant/tolerance /accountant/bad_event_share /accountant/max_order "
                         "/accountant/bandwidth ");

    for (int method = 0; method < EPS_ACCOUNTANT_COUNT; method++) { /* any is held against draws */
        *tuning = valid_job(EPS_SCHEME_POISSON).query.accountant;
        tuning->method = (enum eps_accountant)method;
        tuning->audit = 1;
        assert_refused(&job, "");
    }
    job.query.delta = NAN;
    job.query.curve = true;
    tuning->method = EPS_ACCOUNTANT_AUTO;
    assert_refused(&job, "/accountant/audit ");

    job = valid_job(EPS_SCHEME_POISSON);
    *tuning = valid_job(EPS_SCHEME_POISSON).query.accountant;
    tuning->tolerance = 1e-10;
    tuning->threshold_share = 1.0;
    tuning->max_seconds = 0.0;
    tuning->seed = ((int64_t)1 << 53) + 1;
    assert_refused(&job, "/accountant/tolerance /accountant/seed /accountant/threshold_share /accountant/max_seconds ");
}

TEST(only_some_accountants_return_curves)
{
    static const bool serves[EPS_ACCOUNTANT_COUNT] = {
        [EPS_ACCOUNTANT_AUTO] = true,  [EPS_ACCOUNTANT_GAUSSIAN] = true,   [EPS_ACCOUNTANT_PLD] = true,
        [EPS_ACCOUNTANT_RENYI] = true, [EPS_ACCOUNTANT_QUADRATURE] = true, [EPS_ACCOUNTANT_GROUP_PRIVACY] = true};

    for (int method = 0; method < EPS_ACCOUNTANT_COUNT; method++) {
        struct eps_job job = valid_job(EPS_SCHEME_POISSON);
        job.query.delta = NAN;
        job.query.curve = true;
        job.query.accountant.method = (enum eps_accountant)method;
        assert_refused(&job, serves[method] ? "" : "/accountant/method ");
    }
}

TEST(names_are_distinct_and_end_where_their_enum_ends)
{
    for (int i = 0; i < EPS_FAMILY_COUNT; i++) {
        for (int k = 0; k < i; k++)
            assert_string_not_equal(eps_family_name((enum eps_family)i), eps_family_name((enum eps_family)k));
    }
    for (int i = 0; i < EPS_STATUS_COUNT; i++) {
        for (int k = 0; k < i; k++)
            assert_string_not_equal(eps_status_name((enum eps_status)i), eps_status_name((enum eps_status)k));
    }
    assert_null(eps_family_name(EPS_FAMILY_COUNT));
    assert_null(eps_status_name(EPS_STATUS_COUNT));
    assert_string_equal(eps_status_name(EPS_OK), "ok");
    assert_string_equal(eps_status_name(EPS_UNATTAINABLE), "unattainable");
    assert_string_equal(eps_status_name(EPS_INTERNAL), "internal");
    assert_null(eps_scheme_name(EPS_SCHEME_COUNT));
    assert_null(eps_accountant_name(EPS_ACCOUNTANT_COUNT));
    assert_string_equal(eps_family_name(EPS_FAMILY_STORED), "stored");
    assert_string_equal(eps_scheme_name(EPS_SCHEME_B_MIN_SEP), "b_min_sep");
    assert_string_equal(eps_accountant_name(EPS_ACCOUNTANT_MONTE_CARLO), "monte_carlo");
}
