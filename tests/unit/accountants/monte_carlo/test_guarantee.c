/*
 * The guarantees that samples give: failure probabilities compared with the exact ones of Bernoulli draws, and answers
 * compared with a scan.
 *
 * SPDX-License-Identifier: GPL-3.0-or-later
 */
#include <gsl/gsl_cdf.h>
#include <math.h>
#include <stdlib.h>

#include "lib/accountants/monte_carlo/guarantee.h"
#include "lib/epsilon.h"
#include "tests/unit/test.h"

/* Bernoulli draws are values in [0, 1]: every bound is above their exact tail, and not far above it. */
TEST(failures_are_those_of_bernoulli_draws)
{
    for (double samples = 10; samples <= 1e5; samples *= 10)
        for (double d = 0.5; d > 1 / samples; d /= 3)
            for (double share = 0; share < 1; share += 0.25) {
                double t = floor(share * d * samples) / samples;
                double exact = gsl_cdf_binomial_P((unsigned)(t * samples), d, (unsigned)samples);
                double own = eps__mc_log_failure(samples, t, d, 1), bound = exp(own);
                assert_true(bound >= exact * (1 - 1e-9));
                if (exact > 1e-300)
                    assert_true(bound <= exact * 20 * sqrt(samples * d + 1));
                /* values in [0, M] are Bernoulli draws, scaled */
                double scaled = eps__mc_log_failure(samples, 1e-3 * t, 1e-3 * d, 1e-3);
                assert_true(fabs(scaled - own) <= 1e-9 * (1 + fabs(scaled)));
            }
    assert_true(eps__mc_log_failure(1e6, 0.5, 0.5, 1) == 0 && eps__mc_log_failure(1e6, 0.5, 0.4, 1) == 0);
    /* so close that the order of their rounded quotients is uncertain */
    for (double most = 0.7; most > 1e-3; most *= 0.9) {
        double t = 0.3 * most;
        assert_true(eps__mc_log_failure(1e40, t, nextafter(t, 1), most) == 0);
    }
    /* where they are close both terms cancel */
    double near = eps__mc_log_failure(1e30, 1e-5, 1e-5 * (1 + 1e-9), 1);
    assert_true(near < -0.99 * 1e30 * 1e-5 * 1e-18 / 2 && near > -1.01 * 1e30 * 1e-5 * 1e-18 / 2);
}

TEST(the_guarantee_is_the_least)
{
    for (double samples = 1e2; samples <= 1e9; samples *= 10)
        for (double t = 0; t<1e-2; t = t> 0 ? 10 * t : 1e-7) {
            double failure, own = eps__mc_guarantee(samples, t, 1, &failure), least = 1;
            for (double d = t + 1e-12; d < 1; d += fmax(1e-3 * (d - t), 1e-12))
                least = fmin(least, d + exp(eps__mc_log_failure(samples, t, d, 1)) * (1 - d));
            assert_true(own >= t && own <= least * (1 + 1e-3) && own >= least * (1 - 1e-3));
            assert_true(failure >= 0 && failure <= own);
            /* more samples, and a lower threshold, guarantee more */
            assert_true(eps__mc_guarantee(2 * samples, t, 1, NULL) <= own);
            assert_true(eps__mc_guarantee(samples, 0.5 * t, 1, NULL) <= own * (1 + 1e-6));
        }
    assert_true(eps__mc_guarantee(1e6, 0.5, 0.5, NULL) == 0.5 && eps__mc_guarantee(0, 0, 0.25, NULL) == 0.25);
}

TEST(samples_are_as_many_as_needed)
{
    for (double delta = 1e-2; delta > 1e-9; delta /= 10)
        for (double most = 1; most >= 2 * delta && most > 1e-5; most /= 100) {
            const struct eps__mc_promise promise = {delta, NAN};
            double samples = (double)eps__mc_samples(&promise, delta / 2, most);
            assert_true(eps__mc_guarantee(samples, delta / 2, most, NULL) <= delta);
            assert_true(eps__mc_guarantee(0.99 * samples - 1, delta / 2, most, NULL) > delta);
        }
    assert_true(eps__mc_samples(&(struct eps__mc_promise){0.6, NAN}, 0.1, 0.5) == 0);
}

/* A candidate keeps the promise if its failure probability and the remaining delta add up to no more than delta, and in
 * nearly no other case. */
