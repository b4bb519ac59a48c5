/*
 * Plans: which mechanisms are tried, that each candidate is a job that is served, and that what is claimed of a
 * candidate before it is solved holds afterwards.
 *
 * SPDX-License-Identifier: GPL-3.0-or-later
 */
#include <math.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "lib/accountants/least.h"
#include "lib/accountants/monte_carlo/guarantee.h"
#include "lib/ask/plan_choose.h"
#include "lib/base/members.h"
#include "lib/sampling/sampling.h"
#include "lib/job/setting.h"
#include "lib/strategy/families/family.h"
#include "tests/unit/test.h"

struct asked {
    struct eps_plan plan;
    size_t n[4];
    double epochs[4];
    uint64_t batches[8];
};

/* One pair of sizes, 20 epochs, with a batch that divides the data set. */
static void ask(struct asked *asked, size_t n)
{
    eps_plan_init(&asked->plan);
    asked->n[0] = n;
    asked->batches[0] = 100;
    asked->plan.n = asked->n;
    asked->plan.n_len = 1;
    asked->plan.epochs = asked->epochs;
    asked->plan.batch_sizes = asked->batches;
    asked->plan.batch_sizes_len = 1;
    asked->plan.dataset_size = 100 * n / 20;
    asked->plan.epsilon = 4;
    asked->plan.delta = 1e-5;
}

static size_t candidates_of(const struct asked *asked, struct eps_plan_candidate **candidates)
{
    size_t len = 0;
    struct eps_error error = {0};
    enum eps_status status = eps_plan_candidates(NULL, candidates, &len, &error, &asked->plan, 0);
    if (status != EPS_OK)
        fail_msg("%s: %s", error.pointer, error.message);
    return len;
}

static uint32_t only(int value)
{
    return 1u << value;
}

static int by_bands(const void *x, const void *y)
{
    const struct eps_plan_candidate *const *a = x, *const *b = y;
    size_t own = (*a)->bands + (*a)->buffers, other = (*b)->bands + (*b)->buffers;
    return (own > other) - (own < other);
}

/* The candidates of a family under a scheme that are tried or too costly; their bands or buffers, ascending, each
 * followed by a space, go into `list`. */
static size_t count(const struct eps_plan_candidate *candidates, size_t len, enum eps_scheme scheme,
                    enum eps_family family, char list[200])
{
    const struct eps_plan_candidate *found[64];
    size_t found_len = 0, at = 0;
    list[0] = '\0';
    for (size_t i = 0; i < len; i++) {
        const struct eps_mechanism *mechanism = &candidates[i].job.mechanism;
        bool tried = candidates[i].status == EPS_OK || candidates[i].status == EPS_TOO_COSTLY;
        if (tried && mechanism->sampling.scheme == scheme && mechanism->matrix.family == family) {
            assert_true(found_len < sizeof found / sizeof *found);
            found[found_len++] = &candidates[i];
        }
    }
    qsort(found, found_len, sizeof *found, by_bands);
    for (size_t i = 0; i < found_len; i++)
        at += (size_t)snprintf(list + at, 200 - at, "%zu/%zu ", found[i]->bands, found[i]->buffers);
    return found_len;
}

/* ---------------------------------------------------------------- the candidates */

TEST(families_by_bands_by_schemes)
{
    struct asked asked;
    struct eps_plan_candidate *c;
    char list[200];

    ask(&asked, 2000);
    size_t len = candidates_of(&asked, &c);
    assert_int_equal(count(c, len, EPS_SCHEME_NONE, EPS_FAMILY_SQUARE_ROOT, list), 11);
    assert_string_equal(list, "2/1 4/3 8/7 16/15 32/31 64/63 128/127 256/255 512/511 1024/1023 2000/1999 ");
    assert_int_equal(count(c, len, EPS_SCHEME_NONE, EPS_FAMILY_BANDED, list), 9);
    assert_string_equal(list, "2/1 4/3 8/7 16/15 32/31 64/63 128/127 256/255 512/511 ");
    assert_int_equal(count(c, len, EPS_SCHEME_BALLS_IN_BINS, EPS_FAMILY_BANDED_INVERSE, list), 9);
    /* no more bands than steps between an example's turns */
    count(c, len, EPS_SCHEME_CYCLIC_POISSON, EPS_FAMILY_BANDED, list);
    assert_string_equal(list, "2/1 4/3 8/7 16/15 32/31 64/63 ");
    count(c, len, EPS_SCHEME_B_MIN_SEP, EPS_FAMILY_SQUARE_ROOT, list);
    assert_string_equal(list, "2/1 4/3 8/7 16/15 32/31 64/63 ");
    /* a full matrix has no such limit */
    assert_int_equal(count(c, len, EPS_SCHEME_CYCLIC_POISSON, EPS_FAMILY_INVERSE_SQUARE_ROOT, list), 0);
    count(c, len, EPS_SCHEME_NONE, EPS_FAMILY_BLT, list);
    assert_string_equal(list, "0/1 0/2 0/4 0/8 ");
    count(c, len, EPS_SCHEME_POISSON, EPS_FAMILY_TREE, list);
    assert_string_equal(list, "0/12 0/1999 ");
    count(c, len, EPS_SCHEME_POISSON, EPS_FAMILY_IDENTITY, list);
    assert_string_equal(list, "0/0 ");
    /* entries of both signs only without sampling */
    for (int scheme = 0; scheme < EPS_SCHEME_COUNT; scheme++) {
        bool none = scheme == EPS_SCHEME_NONE;
        assert_int_equal(count(c, len, (enum eps_scheme)scheme, EPS_FAMILY_OPTIMAL, list), none);
        assert_int_equal(count(c, len, (enum eps_scheme)scheme, EPS_FAMILY_FOURIER, list), none);
    }
    free(c);
}

