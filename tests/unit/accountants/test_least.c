/*
 * What an answer says of the exact value: that it is inside the bracket (bracket_exact), and what it is at least.
 *
 * SPDX-License-Identifier: GPL-3.0-or-later
 */
#include <math.h>
#include <stddef.h>
#include <stdlib.h>

#include "lib/epsilon.h"
#include "tests/unit/test.h"

/* Six steps of square_root with 3 bands in 3 bins at noise 1: of delta 1e-5 the exact epsilon is 5.5495, by enumeration of the bins
 * and quadrature. */
#define TRUE_EPSILON 5.5495
#define TRUE_ROUNDING 1e-4

static struct eps_job new_job(enum eps_scheme scheme, size_t n, size_t bands)
{
    struct eps_job job;
    eps_job_init(&job);
    job.mechanism.n = n;
    job.mechanism.sampling.scheme = scheme;
    job.mechanism.sampling.p = scheme == EPS_SCHEME_NONE || scheme == EPS_SCHEME_BALLS_IN_BINS ? NAN : 0.1;
    job.mechanism.sampling.bins = scheme == EPS_SCHEME_BALLS_IN_BINS ? 3 : 0;
    if (bands > 1) {
        job.mechanism.matrix.family = EPS_FAMILY_SQUARE_ROOT;
        job.mechanism.matrix.bands = bands;
    }
    job.query.noise_multiplier = 1;
    job.query.delta = 1e-5;
    return job;
}

static struct eps_result *solve_within(const struct eps_context *context, struct eps_job job)
{
    struct eps_result *result = NULL;
    struct eps_error error = {0};
    eps_job_defaults(&job);
    if (eps_solve(context, &result, &error, &job) != EPS_OK)
        fail_msg("%s: %s", error.pointer, error.message);
    return result;
}

static bool is_exact(const struct eps_job *job)
{
    struct eps_result *result = solve_within(NULL, *job);
    bool exact = result->bracket_exact;
    assert_true(!exact || result->least == result->bracket_lower);
    assert_true(!(result->least > result->bracket_upper));
    eps_result_destroy(result);
    return exact;
}

TEST(what_is_exact_is_said)
{
    struct eps_job job = new_job(EPS_SCHEME_NONE, 6, 3);
    assert_true(is_exact(&job));
    job = new_job(EPS_SCHEME_POISSON, 6, 1);
    assert_true(is_exact(&job));
    job.query.accountant.method = EPS_ACCOUNTANT_RENYI;
    assert_false(is_exact(&job));
    job.query.accountant.method = EPS_ACCOUNTANT_GAUSSIAN;
    assert_false(is_exact(&job));
    job.query.accountant.method = EPS_ACCOUNTANT_AUTO;
    job.mechanism.adjacency = EPS_ADJACENCY_REPLACE_ONE;
    assert_false(is_exact(&job));
    job.mechanism.adjacency = EPS_ADJACENCY_ADD_REMOVE;
    assert_true(is_exact(&job));
    job.mechanism.sampling.truncation = true;
    job.mechanism.sampling.max_batch_size = 60;
    job.mechanism.sampling.dataset_size = 500;
    assert_false(is_exact(&job));
    job = new_job(EPS_SCHEME_POISSON, 6, 2);
    assert_false(is_exact(&job));
    job = new_job(EPS_SCHEME_CYCLIC_POISSON, 7, 3);
    assert_true(is_exact(&job));
    job = new_job(EPS_SCHEME_BALLS_IN_BINS, 6, 1);
    assert_true(is_exact(&job));
    job.mechanism.sampling.redraw = true;
    assert_false(is_exact(&job));
    job = new_job(EPS_SCHEME_BALLS_IN_BINS, 6, 2);
    assert_false(is_exact(&job));
    job = new_job(EPS_SCHEME_BALLS_IN_BINS, 16, 2);
    job.mechanism.sampling.bins = 8;
    job.query.accountant.method = EPS_ACCOUNTANT_PLD; /* classes of bins */
    assert_false(is_exact(&job));
    job = new_job(EPS_SCHEME_B_MIN_SEP, 6, 2);
    assert_false(is_exact(&job));
    job = new_job(EPS_SCHEME_B_MIN_SEP, 6, 1);
    job.mechanism.sampling.separation = 1; /* Poisson sampling */
    assert_true(is_exact(&job));
    job.mechanism.n = 1;
    job.mechanism.sampling.separation = 3;
    job.mechanism.sampling.warm_start = true; /* a coin whose probability is a quotient, raised */
    assert_false(is_exact(&job));
    struct eps_result *result = solve_within(NULL, job);
    assert_true(result->accountant == EPS_ACCOUNTANT_PLD && isnan(result->least));
    eps_result_destroy(result);
}

