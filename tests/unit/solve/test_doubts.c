/*
 * Jobs that are valid and probably a mistake: the hint is present, with correct numbers; and it is absent where the job
 * is as it should be.
 *
 * SPDX-License-Identifier: GPL-3.0-or-later
 */
#include <math.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "lib/epsilon.h"
#include "tests/unit/solved.h"
#include "tests/unit/test.h"

#define NOISE_2 "'noise_multiplier':2,'delta':1e-6"

/* The hint that contains the text; NULL: none. */
static const char *find_hint(const struct eps_result *result, const char *text)
{
    for (size_t i = 0; i < result->hints_len; i++)
        if (strstr(result->hints[i], text))
            return result->hints[i];
    return NULL;
}

static void assert_hint(struct eps_job job, const char *text, bool expected)
{
    struct eps_result *result = solved(NULL, job);
    if ((find_hint(result, text) != NULL) != expected)
        fail_msg("\"%s\" is %s the hints", text, expected ? "missing from" : "in");
    eps_result_destroy(result);
}

/* ------------------------------------------------------------ how often */

TEST(one_participation_is_said)
{
    static const struct {
        size_t n;
        const char *sampling;
        bool said;
    } cases[] = {
        {40, "'scheme':'none'", true},
        {40, "'scheme':'none','schema':'shuffled'", true},
        {40, "'scheme':'none','schema':'shuffled','epochs':4", false},
        {40, "'scheme':'none','batch_size':10,'dataset_size':400", false}, /* one, which follows from the sizes */
        {1, "'scheme':'none'", false},
        {40, "'scheme':'poisson','p':0.1", false},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        assert_hint(job_of("{'n':%zu,'sampling':{%s}," NOISE_2 "}", cases[i].n, cases[i].sampling),
                    cases[i].said ? "one participation of each example in all 40 steps" : "participation",
                    cases[i].said);
}

TEST(epochs_that_end_early_are_said)
{
    static const struct {
        size_t n;
        const char *sampling, *text; /* NULL: nothing is wrong */
    } cases[] = {
        {25, "'epochs':2,'separation':10,'schema':'shuffled'", "2 epochs of 10 steps end before step 20 of 25"},
        {25, "'epochs':2,'separation':10,'schema':'fixed_order'", "set epochs to 3"},
        {25, "'epochs':2,'schema':'shuffled'", "2 epochs of 12 steps end before step 24 of 25"},
        {31, "'epochs':2,'separation':10,'schema':'fixed_order'", "set epochs to 4"},
        {30, "'epochs':3,'separation':10,'schema':'shuffled'", NULL},
        {30, "'epochs':3,'separation':10,'schema':'fixed_order'", NULL},
        {29, "'epochs':3,'separation':10,'schema':'fixed_order'", NULL}, /* the last epoch is cut short, and counted */
        {25, "'epochs':2,'separation':10,'schema':'min_separation'", NULL},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        assert_hint(job_of("{'n':%zu,'sampling':{'scheme':'none',%s}," NOISE_2 "}", cases[i].n, cases[i].sampling),
                    cases[i].text ? cases[i].text : "no participation is counted", cases[i].text != NULL);
}

/* The answer is right for the batches that are formed for such a job: after its epochs they are empty. */
TEST(nobody_takes_part_after_the_epochs)
{
    const uint8_t key[32] = {7};
    for (int shuffled = 0; shuffled < 2; shuffled++) {
        struct eps_job job =
            job_of("{'n':25,'sampling':{'scheme':'none','epochs':2,'separation':10,'schema':'%s'}," NOISE_2 "}",
                   shuffled ? "shuffled" : "fixed_order");
        struct eps_batcher *batcher;
        struct eps_batch batch;
        size_t taken[30] = {0};
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
    const char sizes[] = "'batch_size':100,'dataset_size':20000";
    const char format[] = "{'n':40,'sampling':{'scheme':'poisson',%s},%s}";
    assert_hint(job_of(format, sizes, "'noise_multiplier':2,'delta':5e-5"),
                "delta 5e-05 is at least 1/dataset_size = 5e-05", true);
    assert_hint(job_of(format, sizes, "'noise_multiplier':2,'delta':4.9e-5"), "dataset_size", false);
    assert_hint(job_of(format, sizes, "'noise_multiplier':1,'epsilon':0.1"), "is at least 1/dataset_size",
                true); /* also of a delta that was found */
    assert_hint(job_of(format, "'p':0.005", "'noise_multiplier':1,'epsilon':0.1"), "dataset_size", false);
}

/* ------------------------------------------------------------ strategies that cost more than none */

#define BANDS_16 "'n':200,'matrix':{'family':'square_root','bands':16}"
#define SAMPLED "'sampling':{'scheme':'poisson','p':0.02}"
#define NOISE "'noise_multiplier':1.2,'delta':1e-5"

/* The identity's noise multiplier in the hint keeps the promise, with less error, as a job of its own shows. */
TEST(bands_under_poisson_are_compared)
{
    const char text[] = "the identity is better than this strategy";
    static const char *const queries[] = {NOISE, "'epsilon':8,'noise_multiplier':2.8", "'epsilon':8,'delta':1e-5"};
    for (size_t i = 0; i < sizeof queries / sizeof *queries; i++) {
        struct eps_result *result = solved(NULL, job_of("{" BANDS_16 "," SAMPLED ",%s}", queries[i]));
        const char *hint = find_hint(result, text);
        assert_non_null(hint);
        double noise = 0;
        assert_int_equal(sscanf(strstr(hint, "noise multiplier ") + strlen("noise multiplier "), "%lf", &noise), 1);
        /* the hint shows four digits of it */
        struct eps_result *identity = solved(
            NULL, job_of("{'n':200," SAMPLED ",'noise_multiplier':%.17g,'delta':%.17g}", noise * 1.001, result->delta));
        assert_true(identity->epsilon <= result->epsilon);
        assert_true(identity->error_mean_squared < result->error_mean_squared);
        eps_result_destroy(identity);
        eps_result_destroy(result);
    }
    static const struct {
        const char *members;
        bool said;
    } cases[] = {
        {BANDS_16 ",'sampling':{'scheme':'b_min_sep','p':0.02}," NOISE, false},
        {"'n':200,'matrix':{'family':'square_root','bands':4},'sampling':{'scheme':'cyclic_poisson','p':0.02}," NOISE,
         false},
        /* more than there are groups: it depends on the noise */
        {BANDS_16 ",'sampling':{'scheme':'cyclic_poisson','p':0.02,'groups':2},'noise_multiplier':0.5,'delta':1e-5",
         true},
        {BANDS_16 ",'sampling':{'scheme':'cyclic_poisson','p':0.02,'groups':2}," NOISE, false},
        /* a delta that needs no noise allows no comparison */
        {BANDS_16 "," SAMPLED ",'epsilon':8,'noise_multiplier':1.2", false},
        /* without sampling a strategy gains */
        {BANDS_16 ",'sampling':{'scheme':'poisson','p':1}," NOISE, false},
        {"'n':200," SAMPLED "," NOISE, false},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        assert_hint(job_of("{%s}", cases[i].members), text, cases[i].said);
}

/* The hint compares errors and is no rule: where the strategy has less error, there is none. */
TEST(a_strategy_that_gains_is_not_doubted)
{
    const char rare[] = "'n':8,'sampling':{'scheme':'poisson','p':0.001}";
    struct eps_result *result = solved(
        NULL, job_of("{%s,'matrix':{'family':'square_root','bands':2},'noise_multiplier':0.6,'delta':1e-5}", rare));
    struct eps_result *identity =
        solved(NULL, job_of("{%s,'epsilon':%.17g,'delta':%.17g}", rare, result->epsilon, result->delta));
    assert_true(identity->error_mean_squared > result->error_mean_squared);
    assert_null(find_hint(result, "is better than this"));
    eps_result_destroy(identity);
    eps_result_destroy(result);
}

static bool stop(void *user)
{
    size_t *polls = user;
    return *polls > 0 && --*polls == 0;
}

/* At whatever poll a job is canceled, those of the comparison included, it ends as canceled, and is not answered
 * without its hint. */
TEST(a_comparison_is_canceled_with_its_job)
{
    struct eps_job job = job_of("{" BANDS_16 "," SAMPLED "," NOISE "}");
    size_t canceled = 0, answered = 0;
    for (size_t at = 1; answered == 0; at += 1 + at) {
        size_t polls = at;
        const struct eps_context context = {.user = &polls, .canceled = stop};
        struct eps_result *result = NULL;
        enum eps_status status = eps_solve(&context, &result, NULL, &job);
        if (status == EPS_OK) {
            assert_true(polls > 0); /* it was never asked to stop */
            assert_non_null(find_hint(result, "is better than this"));
            eps_result_destroy(result);
            answered++;
        } else {
            assert_int_equal(status, EPS_CANCELED);
            canceled++;
        }
    }
    assert_true(canceled > 5);
}