/* Values that follow from the sizes: n batch/dataset = 20 epochs, 100 steps apart. */
TEST(sizes_become_participation)
{
    struct asked asked;
    struct eps_plan_candidate *c;

    ask(&asked, 2000);
    asked.plan.objective = EPS_OBJECTIVE_MAX_SQUARED;
    asked.plan.adjacency = EPS_ADJACENCY_ADD_REMOVE;
    for (int uneven = 0; uneven < 2; uneven++) {
        asked.plan.dataset_size += (uint64_t)uneven;
        size_t len = candidates_of(&asked, &c), seen[EPS_SCHEME_COUNT] = {0};
        for (size_t i = 0; i < len; i++) {
            const struct eps_mechanism *mechanism = &c[i].job.mechanism;
            const struct eps_sampling *sampling = &mechanism->sampling;
            seen[sampling->scheme]++;
            assert_int_equal(mechanism->n, 2000);
            assert_true(isnan(mechanism->epochs));
            assert_int_equal(mechanism->adjacency, EPS_ADJACENCY_ADD_REMOVE);
            assert_true(isnan(c[i].job.query.noise_multiplier));
            if (sampling->scheme == EPS_SCHEME_NONE) {
                assert_int_equal(sampling->epochs, 20);
                assert_int_equal(sampling->separation, 100);
                assert_int_equal(sampling->schema, uneven ? EPS_SCHEMA_MIN_SEPARATION : EPS_SCHEMA_FIXED_ORDER);
            }
            if (sampling->scheme == EPS_SCHEME_CYCLIC_POISSON)
                assert_int_equal(sampling->groups, c[i].bands ? c[i].bands : 1);
            if (mechanism->matrix.family == EPS_FAMILY_BANDED)
                assert_int_equal(mechanism->matrix.objective, EPS_OBJECTIVE_MAX_SQUARED);
        }
        for (int scheme = 0; scheme < EPS_SCHEME_COUNT; scheme++)
            assert_true(seen[scheme] > 0);
        free(c);
    }
}

static size_t violations_of(const struct eps_job *job)
{
    return eps_job_check(job, 0, NULL, NULL);
}

TEST(every_candidate_is_a_job_that_is_served)
{
    static const enum eps_adjacency adjacencies[] = {EPS_ADJACENCY_ZERO_OUT, EPS_ADJACENCY_REPLACE_ONE};

    for (size_t a = 0; a < 2; a++)
        for (size_t n = 1; n <= 300; n += n < 4 ? 1 : 37) {
            struct asked asked;
            struct eps_plan_candidate *c;
            ask(&asked, n);
            asked.plan.dataset_size = 1000;
            asked.plan.adjacency = adjacencies[a];
            asked.plan.max_bands = n > 100 ? 9 : 0;
            size_t len = candidates_of(&asked, &c), tried = 0;
            for (size_t i = 0; i < len; i++) {
                struct eps_job again = c[i].job;
                eps_job_defaults(&again);
                assert_memory_equal(&again, &c[i].job, sizeof again);
                assert_int_equal(c[i].status == EPS_OK, c[i].reason[0] == '\0');
                if (c[i].status != EPS_OK)
                    continue;
                tried++;
                assert_int_equal(violations_of(&c[i].job), 0);
                assert_int_equal(eps_job_serves(NULL, NULL, &c[i].job, NULL, NULL), EPS_OK);
                assert_true(asked.plan.max_bands == 0 || c[i].buffers < asked.plan.max_bands);
                assert_true(c[i].buffers < c[i].job.mechanism.n);
            }
            assert_true(tried > 0);
            free(c);
        }
}

/* No two candidates are the same job. */
TEST(no_candidate_comes_twice)
{
    struct asked asked;
    struct eps_plan_candidate *c;

    ask(&asked, 64);
    asked.plan.dataset_size = 1600;
    size_t len = candidates_of(&asked, &c);
    for (size_t i = 0; i < len; i++)
        for (size_t j = 0; j < i; j++)
            assert_memory_not_equal(&c[i].job, &c[j].job, sizeof c[i].job);
    free(c);
}

