/*
 * Jobs that are allowed and probably not meant: the hint is there, with numbers that are right; and it is not there where the
 * job is what it should be.
 *
 * SPDX-License-Identifier: GPL-3.0-or-later
 */
#include <math.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "lib/epsilon.h"
#include "tests/unit/test.h"

static struct eps_job new_job(enum eps_scheme scheme, size_t n)
{
    struct eps_job job;
    eps_job_init(&job);
    job.mechanism.n = n;
    job.mechanism.sampling.scheme = scheme;
    job.query.noise_multiplier = 2;
    job.query.delta = 1e-6;
    return job;
}

static struct eps_result *solve(const struct eps_context *context, struct eps_job job)
{
    struct eps_result *result = NULL;
    struct eps_error error = {0};
    eps_job_defaults(&job);
    if (eps_solve(context, &result, &error, &job) != EPS_OK)
        fail_msg("%s: %s", error.pointer, error.message);
    return result;
}

/* The hint that has the text; NULL: none. */
static const char *find_hint(const struct eps_result *result, const char *text)
{
    for (size_t i = 0; i < result->hints_len; i++)
        if (strstr(result->hints[i], text))
            return result->hints[i];
    return NULL;
}

static void assert_hint(const struct eps_job *job, const char *text, bool expected)
{
    struct eps_result *result = solve(NULL, *job);
    if ((find_hint(result, text) != NULL) != expected)
        fail_msg("\"%s\" is %s the hints", text, expected ? "missing from" : "in");
    eps_result_destroy(result);
}

/* ------------------------------------------------------------ how often */

TEST(one_participation_is_said)
{
    const char text[] = "one participation of each example in all 40 steps";
    struct eps_job job = new_job(EPS_SCHEME_NONE, 40);
    assert_hint(&job, text, true);
    job.mechanism.sampling.schema = EPS_SCHEMA_SHUFFLED;
    assert_hint(&job, text, true);
    job.mechanism.sampling.epochs = 4;
    assert_hint(&job, "participation", false);
    job = new_job(EPS_SCHEME_NONE, 40);
    job.mechanism.sampling.batch_size = 10;
    job.mechanism.sampling.dataset_size = 400; /* once, which follows from the sizes */
    assert_hint(&job, "participation", false);
    job = new_job(EPS_SCHEME_NONE, 1);
    assert_hint(&job, "participation", false);
    job = new_job(EPS_SCHEME_POISSON, 40);
    job.mechanism.sampling.p = 0.1;
    assert_hint(&job, "participation", false);
}

TEST(epochs_that_end_early_are_said)
{
    const struct {
        size_t n, k, b;
        enum eps_schema schema;
        const char *text; /* NULL: nothing is amiss */
    } cases[] = {
        {25, 2, 10, EPS_SCHEMA_SHUFFLED, "2 epochs of 10 steps end before step 20 of 25"},
        {25, 2, 10, EPS_SCHEMA_FIXED_ORDER, "ask for epochs 3"},
        {25, 2, 0, EPS_SCHEMA_SHUFFLED, "2 epochs of 12 steps end before step 24 of 25"},
        {31, 2, 10, EPS_SCHEMA_FIXED_ORDER, "ask for epochs 4"},
        {30, 3, 10, EPS_SCHEMA_SHUFFLED, NULL},
        {30, 3, 10, EPS_SCHEMA_FIXED_ORDER, NULL},
        {29, 3, 10, EPS_SCHEMA_FIXED_ORDER, NULL}, /* the last epoch is cut short, and counted */
        {25, 2, 10, EPS_SCHEMA_MIN_SEPARATION, NULL},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct eps_job job = new_job(EPS_SCHEME_NONE, cases[i].n);
        job.mechanism.sampling.epochs = cases[i].k;
        job.mechanism.sampling.separation = cases[i].b;
        job.mechanism.sampling.schema = cases[i].schema;
        assert_hint(&job, cases[i].text ? cases[i].text : "nobody is counted", cases[i].text != NULL);
    }
}

/* What is answered is true of the batches that are formed for such a job: after its epochs they are empty. */
TEST(nobody_takes_part_after_the_epochs)
{
    const uint8_t key[32] = {7};
    for (int shuffled = 0; shuffled < 2; shuffled++) {
        struct eps_job job = new_job(EPS_SCHEME_NONE, 25);
        struct eps_batcher *batcher;
        struct eps_batch batch;
        size_t taken[30] = {0};
        job.mechanism.sampling.epochs = 2;
        job.mechanism.sampling.separation = 10;
        job.mechanism.sampling.schema = shuffled ? EPS_SCHEMA_SHUFFLED : EPS_SCHEMA_FIXED_ORDER;
        eps_job_defaults(&job);
        assert_int_equal(eps_batcher_create(&batcher, NULL, &job.mechanism, 30, NULL, key), EPS_OK);
        for (size_t step = 0; step < 25; step++) {
            assert_int_equal(eps_batcher_next(batcher, &batch, NULL), EPS_OK);
            assert_true(step < 20 || batch.len == 0);
            for (size_t i = 0; i < batch.len; i++)
                taken[batch.indices[i]]++;
        }
        eps_batcher_destroy(batcher);
        for (size_t i = 0; i < 30; i++)
            assert_int_equal(taken[i], 2);
    }
}

/* ------------------------------------------------------------ delta */

