/*
 * What each phase has of the whole, what has been spent after each step, and what is refused.
 *
 * SPDX-License-Identifier: GPL-3.0-or-later
 */
#include "lib/epsilon.h"

#include <math.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "lib/sampling/sampling.h"
#include "tests/unit/solved.h"
#include "tests/unit/test.h"
#include "tests/unit/threads.h"
#include "tests/unit/training/phases.h"

/* ------------------------------------------------------------ shares, limits, refusals */

/* Of the first job, saddle points approximate epsilon well enough for the shares; of the second, whose delta comes from
 * rare large losses, they do not. */
TEST(shares_are_what_is_left_out)
{
    const struct eps_phase jobs[][3] = {{poisson(3000, 0.02, 1, 1), poisson(500, 0.05, 1, 1), poisson(100, 0.01, 3, 1)},
                                        {poisson(100, 1e-3, 1, 1), poisson(50, 2e-3, 1, 1), poisson(300, 1e-3, 2, 1)}};
    for (size_t k = 0; k < sizeof jobs / sizeof *jobs; k++) {
        struct eps_phase phases[3];
        memcpy(phases, jobs[k], sizeof phases);
        struct eps_job job = training_of(phases, 3, NAN, 1e-6, 1);
        struct eps_result *whole = solved(NULL, job);
        for (size_t i = 0; i < 3; i++) {
            struct eps_phase left[2] = {phases[i == 0], phases[i == 2 ? 1 : 2]};
            struct eps_job rest = training_of(left, 2, NAN, 1e-6, 1);
            struct eps_result *without = solved(NULL, rest);
            assert_true(fabs(whole->phases[i].share - (1 - without->epsilon / whole->epsilon)) < 2e-3);
            eps_result_destroy(without);
        }
        eps_result_destroy(whole);
    }
}

/* So many phases that shares are those of Gaussians; Gaussians are exact so. */
TEST(many_shares_are_those_of_gaussians)
{
    struct eps_phase phases[20];
    double squares = 0;
    for (int i = 0; i < 20; i++) {
        phases[i] = unsampled(3, 1 + 0.1 * i, 1);
        squares += 1 / ((1 + 0.1 * i) * (1 + 0.1 * i));
    }
    struct eps_job job = training_of(phases, 20, NAN, 1e-6, 10), one;
    struct eps_result *whole = solved(NULL, job);
    eps_job_init(&one);
    one.mechanism = phases[0].mechanism;
    one.query.delta = 1e-6;
    one.query.noise_multiplier = 10 / sqrt(squares - 1); /* but for the first */
    struct eps_result *without = solved(NULL, one);
    assert_true(fabs(whole->phases[0].share - (1 - without->epsilon / whole->epsilon)) < 2e-3);
    eps_result_destroy(whole);
    eps_result_destroy(without);
}

/* Of so many, each one's own epsilon has no lower end, but is a bound and within the tolerance it was sought with. */
TEST(each_of_many_is_answered_alone)
{
    struct eps_phase phases[18];
    for (int i = 0; i < 18; i++)
        phases[i] = i % 3 == 0   ? poisson(40 + (size_t)i, 0.05, 1, 1 + (size_t)i % 2)
                    : i % 3 == 1 ? unsampled(3, 2 + 0.1 * i, 1 + (size_t)i % 2)
                                 : bins(20, 10, false, 1);
    for (int i = 2; i < 18; i += 3)
        phases[i].noise_scale = 1 + 0.02 * i;
    struct eps_job job = training_of(phases, 18, NAN, 1e-6, 2);
    struct eps_result *whole = solved(NULL, job);
    for (int i = 0; i < 18; i++) {
        struct eps_job one = training_of(&phases[i], 1, NAN, 1e-6, 2);
        const struct eps_result *alone = whole->phases[i].alone;
        struct eps_result *exact = solved(NULL, one);
        assert_true(alone->epsilon >= exact->bracket_lower && alone->epsilon <= exact->epsilon * 1.01);
        assert_true(alone->bracket_lower == 0 && alone->bracket_upper == alone->epsilon);
        eps_result_destroy(exact);
    }
    for (size_t i = 0; i < whole->hints_len; i++)
        assert_null(strstr(whole->hints[i], "bracket"));
    eps_result_destroy(whole);
}

