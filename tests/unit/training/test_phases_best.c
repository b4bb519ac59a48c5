/*
 * Trainings whose phases use the best accountants with profiles: compared with the sum of the phases' costs alone; what
 * the result says about the phases; how small delta may be; and the work for a curve.
 *
 * SPDX-License-Identifier: GPL-3.0-or-later
 */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "lib/epsilon.h"
#include "tests/unit/solved.h"
#include "tests/unit/test.h"
#include "tests/unit/trainings.h"

static struct eps_phase banded(struct eps_phase phase, size_t bands)
{
    phase.mechanism.matrix.family = EPS_FAMILY_SQUARE_ROOT;
    phase.mechanism.matrix.bands = bands;
    return phase;
}

static struct eps_phase apart(size_t n, double p, size_t separation)
{
    struct eps_phase phase = phase_of(n, EPS_SCHEME_B_MIN_SEP);
    phase.mechanism.sampling.p = p;
    phase.mechanism.sampling.separation = separation;
    return phase;
}

/* Few orders, as many take long. */
static struct eps_job with_few_orders(struct eps_job job, double tolerance)
{
    job.query.accountant.max_order = 12;
    job.query.accountant.tolerance = tolerance;
    return job;
}

/* ------------------------------------------------------------ the parts */

/* At most the sum of the phases' epsilons at half of delta each (basic composition), and at least the larger of the two
 * at delta. The figures of a phase are those of a job with that phase alone. */
TEST(phases_cost_no_more_than_their_parts)
{
    struct eps_phase trainings[][2] = {
        {banded(apart(60, 0.02, 4), 4), poisson_phase(60, 0.02)},
        {banded(poisson_phase(5, 0.02), 3), poisson_phase(60, 0.02)},
        {banded(bins_phase(4, 2), 2), poisson_phase(60, 0.02)},
    };
    const double delta = 1e-4, sigma = 1.2, tolerances[] = {1e-3, 1e-3, 1e-2}; /* bins take long */
    for (size_t i = 0; i < sizeof trainings / sizeof *trainings; i++) {
        struct eps_result *result =
            solved(NULL, with_few_orders(training_of(trainings[i], 2, NAN, delta, sigma), tolerances[i]));
        double parts = 0, larger = 0;
        for (size_t k = 0; k < 2; k++) {
            struct eps_job alone = with_few_orders(training_of(&trainings[i][k], 1, NAN, delta, sigma), tolerances[i]);
            struct eps_result *own = solved(NULL, alone);
            alone.query.delta = delta / 2;
            struct eps_result *half = solved(NULL, alone);
            parts += half->epsilon;
            larger = fmax(larger, own->epsilon);
            for (enum eps_direction d = 0; d < EPS_DIRECTIONS; d++) {
                assert_int_equal(result->phases[k].alone->directions[d].accountant, own->directions[d].accountant);
                assert_true(result->phases[k].alone->directions[d].value == own->directions[d].value);
            }
            eps_result_destroy(own);
            eps_result_destroy(half);
        }
        if (!(result->epsilon <= parts && result->epsilon >= larger * (1 - 2 * tolerances[i])))
            fail_msg("training %zu: %g, its parts %g, the larger one %g", i, result->epsilon, parts, larger);
        for (size_t k = 0; k < result->hints_len; k++)
            assert_null(strstr(result->hints[k], "monte_carlo")); /* which phases refuse */
        eps_result_destroy(result);
    }
}

/* BandMF, then DP-SGD: epsilon was 30.27 where only gaussian composed b_min_sep. */
TEST(bandmf_and_then_dp_sgd)
{
    struct eps_phase phases[] = {phase_of(500, EPS_SCHEME_B_MIN_SEP), phase_of(500, EPS_SCHEME_POISSON)};
    for (size_t k = 0; k < 2; k++) {
        phases[k].mechanism.sampling.batch_size = 256;
        phases[k].mechanism.sampling.dataset_size = 20000;
    }
    phases[0].mechanism.matrix.family = EPS_FAMILY_BANDED;
    phases[0].mechanism.matrix.bands = 16;
    struct eps_job job = training_of(phases, 2, NAN, 1e-5, 1.2);
    job.query.accountant.tolerance = 1e-2;
    struct eps_result *result = solved(NULL, job);
    assert_true(result->epsilon > 5.42 && result->epsilon < 5.644 + 1.264);
    assert_true(result->epsilon < 5.7); /* and far less than their sum */
    assert_int_equal(result->phases[0].composed[EPS_REMOVE], EPS_ACCOUNTANT_RENYI);
    assert_int_equal(result->phases[1].composed[EPS_REMOVE], EPS_ACCOUNTANT_PLD);
    eps_result_destroy(result);
}

