/*
 * Truncated batches and cyclic sampling: the binomial figures compared with quadruple precision, one step of a
 * truncated batch with the exact mixture of its two pairs, and results that can be computed in two ways.
 *
 * SPDX-License-Identifier: GPL-3.0-or-later
 */
#include <math.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "lib/epsilon.h"
#include "lib/numerics/binomial.h"
#include "lib/sampling/sampling.h"
#include "lib/sampling/truncation.h"
#include "tests/unit/draw.h"
#include "tests/unit/exact.h"
#include "tests/unit/solved.h"
#include "tests/unit/test.h"

/* Pr[first <= Binom(n, p) <= last], term by term. */
static __float128 exact_between(uint64_t n, double p, uint64_t first, uint64_t last)
{
    __float128 total = 0;
    for (uint64_t x = first; x <= last; x++)
        total += expq(lgammaq((__float128)n + 1) - lgammaq((__float128)x + 1) - lgammaq((__float128)(n - x) + 1) +
                      (__float128)x * logq(p) + (__float128)(n - x) * log1pq(-(__float128)p));
    return total;
}

static void assert_within(struct eps__interval found, __float128 exact, double relative)
{
    __float128 slack = exact * (__float128)1e-25; /* of the test's own sums */
    if (!((__float128)found.lower <= exact + slack && exact - slack <= (__float128)found.upper))
        fail_msg("%.17g not in [%.17g, %.17g]", (double)exact, found.lower, found.upper);
    assert_true(found.upper - found.lower <= relative * found.upper + 1e-290);
}

TEST(binomial_tails_lie_in_their_intervals)
{
    uint64_t state = 7;
    int checked = 0;
    for (int i = 0; i < 300; i++) {
        uint64_t n = 1 + draw_below(&state, i % 3 == 0 ? 2000 : 40), k = 1 + draw_below(&state, n);
        double p = i % 2 ? draw_unit(&state) * 0.98 + 0.01 : draw_log(&state, 1e-5, 0.5);
        __float128 above = exact_between(n, p, k, n), below = exact_between(n, p, 0, k - 1);
        if (above < (__float128)1e-280 || below < (__float128)1e-280)
            continue;
        checked++;
        assert_within(eps__binomial_at_least(n, p, k), above, 1e-10);
        assert_within(eps__binomial_at_most(n, p, k - 1), below, 1e-10);
    }
    assert_true(checked > 150);
    /* realistic sizes: compared with a sum in quadruple precision near the threshold */
    __float128 far = exact_between(57599, 1793.0 / 57600, 2048, 2700);
    assert_within(eps__binomial_at_least(57599, 1793.0 / 57600, 2048), far, 1e-9);
}

/* Pr[example in the batch | the others fill it], as a sum over the number of others drawn: if the example was drawn,
 * too, it is among the B of m + 1 with probability B/(m + 1). */
TEST(the_full_batch_takes_an_example_as_often_as_counting_says)
{
    uint64_t state = 11;
    for (int i = 0; i < 200; i++) {
        uint64_t dataset = 2 + draw_below(&state, 30), limit = 1 + draw_below(&state, dataset - 1);
        double p = 0.02 + 0.96 * draw_unit(&state);
        __float128 open = 0, full = 0, taken = 0;
        for (uint64_t m = 0; m < dataset; m++) {
            __float128 mass = exact_between(dataset - 1, p, m, m);
            if (m < limit)
                open += mass;
            else
                full += mass, taken += mass * p * limit / (m + 1);
        }
        struct eps__truncation t = eps__truncate(dataset, p, limit);
        assert_within(t.open, open, 1e-10);
        assert_within(t.full, full, 1e-10);
        assert_within(t.q, taken / full, 1e-9);
    }
    struct eps__truncation never = eps__truncate(100, 0.5, 100), always = eps__truncate(100, 1, 7);
    assert_true(never.open.lower == 1 && never.full.upper == 0);
    assert_true(always.open.upper == 0 && always.full.lower == 1 && always.q.lower <= 0.07 && always.q.upper >= 0.07);
}

