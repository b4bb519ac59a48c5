/*
 * Every number has a range, and is refused outside of it with its range.
 *
 * SPDX-License-Identifier: GPL-3.0-or-later
 */
#include <math.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include "tests/unit/job/checked.h"

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
