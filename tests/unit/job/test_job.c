/*
 * A job's defaults, its rules, and what follows from the sizes of batch and data set.
 *
 * SPDX-License-Identifier: GPL-3.0-or-later
 */
#include <math.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include "lib/epsilon.h"
#include "lib/sampling/sampling.h"
#include "tests/unit/test.h"

/* DP-SGD, asking for epsilon: valid until a test changes it. */
static struct eps_job valid_job(enum eps_scheme scheme)
{
    struct eps_job job;

    eps_job_init(&job);
    job.mechanism.n = 100;
    job.mechanism.sampling.scheme = scheme;
    if (scheme != EPS_SCHEME_NONE && scheme != EPS_SCHEME_BALLS_IN_BINS)
        job.mechanism.sampling.p = 0.1;
    job.query.delta = 1e-6;
    job.query.noise_multiplier = 1.0;
    return job;
}

struct seen {
    char pointers[512];
    char last[400];
};

static void note(void *user, const char *pointer, const char *message)
{
    struct seen *seen = user;

    strncat(seen->pointers, *pointer ? pointer : "-", sizeof seen->pointers - strlen(seen->pointers) - 2);
    strcat(seen->pointers, " ");
    snprintf(seen->last, sizeof seen->last, "%s", message);
}

/* Checks the job after its defaults: the pointers, each with a space behind, and the last message. */
static struct seen check(struct eps_job *job)
{
    struct seen seen = {"", ""};
    size_t spaces = 0;

    eps_job_defaults(job);
    size_t violations = eps_job_check(job, 0, note, &seen);
    for (const char *c = seen.pointers; *c; c++)
        spaces += *c == ' ';
    assert_int_equal(violations, spaces);
    assert_int_equal(eps_job_check(job, 0, NULL, NULL), violations);
    return seen;
}

static void assert_refused(struct eps_job *job, const char *pointers)
{
    struct seen seen = check(job);

    assert_string_equal(seen.pointers, pointers);
}

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

TEST(the_three_stay_in_their_ranges)
{
    static const double epsilons[] = {-1e-300, 10000.1, INFINITY}, deltas[] = {0.0, 1.0, -1.0, INFINITY},
                        noises[] = {0.0, -1.0, 1.0000001e9, INFINITY};
    struct eps_job job = valid_job(EPS_SCHEME_POISSON);

    for (size_t i = 0; i < 4; i++) {
        job.query = valid_job(EPS_SCHEME_POISSON).query;
        job.query.noise_multiplier = noises[i];
        assert_refused(&job, "/noise_multiplier ");
        job.query.noise_multiplier = 1.0;
        job.query.delta = deltas[i];
        assert_refused(&job, "/delta ");
        job.query.delta = NAN;
        job.query.epsilon = epsilons[i % 3];
        assert_refused(&job, "/epsilon ");
    }
    job.query.epsilon = 0.0;
    assert_refused(&job, "");
}

/* Accepted at both ends; beyond them, and at what is no number or a denormal one, refused with the range. */
static void assert_range(struct eps_job *job, double *value, const char *pointer, double least, double most,
                         const char *range)
{
    const double beyond[] = {nextafter(least, -INFINITY), nextafter(most, INFINITY), -1, 5e-324, 1e308, INFINITY};
    const double within[] = {least, nextafter(least, INFINITY), most, nextafter(most, -INFINITY)};
    char pointers[64];

    snprintf(pointers, sizeof pointers, "%s ", pointer);
    for (size_t i = 0; i < sizeof within / sizeof *within; i++) {
        *value = within[i];
        assert_refused(job, "");
    }
    for (size_t i = 0; i < sizeof beyond / sizeof *beyond; i++) {
        if (beyond[i] >= least && beyond[i] <= most)
            continue;
        *value = beyond[i];
        struct seen seen = check(job);
        assert_string_equal(seen.pointers, pointers);
        assert_non_null(strstr(seen.last, range));
    }
}