TEST(lists_are_tried_each_with_each)
{
    struct asked asked;
    struct eps_plan_candidate *c;
    size_t with[2][2] = {{0}};

    ask(&asked, 0);
    asked.plan.n_len = 0;
    asked.epochs[0] = 2;
    asked.epochs[1] = 3.5;
    asked.plan.epochs_len = 2;
    asked.batches[1] = 30;
    asked.plan.batch_sizes_len = 2;
    asked.plan.dataset_size = 1000;
    asked.plan.families = only(EPS_FAMILY_IDENTITY) | only(EPS_FAMILY_BLT);
    size_t len = candidates_of(&asked, &c);
    /* steps = ceil(epochs dataset/batch), rounded up to a whole number of epochs where examples have bins: 10 or 33 of
     * them */
    static const size_t steps[2][2] = {{20, 35}, {67, 117}}, in_bins[2][2] = {{20, 40}, {99, 132}};
    for (size_t i = 0; i < len; i++) {
        const struct eps_mechanism *mechanism = &c[i].job.mechanism;
        bool bins = mechanism->sampling.scheme == EPS_SCHEME_BALLS_IN_BINS;
        size_t batch = mechanism->sampling.batch_size == 30,
               epochs = mechanism->n == (bins ? in_bins : steps)[batch][1];
        assert_int_equal(mechanism->n, (bins ? in_bins : steps)[batch][epochs]);
        assert_int_equal(c[i].pair, 2 * batch + epochs); /* one training, with steps that may be rounded up to bins */
        with[batch][epochs]++;
    }
    for (size_t i = 0; i < 4; i++)
        assert_true(with[i / 2][i % 2] >= 5);
    free(c);
}

/* Numbers of bins that nearly divide n are tried with the nearest n that they divide; no others get another n. */
TEST(steps_fill_whole_epochs)
{
    static const struct {
        size_t n, batch, dataset, becomes; /* 0: refused */
    } cases[] = {{2048, 512, 50000, 2037}, {2000, 100, 9900, 1980}, {2000, 100, 10300, 1957}, {2000, 100, 10100, 2020},
                 {98, 100, 10000, 100},    {95, 100, 10000, 0},     {105, 100, 10000, 100},   {106, 100, 10000, 0},
                 {40, 100, 10000, 0},      {200, 100, 10000, 200},  {1, 100, 100, 1}};

    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct asked asked;
        struct eps_plan_candidate *c;
        size_t bins = 0;
        ask(&asked, cases[i].n);
        asked.batches[0] = cases[i].batch;
        asked.plan.dataset_size = cases[i].dataset;
        asked.plan.families = only(EPS_FAMILY_IDENTITY) | only(EPS_FAMILY_SQUARE_ROOT);
        asked.plan.max_bands = 4;
        size_t len = candidates_of(&asked, &c);
        for (size_t k = 0; k < len; k++) {
            const struct eps_mechanism *mechanism = &c[k].job.mechanism;
            bool tried = c[k].status == EPS_OK;
            if (mechanism->sampling.scheme != EPS_SCHEME_BALLS_IN_BINS) {
                assert_int_equal(mechanism->n, cases[i].n);
                continue;
            }
            assert_int_equal(tried, cases[i].becomes > 0);
            assert_int_equal(mechanism->n, tried ? cases[i].becomes : cases[i].n);
            assert_int_equal(mechanism->sampling.batch_size, cases[i].batch);
            assert_int_equal(tried ? mechanism->n % (cases[i].dataset / cases[i].batch) : 0, 0);
            bins++;
        }
        assert_true(bins > 0);
        free(c);
    }
}

TEST(what_cannot_be_tried_is_told_once)
{
    struct asked asked;
    struct eps_plan_candidate *c;
    size_t refused = 0;

    ask(&asked, 2000);
    asked.plan.dataset_size = 130000; /* 1300 bins, and 2000 is far from any multiple */
    size_t len = candidates_of(&asked, &c);
    for (size_t i = 0; i < len; i++) {
        if (c[i].status == EPS_OK || c[i].status == EPS_TOO_COSTLY)
            continue;
        refused++;
        assert_int_equal(c[i].job.mechanism.sampling.scheme, EPS_SCHEME_BALLS_IN_BINS);
        assert_int_equal(c[i].status, EPS_INVALID);
        assert_non_null(strstr(c[i].reason, "the nearest n that works is 2600"));
    }
    assert_int_equal(refused, 1);
    free(c);

    asked.plan.schemes = only(EPS_SCHEME_POISSON);
    asked.plan.families = only(EPS_FAMILY_FOURIER) | only(EPS_FAMILY_OPTIMAL) | only(EPS_FAMILY_IDENTITY);
    len = candidates_of(&asked, &c);
    assert_int_equal(len, 3);
    assert_int_equal(c[0].status, EPS_OK);
    assert_int_equal(c[0].job.mechanism.matrix.family, EPS_FAMILY_IDENTITY);
    assert_int_equal(c[1].status, EPS_UNSUPPORTED);
    assert_non_null(strstr(c[1].reason, "optimal"));
    assert_int_equal(c[2].status, EPS_INVALID);
    free(c);

    /* a limit leaves out what exceeds it, and the rest remains */
    const struct eps_context context = {.max_operations = 1e9};
    asked.plan.schemes = only(EPS_SCHEME_NONE);
    assert_int_equal(eps_plan_candidates(&context, &c, &len, NULL, &asked.plan, 0), EPS_OK);
    assert_int_equal(len, 3);
    assert_int_equal(c[2].status, EPS_TOO_COSTLY);
    assert_int_equal(c[2].job.mechanism.matrix.family, EPS_FAMILY_OPTIMAL);
    free(c);
}