/* Phases alone and shares are computed side by side: shares of few by searches, of several by approximations where
 * these do, and of many as of Gaussians. */
TEST(threads_change_no_bit)
{
    static const size_t lengths[] = {3, 10, 18};
    const struct eps_context threads = {.parallel_for = two_threads};
    for (size_t k = 0; k < sizeof lengths / sizeof *lengths; k++) {
        struct eps_phase phases[18];
        size_t len = lengths[k];
        for (size_t i = 0; i < len; i++) {
            phases[i] = i == 1 ? bins(20, 10, false, 2) : poisson(40 + 9 * i, 0.02, 1, 1 + i % 2);
            phases[i].noise_scale = 1 + 0.02 * (double)i;
        }
        for (int unknown = 0; unknown < (len == 3 ? 2 : 1); unknown++) {
            struct eps_job job = training_of(phases, len, unknown ? 1 : NAN, 1e-6, unknown ? NAN : 2);
            struct eps_result *one = solved(NULL, job), *two = solved(&threads, job);
            assert_true(one->epsilon == two->epsilon && one->noise_multiplier == two->noise_multiplier);
            assert_true(one->bracket_lower == two->bracket_lower && one->bracket_upper == two->bracket_upper);
            for (size_t i = 0; i < len; i++) {
                const struct eps_phase_result *a = &one->phases[i], *b = &two->phases[i];
                assert_true(a->share == b->share && a->share >= 0 && a->share <= 1);
                assert_true(a->alone->epsilon == b->alone->epsilon);
            }
            eps_result_destroy(one);
            eps_result_destroy(two);
        }
    }
}

/* Hardly anyone ever takes part: no noise is needed in all phases together, as in one of all their steps. */
TEST(nobody_takes_part)
{
    struct eps_phase two[] = {poisson(60, 1e-9, 1, 1), poisson(20, 1e-9, 2, 2)};
    struct eps_job job = training_of(two, 2, 0.5, NAN, 0.1);
    struct eps_result *result = solved(NULL, job);
    assert_true(result->delta <= 100 * 1e-9 * (1 + 1e-6) && result->delta > 50 * 1e-9);
    eps_result_destroy(result);
    struct eps__absence whole = eps__absence_nowhere(), one = eps__sampling_absence(&two[1].mechanism);
    eps__absence_join(&whole, &one, 2);
    struct eps__interval drawn = eps__absence_log_delta(&whole, EPS_REMOVE, 0.5);
    assert_true(exp(drawn.upper) >= 40e-9 * (1 - 1e-7) && exp(drawn.upper) <= 40e-9 * (1 + 1e-7));
    assert_true(drawn.lower <= drawn.upper && drawn.upper - drawn.lower < 1e-6);
    job = training_of(two, 2, 0.5, 1.0000001e-7, NAN);
    result = solved(NULL, job);
    assert_true(result->noise_multiplier == 0);
    eps_result_destroy(result);
}

static void refused(struct eps_job *job, enum eps_status status, const char *pointer, const char *word)
{
    eps_job_defaults(job);
    struct eps_error error = assert_refused(*job, status, pointer);
    if (!strstr(error.message, word))
        fail_msg("%s says nothing about %s", error.message, word);
    assert_int_equal(eps_job_serves(NULL, &error, job, NULL, NULL), status);
}

/* What is found may be asked for again: of the job and of each phase it is in the range of noise multipliers. */
TEST(the_noise_that_is_found_leaves_every_phase_in_its_range)
{
    for (size_t len = 1; len <= 2; len++) {
        struct eps_phase phases[] = {unsampled(1, 10, 1), unsampled(1, 1, 1)};
        struct eps_job job = training_of(phases, len, 0, 1e-8, NAN);
        struct eps_result *result = solved(NULL, job);
        job.query.noise_multiplier = result->noise_multiplier;
        job.query.epsilon = NAN;
        assert_int_equal(eps_job_check(&job, 0, NULL, NULL), 0);
        eps_result_destroy(result);
        phases[0].noise_scale = len == 1 ? 1e-6 : 1e3;
        job = training_of(phases, len, 0, 1e-8, NAN);
        struct eps_error error = assert_refused(job, EPS_UNATTAINABLE, "/delta");
        assert_non_null(strstr(error.message, "leaves every phase's in [1e-9, 1e9]"));
    }
}