/* the law of with * Bern(q) against that of -without * Bern(q), in units of sigma. */
static void coin_pair(struct draw_pair *drawn, double q, double with, double without, bool remove)
{
    double right = remove ? with : without, left = remove ? without : with;
    *drawn = (struct draw_pair){0};
    drawn->numerator_weight[0] = right > 0 ? 1 - q : 1;
    drawn->numerator_weight[1] = q;
    drawn->numerator_shift[1] = right;
    drawn->denominator_weight[0] = left > 0 ? 1 - q : 1;
    drawn->denominator_weight[1] = q;
    drawn->denominator_shift[1] = left;
    drawn->pair.numerator = (struct eps__mixture){
        .weight = drawn->numerator_weight, .shift = drawn->numerator_shift, .len = right > 0 ? 2 : 1};
    drawn->pair.denominator = (struct eps__mixture){
        .weight = drawn->denominator_weight, .shift = drawn->denominator_shift, .len = left > 0 ? 2 : 1};
}

static struct eps_job truncated_job(enum eps_adjacency adjacency, uint64_t dataset, double p, uint64_t limit)
{
    struct eps_job job;
    eps_job_init(&job);
    job.mechanism.n = 1;
    job.mechanism.adjacency = adjacency;
    job.mechanism.sampling.p = p;
    job.mechanism.sampling.dataset_size = dataset;
    job.mechanism.sampling.truncation = true;
    job.mechanism.sampling.max_batch_size = limit;
    job.query.accountant.method = EPS_ACCOUNTANT_PLD;
    return job;
}

/* The pairs of accounting.md, section 6, and, for a full batch that is drawn alike for both data sets, the pair with
 * the coin revealed: each gives a bound, evaluated in quadruple precision. */
static __float128 one_step(enum eps_adjacency adjacency, const struct eps__truncation *t, double p, double sigma,
                           double eps, bool remove)
{
    static const double without[EPS_ADJACENCY_COUNT][2] = {
        [EPS_ADJACENCY_ZERO_OUT] = {0, 1}, [EPS_ADJACENCY_ADD_REMOVE] = {0, 0}, [EPS_ADJACENCY_REPLACE_ONE] = {1, 2}};
    struct draw_pair open, full;
    coin_pair(&open, p, 1 / sigma, without[adjacency][0] / sigma, remove);
    coin_pair(&full, t->q.upper, 2 / sigma, without[adjacency][1] / sigma, remove);
    __float128 mixed = exact_delta(&full.pair, eps);
    __float128 shown = adjacency == EPS_ADJACENCY_ADD_REMOVE
                           ? mixed
                           : (__float128)t->q.upper * exact_gaussian_delta(without[adjacency][1] / sigma, eps);
    return t->open.upper * exact_delta(&open.pair, eps) + t->full.upper * (mixed < shown ? mixed : shown);
}

TEST(one_step_is_the_mixture_of_two_pairs)
{
    uint64_t state = 3;
    for (int i = 0; i < 36; i++) {
        enum eps_adjacency adjacency = (enum eps_adjacency)(i % EPS_ADJACENCY_COUNT);
        uint64_t dataset = 20 + draw_below(&state, 2000);
        double p = draw_log(&state, 0.01, 0.4), mean = (double)dataset * p;
        uint64_t limit = (uint64_t)fmin(fmax(mean + sqrt(mean) * draw_between(&state, -1, 5), 1), (double)dataset - 1);
        double sigma = draw_log(&state, 0.5, 4), eps = draw_between(&state, 0.01, 3 / sigma);
        struct eps_job job = truncated_job(adjacency, dataset, p, limit);
        job.query.noise_multiplier = sigma;
        job.query.epsilon = eps;
        struct eps_result *result = solved(NULL, job);
        struct eps__truncation t = eps__truncate(dataset, p, limit);
        for (enum eps_direction direction = 0; direction < EPS_DIRECTIONS; direction++) {
            double exact = (double)one_step(adjacency, &t, p, sigma, eps, direction == EPS_REMOVE);
            double found = result->directions[direction].value;
            assert_true(found >= exact * (1 - 1e-9) || found <= 1e-300);
            assert_true(found <= exact * (1 + 1.01e-3) + 1e-290);
        }
        double worst = fmax((double)one_step(adjacency, &t, p, sigma, eps, true),
                            (double)one_step(adjacency, &t, p, sigma, eps, false));
        assert_true(result->bracket_lower <= worst * (1 + 1e-9));
        eps_result_destroy(result);
    }
}

