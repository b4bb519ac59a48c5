/*
 * Unproven estimates: near exact answers in both directions, with standard errors that say how near; the same bits for
 * every way of running the draws; made only where an answer may be loose, and at a small part of its cost.
 *
 * SPDX-License-Identifier: GPL-3.0-or-later
 */
#include <math.h>
#include <stdlib.h>

#include "lib/accountants/monte_carlo/unproven.h"
#include "lib/job/setting.h"
#include "tests/unit/solved.h"
#include "tests/unit/test.h"

#define SPACED \
    "'n': 12, 'matrix': {'family': 'square_root', 'bands': 4}, 'sampling': {'scheme': 'b_min_sep', 'p': 0.05}"

static const enum eps_unknown unknowns[] = {EPS_SOLVE_EPSILON, EPS_SOLVE_DELTA, EPS_SOLVE_NOISE_MULTIPLIER};

enum { BINS = 24, SAMPLES = 1 << 13, LAWS = 6 };

/* Estimates are within so many standard errors of the truth. Seeds follow from the job and the accounting version; one
 * of 300 was beyond 4. */
#define WITHIN 5

/* Bins that share no row: pld is exact, and both directions have tilted draws. */
static struct eps_job bins_job(void)
{
    struct eps_job job;
    eps_job_init(&job);
    job.mechanism.n = job.mechanism.sampling.bins = BINS;
    job.mechanism.sampling.scheme = EPS_SCHEME_BALLS_IN_BINS;
    return job;
}

/* Solves for one of epsilon, delta and the noise multiplier; which the others are is said by `unknown`. */
static void ask(struct eps_job *job, enum eps_unknown unknown)
{
    job->query.epsilon = unknown == EPS_SOLVE_EPSILON ? NAN : 0.5;
    job->query.delta = unknown == EPS_SOLVE_DELTA ? NAN : 1e-4;
    job->query.noise_multiplier = unknown == EPS_SOLVE_NOISE_MULTIPLIER ? NAN : 1.1;
}

/* The estimate for an answer that is `loose` times the value of each direction. */
static enum eps_status estimate(struct eps__mc_unproven *out, const struct eps_context *context, struct eps_job job,
                                const double loose[EPS_DIRECTIONS], uint64_t samples)
{
    struct eps__setting setting;
    struct eps_error error = {0};
    const struct eps__mc_unproven_plan plan = {.samples = samples, .laws = LAWS, .opening = 1e9};
    eps_job_defaults(&job);
    struct eps_result result = {.solved_for = eps_job_unknown(&job),
                                .epsilon = job.query.epsilon,
                                .delta = job.query.delta,
                                .noise_multiplier = job.query.noise_multiplier};
    double worse = fmax(loose[EPS_REMOVE], loose[EPS_ADD]);
    for (enum eps_direction d = 0; d < EPS_DIRECTIONS; d++)
        result.directions[d] = (struct eps_candidate){.direction = d, .value = loose[d]};
    if (result.solved_for == EPS_SOLVE_DELTA)
        result.delta = worse;
    assert_int_equal(eps__setting_open(&setting, &error, NULL, &job), EPS_OK);
    setting.context = context;
    enum eps_status status = eps__mc_unproven(out, &setting, &plan, &result);
    eps__setting_close(&setting);
    return status;
}

static void truth_of(double truth[EPS_DIRECTIONS], enum eps_unknown unknown)
{
    struct eps_job job = bins_job();
    ask(&job, unknown);
    struct eps_result *result = solved(NULL, job);
    assert_true(result->bracket_exact);
    for (enum eps_direction d = 0; d < EPS_DIRECTIONS; d++)
        truth[d] = result->directions[d].value;
    eps_result_destroy(result);
}

/* The estimate for an answer of one direction that is so many times too large; the other direction needs nothing. */
static void assert_near(const double truth[EPS_DIRECTIONS], enum eps_unknown unknown, enum eps_direction d,
                        double times)
{
    struct eps_job job = bins_job();
    struct eps__mc_unproven found;
    double loose[EPS_DIRECTIONS] = {0};
    ask(&job, unknown);
    loose[d] = times * truth[d];
    assert_int_equal(estimate(&found, NULL, job, loose, SAMPLES), EPS_OK);
    const struct eps_unproven_estimate *one = &found.estimate;
    if (!(fabs(one->value - truth[d]) <= WITHIN * one->standard_error && one->standard_error < 0.1 * truth[d] &&
          one->samples == SAMPLES && one->direction == d))
        fail_msg("%s, direction %d, %g: %g +- %g from %llu, truth %g", eps_unknown_name(unknown), d, times, one->value,
                 one->standard_error, (unsigned long long)one->samples, truth[d]);
    assert_true(found.drawn >= one->value && found.drawn < 2.5 * truth[d] && found.seconds > 0);
}