TEST(what_nobody_derived_is_refused)
{
    struct eps_phase phases[] = {poisson(10, 0.1, 1, 1), poisson(20, 0.1, 1, 1)};
    struct eps_job job = training_of(phases, 2, NAN, 1e-6, 1);
    job.query.accountant.method = EPS_ACCOUNTANT_MONTE_CARLO;
    refused(&job, EPS_UNSUPPORTED, "/phases/0/accountant/method",
            "or name pld, renyi, mmcc or gaussian; quadrature serves the scheme balls_in_bins; conditional_comp");
    job = training_of(phases, 2, NAN, 1e-6, 1);
    job.query.accountant.audit = 100;
    refused(&job, EPS_INVALID, "/accountant/audit", "phases");
    job = training_of(phases, 2, NAN, 1e-6, 1);
    phases[1].noise_scale = 0;
    refused(&job, EPS_INVALID, "/phases/1/noise_scale", "[1e-6, 1e6]");
    phases[1] = poisson(20, 0.1, 1, 0);
    refused(&job, EPS_INVALID, "/phases/1/count", "at least 1");
    phases[1] = poisson(0, 0.1, 1, 1);
    refused(&job, EPS_INVALID, "/phases/1/n", "steps");
    phases[1] = poisson(EPS_LARGEST, 0.1, 1, 1);
    refused(&job, EPS_INVALID, "/phases/1/n", "count");
    phases[0].count = phases[1].count = EPS_LARGEST;
    phases[1] = poisson(20, 0.1, 1, EPS_LARGEST);
    job.query.epsilon = 1;
    refused(&job, EPS_INVALID, "/phases", "one phase");
    phases[0].count = 1;
    job.query.epsilon = NAN;
    refused(&job, EPS_INVALID, "/phases", "all of");
    phases[1] = poisson(20, 0.1, 1, 1);
    job.mechanism.n = 10;
    refused(&job, EPS_INVALID, "/phases", "replaces n");
    job = training_of(phases, 2, NAN, 1e-6, 1);
    job.query.accountant.method = EPS_ACCOUNTANT_MMCC;
    phases[1] = bins(20, 10, false, 1);
    refused(&job, EPS_UNSUPPORTED, "/phases/1/sampling/scheme", "phase 1");
    struct eps_job largest;
    eps_job_init(&largest);
    largest.mechanism.n = EPS_LARGEST;
    largest.mechanism.sampling.scheme = EPS_SCHEME_NONE;
    largest.query.epsilon = largest.query.delta = 1e-3;
    largest.query.noise_multiplier = 1;
    refused(&largest, EPS_INVALID, "/n", "poisson");
}

/* A user's examples are the job's matter: k in every phase. */
TEST(groups_of_examples_compose)
{
    struct eps_phase two[] = {poisson(30, 0.02, 1, 1), poisson(70, 0.02, 1, 1)};
    struct eps_job single, apart = training_of(two, 2, NAN, 1e-6, 2);
    apart.mechanism.sampling.examples_per_user = 3;
    eps_job_init(&single);
    single.mechanism = two[0].mechanism;
    single.mechanism.n = 100;
    single.mechanism.sampling.examples_per_user = 3;
    single.query = apart.query;
    struct eps_result *a = solved(NULL, single), *b = solved(NULL, apart);
    assert_agree(a, b, 1.1e-3);
    eps_result_destroy(a);
    eps_result_destroy(b);
}

