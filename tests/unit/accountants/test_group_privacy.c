/*
 * replace_one as two steps: compared with a scan over all splits of bounds for zero_out, and with the exact
 * pair where that is known.
 *
 * SPDX-License-Identifier: GPL-3.0-or-later
 */
#include <math.h>
#include <string.h>

#include "tests/unit/solved.h"
#include "tests/unit/test.h"

static const struct {
    const char *mechanism, *accountants[2];
    double sigma;
} cases[] = {
    {"'n':24,'sampling':{'scheme':'poisson','p':0.05}", {"pld"}, 1},
    {"'n':24,'sampling':{'scheme':'poisson','p':0.05,'examples_per_user':2}", {"pld"}, 2},
    {"'n':24,'matrix':{'family':'square_root','bands':3},'sampling':{'scheme':'poisson','p':0.05}", {"renyi"}, 1.5},
    {"'n':8,'matrix':{'family':'tree'},'sampling':{'scheme':'poisson','p':0.1}", {"renyi"}, 2},
    {"'n':24,'matrix':{'family':'square_root','bands':4},'sampling':{'scheme':'b_min_sep','p':0.1}", {"renyi"}, 2},
    {"'n':9,'matrix':{'family':'square_root'},'sampling':{'scheme':'balls_in_bins','bins':3}", {"pld", "renyi"}, 3},
    {"'n':24,'matrix':{'family':'toeplitz','coefficients':[1,0.3]},'sampling':{'scheme':'balls_in_bins','bins':6}",
     {"pld", "renyi"},
     2},
};

enum { CASES = sizeof cases / sizeof *cases, SPLITS_MOST = 64 };

static struct eps_job job_for(size_t c, const char *adjacency, const char *accountant)
{
    return job_of(
        "{%s,'epsilon':1,'noise_multiplier':1,'adjacency':'%s','accountant':{'method':'%s','tolerance':1e-2}}",
        cases[c].mechanism, adjacency, accountant);
}

/* The least bounds for zero_out. */
static void apart(double found[EPS_DIRECTIONS], size_t c, double eps)
{
    found[EPS_REMOVE] = found[EPS_ADD] = INFINITY;
    for (size_t i = 0; i < 2 && cases[c].accountants[i]; i++) {
        double own[EPS_DIRECTIONS];
        solved_deltas(own, job_for(c, "zero_out", cases[c].accountants[i]), cases[c].sigma, eps);
        for (enum eps_direction d = 0; d < EPS_DIRECTIONS; d++)
            found[d] = fmin(found[d], own[d]);
    }
}

/* (A55) Between two splits of a scan, the first term is at least that of the larger split, the second that of the
 * smaller one. */
TEST(it_is_the_least_over_all_splits)
{
    const double eps = 1.5;
    for (size_t c = 0; c < CASES; c += 4) {
        const size_t splits = c == 0 ? SPLITS_MOST : SPLITS_MOST / 4; /* the first is quick */
        double found[EPS_DIRECTIONS], deltas[SPLITS_MOST + 1][EPS_DIRECTIONS], most = INFINITY, least = INFINITY;
        solved_deltas(found, job_for(c, "replace_one", "group_privacy"), cases[c].sigma, eps);
        for (size_t k = 0; k <= splits; k++)
            apart(deltas[k], c, eps * (double)k / (double)splits);
        for (size_t k = 0; k <= splits; k++) {
            double added = exp(eps * (double)k / (double)splits) * deltas[splits - k][EPS_ADD];
            most = fmin(most, deltas[k][EPS_REMOVE] + added);
            least = fmin(least, added + (k < splits ? deltas[k + 1][EPS_REMOVE] : 0));
        }
        for (enum eps_direction d = 0; d < EPS_DIRECTIONS; d++)
            if (!(found[d] >= least * (1 - 2e-2) && found[d] <= most * 1.05))
                fail_msg("case %zu: %.8g, of a scan %.8g to %.8g", c, found[d], least, most);
    }
}

TEST(it_is_never_below_the_exact_pair)
{
    for (size_t c = 0; c < 2; c++)
        for (double eps = 0; eps <= 6; eps += 1.5) {
            double found[EPS_DIRECTIONS], exact[EPS_DIRECTIONS];
            solved_deltas(found, job_for(c, "replace_one", "group_privacy"), cases[c].sigma, eps);
            solved_deltas(exact, job_for(c, "replace_one", "pld"), cases[c].sigma, eps);
            for (enum eps_direction d = 0; d < EPS_DIRECTIONS; d++)
                assert_true(found[d] >= exact[d] * (1 - 2e-2) && (eps > 2 || found[d] <= 4 * exact[d]));
        }
}

/* Adding an example that may never be drawn in n steps has no loss above -n ln(1 - p) (S3): then delta is that of
 * removing alone, with what is left of epsilon. */