TEST(estimates_are_near_the_truth_in_both_directions)
{
    static const double times[] = {1.001, 1.08, 1.5};
    for (size_t u = 0; u < sizeof unknowns / sizeof *unknowns; u++) {
        double truth[EPS_DIRECTIONS];
        truth_of(truth, unknowns[u]);
        for (size_t t = 0; t < sizeof times / sizeof *times; t++)
            for (enum eps_direction d = 0; d < EPS_DIRECTIONS; d++)
                assert_near(truth, unknowns[u], d, times[t]);
    }
}

/* The direction that decides is that of the larger truth, whichever of them is proven to be worse. */
TEST(the_worse_direction_decides)
{
    for (size_t u = 0; u < sizeof unknowns / sizeof *unknowns; u++) {
        double truth[EPS_DIRECTIONS], loose[EPS_DIRECTIONS];
        truth_of(truth, unknowns[u]);
        assert_true(truth[EPS_REMOVE] > 1.05 * truth[EPS_ADD]);
        for (enum eps_direction looser = 0; looser < EPS_DIRECTIONS; looser++) {
            struct eps_job job = bins_job();
            struct eps__mc_unproven found;
            ask(&job, unknowns[u]);
            loose[looser] = 1.5 * truth[EPS_REMOVE];
            loose[!looser] = 1.2 * truth[EPS_REMOVE];
            assert_int_equal(estimate(&found, NULL, job, loose, SAMPLES), EPS_OK);
            if (!(fabs(found.estimate.value - truth[EPS_REMOVE]) <= WITHIN * found.estimate.standard_error &&
                  found.estimate.direction == EPS_REMOVE && found.estimate.samples > 0))
                fail_msg("%s, %d: %g +- %g, truth %g and %g", eps_unknown_name(unknowns[u]), looser,
                         found.estimate.value, found.estimate.standard_error, truth[EPS_REMOVE], truth[EPS_ADD]);
        }
    }
}

/* With eight times the samples the standard error is about 1/sqrt(8) of it. */
TEST(standard_errors_fall_with_samples)
{
    double truth[EPS_DIRECTIONS];
    truth_of(truth, EPS_SOLVE_DELTA);
    struct eps_job job = bins_job();
    ask(&job, EPS_SOLVE_DELTA);
    double loose[EPS_DIRECTIONS] = {1.2 * truth[EPS_REMOVE], 0}, before = NAN;
    for (uint64_t samples = 1024; samples <= 8192; samples *= 8) {
        struct eps__mc_unproven found;
        assert_int_equal(estimate(&found, NULL, job, loose, samples), EPS_OK);
        assert_int_equal(found.estimate.samples, samples);
        if (samples > 1024) {
            double ratio = before / found.estimate.standard_error;
            assert_true(ratio > 1.8 && ratio < 4.4);
        }
        before = found.estimate.standard_error;
    }
}

/* ------------------------------------------------------------ who draws */

struct caller {
    bool backwards;
    size_t polls, patience;
};

static void in_order(void *user, size_t count, void (*body)(void *arg, size_t index), void *arg)
{
    const struct caller *caller = user;
    for (size_t i = 0; i < count; i++)
        body(arg, caller->backwards ? count - 1 - i : i);
}

static bool gives_up(void *user)
{
    struct caller *caller = user;
    return ++caller->polls > caller->patience;
}

static void never_put(void *user, enum eps_cache_kind kind, const uint8_t key[32], const void *blob, size_t len)
{
    (void)user, (void)key, (void)blob, (void)len;
    assert_true(kind != EPS_CACHE_CHUNK);
}

static bool never_get(void *user, enum eps_cache_kind kind, const uint8_t key[32], void **blob, size_t *len)
{
    never_put(user, kind, key, blob, *len);
    return false;
}

static struct eps_context context_of(struct caller *caller)
{
    return (struct eps_context){
        .user = caller, .canceled = gives_up, .parallel_for = in_order, .cache_get = never_get, .cache_put = never_put};
}

static void assert_same(const struct eps_unproven_estimate *a, const struct eps_unproven_estimate *b)
{
    assert_memory_equal(&a->value, &b->value, sizeof a->value);
    assert_memory_equal(&a->standard_error, &b->standard_error, sizeof a->standard_error);
    assert_true(a->samples == b->samples && a->direction == b->direction && a->samples > 0);
}

TEST(bits_do_not_depend_on_who_draws)
{
    for (size_t u = 0; u < sizeof unknowns / sizeof *unknowns; u++) {
        const double loose[EPS_DIRECTIONS] = {3, 3};
        struct eps_job job = bins_job();
        struct eps__mc_unproven alone, found;
        ask(&job, unknowns[u]);
        assert_int_equal(estimate(&alone, NULL, job, loose, SAMPLES), EPS_OK);
        for (int backwards = 0; backwards < 2; backwards++) {
            struct caller caller = {.backwards = backwards, .patience = SIZE_MAX};
            struct eps_context context = context_of(&caller);
            assert_int_equal(estimate(&found, &context, job, loose, SAMPLES), EPS_OK);
            assert_same(&found.estimate, &alone.estimate);
        }
    }
    struct eps_job job = job_of("{" SPACED ", 'noise_multiplier': 1, 'epsilon': 2}");
    struct caller caller = {.backwards = true, .patience = SIZE_MAX};
    struct eps_context context = context_of(&caller);
    struct eps_result *alone = solved(NULL, job), *result = solved(&context, job);
    assert_same(&result->unproven_estimate, &alone->unproven_estimate);
    assert_true(alone->unproven_estimate.value < alone->delta);
    eps_result_destroy(result);
    eps_result_destroy(alone);
}