/* Two Gaussians and two steps have the exact value by themselves: a bracket that says so holds it. */
TEST(an_exact_bracket_holds_the_truth)
{
    struct eps_job job = new_job(EPS_SCHEME_NONE, 6, 3);
    job.query.delta = NAN;
    job.query.epsilon = 1;
    struct eps_result *result = solve_within(NULL, job);
    double truth = 0.5 * erfc((1 - 0.5) / M_SQRT2) - exp(1) * 0.5 * erfc((1 + 0.5) / M_SQRT2);
    assert_true(result->bracket_exact);
    assert_true(result->bracket_lower <= truth * (1 + 1e-12) && truth <= result->bracket_upper * (1 + 1e-12));
    eps_result_destroy(result);
}

TEST(the_least_is_under_the_truth)
{
    struct eps_job job = new_job(EPS_SCHEME_BALLS_IN_BINS, 6, 3);
    struct eps_result *result = solve_within(NULL, job);
    assert_false(result->bracket_exact);
    assert_true(result->bracket_lower > TRUE_EPSILON + TRUE_ROUNDING); /* which is why it is said */
    assert_true(result->least > 0.95 * TRUE_EPSILON && result->least <= TRUE_EPSILON + TRUE_ROUNDING);
    eps_result_destroy(result);
    job.query.delta = NAN;
    job.query.epsilon = TRUE_EPSILON - TRUE_ROUNDING; /* a little less: delta is a little more than 1e-5 */
    result = solve_within(NULL, job);
    assert_true(result->least > 1e-6 && result->least <= 1.001e-5 && result->least <= result->delta);
    eps_result_destroy(result);
    job.query.delta = 1e-5;
    job.query.noise_multiplier = NAN;
    result = solve_within(NULL, job);
    assert_true(result->least > 0.95 && result->least <= 1.0001);
    eps_result_destroy(result);
}

/* Draws that see more than the test does raise it. */
TEST(an_audit_is_counted)
{
    struct eps_job job = new_job(EPS_SCHEME_B_MIN_SEP, 6, 2);
    job.query.delta = 1e-2;
    struct eps_result *result = solve_within(NULL, job);
    assert_true(isnan(result->least));
    eps_result_destroy(result);
    job.query.accountant.audit = 100000;
    job.query.accountant.seed = 7;
    result = solve_within(NULL, job);
    assert_true(result->least == fmax(result->audit[EPS_REMOVE].lower, result->audit[EPS_ADD].lower));
    assert_true(result->least > 0 && result->least <= result->epsilon && !result->bracket_exact);
    eps_result_destroy(result);
}

/* What is about another value, or of several phases, claims neither. */
TEST(what_is_not_known_is_not_said)
{
    struct eps_job largest = new_job(EPS_SCHEME_POISSON, EPS_LARGEST, 1), training,
                   one = new_job(EPS_SCHEME_POISSON, 6, 1);
    largest.query.epsilon = 2;
    struct eps_result *result = solve_within(NULL, largest);
    assert_true(result->largest > 0 && !result->bracket_exact && isnan(result->least));
    eps_result_destroy(result);
    struct eps_phase phases[2];
    for (size_t len = 1; len <= 2; len++) {
        eps_job_init(&training);
        for (size_t i = 0; i < len; i++) {
            eps_phase_init(&phases[i]);
            phases[i].mechanism = one.mechanism;
            phases[i].noise_scale = 1 + (double)i;
        }
        phases[0].count = len; /* of the two the first one is run twice */
        training.phases = phases;
        training.phases_len = len;
        training.query = one.query;
        result = solve_within(NULL, training);
        assert_true(result->bracket_exact == (len == 1) && isnan(result->least) == (len == 2));
        for (size_t i = 0; i < len; i++)
            assert_true(result->phases[i].alone->bracket_exact == (phases[i].count == 1));
        eps_result_destroy(result);
    }
    one.query.curve = true;
    one.query.delta = NAN;
    result = solve_within(NULL, one);
    assert_true(!result->bracket_exact && isnan(result->least));
    eps_result_destroy(result);
}