TEST(a_step_that_costs_nothing_counts_nothing)
{
    static const struct {
        int n;
        double p, eps;
    } trials[] = {{2, 0.1, 3}, {64, 0.05, 21.6}};
    static const char form[] = "{'n':%d,'sampling':{'scheme':'poisson','p':%g},'epsilon':1,'noise_multiplier':1,"
                               "'adjacency':'%s','accountant':'%s'}";
    for (size_t i = 0; i < sizeof trials / sizeof *trials; i++) {
        const int n = trials[i].n;
        const double p = trials[i].p, rest = -n * log1p(-p) * (1 + 1e-9);
        double found[EPS_DIRECTIONS], removed[EPS_DIRECTIONS], added[EPS_DIRECTIONS];
        solved_deltas(found, job_of(form, n, p, "replace_one", "group_privacy"), 0.5, trials[i].eps);
        solved_deltas(removed, job_of(form, n, p, "zero_out", "pld"), 0.5, trials[i].eps - rest);
        solved_deltas(added, job_of(form, n, p, "zero_out", "pld"), 0.5, rest);
        assert_true(added[EPS_ADD] < 1e-200);
        for (enum eps_direction d = 0; d < EPS_DIRECTIONS; d++)
            assert_true(found[d] > 0 && found[d] <= removed[EPS_REMOVE] * 1.01);
    }
}

TEST(directions_are_alike)
{
    for (size_t c = 0; c < CASES; c += 3) {
        struct eps_job job = job_for(c, "replace_one", "group_privacy");
        job.query.epsilon = NAN;
        job.query.delta = 1e-4;
        job.query.noise_multiplier = cases[c].sigma;
        struct answer found = answered(job);
        assert_true(found.of[EPS_REMOVE] == found.of[EPS_ADD] && found.value == found.of[EPS_ADD]);
        assert_true(found.lower <= found.value && found.lower >= found.value * (1 - 0.05));
    }
}

TEST(nothing_is_split_at_epsilon_0)
{
    for (size_t c = 0; c < CASES; c++) {
        double found[EPS_DIRECTIONS], parts[EPS_DIRECTIONS];
        solved_deltas(found, job_for(c, "replace_one", "group_privacy"), cases[c].sigma, 0);
        apart(parts, c, 0);
        double sum = fmin(parts[EPS_REMOVE] + parts[EPS_ADD], 1);
        assert_true(found[EPS_REMOVE] >= sum * (1 - 2e-2) && found[EPS_REMOVE] <= sum * (1 + 2e-2));
    }
}

/* `auto` took the Gaussian of the doubled sensitivity: 38.9, 15.7 and 2,654. */
TEST(what_is_replaced_is_amplified)
{
    static const char *const samplings[] = {"'scheme':'b_min_sep','p':0.01", "'scheme':'balls_in_bins','bins':64",
                                            "'scheme':'poisson','p':0.01"};
    static const double most[] = {2.97, 7.45, 4.33}, least[] = {1.47 + 1.28, 3.73 + 3.04, 2.2 + 1.83};
    for (size_t i = 0; i < 3; i++) {
        struct eps_result *result =
            solved(NULL, job_of("{'n':1024,'matrix':{'family':'square_root','bands':16},'sampling':{%s},"
                                "'adjacency':'replace_one','noise_multiplier':3,'delta':1e-6}",
                                samplings[i]));
        bool said = false;
        for (size_t k = 0; k < result->assumptions_len; k++)
            said |= strstr(result->assumptions[k], "removing it and then adding") != NULL;
        assert_true(said && result->directions[EPS_REMOVE].accountant == EPS_ACCOUNTANT_GROUP_PRIVACY);
        if (!(result->epsilon <= most[i] && result->epsilon >= least[i]))
            fail_msg("%s: %g", samplings[i], result->epsilon);
        eps_result_destroy(result);
    }
}

TEST(noise_that_is_found_gives_the_epsilon)
{
    for (size_t c = 0; c < CASES; c += 5) {
        struct eps_job job = job_for(c, "replace_one", "group_privacy");
        job.query.noise_multiplier = NAN;
        job.query.epsilon = 2;
        job.query.delta = 1e-5;
        double sigma = answered(job).value;
        job.query.epsilon = NAN;
        job.query.noise_multiplier = sigma;
        double eps = answered(job).value;
        assert_true(eps <= 2 * (1 + 1e-2) && eps >= 2 * (1 - 5e-2));
    }
}

TEST(what_it_does_not_serve_is_said)
{
    assert_declined(job_for(0, "zero_out", "group_privacy"), "/adjacency");
    assert_declined(job_for(0, "add_remove", "group_privacy"), "/adjacency");
    assert_declined(job_of("{'n':4,'sampling':{'scheme':'none'},'epsilon':1,'noise_multiplier':1,"
                           "'adjacency':'replace_one','accountant':'group_privacy'}"),
                    "/sampling/scheme");
    assert_declined(job_of("{'n':4,'sampling':{'scheme':'poisson','p':1},'epsilon':1,'noise_multiplier':1,"
                           "'adjacency':'replace_one','accountant':'group_privacy'}"),
                    "/sampling");
    assert_declined(job_of("{'n':4,'matrix':{'family':'toeplitz','coefficients':[1,-0.5]},'epsilon':1,"
                           "'sampling':{'scheme':'poisson','p':0.1},'noise_multiplier':1,"
                           "'adjacency':'replace_one','accountant':'group_privacy'}"),
                    "/sampling");
}
