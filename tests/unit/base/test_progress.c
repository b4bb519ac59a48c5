/*
 * Progress: reported fractions never fall, never reach the end early, and advance during the long parts of a job.
 *
 * SPDX-License-Identifier: GPL-3.0-or-later
 */
#include <math.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "lib/base/progress.h"
#include "tests/unit/solved.h"
#include "tests/unit/test.h"

struct seen {
    size_t calls;
    double last, widest; /* the fraction, and its largest step */
    double of_stage;     /* the largest fraction at the stage in question */
    const char *stage;
    bool fell;
};

static void see(void *user, double fraction, const char *stage, double remaining_seconds)
{
    struct seen *seen = user;
    (void)remaining_seconds;
    assert_true(fraction >= 0 && fraction <= 1);
    seen->fell = seen->fell || fraction < seen->last;
    seen->widest = fmax(seen->widest, fraction - seen->last);
    seen->last = fraction;
    if (seen->stage && strcmp(stage, seen->stage) == 0)
        seen->of_stage = fraction;
    seen->calls++;
}

TEST(a_part_fills_its_share)
{
    struct seen seen = {0};
    struct eps_context whole = {.user = &seen, .progress = see, .max_operations = 7};
    struct eps__context_part part;
    const struct eps_context *context = eps__context_part(&part, &whole, 0.25, 0.75);
    context->progress(context->user, 0.5, "x", 3);
    assert_true(seen.last == 0.5);
    context->progress(context->user, 1, "x", 3);
    assert_true(seen.last == 0.75);
    assert_null(context->canceled); /* no hook is installed */
    assert_true(context->max_operations == 7);
    assert_null(eps__context_part(&part, NULL, 0, 1));
}

TEST(a_meter_ends_when_its_task_does)
{
    struct seen seen = {0};
    struct eps_context context = {.user = &seen, .progress = see};
    struct eps__meter items[2] = {{.expected = 100}, {.expected = 300}};
    struct eps__meters all = {.context = &context, .items = items, .len = 2, .stride = sizeof items[0]};
    items[0].all = items[1].all = &all;
    for (int i = 0; i < 50; i++)
        eps__meter_add(&items[1], 1);
    assert_true(fabs(seen.last - 0.12) < 0.011); /* 50 of 400, by the hundredth */
    eps__meter_end(&items[0]);
    assert_true(fabs(seen.last - 0.375) < 0.011);
    for (int i = 0; i < 100000; i++)
        eps__meter_add(&items[1], 1);
    assert_true(seen.last > 0.9 && seen.last < 1); /* far more than expected */
    assert_true(seen.calls <= 100);
    eps__meter_expect(&items[1], 1e9); /* a reported fraction is not taken back */
    eps__meter_add(&items[1], 1);
    eps__meter_end(&items[1]);
    assert_true(seen.last == 1 && !seen.fell);
    eps__meter_add(NULL, 1);
    eps__meter_expect(NULL, 1);
}

TEST(a_task_may_know_better)
{
    struct seen seen = {0};
    struct eps_context context = {.user = &seen, .progress = see};
    struct eps__meter items[2] = {{.expected = 1e12}, {.expected = 1e12}};
    struct eps__meters all = {.context = &context, .items = items, .len = 2, .stride = sizeof items[0]};
    items[0].all = items[1].all = &all;
    eps__meter_tell(&items[0], 0.5);
    assert_true(fabs(seen.last - 0.25) < 0.011);
    eps__meter_tell(&items[0], 0.9); /* its own fraction counts, beyond the range of estimates */
    assert_true(fabs(seen.last - 0.45) < 0.011);
    eps__meter_tell(&items[0], 0.2); /* an earlier report that arrives late */
    eps__meter_tell(&items[1], 0.2);
    assert_true(fabs(seen.last - 0.55) < 0.011);
    eps__meter_end(&items[0]);
    eps__meter_tell(&items[0], 0.3);
    eps__meter_tell(&items[1], 1);
    assert_true(seen.last == 1 && !seen.fell);
    eps__meter_tell(NULL, 0.5);
}

enum { THREADS = 4, ADDS = 20000 };

static void *add_many(void *meter)
{
    for (int i = 0; i < ADDS; i++)
        eps__meter_add(meter, 1);
    return NULL;
}

static pthread_mutex_t one_at_a_time = PTHREAD_MUTEX_INITIALIZER;

static void see_locked(void *user, double fraction, const char *stage, double remaining_seconds)
{
    (void)stage, (void)remaining_seconds;
    pthread_mutex_lock(&one_at_a_time);
    ((struct seen *)user)->calls++;
    ((struct seen *)user)->last = fmax(((struct seen *)user)->last, fraction);
    pthread_mutex_unlock(&one_at_a_time);
}

TEST(threads_may_add_to_one_meter)
{
    struct seen seen = {0};
    struct eps_context context = {.user = &seen, .progress = see_locked};
    struct eps__meter meter = {.expected = 2.0 * THREADS * ADDS};
    struct eps__meters all = {.context = &context, .items = &meter, .len = 1, .stride = sizeof meter};
    pthread_t threads[THREADS];
    meter.all = &all;
    for (int i = 0; i < THREADS; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, add_many, &meter), 0);
    for (int i = 0; i < THREADS; i++)
        pthread_join(threads[i], NULL);
    assert_true(seen.last > 0.48 && seen.last <= 0.5 && seen.calls >= 40 && seen.calls <= 50);
}

/* ---------------------------------------------------------------- jobs */