TEST(every_number_has_the_range_that_is_computed)
{
    const double under_1 = nextafter(1, 0);
    struct eps_job job = valid_job(EPS_SCHEME_POISSON);
    struct eps_query *query = &job.query;
    const struct eps_query kept = job.query;

    job.mechanism.matrix.family = EPS_FAMILY_BANDED;
    job.mechanism.matrix.bands = 4;
    assert_range(&job, &job.mechanism.matrix.gap, "/matrix/gap", 1e-12, under_1, "[1e-12, 1)");
    job.mechanism.matrix.gap = 1e-3;
    assert_range(&job, &job.mechanism.sampling.p, "/sampling/p", 1e-20, 1, "[1e-20, 1]");
    job.mechanism.sampling.p = 0.1;
    assert_range(&job, &query->noise_multiplier, "/noise_multiplier", 1e-9, 1e9, "[1e-9, 1e9]");
    *query = kept;
    assert_range(&job, &query->delta, "/delta", 1e-300, under_1, "[1e-300, 1)");
    *query = kept;
    query->noise_multiplier = NAN;
    assert_range(&job, &query->epsilon, "/epsilon", 0, 1e4, "[0, 10000]");
    *query = kept;
    assert_range(&job, &query->accountant.tolerance, "/accountant/tolerance", 1e-9, 0.1, "[1e-9, 0.1]");
    *query = kept;
    assert_range(&job, &query->accountant.bad_event_share, "/accountant/bad_event_share", 1e-12, under_1,
                 "[1e-12, 1), or be \"auto\"");
    *query = kept;
    assert_range(&job, &query->accountant.threshold_share, "/accountant/threshold_share", 1e-6, under_1, "[1e-6, 1)");
    *query = kept;
    assert_range(&job, &query->accountant.max_seconds, "/accountant/max_seconds", 1e-3, 1e9, "[1e-3, 1e9]");
}

/* Sums over the sizes of a batch are as long as these vary. */
TEST(a_truncated_data_set_has_a_size_that_is_computed)
{
    struct eps_job job = valid_job(EPS_SCHEME_POISSON);
    struct eps_sampling *sampling = &job.mechanism.sampling;

    sampling->dataset_size = UINT64_C(1000000000001);
    assert_refused(&job, "");
    sampling->truncation = true;
    sampling->max_batch_size = 3;
    assert_refused(&job, "/sampling/dataset_size ");
    sampling->dataset_size--;
    assert_refused(&job, "");
}

/* A round of more groups than there may be steps is no round; nor is it said that n, which is asked for, is too
 * large. */
TEST(the_largest_n_has_room_for_a_round)
{
    struct eps_job job = valid_job(EPS_SCHEME_CYCLIC_POISSON);

    job.mechanism.matrix = (struct eps_matrix){.family = EPS_FAMILY_IDENTITY, .stamps = 1};
    job.mechanism.n = EPS_LARGEST;
    job.mechanism.sampling.groups = (size_t)1 << 24;
    job.query.epsilon = 1;
    job.query.delta = 1e-5;
    job.query.noise_multiplier = 1;
    assert_refused(&job, "");
    job.mechanism.sampling.groups++;
    assert_refused(&job, "/sampling/groups ");
}

/* Nor is any number of steps that is tried too many for the examples of a user. */
TEST(the_largest_n_fits_the_examples_of_a_user)
{
    struct eps_job job = valid_job(EPS_SCHEME_POISSON);

    job.mechanism.matrix = (struct eps_matrix){.family = EPS_FAMILY_IDENTITY, .stamps = 1};
    job.mechanism.n = EPS_LARGEST;
    job.mechanism.sampling.examples_per_user = (size_t)1 << 28;
    job.query.epsilon = 1;
    job.query.delta = 1e-5;
    job.query.noise_multiplier = 1;
    assert_refused(&job, "");
    job.mechanism.sampling.examples_per_user++;
    assert_refused(&job, "/sampling/examples_per_user ");
}

/* What is drawn keeps as many steps as the separation has. */
TEST(a_separation_has_the_range_that_is_computed)
{
    struct eps_job job = valid_job(EPS_SCHEME_B_MIN_SEP);

    job.mechanism.sampling.separation = (size_t)1 << 24;
    assert_refused(&job, "");
    job.mechanism.sampling.separation++;
    assert_refused(&job, "/sampling/separation ");
}

/* A phase's noise multiplier is in the range of a job's, whichever of its factors is the extreme one. */
TEST(a_phase_has_a_noise_multiplier_of_a_job)
{
    struct eps_phase phases[2];
    struct eps_job job = valid_job(EPS_SCHEME_POISSON);

    for (size_t i = 0; i < 2; i++) {
        eps_phase_init(&phases[i]);
        phases[i].mechanism = job.mechanism;
    }
    job.mechanism.n = 0;
    job.mechanism.sampling.p = NAN;
    job.phases = phases;
    job.phases_len = 2;
    assert_range(&job, &phases[1].noise_scale, "/phases/1/noise_scale", 1e-6, 1e6, "[1e-6, 1e6]");
    phases[1].noise_scale = 1e-6;
    job.query.noise_multiplier = 1e-3;
    assert_refused(&job, "");
    job.query.noise_multiplier = 0.999e-3;
    struct seen seen = check(&job);
    assert_string_equal(seen.pointers, "/phases/1/noise_scale ");
    assert_non_null(strstr(seen.last, "times noise_multiplier must lie in [1e-9, 1e9], but is 9.99e-10"));
    phases[1].noise_scale = 1e6;
    job.query.noise_multiplier = 1000;
    assert_refused(&job, "");
    job.query.noise_multiplier = 1000.1;
    assert_refused(&job, "/phases/1/noise_scale ");
    job.query.noise_multiplier = NAN;
    job.query.epsilon = 1;
    assert_refused(&job, "");
}