/* What is spent by a step is what a job that ends there answers; the last point is the answer. */
TEST(spending_is_that_of_what_was_run)
{
    struct eps_phase phases[] = {poisson(100, 0.02, 1, 2), unsampled(50, 6, 2)}, until[] = {phases[0], phases[0]};
    struct eps_job job = training_of(phases, 2, NAN, 1e-6, 1);
    struct eps_spend_point *points = NULL;
    struct eps_error error = {0};
    size_t len, ends = 0;
    eps_job_defaults(&job);
    assert_int_equal(eps_spend(NULL, &points, &len, &error, &job, 1, 1e-6), EPS_OK);
    struct eps_result *whole = solved(NULL, job);
    assert_true(len > 100 && points[len - 1].step == 300);
    assert_true(fabs(points[len - 1].epsilon - whole->epsilon) <= 1e-2 * whole->epsilon);
    assert_true(points[len - 1].epsilon >= whole->bracket_lower);
    for (size_t i = 0; i < len; i++) {
        assert_true(i == 0 ||
                    (points[i].step > points[i - 1].step && points[i].epsilon >= points[i - 1].epsilon * 0.99));
        assert_true(points[i].step <= 200 || points[i].step == 250 || points[i].step == 300); /* a run is one release */
        ends += points[i].step == 200;
        if (i % 40 != 7 || points[i].step >= 200)
            continue;
        until[0].count = points[i].step > 100 ? 1 : 0;
        until[1].count = 1;
        until[1].mechanism.n = points[i].step - 100 * until[0].count;
        struct eps_job partly = training_of(until + (until[0].count == 0), 1 + until[0].count, NAN, 1e-6, 1);
        struct eps_result *result = solved(NULL, partly);
        assert_true(points[i].epsilon >= result->bracket_lower && points[i].epsilon <= result->epsilon * 1.01 + 1e-6);
        eps_result_destroy(result);
    }
    assert_int_equal(ends, 1);
    free(points);
    eps_result_destroy(whole);
}

/* The epsilon that a reader takes for a step: that of the first point that is not before it. */
static double spent_by(const struct eps_spend_point *points, size_t len, uint64_t step)
{
    for (size_t i = 0; i < len; i++)
        if (points[i].step >= step)
            return points[i].epsilon;
    fail_msg("no point from step %llu on", (unsigned long long)step);
    return NAN;
}

/* On a straight line between the points, from nothing at step 0. */
static double on_the_line(const struct eps_spend_point *points, size_t len, uint64_t step)
{
    struct eps_spend_point before = {0, 0};
    for (size_t i = 0; i < len && points[i].step < step; i++)
        before = points[i];
    double share = 0, after = spent_by(points, len, step);
    for (size_t i = 0; i < len; i++)
        if (points[i].step >= step) {
            share = (double)(step - before.step) / (double)(points[i].step - before.step);
            break;
        }
    return before.epsilon + share * (after - before.epsilon);
}

/* At every step of the short phases, against the job of the training up to there. lines_fail: whether a straight
 * line falls below it somewhere. */
static void assert_no_step_costs_more(struct eps_phase *phases, size_t len, double sigma, bool lines_fail)
{
    struct eps_phase until[4];
    struct eps_job job = training_of(phases, len, NAN, 1e-6, sigma);
    struct eps_spend_point *points = NULL;
    struct eps_error error = {0};
    size_t points_len, below = 0;
    uint64_t first = 0;
    eps_job_defaults(&job);
    assert_int_equal(eps_spend(NULL, &points, &points_len, &error, &job, sigma, 1e-6), EPS_OK);
    for (size_t i = 0; i < len; i++) {
        memcpy(until, phases, (i + 1) * sizeof *until);
        for (size_t steps = 1; phases[i].mechanism.n < 50 && steps <= phases[i].mechanism.n; steps++) {
            until[i].mechanism.n = steps;
            if (phases[i].mechanism.matrix.coefficients_len > steps)
                until[i].mechanism.matrix.coefficients_len = steps;
            else
                until[i].mechanism.matrix.coefficients_len = phases[i].mechanism.matrix.coefficients_len;
            struct eps_job partly = training_of(until, i + 1, NAN, 1e-6, sigma);
            struct eps_result *result = solved(NULL, partly);
            if (spent_by(points, points_len, first + steps) < result->bracket_lower)
                fail_msg("step %llu: %.9g, and it is %.9g", (unsigned long long)(first + steps),
                         spent_by(points, points_len, first + steps), result->epsilon);
            below += on_the_line(points, points_len, first + steps) < result->bracket_lower;
            eps_result_destroy(result);
        }
        first += phases[i].mechanism.n * phases[i].count;
    }
    assert_true(!lines_fail || below > 0);
    free(points);
}

