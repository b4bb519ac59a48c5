/*
 * The figures of the papers that one Gaussian, Poisson sampling and the last iterate answer for: MEMF (Choquette-Choo
 * et al. 2023, "Multi-epoch matrix factorization mechanisms"), table 3, and MMCC (Choquette-Choo et al. 2024, "Privacy
 * amplification for matrix mechanisms"), section 5. Where a paper prints a looser bound than the mechanism's, the
 * tight value is asked for and the printed one must lie above it.
 *
 * SPDX-License-Identifier: GPL-3.0-or-later
 */
#include <math.h>
#include <stdlib.h>

#include "lib/epsilon.h"
#include "tests/unit/solved.h"
#include "tests/unit/test.h"

struct figure {
    const char *source;
    size_t n;
    double p, sigma, epsilon, digit; /* p 0: no sampling; the value and half a unit of its last digit */
    double printed;                  /* NAN: the same */
};

static const struct figure single[] = {
    {"MEMF table 3, 0.341", 1, 0, 0.341, 17.648, 5e-4, NAN},
    {"MEMF table 3, 0.600", 1, 0, 0.600, 8.841, 5e-4, NAN},
    {"MEMF table 3, 2.231", 1, 0, 2.231, 2.000, 6e-4, NAN}, /* sigma is printed to three digits */
};

static const struct figure composed[] = {
    {"q = 1/128, 128 steps", 128, 1.0 / 128, 1, 0.806, 5e-4, NAN},
    {"MEMF table 3, q = 1000/342477, 0.402", 2052, 1000.0 / 342477, 0.402, 17.627, 5e-4, 17.648},
    {"MEMF table 3, q = 1000/342477, 0.491", 2052, 1000.0 / 342477, 0.491, 8.747, 5e-4, 8.824},
    {"MEMF table 3, q = 1000/342477, 0.757", 2052, 1000.0 / 342477, 0.757, 1.898, 5e-4, 2.000},
    {"MEMF table 3, full batch, 15.518", 2052, 1, 15.518, 17.546, 5e-4, 17.648},
    {"MEMF table 3, full batch, 27.493", 2052, 1, 27.493, 8.721, 5e-4, 8.824},
    {"MEMF table 3, full batch, 106.023", 2052, 1, 106.023, 1.897, 5e-4, 2.000},
};

static struct eps_result *solve(const struct figure *figure, enum eps_accountant method, bool last_iterate)
{
    struct eps_job job;
    eps_job_init(&job);
    job.mechanism.n = figure->n;
    job.mechanism.sampling.scheme = figure->p > 0 ? EPS_SCHEME_POISSON : EPS_SCHEME_NONE;
    job.mechanism.sampling.p = figure->p > 0 ? figure->p : NAN;
    job.mechanism.sampling.last_iterate = last_iterate;
    job.query.noise_multiplier = figure->sigma;
    job.query.delta = 1e-6;
    job.query.accountant.method = method;
    job.query.accountant.tolerance = 1e-5;
    return solved(NULL, job);
}

/* The bracket contains a number that rounds to the figure. */
static void assert_figure(const char *what, double lower, double upper, double figure, double digit)
{
    print_message("# %s: %.6f, expected %g\n", what, upper, figure);
    if (!(lower <= figure + digit && upper >= figure - digit && upper - lower <= 1e-5 * upper))
        fail_msg("%s: [%.9g, %.9g] is not %g", what, lower, upper, figure);
}

static void check(const struct figure *figures, size_t len, enum eps_accountant method)
{
    for (size_t i = 0; i < len; i++) {
        struct eps_result *result = solve(&figures[i], method, false);
        assert_figure(figures[i].source, result->bracket_lower, result->bracket_upper, figures[i].epsilon,
                      figures[i].digit);
        assert_true(isnan(figures[i].printed) || result->bracket_upper <= figures[i].printed);
        eps_result_destroy(result);
    }
}

TEST(one_gaussian)
{
    check(single, sizeof single / sizeof *single, EPS_ACCOUNTANT_GAUSSIAN);
    check(single, sizeof single / sizeof *single, EPS_ACCOUNTANT_PLD);
    check(single, sizeof single / sizeof *single, EPS_ACCOUNTANT_AUTO);
}

TEST(poisson_sampling)
{
    check(composed, sizeof composed / sizeof *composed, EPS_ACCOUNTANT_PLD);
}

/* MMCC prints 0.291, for the add direction alone; remove is worse. */
TEST(the_last_iterate)
{
    const struct figure figure = {"MMCC last iterate, n = 128, p = 1/128", 128, 1.0 / 128, 1, 0.41994, 5e-6, NAN};
    struct eps_result *result = solve(&figure, EPS_ACCOUNTANT_PLD, true);
    assert_figure(figure.source, result->bracket_lower, result->bracket_upper, figure.epsilon, figure.digit);
    assert_true(fabs(result->directions[EPS_REMOVE].value - 0.41994) < 5e-6 + 1e-5 * 0.42);
    assert_true(fabs(result->directions[EPS_ADD].value - 0.29083) < 5e-6 + 1e-5 * 0.30);
    eps_result_destroy(result);
}

/* dp_accounting's "pessimistic" epsilon is 25.852 here, which is too low. */
TEST(full_batches_in_the_far_tail)
{
    struct eps_result *result = solved(NULL, job_of("{'n':2052,'sampling':{'scheme':'poisson','p':1},"
                                                    "'noise_multiplier':15.518,'delta':1e-14,'accountant':'pld'}"));
    assert_true(result->bracket_lower <= 26.1045 && result->bracket_upper >= 26.1035);
    assert_true(result->bracket_upper - result->bracket_lower <= 1e-3 * result->bracket_upper);
    eps_result_destroy(result);
}