/* Whenever a caller gives up, the estimate ends with that status. */
TEST(estimates_are_canceled)
{
    struct eps_job job = bins_job();
    ask(&job, EPS_SOLVE_NOISE_MULTIPLIER);
    double truth[EPS_DIRECTIONS];
    truth_of(truth, EPS_SOLVE_NOISE_MULTIPLIER);
    const double loose[EPS_DIRECTIONS] = {1.2 * truth[EPS_REMOVE], 1.2 * truth[EPS_REMOVE]};
    struct caller caller = {.patience = SIZE_MAX};
    struct eps_context context = context_of(&caller);
    struct eps__mc_unproven found;
    assert_int_equal(estimate(&found, &context, job, loose, SAMPLES), EPS_OK);
    size_t polls = caller.polls;
    assert_true(polls > 4);
    for (size_t patience = 0; patience < polls; patience += polls / 4) {
        caller = (struct caller){.patience = patience};
        assert_int_equal(estimate(&found, &context, job, loose, SAMPLES), EPS_CANCELED);
        assert_int_equal(found.estimate.samples, 0);
    }
}

/* ------------------------------------------------------------ where there is one */

static void assert_estimated(bool expected, struct eps_job job)
{
    struct eps_result *result = solved(NULL, job);
    assert_int_equal(result->unproven_estimate.samples > 0, expected);
    if (expected) {
        assert_true(result->unproven_estimate.value <= result->bracket_upper);
        assert_true(result->unproven_estimate.standard_error <= 0.2 * result->unproven_estimate.value);
    }
    eps_result_destroy(result);
}

TEST(only_answers_that_may_be_loose_have_estimates)
{
    assert_estimated(true, job_of("{" SPACED ", 'epsilon': 2, 'delta': 1e-5, 'accountant': 'renyi'}"));
    assert_estimated(true, job_of("{" SPACED ", 'noise_multiplier': 1, 'delta': 1e-5}"));
    assert_estimated(true, job_of("{" SPACED ", 'noise_multiplier': 1, 'epsilon': 2}"));
    /* exact, drawn, a curve, a largest number, phases, and an answer of a few microseconds */
    assert_estimated(false,
                     job_of("{'n': 1000, 'sampling': {'scheme': 'poisson', 'p': 0.01}, 'epsilon': 2, 'delta': 1e-5}"));
    assert_estimated(false, job_of("{'n': 64, 'matrix': {'family': 'square_root'}, 'sampling': {'scheme': 'none'},"
                                   " 'epsilon': 2, 'delta': 1e-5}"));
    assert_estimated(false, job_of("{" SPACED ", 'noise_multiplier': 1, 'epsilon': 2, 'accountant':"
                                   " {'method': 'monte_carlo', 'samples': 4096}}"));
    assert_estimated(false, job_of("{" SPACED ", 'noise_multiplier': 1, 'curve': true}"));
    assert_estimated(false, job_of("{" SPACED ", 'noise_multiplier': 1, 'epsilon': 2, 'accountant': 'gaussian'}"));
    assert_estimated(false, job_of("{'phases': [{" SPACED "}], 'noise_multiplier': 1, 'epsilon': 2}"));
}

/* A tenth of the job's operations, and none that are not worth it. */
TEST(estimates_take_a_small_part)
{
    static const double operations[] = {1e6, 1.9e7, 1e8, 1e9, 1e10, 1e12};
    struct eps_job job = job_of("{" SPACED ", 'epsilon': 2, 'delta': 1e-5}");
    struct eps__setting setting;
    struct eps_error error = {0};
    assert_int_equal(eps__setting_open(&setting, &error, NULL, &job), EPS_OK);
    for (size_t i = 0; i < sizeof operations / sizeof *operations; i++) {
        struct eps__mc_unproven_plan plan;
        bool planned = eps__mc_plan_unproven(&plan, &setting, operations[i]);
        assert_int_equal(planned, operations[i] >= 1e8);
        assert_int_equal(planned, plan.samples > 0);
        assert_true(plan.operations <= 0.1 * operations[i] * (1 + 1e-12) && plan.operations <= 2e9);
        assert_true(!planned || (plan.operations > 0 && plan.opening > 0 && plan.samples <= 65536));
    }
    eps__setting_close(&setting);

    struct eps_context context = {0};
    double without, with;
    assert_int_equal(eps_job_serves(&context, &error, &job, &with, NULL), EPS_OK);
    context.max_operations = with * (1 - 1e-9); /* an answer is worth more than its estimate */
    assert_int_equal(eps_job_serves(&context, &error, &job, &without, NULL), EPS_OK);
    assert_true(without < with && with <= 1.1 * without);
}