/* Whatever stands between two points has spent no more than the later one: in phases of correlated noise, in which
 * there is no point, and in those of which only the last iterate is released, where epsilon may fall with the
 * number of steps. */
TEST(what_is_spent_between_is_bounded_by_what_follows)
{
    static double column[] = {1, 0.5, 0.375};
    struct eps_phase phases[] = {poisson(8, 0.1, 1, 1), poisson(9, 0.05, 1, 1), poisson(9, NAN, 1, 1)};
    for (size_t i = 1; i < 3; i++) {
        phases[i].mechanism.matrix.family = EPS_FAMILY_TOEPLITZ;
        phases[i].mechanism.matrix.coefficients = column;
        phases[i].mechanism.matrix.coefficients_len = 3;
    }
    phases[1].mechanism.sampling.scheme = EPS_SCHEME_CYCLIC_POISSON;
    phases[1].mechanism.sampling.groups = 3;
    phases[2].mechanism.sampling.scheme = EPS_SCHEME_NONE;
    phases[2].mechanism.sampling.separation = 3;
    phases[2].mechanism.sampling.epochs = 1;
    assert_no_step_costs_more(phases, 3, 1, true);
    for (size_t beside = 100; beside <= 10000;
         beside *= 100) { /* points that are near each other, and none but at the end */
        struct eps_phase last[] = {unsampled(beside, 1e3, 1), poisson(20, 0.01, 1, 1), poisson(3, 0.01, 1, 1)};
        last[1].mechanism.sampling.last_iterate = true;
        assert_no_step_costs_more(last, 3, 0.3, false);
    }
}

static bool never(void *user)
{
    (void)user;
    return false;
}

/* Between runs that are known by their profiles there is a point, and each is what the training up to there answers. */
TEST(runs_of_b_min_sep_are_spent_one_by_one)
{
    struct eps_phase phases[] = {poisson(8, 0.05, 1, 3), poisson(5, 0.05, 1, 1)};
    phases[0].mechanism.matrix.family = EPS_FAMILY_SQUARE_ROOT;
    phases[0].mechanism.matrix.bands = 2;
    phases[0].mechanism.sampling.scheme = EPS_SCHEME_B_MIN_SEP;
    phases[0].mechanism.sampling.separation = 2;
    const struct eps_context context = {.canceled = never};
    struct eps_job job = training_of(phases, 2, NAN, 1e-6, 1);
    struct eps_spend_point *points = NULL;
    struct eps_error error = {0};
    size_t len;
    job.query.accountant.max_order = 3;
    eps_job_defaults(&job);
    assert_int_equal(eps_spend(&context, &points, &len, &error, &job, 1, 1e-6), EPS_OK);
    assert_int_equal(len, 3 + 5);
    for (size_t i = 0; i < len; i++)
        assert_int_equal(points[i].step, i < 3 ? 8 * (i + 1) : 24 + i - 2);
    phases[0].count = 2;
    struct eps_job partly = training_of(phases, 1, NAN, 1e-6, 1);
    partly.query.accountant.max_order = 3;
    struct eps_result *result = solved(NULL, partly);
    assert_true(points[1].epsilon >= result->bracket_lower && points[1].epsilon <= result->epsilon * 1.01);
    assert_true(points[0].epsilon < points[1].epsilon && points[1].epsilon < points[2].epsilon);
    eps_result_destroy(result);
    free(points);
}

/* The curve of a training runs through its answers. */
TEST(the_curve_is_that_of_the_whole)
{
    struct eps_phase phases[] = {poisson(200, 0.02, 1, 1), unsampled(5, 6, 2)};
    struct eps_job job = training_of(phases, 2, NAN, NAN, 1), at;
    job.query.curve = true;
    struct eps_result *curve = solved(NULL, job);
    assert_int_equal(curve->curve_len, 201);
    for (size_t i = 20; i < 201; i += 60) {
        const struct eps_curve_point *point = &curve->curve[i];
        at = training_of(phases, 2, point->epsilon, NAN, 1);
        struct eps_result *result = solved(NULL, at);
        assert_true(point->lower <= result->bracket_upper && result->bracket_lower <= point->delta);
        assert_true(point->delta <= result->delta * 1.01);
        eps_result_destroy(result);
    }
    eps_result_destroy(curve);
}
