/*
 * What an answer claims about the exact value: that the bracket contains it (bracket_exact), and a lower bound on it.
 *
 * SPDX-License-Identifier: GPL-3.0-or-later
 */
#include <math.h>
#include <stddef.h>
#include <stdlib.h>

#include "lib/epsilon.h"
#include "tests/unit/solved.h"
#include "tests/unit/test.h"

/* Six steps of square_root with 3 bands in 3 bins at noise multiplier 1: for delta 1e-5 the exact epsilon is 5.5495, by
 * enumeration of the bins and quadrature. */
#define TRUE_EPSILON 5.5495
#define TRUE_ROUNDING 1e-4

/* For epsilon at delta 1e-5 and noise multiplier 1. */
static struct eps_job known_noise(const char *members)
{
    return job_of("{%s,'delta':1e-5,'noise_multiplier':1}", members);
}

#define BINS_OF_3 "'n':6,'matrix':{'family':'square_root','bands':3},'sampling':{'scheme':'balls_in_bins','bins':3}"
#define WITHOUT_SAMPLING "'n':6,'matrix':{'family':'square_root','bands':3},'sampling':{'scheme':'none'}"
#define POISSON "'n':6,'sampling':{'scheme':'poisson','p':0.1}"
#define B_MIN_SEP "'n':6,'matrix':{'family':'square_root','bands':2},'sampling':{'scheme':'b_min_sep','p':0.1}"

TEST(what_is_exact_is_said)
{
    static const struct {
        const char *members;
        bool exact;
    } cases[] = {
        {WITHOUT_SAMPLING, true},
        {POISSON, true},
        {POISSON ",'accountant':'renyi'", false},
        {POISSON ",'accountant':'gaussian'", false},
        {POISSON ",'adjacency':'replace_one'", false},
        {POISSON ",'adjacency':'add_remove'", true},
        {"'n':6,'adjacency':'add_remove','sampling':{'scheme':'poisson','p':0.1,'dataset_size':500,"
         "'truncation':{'max_batch_size':60}}",
         false},
        {POISSON ",'matrix':{'family':'square_root','bands':2}", false},
        {"'n':7,'matrix':{'family':'square_root','bands':3},'sampling':{'scheme':'cyclic_poisson','p':0.1}", true},
        {"'n':6,'sampling':{'scheme':'balls_in_bins','bins':3}", true},
        {"'n':6,'sampling':{'scheme':'balls_in_bins','bins':3,'redraw':true}", false},
        {"'n':6,'matrix':{'family':'square_root','bands':2},'sampling':{'scheme':'balls_in_bins','bins':3}", true},
        {"'n':6,'matrix':{'family':'square_root','bands':2},'sampling':{'scheme':'balls_in_bins','bins':3},"
         "'accountant':'renyi'",
         false},
        {"'n':16,'matrix':{'family':'square_root','bands':2},'sampling':{'scheme':'balls_in_bins','bins':8},"
         "'accountant':'pld'",
         false}, /* classes of bins */
        {B_MIN_SEP, false},
        {"'n':6,'sampling':{'scheme':'b_min_sep','p':0.1,'separation':1}", true}, /* Poisson sampling */
        {"'n':1,'sampling':{'scheme':'b_min_sep','p':0.1,'separation':3,'warm_start':true}",
         false}, /* a coin whose probability is a quotient, raised */
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct eps_result *result = solved(NULL, known_noise(cases[i].members));
        if (result->bracket_exact != cases[i].exact)
            fail_msg("%s", cases[i].members);
        assert_true(!result->bracket_exact || result->least == result->bracket_lower);
        assert_true(!(result->least > result->bracket_upper));
        if (i == sizeof cases / sizeof *cases - 1)
            assert_true(result->accountant == EPS_ACCOUNTANT_PLD && isnan(result->least));
        eps_result_destroy(result);
    }
}

