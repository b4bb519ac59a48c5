/*
 * Samplings that coincide with plainer ones in special cases: the same law, by enumeration from their definitions, and
 * the same answers; and samplings that do not, which are left unchanged.
 *
 * SPDX-License-Identifier: GPL-3.0-or-later
 */
#include <math.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "api/codec/codec.h"
#include "lib/sampling/sampling.h"
#include "tests/unit/solved.h"
#include "tests/unit/test.h"

enum { STEPS_MAX = 6, PATTERNS = 1 << STEPS_MAX };

static struct eps_mechanism mechanism_of(size_t n, double p, size_t separation, bool warm)
{
    struct eps_job job;
    eps_job_init(&job);
    job.mechanism.n = n;
    job.mechanism.sampling.scheme = EPS_SCHEME_B_MIN_SEP;
    job.mechanism.sampling.p = p;
    job.mechanism.sampling.separation = separation;
    job.mechanism.sampling.warm_start = warm;
    return job.mechanism;
}

/* ------------------------------------------------------------ laws, by definition */

/* An example that sits out `out` more steps at step i: BMS, algorithm 1. */
static void walk(double *law, const struct eps_mechanism *mechanism, size_t i, size_t out, unsigned pattern,
                 double mass)
{
    double p = mechanism->sampling.p;
    if (i == mechanism->n) {
        law[pattern] += mass;
    } else if (out > 0) {
        walk(law, mechanism, i + 1, out - 1, pattern, mass);
    } else {
        walk(law, mechanism, i + 1, mechanism->sampling.separation - 1, pattern | 1u << i, mass * p);
        walk(law, mechanism, i + 1, 0, pattern, mass * (1 - p));
    }
}

/* The law of all patterns of one example's steps. From a warm start: the limit law of the steps that it sits out, found
 * by running the chain. */
static void b_min_sep_law(double *law, const struct eps_mechanism *mechanism)
{
    const struct eps_sampling *sampling = &mechanism->sampling;
    double state[STEPS_MAX + 1] = {1}; /* by the number of steps that it still sits out */
    memset(law, 0, PATTERNS * sizeof *law);
    for (int step = 0; sampling->warm_start && step < 20000; step++) {
        double next[STEPS_MAX + 1] = {0};
        for (size_t out = 0; out < sampling->separation; out++)
            if (out > 0) {
                next[out - 1] += state[out];
            } else {
                next[sampling->separation - 1] += state[0] * sampling->p;
                next[0] += state[0] * (1 - sampling->p);
            }
        for (size_t out = 0; out < sampling->separation; out++) /* lazily, so that periodic chains converge */
            state[out] = 0.5 * (state[out] + next[out]);
    }
    for (size_t out = 0; out < sampling->separation; out++)
        walk(law, mechanism, 0, out, 0, state[out]);
}

static void plain_law(double *law, const struct eps_sampling *sampling, size_t n)
{
    memset(law, 0, PATTERNS * sizeof *law);
    if (sampling->scheme == EPS_SCHEME_BALLS_IN_BINS) {
        assert_false(sampling->redraw);
        assert_int_equal(n % sampling->bins, 0);
        for (size_t bin = 0; bin < sampling->bins; bin++) {
            unsigned pattern = 0;
            for (size_t i = bin; i < n; i += sampling->bins)
                pattern |= 1u << i;
            law[pattern] += 1 / (double)sampling->bins;
        }
        return;
    }
    assert_int_equal(sampling->scheme, EPS_SCHEME_POISSON);
    for (unsigned pattern = 0; pattern < 1u << n; pattern++) {
        law[pattern] = 1;
        for (size_t i = 0; i < n; i++)
            law[pattern] *= pattern >> i & 1 ? sampling->p : 1 - sampling->p;
    }
}