/* A limit that no batch exceeds has no effect; a batch that is always full has a fixed size. */
TEST(the_extremes_are_exact)
{
    for (int adjacency = 0; adjacency < EPS_ADJACENCY_COUNT; adjacency++) {
        struct eps_job limited = truncated_job((enum eps_adjacency)adjacency, 500, 0.03, 500), plain = limited;
        limited.mechanism.n = plain.mechanism.n = 40;
        limited.query.noise_multiplier = plain.query.noise_multiplier = 1.2;
        limited.query.delta = plain.query.delta = 1e-6;
        plain.mechanism.sampling.truncation = false;
        plain.mechanism.sampling.max_batch_size = 0;
        struct eps_result *a = solved(NULL, limited), *b = solved(NULL, plain);
        assert_true(a->epsilon == b->epsilon && a->bracket_lower == b->bracket_lower);
        eps_result_destroy(a);
        eps_result_destroy(b);
        struct eps_job fixed = truncated_job((enum eps_adjacency)adjacency, 500, 1, 25);
        fixed.query.noise_multiplier = 1.5;
        fixed.query.epsilon = 0.4;
        a = solved(NULL, fixed);
        const struct eps__truncation always = {.full = {1, 1}, .q = {0.05, 0.05}};
        double exact = (double)one_step((enum eps_adjacency)adjacency, &always, 1, 1.5, 0.4, true);
        assert_true(a->directions[EPS_REMOVE].value >= exact * (1 - 1e-9));
        assert_true(a->directions[EPS_REMOVE].value <= exact * (1 + 1.01e-3));
        eps_result_destroy(a);
        fixed.query.accountant.method = EPS_ACCOUNTANT_AUTO;
        a = solved(NULL, fixed);
        assert_int_equal(a->accountant, EPS_ACCOUNTANT_PLD);
        eps_result_destroy(a);
    }
}

/* With as many groups as bands the rounds of one example are subsampled Gaussians of its columns' norms, as in Poisson
 * sampling with a diagonal strategy of these norms, whichever part has the worst of them. */
TEST(cyclic_is_poisson_over_its_own_columns)
{
    static const double banded[] = {1, 0.6, 0.3};
    struct eps_job cyclic;
    eps_job_init(&cyclic);
    cyclic.mechanism.n = 30;
    cyclic.mechanism.matrix.family = EPS_FAMILY_TOEPLITZ;
    cyclic.mechanism.matrix.normalization = EPS_NORMALIZATION_NONE;
    cyclic.mechanism.matrix.coefficients = banded;
    cyclic.mechanism.matrix.coefficients_len = 3;
    cyclic.mechanism.sampling.scheme = EPS_SCHEME_CYCLIC_POISSON;
    cyclic.mechanism.sampling.p = 0.2;
    cyclic.mechanism.sampling.groups = 3;
    cyclic.query.noise_multiplier = 1.5;
    cyclic.query.delta = 1e-7;
    cyclic.query.accountant.method = EPS_ACCOUNTANT_PLD;
    struct eps_job rounds = cyclic;
    rounds.mechanism.n = 10;
    rounds.mechanism.matrix = (struct eps_matrix){.family = EPS_FAMILY_IDENTITY, .stamps = 1};
    rounds.mechanism.sampling = (struct eps_sampling){.scheme = EPS_SCHEME_POISSON, .p = 0.2, .examples_per_user = 1};
    rounds.query.noise_multiplier = 1.5 / sqrt(1 + 0.36 + 0.09);
    struct eps_result *a = solved(NULL, cyclic), *b = solved(NULL, rounds);
    assert_true(fabs(a->epsilon - b->epsilon) <= 1e-3 * b->epsilon);
    assert_true(a->bracket_lower <= b->epsilon && b->bracket_lower <= a->epsilon);
    eps_result_destroy(a);
    eps_result_destroy(b);

    /* A dense strategy whose third part has by far the longest columns: the worst part is not the first. */
    enum { N = 12 };
    static double rows[N * N];
    for (size_t i = 0; i < N; i++)
        rows[i * N + i] = i % 3 == 2 ? 2 : 1;
    cyclic.mechanism.n = N;
    cyclic.mechanism.matrix.family = EPS_FAMILY_DENSE;
    cyclic.mechanism.matrix.rows = rows;
    cyclic.mechanism.matrix.rows_n = N;
    cyclic.mechanism.matrix.coefficients = NULL;
    cyclic.mechanism.matrix.coefficients_len = 0;
    rounds.mechanism.n = N / 3;
    rounds.query.noise_multiplier = 1.5 / 2;
    a = solved(NULL, cyclic);
    b = solved(NULL, rounds);
    assert_true(fabs(a->epsilon - b->epsilon) <= 1e-3 * b->epsilon);
    eps_result_destroy(a);
    eps_result_destroy(b);
}

/* Few expected participations and a small delta: one large loss decides. By the union over the steps, delta is at least
 * that of one step, and at most n times it plus the effect of several participations, (n p)^2. */