/* ---------------------------------------------------------------- verification */

static bool same(const struct eps_job *a, const struct eps_job *b)
{
    return eps__members_equal(&eps__mechanism_object, &a->mechanism, &b->mechanism) &&
           eps__members_equal(&eps__query_object, &a->query, &b->query);
}

/* Their mechanisms are those of any plan; their delta pays for the choice (A53), and the largest number of ladders pays
 * the most. */
TEST(candidates_that_are_verified_have_less_delta)
{
    struct asked asked;
    struct eps_plan_candidate *plain, *c;
    ask(&asked, 240);
    size_t len = candidates_of(&asked, &plain);
    for (unsigned verified = 1; verified <= EPS_PLAN_VERIFIED_MOST; verified++) {
        asked.plan.verified = verified;
        assert_int_equal(candidates_of(&asked, &c), len);
        for (size_t i = 0; i < len; i++) {
            assert_string_equal(c[i].reason, plain[i].reason);
            assert_true(plain[i].job.query.delta == asked.plan.delta);
            assert_true(c[i].job.query.delta == eps__mc_choice_delta(asked.plan.delta, verified));
            assert_true(fabs(c[i].job.query.delta * (1 + verified / 64.) / asked.plan.delta - 1) < 1e-12);
            c[i].job.query.delta = asked.plan.delta;
            assert_true(same(&c[i].job, &plain[i].job));
        }
        free(c);
    }
    free(plain);
}

TEST(a_verification_asks_the_same_of_monte_carlo)
{
    struct asked asked;
    struct eps_plan_candidate *c;
    ask(&asked, 240);
    asked.plan.schemes = only(EPS_SCHEME_BALLS_IN_BINS);
    size_t len = candidates_of(&asked, &c);
    for (size_t i = 0; i < len; i++) {
        struct eps_job drawn = c[i].job, plain;
        eps_job_init(&plain);
        eps_plan_verification(&drawn, 7);
        assert_int_equal(drawn.query.accountant.method, EPS_ACCOUNTANT_MONTE_CARLO);
        assert_true(drawn.query.accountant.max_seconds == 7);
        assert_true(isnan(drawn.query.accountant.bad_event_share));
        assert_true(drawn.query.accountant.tolerance == plain.query.accountant.tolerance);
        drawn.query.accountant = c[i].job.query.accountant;
        assert_true(same(&drawn, &c[i].job));
    }
    free(c);
}

static void assert_unverifiable(const struct asked *asked, const char *why)
{
    struct eps_plan_candidate *c = NULL;
    struct eps_error error = {0};
    size_t len = 7;
    assert_int_equal(eps_plan_candidates(NULL, &c, &len, &error, &asked->plan, 0), EPS_UNSUPPORTED);
    assert_null(c);
    assert_int_equal(len, 7);
    assert_string_equal(error.pointer, "/verify");
    if (!strstr(error.message, why))
        fail_msg("%s", error.message);
}

/* Without sampling, where what is proven is exact, and where monte_carlo serves none. */
TEST(what_draws_cannot_reduce_is_not_verified)
{
    struct asked asked;
    struct eps_plan_candidate *c;
    ask(&asked, 240);
    asked.plan.verified = EPS_PLAN_VERIFIED_MOST;
    asked.plan.schemes = only(EPS_SCHEME_NONE);
    assert_unverifiable(&asked, "there is none: leave it out");
    asked.plan.schemes = only(EPS_SCHEME_NONE) | only(EPS_SCHEME_POISSON);
    asked.plan.families = only(EPS_FAMILY_IDENTITY);
    assert_unverifiable(&asked, "what is proven is exact");
    asked.plan.families = only(EPS_FAMILY_SQUARE_ROOT);
    free((candidates_of(&asked, &c), c));
    asked.plan.families = 0;
    asked.plan.adjacency = EPS_ADJACENCY_REPLACE_ONE;
    assert_unverifiable(&asked, "replace_one");
}

/* ---------------------------------------------------------------- the rules */

struct seen {
    char pointers[300];
};

static void note(void *user, const char *pointer, const char *message)
{
    struct seen *seen = user;
    assert_true(message[0] != '\0');
    strncat(seen->pointers, pointer, sizeof seen->pointers - strlen(seen->pointers) - 2);
    strcat(seen->pointers, " ");
}

static void assert_refused(const struct asked *asked, const char *pointers)
{
    struct seen seen = {""};
    struct eps_plan_candidate *c = NULL;
    struct eps_error error = {0};
    size_t len = 7, violations = eps_plan_check(&asked->plan, 1000000, note, &seen);
    assert_string_equal(seen.pointers, pointers);
    assert_int_equal(violations > 0, pointers[0] != '\0');
    if (violations == 0)
        return;
    assert_int_equal(eps_plan_candidates(NULL, &c, &len, &error, &asked->plan, 1000000), EPS_INVALID);
    assert_null(c);
    assert_int_equal(len, 7);
    assert_int_equal(strncmp(error.pointer, pointers, strlen(error.pointer)), 0);
}