TEST(a_delta_of_one_example_is_said)
{
    struct eps_job job = new_job(EPS_SCHEME_POISSON, 40);
    job.mechanism.sampling.batch_size = 100;
    job.mechanism.sampling.dataset_size = 20000;
    job.query.delta = 5e-5;
    assert_hint(&job, "delta 5e-05 is at least 1/dataset_size = 5e-05", true);
    job.query.delta = 4.9e-5;
    assert_hint(&job, "dataset_size", false);
    job.query.delta = NAN;
    job.query.epsilon = 0.1;
    job.query.noise_multiplier = 1;
    assert_hint(&job, "is at least 1/dataset_size", true); /* of what was found, too */
    job.mechanism.sampling.p = 0.005;
    job.mechanism.sampling.batch_size = job.mechanism.sampling.dataset_size = 0;
    assert_hint(&job, "dataset_size", false);
}

/* ------------------------------------------------------------ strategies that cost more than none */

static struct eps_job banded(enum eps_scheme scheme, size_t bands)
{
    struct eps_job job = new_job(scheme, 200);
    job.mechanism.matrix.family = EPS_FAMILY_SQUARE_ROOT;
    job.mechanism.matrix.bands = bands;
    job.mechanism.sampling.p = 0.02;
    job.query.noise_multiplier = 1.2;
    job.query.delta = 1e-5;
    return job;
}

/* The identity's noise in the hint keeps the promise, with less error, by a job of its own. */
TEST(bands_under_poisson_are_compared)
{
    const char text[] = "the identity costs less than this strategy";
    for (enum eps_unknown unknown = EPS_SOLVE_EPSILON; unknown <= EPS_SOLVE_NOISE_MULTIPLIER; unknown++) {
        struct eps_job job = banded(EPS_SCHEME_POISSON, 16);
        if (unknown != EPS_SOLVE_EPSILON)
            job.query.epsilon = 8;
        if (unknown == EPS_SOLVE_DELTA) {
            job.query.delta = NAN;
            job.query.noise_multiplier = 2.8;
        }
        if (unknown == EPS_SOLVE_NOISE_MULTIPLIER)
            job.query.noise_multiplier = NAN;
        struct eps_result *result = solve(NULL, job);
        const char *hint = find_hint(result, text);
        assert_non_null(hint);
        double noise = 0;
        assert_int_equal(sscanf(strstr(hint, "noise multiplier ") + strlen("noise multiplier "), "%lf", &noise), 1);
        struct eps_job other = new_job(EPS_SCHEME_POISSON, 200);
        other.mechanism.sampling.p = 0.02;
        other.query.noise_multiplier = noise * 1.001; /* four digits of it are shown */
        other.query.delta = result->delta;
        struct eps_result *identity = solve(NULL, other);
        assert_true(identity->epsilon <= result->epsilon);
        assert_true(identity->error_mean_squared < result->error_mean_squared);
        eps_result_destroy(identity);
        eps_result_destroy(result);
    }
    struct eps_job b_min_sep = banded(EPS_SCHEME_B_MIN_SEP, 16), groups = banded(EPS_SCHEME_CYCLIC_POISSON, 4);
    assert_hint(&b_min_sep, text, false);
    assert_hint(&groups, text, false);
    groups.mechanism.matrix.bands = 16; /* more than there are groups */
    groups.mechanism.sampling.groups = 2;
    assert_hint(&groups, text, true);
    struct eps_job needless = banded(EPS_SCHEME_POISSON, 16);
    needless.query.epsilon = 8; /* a delta that needs no noise is no comparison */
    needless.query.delta = NAN;
    assert_hint(&needless, text, false);
    struct eps_job certain = banded(EPS_SCHEME_POISSON, 16), none = certain;
    certain.mechanism.sampling.p = 1; /* without sampling a strategy gains */
    assert_hint(&certain, text, false);
    none.mechanism.matrix = (struct eps_job){0}.mechanism.matrix;
    none.mechanism.matrix.stamps = 1;
    assert_hint(&none, text, false);
}

/* It is a comparison of errors, and no rule: where the strategy has less, nothing is said. */
TEST(a_strategy_that_gains_is_not_doubted)
{
    struct eps_job job = banded(EPS_SCHEME_POISSON, 2);
    job.mechanism.n = 8;
    job.mechanism.sampling.p = 0.001;
    job.query.noise_multiplier = 0.6;
    struct eps_result *result = solve(NULL, job);
    struct eps_job other = new_job(EPS_SCHEME_POISSON, 8);
    other.mechanism.sampling.p = 0.001;
    other.query.noise_multiplier = NAN;
    other.query.epsilon = result->epsilon;
    other.query.delta = result->delta;
    struct eps_result *identity = solve(NULL, other);
    assert_true(identity->error_mean_squared > result->error_mean_squared);
    assert_null(find_hint(result, "costs less"));
    eps_result_destroy(identity);
    eps_result_destroy(result);
}

static bool stop(void *user)
{
    size_t *polls = user;
    return *polls > 0 && --*polls == 0;
}

/* At whatever poll a job is told to stop, the comparison's included, it is canceled, and not answered without its hint. */
TEST(a_comparison_is_canceled_with_its_job)
{
    struct eps_job job = banded(EPS_SCHEME_POISSON, 16);
    size_t canceled = 0, answered = 0;
    eps_job_defaults(&job);
    for (size_t at = 1; answered == 0; at += 1 + at) {
        size_t polls = at;
        const struct eps_context context = {.user = &polls, .canceled = stop};
        struct eps_result *result = NULL;
        enum eps_status status = eps_solve(&context, &result, NULL, &job);
        if (status == EPS_OK) {
            assert_true(polls > 0); /* it was never told to */
            assert_non_null(find_hint(result, "costs less"));
            eps_result_destroy(result);
            answered++;
        } else {
            assert_int_equal(status, EPS_CANCELED);
            canceled++;
        }
    }
    assert_true(canceled > 5);
}