TEST(rare_participations_are_bracketed)
{
    struct eps_job job;
    eps_job_init(&job);
    job.mechanism.n = 349;
    job.mechanism.sampling.p = 1.9752903e-4;
    job.query.noise_multiplier = 1.38088642;
    job.query.accountant.method = EPS_ACCOUNTANT_PLD;
    for (int i = 0; i < 3; i++) {
        job.query.epsilon = (const double[]){0.0371208, 0.3, 2}[i];
        struct eps_result *result = solved(NULL, job);
        struct draw_pair one;
        coin_pair(&one, job.mechanism.sampling.p, 1 / job.query.noise_multiplier, 0, true);
        double alone = (double)exact_delta(&one.pair, job.query.epsilon);
        assert_true(result->bracket_upper - result->bracket_lower <= 1e-3 * result->bracket_upper);
        assert_true(result->bracket_upper >= alone);
        assert_true(result->bracket_lower >= 300 * alone);
        eps_result_destroy(result);
    }
}

/* S3. Add: 1 - e^eps (1 - p)^n, where the two nearly cancel: still not below the truth. */
TEST(without_noise_the_bound_survives_cancellation)
{
    uint64_t state = 5;
    for (int i = 0; i < 2000; i++) {
        struct eps_job job;
        eps_job_init(&job);
        job.mechanism.n = 1 + draw_below(&state, 5000);
        job.mechanism.sampling.examples_per_user = 1 + draw_below(&state, 3);
        double p = job.mechanism.sampling.p = draw_log(&state, 1e-20, 0.3);
        __float128 log_never =
            (__float128)job.mechanism.n * (__float128)job.mechanism.sampling.examples_per_user * log1pq(-(__float128)p);
        double eps = (double)-log_never * (1 - (i % 4 ? ldexp(draw_unit(&state), -(i % 52)) : 0x1p-52));
        __float128 exact = -expm1q((__float128)eps + log_never);
        struct eps__interval found = eps__sampling_log_delta(&job.mechanism, EPS_ADD, eps);
        assert_true(exact <= 0 || logq(exact) <= (__float128)found.upper);
        assert_true(exact <= 0 ? isinf(found.lower) : logq(exact) >= (__float128)found.lower);
        assert_true(isinf(eps__sampling_log_delta(&job.mechanism, EPS_ADD, 1.001 * (double)-log_never).upper));
        __float128 slack = (__float128)(eps - (double)log_never) * 0x1p-49;
        assert_true(exact + slack <= 0 || (__float128)found.upper <= logq(exact + slack) + (__float128)1e-11);
        __float128 ever = -expm1q(log_never);
        found = eps__sampling_log_delta(&job.mechanism, EPS_REMOVE, eps);
        assert_true(logq(ever) <= (__float128)found.upper && (__float128)found.upper <= logq(ever) + (__float128)1e-11);
        assert_true(logq(ever) >= (__float128)found.lower);
        /* The epsilon of this bound for a delta. */
        double log_delta = i % 2 ? log(draw_log(&state, 1e-18, 0.5)) : log1p(-draw_log(&state, 1e-15, 0.5));
        double enough = eps__sampling_epsilon(&job.mechanism, EPS_ADD, log_delta);
        __float128 at = logq(-expm1q(log_delta)) - log_never;
        assert_true(enough >= at && (enough <= (at > 0 ? at : 0) + (__float128)1e-13 * (1 - log_never)));
        assert_true(eps__sampling_epsilon(&job.mechanism, EPS_REMOVE, log_delta) ==
                    (found.upper <= log_delta ? 0 : INFINITY));
    }
}