static struct seen solve(struct eps_job *job, const char *stage)
{
    struct seen seen = {.stage = stage};
    struct eps_context context = {.user = &seen, .progress = see};
    eps_result_destroy(solved(&context, *job));
    assert_false(seen.fell);
    return seen;
}

/* Both directions report as they go; there used to be one report at the end of each. */
TEST(mmcc_reports_row_by_row)
{
    for (int unknown = 0; unknown < 2; unknown++) {
        struct eps_job job;
        eps_job_init(&job);
        job.mechanism.n = 16;
        job.mechanism.matrix.family = EPS_FAMILY_SQUARE_ROOT;
        job.mechanism.sampling.p = 0.05;
        job.query.accountant.method = EPS_ACCOUNTANT_MMCC;
        job.query.accountant.tolerance = 1e-2;
        job.query.delta = 1e-5;
        *(unknown ? &job.query.epsilon : &job.query.noise_multiplier) = 2;
        struct seen seen = solve(&job, "search");
        assert_true(seen.calls >= 10 && seen.last == 1);
    }
}

/* The fraction used to be six hundredths, whatever came after. */
TEST(optimal_reports_most_of_its_time)
{
    for (int objective = 0; objective < 2; objective++) {
        struct eps_job job;
        eps_job_init(&job);
        job.mechanism.n = 64;
        job.mechanism.matrix.family = EPS_FAMILY_OPTIMAL;
        job.mechanism.matrix.objective = objective ? EPS_OBJECTIVE_MAX_SQUARED : EPS_OBJECTIVE_MEAN_SQUARED;
        job.mechanism.sampling.scheme = EPS_SCHEME_NONE;
        job.mechanism.sampling.epochs = 4;
        job.query.noise_multiplier = 1;
        job.query.delta = 1e-5;
        struct seen seen = solve(&job, "optimise");
        assert_true(seen.calls >= 6 && seen.of_stage > 0.5 && seen.of_stage < 1 && seen.last == 1);
    }
}

/* One direction's draws used to be reported only at their end, and those of an audit not at all. */
TEST(draws_report_as_they_are_made)
{
    for (int question = 0; question < 4; question++) { /* epsilon, delta, the noise; audited */
        struct eps_job job;
        eps_job_init(&job);
        job.mechanism.n = 64;
        job.mechanism.matrix.family = EPS_FAMILY_SQUARE_ROOT;
        job.mechanism.matrix.bands = 4;
        job.mechanism.sampling.scheme = EPS_SCHEME_B_MIN_SEP;
        job.mechanism.sampling.separation = 8;
        job.mechanism.sampling.p = 0.05;
        job.query.accountant.method = question < 3 ? EPS_ACCOUNTANT_MONTE_CARLO : EPS_ACCOUNTANT_GAUSSIAN;
        job.query.accountant.audit = question < 3 ? 0 : 200000;
        if (question != 0)
            job.query.epsilon = 1;
        if (question != 1)
            job.query.delta = 1e-3;
        if (question != 2 && question != 3)
            job.query.noise_multiplier = 1.5;
        struct seen seen = solve(&job, "search");
        assert_true(seen.calls >= 12 && seen.last == 1);
        assert_true(seen.widest <= 0.55); /* the direction that need not be drawn */
    }
}

static void begin_phase(struct eps_phase *phase, enum eps_family family, double p)
{
    eps_phase_init(phase);
    phase->mechanism.n = 6;
    phase->mechanism.matrix.family = family;
    phase->mechanism.sampling.scheme = p > 0 ? EPS_SCHEME_POISSON : EPS_SCHEME_NONE;
    phase->mechanism.sampling.p = p > 0 ? p : NAN;
}

/* Strategies, the whole, each phase alone, and the shares; one phase has two answers. */
TEST(phases_never_fall)
{
    for (int unknown = 0; unknown < 3; unknown++)
        for (size_t len = 1; len <= 3; len++) {
            struct eps_phase phases[3];
            struct eps_job job;
            eps_job_init(&job);
            begin_phase(&phases[0], EPS_FAMILY_OPTIMAL, 0);
            begin_phase(&phases[1], EPS_FAMILY_OPTIMAL, 0);
            begin_phase(&phases[2], EPS_FAMILY_IDENTITY, 0.1);
            phases[1].mechanism.matrix.objective = EPS_OBJECTIVE_MAX_SQUARED;
            job.phases = phases;
            job.phases_len = len;
            job.query.epsilon = unknown == 0 ? NAN : 2;
            job.query.delta = unknown == 1 ? NAN : 1e-5;
            job.query.noise_multiplier = unknown == 2 ? NAN : 1.5;
            struct seen seen = solve(&job, "search");
            assert_true(seen.calls > 0 && seen.last <= 1);
        }
}

/* Progress used to begin anew with each point. */
TEST(spend_never_falls)
{
    struct seen seen = {0};
    struct eps_context context = {.user = &seen, .progress = see};
    struct eps_spend_point *points;
    struct eps_error error = {0};
    struct eps_job job;
    size_t len;
    eps_job_init(&job);
    job.mechanism.n = 20;
    job.mechanism.sampling.p = 0.1;
    job.query.accountant.method = EPS_ACCOUNTANT_GAUSSIAN;
    job.query.delta = 1e-5;
    job.query.noise_multiplier = 2;
    eps_job_defaults(&job);
    assert_int_equal(eps_spend(&context, &points, &len, &error, &job, 2, 1e-5), EPS_OK);
    assert_true(len == 20 && seen.calls >= 20 && seen.last == 1 && !seen.fell);
    free(points);
}