/* A plan that has few candidates can afford some that are optimised for the job, where that can gain something; they
 * come after the others. */
TEST(few_candidates_leave_time_to_optimise_for_the_job)
{
    for (int scheme = 0; scheme < EPS_SCHEME_COUNT; scheme++) {
        struct asked asked;
        struct eps_plan_candidate *c;
        size_t tuned = 0, full = 0, first = SIZE_MAX, last = 0;
        ask(&asked, 240);
        asked.batches[0] = 64;
        asked.plan.dataset_size = 1920;
        asked.plan.families = only(EPS_FAMILY_BANDED) | only(EPS_FAMILY_BANDED_INVERSE) | only(EPS_FAMILY_BLT);
        asked.plan.schemes = only(scheme);
        size_t len = candidates_of(&asked, &c);
        for (size_t i = 0; i < len; i++) {
            const struct eps_matrix *matrix = &c[i].job.mechanism.matrix;
            if (matrix->optimize_for != EPS_OPTIMIZE_FOR_JOB) {
                last = i;
                continue;
            }
            tuned++;
            assert_int_equal(c[i].status, EPS_OK);
            assert_true(matrix->family == EPS_FAMILY_BLT ? matrix->buffers == 2
                                                         : matrix->bands >= 8 && matrix->bands <= 32);
            if (matrix->family != EPS_FAMILY_BANDED)
                full++;
            else if (first == SIZE_MAX)
                first = i;
            assert_int_equal(violations_of(&c[i].job), 0);
            assert_int_equal(eps_job_serves(NULL, NULL, &c[i].job, NULL, NULL), EPS_OK);
        }
        bool gains = scheme == EPS_SCHEME_B_MIN_SEP || scheme == EPS_SCHEME_BALLS_IN_BINS;
        if (gains ? first < last || tuned == full || (full == 0 && scheme == EPS_SCHEME_BALLS_IN_BINS)
                  : scheme == EPS_SCHEME_NONE && tuned > 0)
            fail_msg("%s: %zu of %zu are optimised for the job", eps_scheme_name((enum eps_scheme)scheme), tuned, len);
        free(c);
    }
}

TEST(a_plan_has_rules)
{
    struct asked asked;

    ask(&asked, 200);
    assert_refused(&asked, "");
    asked.plan.epochs_len = 1;
    assert_refused(&asked, "/n ");
    ask(&asked, 200);
    asked.plan.n_len = 0;
    assert_refused(&asked, "/n ");
    ask(&asked, 200);
    asked.plan.batch_sizes_len = 0;
    asked.plan.dataset_size = 0;
    assert_refused(&asked, "/batch_size /dataset_size ");
    ask(&asked, 200);
    asked.batches[0] = 100000;
    assert_refused(&asked, "/batch_size ");
    ask(&asked, 200);
    asked.batches[1] = 0;
    asked.plan.batch_sizes_len = 2;
    assert_refused(&asked, "/batch_size/1 ");
    asked.batches[1] = 100000;
    assert_refused(&asked, "/batch_size/1 ");
    ask(&asked, 2000000);
    assert_refused(&asked, "/n ");
    ask(&asked, 200);
    asked.n[1] = 2000000;
    asked.plan.n_len = 2;
    assert_refused(&asked, "/n/1 ");
    asked.plan.n_len = 0;
    asked.plan.epochs_len = 1;
    asked.epochs[0] = -1;
    assert_refused(&asked, "/epochs ");
    ask(&asked, 200);
    for (size_t i = 0; i < 8; i++)
        asked.batches[i] = 10 + i;
    asked.plan.batch_sizes_len = 8;
    for (size_t i = 0; i < 4; i++)
        asked.n[i] = 10 + i;
    asked.plan.n_len = 2;
    assert_refused(&asked, "/batch_size ");
    asked.plan.n_len = 1;
    assert_refused(&asked, "");
    ask(&asked, 200);
    asked.plan.epsilon = NAN;
    asked.plan.delta = NAN;
    assert_refused(&asked, "/epsilon /delta ");
    ask(&asked, 200);
    asked.plan.epsilon = -1;
    asked.plan.delta = 1;
    asked.plan.workload = (struct eps_workload){.type = EPS_WORKLOAD_MOMENTUM, .momentum = 1, .decay = 1};
    asked.plan.adjacency = EPS_ADJACENCY_COUNT;
    assert_refused(&asked, "/workload/momentum /adjacency /epsilon /delta ");
    ask(&asked, 200);
    asked.plan.objective = EPS_OBJECTIVE_COUNT;
    asked.plan.families = only(EPS_FAMILY_DENSE) | only(EPS_FAMILY_BLT);
    asked.plan.schemes = only(EPS_SCHEME_COUNT);
    asked.plan.verified = EPS_PLAN_VERIFIED_MOST + 1;
    assert_refused(&asked, "/families /schemes /verify /objective ");
}