/* In a truncated batch an example makes a difference only if it is kept: a sum over the number of others drawn. */
TEST(truncation_keeps_an_example_out)
{
    uint64_t state = 6;
    int checked = 0;
    for (int i = 0; i < 60; i++) {
        struct eps_job job;
        eps_job_init(&job);
        uint64_t groups = 1 + draw_below(&state, 3),
                 dataset = groups * (2 + draw_below(&state, 30)) + draw_below(&state, groups);
        uint64_t limit = 1 + draw_below(&state, dataset / groups);
        double p = job.mechanism.sampling.p = i % 5 ? draw_log(&state, 0.01, 1) : 1;
        job.mechanism.n = 1 + draw_below(&state, 50);
        if (groups > 1) {
            job.mechanism.sampling.scheme = EPS_SCHEME_CYCLIC_POISSON;
            job.mechanism.sampling.groups = groups;
        }
        job.mechanism.sampling.dataset_size = dataset;
        job.mechanism.sampling.truncation = true;
        job.mechanism.sampling.max_batch_size = limit;
        __float128 most = 0;
        for (uint64_t size = dataset / groups; size <= (dataset + groups - 1) / groups; size++) {
            __float128 in = 0;
            for (uint64_t others = 0; others < size; others++)
                in += (p < 1 ? exact_between(size - 1, p, others, others) : (others == size - 1)) * (__float128)p *
                      (others < limit ? 1 : (__float128)limit / (__float128)(others + 1));
            most = in > most ? in : most;
        }
        __float128 never = (__float128)((job.mechanism.n - 1) / groups + 1) * log1pq(-most);
        struct eps__interval found = eps__sampling_log_never(&job.mechanism);
        if (most >= 1 - (__float128)1e-25) {
            assert_true(isinf(found.lower));
            continue;
        }
        checked++;
        assert_true(found.lower <= never && never <= found.upper);
        assert_true(found.upper - found.lower <= 1e-9 * (1 - found.lower));
    }
    assert_true(checked > 30);
}

/* Every direction of every scheme and addition, where the probability of taking part decides: delta is that at most,
 * and at least what a union bound allows. */
TEST(nothing_exceeds_the_probability_of_taking_part)
{
    static const enum eps_adjacency adjacencies[] = {EPS_ADJACENCY_ZERO_OUT, EPS_ADJACENCY_ADD_REMOVE,
                                                     EPS_ADJACENCY_REPLACE_ONE};
    for (int i = 0; i < 24; i++) {
        struct eps_job job;
        eps_job_init(&job);
        job.mechanism.n = 4;
        job.mechanism.adjacency = adjacencies[i % 3];
        job.mechanism.sampling.p = 1e-12;
        job.query.noise_multiplier = 1e-3;
        double participations = 4;
        switch (i / 3) {
        case 1:
            job.mechanism.sampling.examples_per_user = 3;
            participations = 12;
            break;
        case 2:
            job.mechanism.sampling.last_iterate = true;
            break;
        case 3:
            job.mechanism.sampling.last_iterate = true;
            job.mechanism.sampling.examples_per_user = 2;
            participations = 8;
            break;
        case 4:
            job.mechanism.matrix.family = EPS_FAMILY_TREE;
            break;
        case 5:
            job.mechanism.sampling.scheme = EPS_SCHEME_CYCLIC_POISSON;
            job.mechanism.sampling.groups = 3;
            participations = 2;
            break;
        case 6:
            job.mechanism.sampling.truncation = true;
            job.mechanism.sampling.dataset_size = 100;
            job.mechanism.sampling.max_batch_size = 3;
            break;
        default:
            break;
        }
        if (i / 3 == 7) {
            job.mechanism.matrix.family = EPS_FAMILY_SQUARE_ROOT;
            job.query.noise_multiplier = 0.5;
        }
        job.query.delta = 1.0001e-12 * participations;
        struct eps_result *result = solved(NULL, job);
        assert_true(result->epsilon == 0 && result->bracket_lower == 0);
        eps_result_destroy(result);
        job.query.delta = NAN;
        job.query.epsilon = 0.5;
        result = solved(NULL, job);
        if (!(result->delta <= 1.0000001e-12 * participations))
            fail_msg("case %d, %s: delta %.17g", i / 3, eps_adjacency_name(job.mechanism.adjacency), result->delta);
        bool plain = job.mechanism.adjacency != EPS_ADJACENCY_REPLACE_ONE && !job.mechanism.sampling.truncation;
        if (plain) /* ln(1/never) < 0.5 */
            assert_true(result->directions[EPS_ADD].value <= 1e-300);
        eps_result_destroy(result);
        job.query.noise_multiplier = NAN;
        job.query.delta = 1.0001e-12 * participations;
        result = solved(NULL, job);
        assert_true(result->noise_multiplier == 0);
        eps_result_destroy(result);
    }
}