TEST(lists_of_numbers_are_refused_where_squares_would_end)
{
    double numbers[] = {0, 0.5, -0.25, 0};
    struct eps_job job = valid_job(EPS_SCHEME_NONE);
    struct eps_matrix *matrix = &job.mechanism.matrix;
    struct seen seen;

    job.mechanism.n = 2;
    matrix->family = EPS_FAMILY_DENSE;
    matrix->rows = numbers;
    matrix->rows_n = 2;
    for (int kind = 0; kind < 3; kind++) {
        static const char *const list[] = {"/matrix/rows ", "/matrix/coefficients ", "/workload/coefficients "},
                                 *const entry[] = {"/matrix/rows/1/0 ", "/matrix/coefficients/2 ",
                                                   "/workload/coefficients/2 "};
        const double sizes[] = {1e100, 1e-100, 0};
        if (kind == 1) {
            job.mechanism.n = 4;
            *matrix = (struct eps_matrix){
                .family = EPS_FAMILY_TOEPLITZ, .stamps = 1, .coefficients = numbers, .coefficients_len = 4};
        } else if (kind == 2) {
            *matrix = (struct eps_matrix){.family = EPS_FAMILY_IDENTITY, .stamps = 1};
            job.mechanism.workload =
                (struct eps_workload){.type = EPS_WORKLOAD_TOEPLITZ, .coefficients = numbers, .coefficients_len = 4};
        }
        for (size_t i = 0; i < 3; i++) {
            numbers[1] = 0.5 * sizes[i];
            numbers[2] = -sizes[i];
            assert_refused(&job, "");
        }
        numbers[2] = nextafter(-1e100, -INFINITY);
        seen = check(&job);
        assert_string_equal(seen.pointers, entry[kind]);
        assert_non_null(strstr(seen.last, "[-1e100, 1e100]"));
        numbers[2] = NAN;
        assert_refused(&job, entry[kind]);
        numbers[1] = 5e-324;
        numbers[2] = nextafter(-1e-100, 0);
        seen = check(&job);
        assert_string_equal(seen.pointers, list[kind]);
        assert_non_null(strstr(seen.last, "[1e-100, 1e100]"));
        numbers[1] = 1; /* beside such a number any is as good as 0 */
        assert_refused(&job, "");
    }

    double decay[] = {0.5, 0.25}, scale[] = {5e-324, 1e100};
    job = valid_job(EPS_SCHEME_NONE);
    *matrix = (struct eps_matrix){.family = EPS_FAMILY_BLT, .stamps = 1, .decay = decay, .scale = scale, .blt_len = 2};
    assert_refused(&job, "");
    scale[1] = -2e100;
    assert_refused(&job, "/matrix/scale/1 ");
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
    static const bool serves[EPS_ACCOUNTANT_COUNT] = {[EPS_ACCOUNTANT_AUTO] = true,
                                                      [EPS_ACCOUNTANT_GAUSSIAN] = true,
                                                      [EPS_ACCOUNTANT_PLD] = true,
                                                      [EPS_ACCOUNTANT_RENYI] = true};

    for (int method = 0; method < EPS_ACCOUNTANT_COUNT; method++) {
        struct eps_job job = valid_job(EPS_SCHEME_POISSON);
        job.query.delta = NAN;
        job.query.curve = true;
        job.query.accountant.method = (enum eps_accountant)method;
        assert_refused(&job, serves[method] ? "" : "/accountant/method ");
    }
}

/* ---------------------------------------------------------------- derived figures */