/* ---------------------------------------------------------------- bounds that are known before solving */

static double solved(const struct eps_job *job, struct eps_error *error, double *sigma)
{
    struct eps_result *result = NULL;
    *sigma = NAN;
    if (eps_solve(NULL, &result, error, job) != EPS_OK)
        return NAN;
    double mean = result->error_mean_squared;
    *sigma = result->noise_multiplier;
    eps_result_destroy(result);
    return mean;
}

/* Whatever is posted later, a candidate's answer is within the bound that it was judged by. */
TEST(no_answer_is_under_the_least_noise)
{
    static const double epsilons[] = {0.5, 6};
    size_t known = 0;

    for (size_t e = 0; e < 2; e++)
        for (size_t bins = 1; bins <= 6; bins += 5) {
            struct asked asked;
            if (!getenv("REPRODUCE") && (bins > 1) != (e > 0))
                continue;
            struct eps_plan_candidate *c;
            ask(&asked, 12);
            asked.plan.epsilon = epsilons[e];
            asked.plan.dataset_size = 100 * bins;
            asked.plan.schemes = only(EPS_SCHEME_BALLS_IN_BINS) | only(EPS_SCHEME_NONE);
            asked.plan.families = only(EPS_FAMILY_IDENTITY) | only(EPS_FAMILY_SQUARE_ROOT) | only(EPS_FAMILY_TREE);
            size_t len = candidates_of(&asked, &c);
            for (size_t i = 0; i < len; i++) {
                struct eps_error error = {0};
                double sigma, least;
                assert_int_equal(eps_plan_least(NULL, &least, &error, &c[i].job, EPS_OBJECTIVE_MEAN_SQUARED), EPS_OK);
                double mean = solved(&c[i].job, &error, &sigma);
                assert_true(mean > 0);
                assert_true(least <= mean);
                bool drawn = c[i].job.mechanism.sampling.scheme == EPS_SCHEME_BALLS_IN_BINS;
                assert_int_equal(c[i].bounded, drawn);
                assert_int_equal(least > 0, drawn);
                known += drawn;
                double largest = 0; /* the largest error is no less than the mean */
                assert_int_equal(eps_plan_least(NULL, &largest, &error, &c[i].job, EPS_OBJECTIVE_MAX_SQUARED), EPS_OK);
                assert_true(largest >= least &&
                            (largest > least || least == 0 || eps__sampling_bins(&c[i].job.mechanism) == 0));
            }
            free(c);
        }
    assert_true(known > (getenv("REPRODUCE") ? 20 : 8));
}

/* DP-SGD's bins are orthogonal, and pld's answer is the truth. */
TEST(the_least_noise_is_near_where_bins_share_nothing)
{
    for (size_t bins = 1; bins <= 256; bins *= 16)
        for (double epsilon = 1; epsilon < 10; epsilon *= 3) {
            struct eps__setting setting;
            struct eps_job job;
            double least, sigma, share = bins == 1 ? 0.9999 : epsilon < 2 ? 0.6 : epsilon < 5 ? 0.93 : 0.98;
            eps_job_init(&job);
            job.mechanism.n = 4 * bins;
            job.mechanism.sampling.scheme = EPS_SCHEME_BALLS_IN_BINS;
            job.mechanism.sampling.bins = bins;
            job.query.epsilon = epsilon;
            job.query.delta = 1e-6;
            eps_job_defaults(&job);
            assert_int_equal(eps__setting_open(&setting, NULL, NULL, &job), EPS_OK);
            assert_int_equal(eps__least_noise(&least, &setting), EPS_OK);
            eps__setting_close(&setting);
            assert_true(solved(&job, NULL, &sigma) > 0);
            assert_true(least <= sigma);
            if (!(least >= share * sigma))
                fail_msg("%zu bins, epsilon %g: %g of %g", bins, epsilon, least, sigma);
            /* nothing is known for redrawn bins, nor for another adjacency */
            job.mechanism.sampling.redraw = true;
            assert_int_equal(eps__setting_open(&setting, NULL, NULL, &job), EPS_OK);
            assert_int_equal(eps__least_noise(&least, &setting), EPS_OK);
            assert_true(least == 0);
            eps__setting_close(&setting);
            job.mechanism.sampling.redraw = false;
            job.mechanism.adjacency = EPS_ADJACENCY_REPLACE_ONE;
            assert_int_equal(eps__setting_open(&setting, NULL, NULL, &job), EPS_OK);
            assert_int_equal(eps__least_noise(&least, &setting), EPS_OK);
            assert_true(least == 0);
            eps__setting_close(&setting);
        }
}