TEST(laws_are_the_same)
{
    static const double ps[] = {1e-3, 0.1, 0.5, 0.9, 1};
    size_t reduced = 0;
    for (size_t n = 1; n <= STEPS_MAX; n++)
        for (size_t separation = 1; separation <= STEPS_MAX; separation++)
            for (size_t k = 0; k < sizeof ps / sizeof *ps; k++)
                for (int warm = 0; warm < 2; warm++) {
                    struct eps_mechanism mechanism = mechanism_of(n, ps[k], separation, warm);
                    struct eps_sampling plainer;
                    double asked[PATTERNS], plain[PATTERNS];
                    bool expected = separation == 1 || n == 1 || (warm && ps[k] == 1 && n % separation == 0);
                    assert_int_equal(eps__sampling_plainer(&plainer, &mechanism), expected);
                    if (!expected)
                        continue;
                    reduced++;
                    b_min_sep_law(asked, &mechanism);
                    plain_law(plain, &plainer, n);
                    for (unsigned pattern = 0; pattern < 1u << n; pattern++)
                        if (!(fabs(asked[pattern] - plain[pattern]) <= 1e-12))
                            fail_msg("n %zu p %g separation %zu warm %d: pattern %u has %.15g, not %.15g", n, ps[k],
                                     separation, warm, pattern, plain[pattern], asked[pattern]);
                }
    assert_true(reduced > 80);
}

/* p/(1 + (separation - 1) p) is rounded up: compared with 64 bits of it, and never above p. */
TEST(a_first_step_is_drawn_no_less_often)
{
    static const double ps[] = {5e-324, 1e-300, 1e-20, 1e-9, 0.1, 1.0 / 3, 0.7, 1};
    for (size_t k = 0; k < sizeof ps / sizeof *ps; k++)
        for (size_t separation = 2; separation < SIZE_MAX / 3; separation = separation * 3 + 1) {
            struct eps_mechanism mechanism = mechanism_of(1, ps[k], separation, true);
            struct eps_sampling plainer;
            assert_true(eps__sampling_plainer(&plainer, &mechanism));
            long double exact = ps[k] / (1 + (long double)(separation - 1) * ps[k]);
            assert_true(plainer.p >= exact && plainer.p <= ps[k]);
            assert_true(ps[k] < 1e-290 || plainer.p <= exact * (1 + 0x1p-48L));
        }
}

/* ------------------------------------------------------------ what is kept, and what is left out */

TEST(what_is_said_beside_the_scheme_stays)
{
    struct eps_sampling plainer;
    struct eps_mechanism mechanism = mechanism_of(3, 0.1, 1, false);
    mechanism.sampling.examples_per_user = 4;
    assert_true(eps__sampling_plainer(&plainer, &mechanism));
    assert_true(plainer.scheme == EPS_SCHEME_POISSON && plainer.examples_per_user == 4 && plainer.p == 0.1);
    assert_true(!plainer.truncation && !plainer.last_iterate && plainer.separation == 0);

    mechanism = mechanism_of(3, NAN, 1, true);
    mechanism.sampling.batch_size = 7;
    mechanism.sampling.dataset_size = 100;
    mechanism.sampling.truncation = true;
    mechanism.sampling.max_batch_size = 12;
    assert_true(eps__sampling_plainer(&plainer, &mechanism));
    assert_true(plainer.truncation && plainer.max_batch_size == 12 && plainer.dataset_size == 100 && plainer.p == 0.07);

    mechanism = mechanism_of(8, 0.1, 0, true);
    mechanism.sampling.scheme = EPS_SCHEME_CYCLIC_POISSON;
    mechanism.sampling.groups = 1;
    assert_true(eps__sampling_plainer(&plainer, &mechanism) && plainer.scheme == EPS_SCHEME_POISSON);
    mechanism.sampling.groups = 2;
    assert_false(eps__sampling_plainer(&plainer, &mechanism));
}

/* How often others fill a batch has to be known exactly, and truncated batches of bins are not analysed. */
TEST(truncated_batches_are_not_rounded)
{
    struct eps_sampling plainer;
    struct eps_mechanism first = mechanism_of(1, 0.1, 3, true), certain = mechanism_of(6, 1, 3, true);
    assert_true(eps__sampling_plainer(&plainer, &first) && eps__sampling_plainer(&plainer, &certain));
    struct eps_mechanism *truncated[] = {&first, &certain};
    for (int i = 0; i < 2; i++) {
        truncated[i]->sampling.truncation = true;
        truncated[i]->sampling.dataset_size = 100;
        truncated[i]->sampling.max_batch_size = 20;
        assert_false(eps__sampling_plainer(&plainer, truncated[i]));
    }
    first.sampling.warm_start = false;
    assert_true(eps__sampling_plainer(&plainer, &first) && plainer.p == 0.1 && plainer.truncation);
}