/* The assumptions of the composed accountant are listed exactly once; also for a curve, which answers no phase
 * alone. */
TEST(what_is_composed_is_assumed)
{
    struct eps_phase phases[] = {banded(bins_phase(8, 4), 2), poisson_phase(24, 0.05)};
    const enum eps_accountant methods[] = {EPS_ACCOUNTANT_RENYI, EPS_ACCOUNTANT_CONDITIONAL_COMPOSITION,
                                           EPS_ACCOUNTANT_AUTO, EPS_ACCOUNTANT_RENYI};
    for (size_t i = 0; i < 4; i++) {
        struct eps_job job = training_of(phases, i == 1 ? 1 : 2, NAN, i == 3 ? NAN : 1e-3, 2);
        job.query.curve = i == 3;
        phases[0].count = i == 1 ? 2 : 1;
        job.query.accountant.method = methods[i];
        job.query.accountant.tolerance = 1e-2;
        job.query.accountant.max_order = i == 1 ? 0 : 8;
        struct eps_result *result = solved(NULL, job);
        size_t said = 0;
        for (size_t k = 0; k < result->assumptions_len; k++)
            said += strstr(result->assumptions[k], "released in causal order") != NULL;
        assert_int_equal(said, 1);
        eps_result_destroy(result);
    }
}

/* ------------------------------------------------------------ what steps leave out */

/* The bound on what steps may leave out is no lower bound on delta. */
TEST(small_deltas_are_found)
{
    struct eps_phase phases[] = {poisson_phase(12, 0.05), bins_phase(8, 4)};
    struct eps_job job = training_of(phases, 2, 9, NAN, 1.5), alone = training_of(&phases[1], 1, 9, NAN, 1.5);
    job.query.accountant.tolerance = alone.query.accountant.tolerance = 1e-2;
    struct eps_result *whole = solved(NULL, job), *larger = solved(NULL, alone);
    assert_true(whole->delta < 1e-16 && whole->delta > 0.9 * larger->delta && whole->delta < 1e9 * larger->delta);
    eps_result_destroy(whole);
    eps_result_destroy(larger);
}

/* ------------------------------------------------------------ a curve */

/* Work is measured by the number of polls. */
static bool count(void *user)
{
    ++*(size_t *)user;
    return false;
}

/* A curve of 201 points in two directions takes at most six times the polls of a job: the phases' points are kept, and
 * a composition serves many points. */
TEST(a_curve_is_the_work_of_a_few_jobs)
{
    struct eps_phase phases[] = {poisson_phase(12, 0.05), banded(bins_phase(4, 2), 2)};
    struct eps_job job = training_of(phases, 2, NAN, 1e-4, 1.5);
    job.query.accountant.tolerance = 1e-2;
    size_t of_job = 0, of_curve = 0, len;
    struct eps_context counting = {.user = &of_job, .canceled = count};
    struct eps_curve_point *points;
    struct eps_error error = {0};
    struct eps_result *result = solved(&counting, job);
    counting.user = &of_curve;
    assert_int_equal(eps_privacy_curve(&counting, &points, &len, &error, &job, 1.5), EPS_OK);
    assert_int_equal(len, 201);
    assert_true(points[200].delta < 1e-15 && points[200].epsilon < 40);
    if (!(of_curve < 6 * of_job))
        fail_msg("a job asks %zu times, a curve %zu times", of_job, of_curve);
    size_t after = 0;
    while (points[after].epsilon < result->epsilon)
        after++;
    assert_true(points[after - 1].delta >= result->delta * 0.98 && points[after].lower <= result->delta);
    eps_result_destroy(result);
    free(points);
}