/* For two Gaussians and for two steps the exact value is known: a bracket that claims to contain it does. */
TEST(an_exact_bracket_holds_the_truth)
{
    struct eps_result *result = solved(NULL, job_of("{" WITHOUT_SAMPLING ",'epsilon':1,'noise_multiplier':1}"));
    double truth = 0.5 * erfc((1 - 0.5) / M_SQRT2) - exp(1) * 0.5 * erfc((1 + 0.5) / M_SQRT2);
    assert_true(result->bracket_exact);
    assert_true(result->bracket_lower <= truth * (1 + 1e-12) && truth <= result->bracket_upper * (1 + 1e-12));
    eps_result_destroy(result);
}

TEST(the_least_is_under_the_truth)
{
    struct eps_job job = known_noise(BINS_OF_3);
    struct eps_result *result = solved(NULL, job);
    assert_true(result->bracket_exact);
    assert_true(result->bracket_lower <= TRUE_EPSILON + TRUE_ROUNDING);
    assert_true(result->bracket_upper >= TRUE_EPSILON - TRUE_ROUNDING);
    eps_result_destroy(result);
    job.query.accountant.method = EPS_ACCOUNTANT_RENYI;
    result = solved(NULL, job);
    assert_false(result->bracket_exact);
    assert_true(result->bracket_lower > TRUE_EPSILON + TRUE_ROUNDING); /* which is why it is said */
    assert_true(result->least > 0.95 * TRUE_EPSILON && result->least <= TRUE_EPSILON + TRUE_ROUNDING);
    eps_result_destroy(result);
    job.query.delta = NAN;
    job.query.epsilon = TRUE_EPSILON - TRUE_ROUNDING; /* a little less: delta is a little more than 1e-5 */
    result = solved(NULL, job);
    assert_true(result->least > 1e-6 && result->least <= 1.001e-5 && result->least <= result->delta);
    eps_result_destroy(result);
    job.query.delta = 1e-5;
    job.query.noise_multiplier = NAN;
    result = solved(NULL, job);
    assert_true(result->least > 0.95 && result->least <= 1.0001);
    eps_result_destroy(result);
}

/* Draws that show more than the test does raise it. */
TEST(an_audit_is_counted)
{
    struct eps_job job = known_noise(B_MIN_SEP);
    job.query.delta = 1e-2;
    struct eps_result *result = solved(NULL, job);
    assert_true(isnan(result->least));
    eps_result_destroy(result);
    job.query.accountant.audit = 100000;
    job.query.accountant.seed = 7;
    result = solved(NULL, job);
    assert_true(result->least == fmax(result->audit[EPS_REMOVE].lower, result->audit[EPS_ADD].lower));
    assert_true(result->least > 0 && result->least <= result->epsilon && !result->bracket_exact);
    eps_result_destroy(result);
}

/* An answer about another value, or of several phases, claims neither. */
TEST(what_is_not_known_is_not_said)
{
    struct eps_result *result =
        solved(NULL, job_of("{'n':'max','sampling':{'scheme':'poisson','p':0.1},'epsilon':2,'delta':1e-5,"
                            "'noise_multiplier':1}"));
    assert_true(result->largest > 0 && !result->bracket_exact && isnan(result->least));
    eps_result_destroy(result);
    static const char *const phases[] = {"{" POISSON "}", "{" POISSON ",'count':2},{" POISSON ",'noise_scale':2}"};
    for (size_t len = 1; len <= 2; len++) {
        result = solved(NULL, job_of("{'phases':[%s],'delta':1e-5,'noise_multiplier':1}", phases[len - 1]));
        assert_true(result->bracket_exact == (len == 1) && isnan(result->least) == (len == 2));
        for (size_t i = 0; i < len; i++)
            assert_true(result->phases[i].alone->bracket_exact == (result->phases[i].count == 1));
        eps_result_destroy(result);
    }
    result = solved(NULL, job_of("{" POISSON ",'curve':true,'noise_multiplier':1}"));
    assert_true(!result->bracket_exact && isnan(result->least));
    eps_result_destroy(result);
}