/* ------------------------------------------------------------ answers */

/* ln delta(eps) in direction remove of one step: N(1, sigma^2) with probability p, else N(0, sigma^2), against N(0,
 * sigma^2). */
static double one_step(double p, double sigma, double eps)
{
    double threshold = log1p(expm1(eps) / p), z = sigma * threshold - 0.5 / sigma;
    return p * (0.5 * erfc(z * M_SQRT1_2) - exp(threshold) * 0.5 * erfc((z + 1 / sigma) * M_SQRT1_2));
}

/* The same two deltas under either name of the sampling. */
TEST(answers_are_those_of_the_plainer_sampling)
{
    static const char *const pairs[][2] = {
        {"'scheme':'b_min_sep','p':0.01,'separation':1", "'scheme':'poisson','p':0.01"},
        {"'scheme':'b_min_sep','p':0.01,'separation':1,'warm_start':false,'examples_per_user':3",
         "'scheme':'poisson','p':0.01,'examples_per_user':3"},
        {"'scheme':'b_min_sep','batch_size':10,'dataset_size':1000,'separation':1,"
         "'truncation':{'max_batch_size':15}",
         "'scheme':'poisson','batch_size':10,'dataset_size':1000,'truncation':{'max_batch_size':15}"},
        {"'scheme':'cyclic_poisson','p':0.01,'groups':1", "'scheme':'poisson','p':0.01"},
        {"'scheme':'b_min_sep','p':1,'separation':10", "'scheme':'balls_in_bins','bins':10"},
    };
    for (size_t i = 0; i < sizeof pairs / sizeof *pairs; i++) {
        struct eps_result *results[2];
        for (int k = 0; k < 2; k++) {
            results[k] =
                solved(NULL, job_of("{'n':40,'sampling':{%s},'noise_multiplier':0.8,'epsilon':1}", pairs[i][k]));
        }
        for (int d = 0; d < EPS_DIRECTIONS; d++)
            if (results[0]->directions[d].value != results[1]->directions[d].value)
                fail_msg("%s, direction %d: %.17g, not %.17g", pairs[i][0], d, results[0]->directions[d].value,
                         results[1]->directions[d].value);
        assert_int_equal(results[0]->accountant, results[1]->accountant);
        eps_result_destroy(results[0]);
        eps_result_destroy(results[1]);
    }
}

TEST(steps_that_need_not_wait_are_poisson)
{
    struct eps_result *result =
        solved(NULL, job_of("{'n':1000,'sampling':{'scheme':'b_min_sep','p':0.01,'separation':1},"
                            "'noise_multiplier':0.8,'epsilon':1}"));
    assert_true(result->delta > 0.0241 && result->delta < 0.0243); /* and not 0.214 */
    /* The result shows the sampling as it was requested. */
    bool told = false;
    for (size_t i = 0; i < result->assumptions_len; i++)
        told |= strstr(result->assumptions[i], "except in the 0 steps after") != NULL;
    assert_true(told && result->p == 0.01);
    eps_result_destroy(result);

    for (int warm = 0; warm < 2; warm++) {
        result =
            solved(NULL, job_of("{'n':1,'sampling':{'scheme':'b_min_sep','p':0.01,'separation':100,'warm_start':%s},"
                                "'noise_multiplier':0.8,'epsilon':1}",
                                warm ? "true" : "false"));
        double truth = one_step(warm ? 0.01 / 1.99 : 0.01, 0.8, 1);
        if (!(result->delta >= truth * (1 - 1e-12) && result->delta <= 1.001 * truth))
            fail_msg("warm start %d: %.17g, the truth is %.17g", warm, result->delta, truth);
        assert_true(result->p == 0.01);
        eps_result_destroy(result);
    }
}