/* For every accountant, and for any number of participations. */
TEST(no_answer_is_under_the_least_noise_of_poisson)
{
    static const double epsilons[] = {0.3, 4};
    static const uint64_t datasets[] = {120, 20000};
    size_t known = 0;

    for (size_t e = 0; e < 2; e++)
        for (size_t d = 0; d < 2; d++) {
            struct asked asked;
            if (!getenv("REPRODUCE") && d != e)
                continue;
            struct eps_plan_candidate *c;
            ask(&asked, getenv("REPRODUCE") ? 24 : 12);
            asked.plan.epsilon = epsilons[e];
            asked.plan.dataset_size = datasets[d];
            asked.plan.schemes = only(EPS_SCHEME_POISSON);
            asked.plan.families = only(EPS_FAMILY_IDENTITY) | only(EPS_FAMILY_SQUARE_ROOT) | only(EPS_FAMILY_TREE);
            size_t len = candidates_of(&asked, &c);
            for (size_t i = 0; i < len; i++) {
                struct eps_error error = {0};
                double sigma, least;
                assert_true(c[i].bounded);
                assert_int_equal(eps_plan_least(NULL, &least, &error, &c[i].job, EPS_OBJECTIVE_MEAN_SQUARED), EPS_OK);
                double mean = solved(&c[i].job, &error, &sigma);
                assert_true(mean > 0 && least <= mean);
                known += least > 0;
            }
            free(c);
        }
    assert_true(known > (getenv("REPRODUCE") ? 30 : 12));
}

static double least_of_poisson(const struct eps_job *job)
{
    struct eps__setting setting;
    double least;
    assert_int_equal(eps__setting_open(&setting, NULL, NULL, job), EPS_OK);
    assert_int_equal(eps__least_noise(&least, &setting), EPS_OK);
    eps__setting_close(&setting);
    return least;
}

/* With one step no other event is better, and pld's answer is the truth. */
TEST(the_least_noise_of_one_poisson_step_is_the_truth)
{
    for (double p = 0.01; p < 1; p *= 7)
        for (double epsilon = 0.5; epsilon < 10; epsilon *= 3) {
            struct eps_job job;
            double sigma;
            eps_job_init(&job);
            job.mechanism.n = 1;
            job.mechanism.sampling.scheme = EPS_SCHEME_POISSON;
            job.mechanism.sampling.p = p;
            job.query.epsilon = epsilon;
            job.query.delta = 1e-6;
            eps_job_defaults(&job);
            double least = least_of_poisson(&job);
            assert_true(solved(&job, NULL, &sigma) > 0);
            assert_true(least <= sigma);
            if (!(least >= 0.995 * sigma)) /* the tolerance of the answer, and thresholds that are nearly the best */
                fail_msg("p %g, epsilon %g: %g of %g", p, epsilon, least, sigma);
            /* nothing is known for another adjacency, nor for several examples */
            job.mechanism.sampling.examples_per_user = 2;
            assert_true(least_of_poisson(&job) == 0);
            job.mechanism.sampling.examples_per_user = 1;
            job.mechanism.adjacency = EPS_ADJACENCY_REPLACE_ONE;
            assert_true(least_of_poisson(&job) == 0);
        }
}

/* A plan's quick bounds are at most a few thousandths worse, and are marked as quick. */
TEST(a_quick_bound_is_nearly_as_good)
{
    struct eps_job job, quick;
    struct eps_error error = {0};
    double all, best = 0, found, sigma = 0, operations;

    eps_job_init(&job);
    job.mechanism.n = 60;
    job.mechanism.matrix.family = EPS_FAMILY_SQUARE_ROOT;
    job.mechanism.sampling.scheme = EPS_SCHEME_POISSON;
    job.mechanism.sampling.p = 0.05;
    job.query.epsilon = 4;
    job.query.delta = 1e-5;
    eps_job_defaults(&job);
    assert_int_equal(eps_job_serves(NULL, NULL, &job, &all, NULL), EPS_OK);
    quick = job;
    assert_int_equal(eps__plan_choose(NULL, &operations, &error, &quick, 9 * all), EPS_OK);
    assert_true(isnan(quick.query.accountant.bad_event_share)); /* the best one where that costs little */
    assert_int_equal(eps__plan_choose(NULL, &operations, &error, &quick, all), EPS_OK);
    assert_true(quick.query.accountant.bad_event_share > 0);
    assert_int_equal(eps_job_serves(NULL, NULL, &quick, &found, NULL), EPS_OK);
    assert_true(found < all / 2);
    assert_true(solved(&job, &error, &best) > 0 && solved(&quick, &error, &sigma) > 0);
    assert_true(sigma >= best * (1 - 2e-3) && sigma <= best * 1.01);
    /* what is ruled out for its cost is ruled out with quick bounds, too */
    quick = job;
    assert_int_equal(eps__plan_choose(NULL, &operations, &error, &quick, 0.9 * found), EPS_TOO_COSTLY);
    assert_true(error.operations <= 1.01 * found && isnan(quick.query.accountant.bad_event_share));
}

/* auto where everything that it runs is within the limit, else one accountant that is; never one that does not
 * amplify. */