TEST(sizes_give_p_bins_and_the_expected_batch)
{
    struct eps_job job = valid_job(EPS_SCHEME_POISSON);
    struct eps_mechanism *mechanism = &job.mechanism;
    struct eps_sampling *sampling = &mechanism->sampling;

    assert_true(eps__sampling_probability(mechanism) == 0.1);
    assert_true(isnan(eps__sampling_expected_batch(mechanism)));
    sampling->dataset_size = 1000;
    assert_true(fabs(eps__sampling_expected_batch(mechanism) - 100.0) < 1e-10);
    sampling->p = NAN;
    sampling->batch_size = 250;
    assert_true(eps__sampling_probability(mechanism) == 0.25);
    assert_true(eps__sampling_expected_batch(mechanism) == 250.0);

    sampling->scheme = EPS_SCHEME_CYCLIC_POISSON;
    sampling->groups = 2;
    assert_true(eps__sampling_probability(mechanism) == 0.5);

    sampling->scheme = EPS_SCHEME_BALLS_IN_BINS;
    sampling->batch_size = 300;
    assert_int_equal(eps__sampling_bins(mechanism), 3);
    assert_true(isnan(eps__sampling_probability(mechanism)));
    assert_true(fabs(eps__sampling_expected_batch(mechanism) - 1000.0 / 3.0) < 1e-10);

    sampling->scheme = EPS_SCHEME_NONE;
    assert_true(isnan(eps__sampling_probability(mechanism)));
    assert_int_equal(eps__sampling_bins(mechanism), 0);
}

/* ceil(epochs dataset/batch) in integers, where epochs is a number of tenths. */
TEST(epochs_are_rounded_up_to_steps)
{
    struct eps_job job = valid_job(EPS_SCHEME_POISSON);

    for (uint64_t tenths = 1; tenths < 120; tenths++)
        for (uint64_t dataset = 1; dataset < 60; dataset += 3)
            for (uint64_t batch = 1; batch <= dataset; batch++) {
                job.mechanism.n = 0;
                job.mechanism.epochs = (double)tenths / 10;
                job.mechanism.sampling.p = NAN;
                job.mechanism.sampling.batch_size = batch;
                job.mechanism.sampling.dataset_size = dataset;
                eps_job_defaults(&job);
                assert_int_equal(job.mechanism.n, (tenths * dataset + 10 * batch - 1) / (10 * batch));
            }
    job.mechanism.n += 1;
    assert_refused(&job, "/epochs ");
    job.mechanism.n = 0;
    job.mechanism.epochs = INFINITY;
    assert_refused(&job, "/epochs ");
}

/* Batches that are filled in a fixed order, over and over: counted. */
TEST(turns_are_those_of_a_fixed_order)
{
    struct eps_job job = valid_job(EPS_SCHEME_NONE);
    struct eps_sampling *sampling = &job.mechanism.sampling;

    for (size_t dataset = 1; dataset <= 13; dataset++)
        for (size_t batch = 1; batch <= dataset; batch++)
            for (size_t n = 1; n <= 40; n++) {
                size_t most = 0, nearest = SIZE_MAX, farthest = 0;
                for (size_t example = 0; example < dataset; example++) {
                    size_t times = 0, before = 0;
                    for (size_t place = example; place < n * batch; place += dataset, times++) {
                        size_t gap = place / batch - before;
                        nearest = times && gap < nearest ? gap : nearest;
                        farthest = times && gap > farthest ? gap : farthest;
                        before = place / batch;
                    }
                    most = times > most ? times : most;
                }
                job.mechanism.n = n;
                sampling->batch_size = batch;
                sampling->dataset_size = dataset;
                sampling->epochs = sampling->separation = 0;
                eps_job_defaults(&job);
                assert_int_equal(sampling->epochs, most);
                assert_true(most == 1 || sampling->separation <= nearest);
                assert_true(sampling->separation + 1 >= farthest);
                assert_true((most - 1) * sampling->separation + 1 <= n);
                sampling->schema = EPS_SCHEMA_MIN_SEPARATION;
                assert_refused(&job, "");
                sampling->schema = EPS_SCHEMA_FIXED_ORDER;
                assert_refused(&job, most > 1 && dataset % batch ? "/sampling/schema " : "");
                assert_true(eps__sampling_expected_batch(&job.mechanism) == (double)batch);
            }
}

/* p0/(1 - p0 (b-1)) is what makes a renewal process with gap b - 1 + Geometric(p) take part at rate p0. */
TEST(the_rate_of_b_min_sep_is_the_batch_asked_for)
{
    struct eps_job job = valid_job(EPS_SCHEME_B_MIN_SEP);
    struct eps_sampling *sampling = &job.mechanism.sampling;

    for (size_t separation = 1; separation <= 10; separation++) {
        sampling->p = NAN;
        sampling->batch_size = 90;
        sampling->dataset_size = 1000;
        sampling->separation = separation;
        double p = eps__sampling_probability(&job.mechanism);
        double mean_gap = (double)(separation - 1) + 1.0 / p;
        assert_true(fabs(1.0 / mean_gap - 0.09) < 1e-14);
        sampling->p = p;
        sampling->batch_size = 0;
        assert_true(fabs(eps__sampling_expected_batch(&job.mechanism) - 90.0) < 1e-10);
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