/* Its probability is not rounded: the bracket is as narrow, and as exact, as under the plainer name. */
TEST(one_step_without_a_wait_is_as_exact)
{
    static const char *const samplings[] = {
        "'scheme':'poisson','p':1e-9",
        "'scheme':'b_min_sep','p':1e-9,'separation':1,'warm_start':true",
        "'scheme':'b_min_sep','p':1e-9,'separation':5,'warm_start':false",
        "'scheme':'cyclic_poisson','p':1e-9,'groups':1",
    };
    static const char *const accountants[] = {"auto", "renyi"};
    for (size_t a = 0; a < sizeof accountants / sizeof *accountants; a++) {
        struct eps_result *first = NULL;
        for (size_t i = 0; i < sizeof samplings / sizeof *samplings; i++) {
            struct eps_result *result =
                solved(NULL, job_of("{'n':1,'sampling':{%s},'accountant':'%s','epsilon':0,'delta':3.829e-10}",
                                    samplings[i], accountants[a]));
            if (i == 0) {
                first = result;
                assert_int_equal(result->bracket_exact, a == 0);
                continue;
            }
            assert_true(result->noise_multiplier == first->noise_multiplier && result->least == first->least &&
                        result->bracket_lower == first->bracket_lower && result->bracket_exact == first->bracket_exact);
            eps_result_destroy(result);
        }
        eps_result_destroy(first);
    }
}

/* An accountant that does not serve the plainer sampling gets the original one, if it is named; so do audits. */
TEST(who_serves_the_scheme_alone_still_serves_it)
{
    struct eps_result *result = solved(
        NULL, job_of("{'n':6,'matrix':{'family':'square_root'},'sampling':{'scheme':'b_min_sep','p':0.1,"
                     "'separation':1,'warm_start':false,'examples_per_user':2},'noise_multiplier':1,'delta':0.01,"
                     "'accountant':{'method':'monte_carlo','samples':4096}}"));
    eps_result_destroy(result);
    result = solved(NULL, job_of("{'n':6,'sampling':{'scheme':'b_min_sep','p':0.1,'separation':1,'warm_start':false,"
                                 "'examples_per_user':2},'noise_multiplier':1,'delta':0.01,'accountant':'renyi'}"));
    assert_int_equal(result->accountant, EPS_ACCOUNTANT_RENYI);
    eps_result_destroy(result);
    result =
        solved(NULL, job_of("{'n':6,'sampling':{'scheme':'b_min_sep','p':0.1,'separation':1,'warm_start':false,"
                            "'examples_per_user':2},'noise_multiplier':1,'epsilon':1,'accountant':{'method':'auto',"
                            "'audit':20000}}"));
    assert_int_equal(result->accountant, EPS_ACCOUNTANT_PLD);
    assert_true(result->audit[EPS_REMOVE].lower > 0 && result->audit[EPS_REMOVE].lower <= result->delta);
    eps_result_destroy(result);
}

/* Phases, curves and plans use the plainer sampling, too. */
TEST(parts_of_a_training_are_plainer)
{
    double deltas[2];
    for (int k = 0; k < 2; k++) {
        const char *sampling = k ? "'scheme':'poisson','p':0.01" : "'scheme':'b_min_sep','p':0.01,'separation':1";
        struct eps_result *result = solved(
            NULL, job_of("{'phases':[{'n':40,'sampling':{%s}},{'n':20,'sampling':{'scheme':'poisson','p':0.02}}],"
                         "'noise_multiplier':0.8,'epsilon':1}",
                         sampling));
        deltas[k] = result->delta;
        eps_result_destroy(result);
    }
    assert_true(deltas[0] == deltas[1]);
}

/* A variance of 1e-18 beside 1 was lost where there is much noise, and no noise multiplier was found. */
TEST(small_probabilities_have_a_noise)
{
    static const char *const samplings[] = {"'scheme':'b_min_sep','p':1e-9,'separation':1,'warm_start':true",
                                            "'scheme':'poisson','p':1e-9"};
    for (int k = 0; k < 2; k++) {
        struct eps_result *result = solved(
            NULL, job_of("{'n':1,'sampling':{%s},'accountant':'renyi','epsilon':0,'delta':3.829e-10}", samplings[k]));
        /* p (2 Phi(1/(2 sigma)) - 1) is 3.829e-10 at 1.0001, and Scarf's p sqrt(e^{1/sigma^2} - 1)/2 at 1.4721 */
        assert_true(result->noise_multiplier > 1 && result->noise_multiplier < 1.473);
        eps_result_destroy(result);
    }
}