/* A full batch that is nearly impossible changes nothing, in either direction, for any of the three unknowns. */
TEST(a_rare_full_batch_changes_nothing)
{
    for (int i = 0; i < 9; i++) {
        struct eps_job limited, plain;
        eps_job_init(&plain);
        plain.mechanism.n = 1000;
        plain.mechanism.adjacency = (enum eps_adjacency)(i % 3);
        plain.mechanism.sampling.p = 0.01;
        if (i / 3 != 2)
            plain.query.noise_multiplier = 1;
        if (i / 3 != 0)
            plain.query.epsilon = 2;
        if (i / 3 != 1)
            plain.query.delta = 1e-6;
        limited = plain;
        limited.mechanism.sampling.dataset_size = 60000;
        limited.mechanism.sampling.truncation = true;
        limited.mechanism.sampling.max_batch_size = 1200;
        struct eps_result *a = solved(NULL, limited), *b = solved(NULL, plain);
        for (int direction = 0; direction < EPS_DIRECTIONS; direction++)
            assert_true(fabs(a->directions[direction].value / b->directions[direction].value - 1) < 2e-3);
        assert_true(a->bracket_upper - a->bracket_lower <= 1e-3 * a->bracket_upper);
        eps_result_destroy(a);
        eps_result_destroy(b);
    }
}

/* From never to always full, by the number of full steps where they are rare and as a mixture elsewhere: the two agree
 * at the boundary, and delta is the mean over the number of full steps (P1). */
static double choose(uint64_t n, uint64_t k)
{
    double ways = 1;
    for (uint64_t i = 0; i < k; i++)
        ways = ways * (double)(n - i) / (double)(i + 1);
    return ways;
}

/* delta of `a` steps of one pair and `b` of another: 0 beyond the sum of their largest losses. */
static double of_both(const struct eps__pair *one, uint64_t a, const struct eps__pair *other, uint64_t b, double eps)
{
    const struct exact_power powers[] = {{one, a}, {other, b}};
    size_t first = a == 0, len = (size_t)(a > 0) + (size_t)(b > 0);
    double ceiling = (a ? (double)a * eps__pair_ceiling(one) : 0) + (b ? (double)b * eps__pair_ceiling(other) : 0);
    return len && eps < ceiling ? exp(exact_composition(powers + first, len, eps).log_delta) : 0;
}

TEST(full_steps_are_counted)
{
    enum { STEPS = 3, DATASET = 20 };
    const double p = 0.1, sigma = 1.5, eps = 0.6;
    for (uint64_t limit = 1; limit <= DATASET; limit += limit < 6 ? 1 : 4) {
        enum eps_adjacency adjacency = (enum eps_adjacency)(limit % EPS_ADJACENCY_COUNT);
        const double without[] = {
            [EPS_ADJACENCY_ZERO_OUT] = 1, [EPS_ADJACENCY_ADD_REMOVE] = 0, [EPS_ADJACENCY_REPLACE_ONE] = 2};
        struct eps_job job = truncated_job(adjacency, DATASET, p, limit);
        job.mechanism.n = STEPS;
        job.query.noise_multiplier = sigma;
        job.query.epsilon = eps;
        struct eps_result *result = solved(NULL, job);
        struct eps__truncation t = eps__truncate(DATASET, p, limit);
        double q = t.q.upper, apart = without[adjacency];
        for (enum eps_direction direction = 0; direction < EPS_DIRECTIONS; direction++) {
            bool remove = direction == EPS_REMOVE;
            struct draw_pair open, full, taken;
            coin_pair(&open, p, 1 / sigma, adjacency == EPS_ADJACENCY_REPLACE_ONE ? 1 / sigma : 0, remove);
            coin_pair(&full, q, 2 / sigma, apart / sigma, remove);
            coin_pair(&taken, 1, apart / sigma, 0, remove);
            double mixed = 0, shown = 0;
            for (uint64_t k = 0; k <= STEPS; k++) {
                double weight =
                    choose(STEPS, k) * pow(t.full.upper, (double)k) * pow(t.open.upper, (double)(STEPS - k));
                if (!(weight > 0))
                    continue;
                mixed += weight * of_both(&open.pair, STEPS - k, &full.pair, k, eps);
                for (uint64_t in = 0; in <= k && apart > 0; in++) /* `in` of the k full batches contain the example */
                    shown += weight * choose(k, in) * pow(q, (double)in) * pow(1 - q, (double)(k - in)) *
                             of_both(&open.pair, STEPS - k, &taken.pair, in, eps);
            }
            double exact = apart > 0 ? fmin(mixed, shown) : mixed, found = result->directions[direction].value;
            if (!(found >= exact * (1 - 1e-8) && found <= exact * (1 + 2e-3) + 1e-290))
                fail_msg("limit %d, %s, %s: %.17g for %.17g", (int)limit, eps_adjacency_name(adjacency),
                         eps_direction_name(direction), found, exact);
        }
        eps_result_destroy(result);
    }
}
