/*
 * What follows from the sizes of batch and data set.
 *
 * SPDX-License-Identifier: GPL-3.0-or-later
 */
#include <math.h>
#include <stddef.h>
#include <stdint.h>

#include "lib/sampling/sampling.h"
#include "tests/unit/job/checked.h"

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