TEST(a_candidate_keeps_what_is_left)
{
    for (double delta = 1e-2; delta > 1e-9; delta /= 10)
        for (double share = 0.1; share < 1; share += 0.222)
            for (double most = 1; most >= 0.9 * delta; most /= 30) {
                const struct eps__mc_promise promise = {delta, eps__mc_left(delta, share)};
                assert_true(promise.left < delta && promise.left > share * delta &&
                            promise.left >= 0.98 * share * delta);
                double failure, threshold = share * delta, samples = (double)eps__mc_samples(&promise, threshold, most);
                assert_true(eps__mc_keeps(&promise, samples, threshold, most, &failure));
                double own =
                    most <= promise.left ? 0 : exp(eps__mc_log_failure(samples, threshold, promise.left, most));
                assert_true(failure >= own * (1 - 1e-12) && failure <= 1.0 / 64);
                assert_true(promise.left + failure * fmax(most / (1 - 1.0 / 16) - promise.left, 0) <= delta);
                if (samples > 100)
                    assert_false(eps__mc_keeps(&promise, 0.99 * samples - 1, threshold, most, NULL));
                double most_threshold = eps__mc_threshold(&promise, samples, most);
                assert_true(most_threshold >= threshold * (1 - 1e-8) && most_threshold <= promise.left);
                assert_false(eps__mc_keeps(&promise, samples, promise.left * (1 + 1e-9), most, NULL));
            }
    /* too few to keep it: no draws, one draw */
    assert_true(eps__mc_threshold(&(struct eps__mc_promise){1e-6, 9e-7}, 1, 1) < 0);
}

/* The worst ladder: all its candidates exceed the remaining delta by nothing, and cost the bound on their values. */
TEST(a_ladder_costs_no_more_than_delta)
{
    enum { CANDIDATES = 12 };
    for (double delta = 1e-2; delta > 1e-8; delta /= 100)
        for (double most = 1e-3; most >= delta; most /= 10)
            for (double growth = 1; growth <= EPS__MC_GROWTH; growth *= 2) {
                const struct eps__mc_promise promise = {delta, eps__mc_left(delta, 0.5)};
                double released = 0, reached = 1, value = most;
                for (int i = 0; i < CANDIDATES && value <= 1; i++, value *= growth) {
                    double failure, samples = (double)eps__mc_samples(&promise, delta / 2, value);
                    assert_true(eps__mc_keeps(&promise, samples, delta / 2, value, &failure));
                    /* until one fails, the candidate before it is used, at the cost of the remaining delta or of the
                     * bound on its values */
                    released += reached * (1 - failure) * (i == 0 ? promise.left : value / growth);
                    reached *= failure;
                }
                released += reached * value / growth;
                assert_true(released <= delta && released >= promise.left);
            }
}

/* The worst choice: of several ladders whose first candidate exceeds what is left, one that passes is always chosen,
 * and a proof of all of delta if none does. */
TEST(the_best_of_several_costs_no_more_than_delta)
{
    for (double delta = 1e-2; delta > 1e-280; delta *= 1e-7)
        for (double share = 1e-6; share < 1; share = 0.5 + share / 1.9)
            for (unsigned verified = 1; verified <= EPS_PLAN_VERIFIED_MOST; verified++) {
                double own = eps__mc_choice_delta(delta, verified), left = eps__mc_left(own, share);
                assert_true(own + verified * (own - left) <= delta && own > 0.95 * delta);
                double most = fmin(1, 4 * own), failed = 1, released = 0;
                const struct eps__mc_promise promise = {own, left};
                for (unsigned i = 0; i < verified && delta > 1e-12; i++) {
                    double failure, samples = (double)eps__mc_samples(&promise, own / 4, most);
                    assert_true(eps__mc_keeps(&promise, samples, own / 4, most, &failure));
                    released += failed * failure * most;
                    failed *= 1 - failure;
                }
                assert_true(released + failed * own <= delta);
            }
}

/* For Bernoulli draws the lower end is below the truth as often as claimed, by exact tails. */
TEST(what_the_truth_is_at_least)
{
    const double failures[] = {0.1, 1e-3, 1e-9};
    for (double samples = 50; samples <= 5e4; samples *= 10)
        for (double d = 0.7; d > 1 / samples; d /= 4)
            for (size_t f = 0; f < 3; f++) {
                double missed = 0; /* the least count whose lower end is above d */
                for (unsigned k = 0; k <= samples; k++)
                    if (eps__mc_least(samples, k / samples, failures[f]) > d) {
                        missed = gsl_cdf_binomial_Q(k, d, (unsigned)samples) +
                                 gsl_cdf_binomial_P(k, d, (unsigned)samples) -
                                 (k > 0 ? gsl_cdf_binomial_P(k - 1, d, (unsigned)samples) : 0);
                        break;
                    }
                assert_true(missed <= failures[f]);
            }
    double least = eps__mc_least(1e6, 1e-3, 1e-3);
    assert_true(least < 1e-3 && least > 0.85e-3 && eps__mc_least(0, 0.5, 1e-3) == 0 &&
                eps__mc_least(1e6, 0, 1e-3) == 0);
}
