/*
 * Truncated batches under b-min-sep sampling by renyi: never below the result of draws of the truncated mechanism, and
 * close to the answer for whole batches where few batches are cut.
 *
 * SPDX-License-Identifier: GPL-3.0-or-later
 */
#include <math.h>
#include <stdint.h>
#include <stdlib.h>

#include "lib/epsilon.h"
#include "tests/unit/draw.h"
#include "tests/unit/solved.h"
#include "tests/unit/test.h"

/* Batches of at most `most` of this number of examples. */
static struct eps_job cut_job(size_t n, size_t bands, double p, uint64_t examples, uint64_t most, bool warm)
{
    return job_of("{'n':%zu,'matrix':{'family':'square_root','bands':%zu},'sampling':{'scheme':'b_min_sep','p':%.17g,"
                  "'warm_start':%s,'dataset_size':%ju,'truncation':{'max_batch_size':%ju}},'accountant':'renyi',"
                  "'noise_multiplier':1,'epsilon':1}",
                  n, bands, p, warm ? "true" : "false", (uintmax_t)examples, (uintmax_t)most);
}

/* The result of draws of the truncated mechanism: their mean and its standard error. */
static void by_draws(double mean[EPS_DIRECTIONS], double error[EPS_DIRECTIONS], struct eps_job job, double sigma,
                     double eps)
{
    job.query.noise_multiplier = sigma;
    job.query.epsilon = eps;
    job.query.accountant.method = EPS_ACCOUNTANT_MONTE_CARLO;
    job.query.accountant.samples = 1 << 16;
    struct eps_result *result = solved(NULL, job);
    for (enum eps_direction d = 0; d < EPS_DIRECTIONS; d++) {
        mean[d] = result->draws[d].estimate;
        error[d] = result->draws[d].samples > 0 ? result->draws[d].standard_error : NAN;
    }
    eps_result_destroy(result);
}

TEST(cut_batches_are_over_the_truth)
{
    /* n, bands, p, examples, at most, sigma, eps; in the first two the steps that are cut decide everything */
    const double jobs[][7] = {{4, 1, 0.02, 40, 3, 0.33, 11},
                              {6, 2, 0.02, 60, 4, 0.4, 12},
                              {8, 2, 0.1, 20, 6, 0.8, 3},
                              {5, 3, 0.2, 10, 6, 1.2, 1},
                              {6, 2, 0.3, 4, 2, 2, 0.3}};
    unsigned held = 0;
    for (size_t i = 0; i < sizeof jobs / sizeof *jobs; i++)
        for (int warm = 0; warm < 2; warm++) {
            double found[EPS_DIRECTIONS], mean[EPS_DIRECTIONS], error[EPS_DIRECTIONS], sigma = jobs[i][5],
                                                                                       eps = jobs[i][6];
            struct eps_job job = cut_job((size_t)jobs[i][0], (size_t)jobs[i][1], jobs[i][2], (uint64_t)jobs[i][3],
                                         (uint64_t)jobs[i][4], warm);
            solved_deltas(found, job, sigma, eps);
            by_draws(mean, error, job, sigma, eps);
            for (enum eps_direction d = 0; d < EPS_DIRECTIONS; d++)
                if (!isnan(error[d])) {
                    held++;
                    if (!(found[d] >= mean[d] - 4 * error[d]))
                        fail_msg("job %zu, %s: %g, and draws say %g with %g", i, eps_direction_name(d), found[d],
                                 mean[d], error[d]);
                }
        }
    assert_true(held >= 6);
}

TEST(what_is_seldom_cut_costs_little)
{
    for (int warm = 0; warm < 2; warm++) {
        double whole[EPS_DIRECTIONS], cut[EPS_DIRECTIONS], never[EPS_DIRECTIONS];
        struct eps_job job = cut_job(24, 3, 0.05, 100, 100, warm);
        solved_deltas(never, job, 0.9, 2);
        job.mechanism.sampling.truncation = false;
        job.mechanism.sampling.max_batch_size = 0;
        solved_deltas(whole, job, 0.9, 2);
        solved_deltas(cut, cut_job(24, 3, 0.05, 100, 22, warm), 0.9, 2);
        for (enum eps_direction d = 0; d < EPS_DIRECTIONS; d++) {
            assert_true(never[d] == whole[d]);
            assert_true(cut[d] < 1.001 * whole[d] + 1e-7);
        }
        assert_true(cut[EPS_REMOVE] > whole[EPS_REMOVE]);
    }
}

/* Pr[Bin(examples, p) >= most] by adding up. */
static double tail(unsigned examples, double p, unsigned most)
{
    double sum = 0;
    for (unsigned k = examples; k >= most && k > 0; k--)
        sum += exp(lgamma(examples + 1.0) - lgamma(k + 1.0) - lgamma(examples - k + 1.0) + k * log(p) +
                   (examples - k) * log1p(-p));
    return sum;
}

/* What cut batches cost is chi and the smaller of e^eps chi and psi (A46), with waits by a recursion of the test's. */
TEST(add_pays_for_cuts_at_any_epsilon)
{
    enum { N = 40, BANDS = 3, EXAMPLES = 100, MOST = 28 };
    const double p = 0.1;
    unsigned at_small = 0, at_large = 0;
    for (double eps = 0.1; eps < 8; eps *= 2) {
        double whole[EPS_DIRECTIONS], cut[EPS_DIRECTIONS], waits[N], chi = 0, filled = 0;
        struct eps_job job = cut_job(N, BANDS, p, EXAMPLES, EXAMPLES, false);
        solved_deltas(whole, job, 0.3, eps);
        solved_deltas(cut, cut_job(N, BANDS, p, EXAMPLES, MOST, false), 0.3, eps);
        for (int i = 0; i < N; i++) {
            waits[i] = i == 0 ? 1 : (1 - p) * waits[i - 1] + (i >= BANDS ? p * waits[i - BANDS] : 0);
            filled += tail(EXAMPLES - 1, p * waits[i], MOST);
            chi += tail(EXAMPLES - 1, p * waits[i], MOST) * p * waits[i];
        }
        double psi = filled * log2(1 + p * pow(1 - p, -BANDS)), more = fmin(exp(eps) * chi, psi);
        at_small += more < psi;
        at_large += more == psi;
        if (exp(eps) * pow(1 - p, N) < 1)
            assert_true(fabs(cut[EPS_ADD] - whole[EPS_ADD] - chi - more) < 1e-9 * (whole[EPS_ADD] + chi + more));
        else
            assert_true(fabs(cut[EPS_ADD] - chi) < 1e-9 * chi);
    }
    assert_true(at_small >= 2 && at_large >= 2);
}
