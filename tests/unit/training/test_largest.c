/*
 * The largest n and the largest count against jobs that give theirs.
 *
 * SPDX-License-Identifier: GPL-3.0-or-later
 */
#include "lib/epsilon.h"

#include <math.h>
#include <string.h>

#include "tests/unit/exact.h"
#include "tests/unit/solved.h"
#include "tests/unit/test.h"
#include "tests/unit/training/phases.h"

/* ------------------------------------------------------------ how many more */

/* By jobs that say their n, to a tolerance that tells them apart. */
static double delta_of(struct eps_mechanism mechanism, size_t n, double epsilon, double sigma)
{
    struct eps_job job;
    eps_job_init(&job);
    job.mechanism = mechanism;
    job.mechanism.n = n;
    job.query.epsilon = epsilon;
    job.query.noise_multiplier = sigma;
    job.query.accountant.tolerance = 1e-6;
    struct eps_result *result = solved(NULL, job);
    double delta = result->delta;
    eps_result_destroy(result);
    return delta;
}

TEST(the_largest_n_is_the_largest)
{
    for (int groups = 1; groups <= 5; groups += 4) {
        struct eps_job job;
        eps_job_init(&job);
        job.mechanism.n = EPS_LARGEST;
        job.mechanism.sampling.p = 0.02;
        if (groups > 1) {
            job.mechanism.sampling.scheme = EPS_SCHEME_CYCLIC_POISSON;
            job.mechanism.sampling.groups = (size_t)groups;
        }
        job.query = (struct eps_query){
            .epsilon = 1.5, .delta = 1e-6, .noise_multiplier = 1.2, .accountant = job.query.accountant};
        struct eps_result *result = solved(NULL, job);
        size_t n = result->largest;
        assert_int_equal(result->solved_for, EPS_SOLVE_N);
        assert_true(n > 10 && n % (size_t)groups == 0);
        assert_true(result->bracket_lower == (double)n && result->bracket_upper == (double)n);
        assert_true(delta_of(job.mechanism, n, 1.5, 1.2) <= 1e-6);
        assert_true(delta_of(job.mechanism, n + 1, 1.5, 1.2) > 1e-6);
        eps_result_destroy(result);
    }
}

/* What the largest n would be refused for it is refused for beforehand, whether any keeps the promise or none. */
TEST(the_largest_n_is_audited_or_refused)
{
    for (int keeps = 0; keeps < 2; keeps++) {
        struct eps_job job;
        struct eps_error error = {0};
        eps_job_init(&job);
        job.mechanism.n = EPS_LARGEST;
        job.mechanism.sampling = (struct eps_sampling){.scheme = EPS_SCHEME_CYCLIC_POISSON,
                                                       .p = 0.5,
                                                       .dataset_size = 221,
                                                       .groups = 3,
                                                       .examples_per_user = 1,
                                                       .truncation = true,
                                                       .max_batch_size = 2};
        job.query.epsilon = keeps ? 100 : 1e-12;
        job.query.delta = 1e-8;
        job.query.noise_multiplier = 20;
        job.query.accountant.audit = 512;
        eps_job_defaults(&job);
        assert_int_equal(eps_job_serves(NULL, &error, &job, NULL, NULL), EPS_UNSUPPORTED);
        assert_refused(job, EPS_UNSUPPORTED, "/accountant/audit");
    }
}

TEST(the_largest_count_is_the_largest)
{
    struct eps_phase phases[] = {poisson(200, 0.02, 1, 1), poisson(20, 0.05, 2, EPS_LARGEST)};
    struct eps_job job = training_of(phases, 2, 2, 1e-6, 1.1);
    struct eps_result *result = solved(NULL, job);
    size_t count = result->largest;
    assert_int_equal(result->solved_for, EPS_SOLVE_RUNS);
    assert_true(count > 2 && result->bracket_lower == (double)count && result->bracket_upper == (double)count);
    assert_int_equal(result->phases[1].count, count);
    eps_result_destroy(result);
    for (size_t more = 0; more < 2; more++) {
        phases[1].count = count + more;
        struct eps_job given = training_of(phases, 2, 2, NAN, 1.1);
        given.query.accountant.tolerance = 1e-6;
        result = solved(NULL, given);
        assert_true(more ? result->bracket_lower > 1e-6 : result->delta <= 1e-6);
        eps_result_destroy(result);
    }
}

/* Gaussians again: the count is the largest k with k mu^2 under what is allowed. */
TEST(the_largest_count_of_gaussians)
{
    struct eps_phase phase = unsampled(10, 1, EPS_LARGEST);
    struct eps_job job = training_of(&phase, 1, 1, 1e-6, 40);
    struct eps_result *result = solved(NULL, job);
    size_t count = result->largest;
    __float128 sigma = 40;
    assert_true(exact_gaussian_delta(sqrtq((__float128)count) / sigma, 1) <= (__float128)1e-6);
    assert_true(exact_gaussian_delta(sqrtq((__float128)count + 1) / sigma, 1) > (__float128)1e-6);
    eps_result_destroy(result);
    /* none at all */
    job.query.noise_multiplier = 0.5;
    result = solved(NULL, job);
    assert_int_equal(result->largest, 0);
    eps_result_destroy(result);
}

/* What stands beside it breaks the promise already: no number of runs keeps it. */
/* Then no count keeps it: [0, 1), and the epsilon is that of the others. */
TEST(what_is_beside_it_may_break_the_promise)
{
    struct eps_phase phases[] = {poisson(2000, 0.05, 1, 1), poisson(20, 0.05, 2, EPS_LARGEST)};
    struct eps_job job = training_of(phases, 2, 1, 1e-6, 1), others = training_of(phases, 1, NAN, 1e-6, 1);
    struct eps_result *result = solved(NULL, job), *rest = solved(NULL, others);
    assert_int_equal(result->largest, 0);
    assert_true(result->bracket_lower == 0 && result->bracket_upper == 0);
    assert_int_equal(result->phases[1].count, 0);
    assert_true(result->epsilon > 1);
    assert_true(result->epsilon >= rest->bracket_lower && result->epsilon <= rest->epsilon * (1 + 1.1e-3));
    assert_non_null(strstr(result->hints[0], "no count does"));
    /* What the others cost they keep, and a hair less they do not. */
    job.query.epsilon = rest->epsilon;
    struct eps_result *above = solved(NULL, job);
    job.query.epsilon = rest->bracket_lower * 0.999;
    struct eps_result *below = solved(NULL, job);
    assert_true(above->epsilon == rest->epsilon && above->bracket_upper <= 2);
    assert_true(below->epsilon > job.query.epsilon && below->largest == 0 && below->bracket_upper == 0);
    eps_result_destroy(above);
    eps_result_destroy(below);
    eps_result_destroy(rest);
    eps_result_destroy(result);
}