TEST(an_accountant_is_named_that_fits)
{
    struct eps_error error = {0};
    struct eps_job job;
    double all, one, operations;

    eps_job_init(&job);
    job.mechanism.n = 400;
    job.mechanism.matrix.family = EPS_FAMILY_BANDED;
    job.mechanism.matrix.bands = 3;
    job.mechanism.sampling.scheme = EPS_SCHEME_BALLS_IN_BINS;
    job.mechanism.sampling.bins = 20;
    job.query.epsilon = 2;
    job.query.delta = 1e-5;
    eps_job_defaults(&job);
    assert_int_equal(eps__plan_choose(NULL, &operations, &error, &job, 1e15), EPS_OK);
    assert_int_equal(job.query.accountant.method, EPS_ACCOUNTANT_AUTO);
    struct eps_job like = job; /* of the same shape, and available at once */
    like.mechanism.matrix = eps__matrix_of_bands(3);
    assert_int_equal(eps_job_serves(NULL, NULL, &like, &all, NULL), EPS_OK);
    assert_int_equal(eps__plan_choose(NULL, &operations, &error, &job, all), EPS_OK);
    assert_int_equal(job.query.accountant.method, EPS_ACCOUNTANT_AUTO);
    assert_int_equal(eps__plan_choose(NULL, &operations, &error, &job, all / 4), EPS_OK);
    assert_true(job.query.accountant.method != EPS_ACCOUNTANT_AUTO);
    assert_true(job.query.accountant.method != EPS_ACCOUNTANT_GAUSSIAN);
    like.query.accountant.method = job.query.accountant.method;
    assert_int_equal(eps_job_serves(NULL, NULL, &like, &one, NULL), EPS_OK);
    assert_true(one <= all / 4);
    job.query.accountant.method = EPS_ACCOUNTANT_AUTO;
    assert_int_equal(eps__plan_choose(NULL, &operations, &error, &job, 1), EPS_TOO_COSTLY);
    assert_true(error.operations > 1);
    assert_int_equal(job.query.accountant.method, EPS_ACCOUNTANT_AUTO);
    /* without sampling there is one, and its cost is negligible */
    job.mechanism.sampling.scheme = EPS_SCHEME_NONE;
    job.mechanism.sampling.bins = 0;
    eps_job_defaults(&job);
    assert_int_equal(eps__plan_choose(NULL, &operations, &error, &job, 1), EPS_OK);
    assert_int_equal(job.query.accountant.method, EPS_ACCOUNTANT_AUTO);
}

/* In a plan of the size shown in api/GUIDE.md no candidate is too costly, as those that take more than an equal share
 * have what the others leave; in one of twice the steps few are. The slow ones come last. */
TEST(what_takes_long_comes_last)
{
    for (size_t n = 2000; n <= 4000; n *= 2) {
        struct asked asked;
        struct eps_plan_candidate *c;
        size_t costly = 0;

        ask(&asked, n);
        size_t len = candidates_of(&asked, &c);
        assert_int_equal(c[len - 1].job.mechanism.matrix.family, EPS_FAMILY_OPTIMAL);
        for (size_t i = 0; i < len; i++) {
            enum eps_scheme scheme = c[i].job.mechanism.sampling.scheme;
            assert_true(c[i].status == EPS_OK || c[i].status == EPS_TOO_COSTLY);
            costly += c[i].status == EPS_TOO_COSTLY;
            assert_true(c[i].status == EPS_OK || scheme == EPS_SCHEME_POISSON);
        }
        assert_true((costly > 0) == (n > 2000) && costly < len / 3);
        free(c);
    }
}

static bool is_named(const struct eps_plan_candidate *candidate, enum eps_scheme scheme, enum eps_family family,
                     size_t bands)
{
    const struct eps_mechanism *mechanism = &candidate->job.mechanism;
    return mechanism->sampling.scheme == scheme && mechanism->matrix.family == family && candidate->bands == bands;
}

/* DP-SGD first, which the others are compared with; then candidates that cost little and are likely to be good. */
TEST(the_first_are_cheap_and_good)
{
    struct asked asked;
    struct eps_plan_candidate *c;
    size_t references = 0, banded = 0, bins = 0, costly = 0;

    ask(&asked, 2048);
    asked.batches[0] = 512;
    asked.plan.dataset_size = 50000;
    asked.plan.epsilon = 2;
    asked.plan.delta = 1e-6;
    size_t len = candidates_of(&asked, &c);
    assert_true(is_named(&c[0], EPS_SCHEME_POISSON, EPS_FAMILY_IDENTITY, 0));
    for (size_t i = 0; i < len; i++) {
        references += c[i].reference;
        if (is_named(&c[i], EPS_SCHEME_CYCLIC_POISSON, EPS_FAMILY_BANDED, 4))
            banded = i;
        if (is_named(&c[i], EPS_SCHEME_BALLS_IN_BINS, EPS_FAMILY_BANDED, 4))
            bins = i;
        if (is_named(&c[i], EPS_SCHEME_POISSON, EPS_FAMILY_SQUARE_ROOT, 2048))
            costly = i;
    }
    assert_true(c[0].reference);
    assert_int_equal(references, 1);
    assert_true(banded > 0 && banded < 20);
    assert_true(bins > 0 && bins < costly);
    free(c);
}
