/*
 * Monte Carlo as an accountant: its answers compared with exact ones, its failure rate with the permitted one, and the
 * same bits for every way of running the draws.
 *
 * SPDX-License-Identifier: GPL-3.0-or-later
 */
#include <gsl/gsl_cdf.h>
#include <math.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "lib/accountants/monte_carlo/draws.h"
#include "lib/accountants/monte_carlo/guarantee.h"
#include "lib/numerics/bound.h"
#include "lib/job/setting.h"
#include "tests/unit/draw.h"
#include "tests/unit/solved.h"
#include "tests/unit/test.h"

/* n steps of b-min-sep with separation 1, for users of two examples. This is Poisson sampling, whose loss distribution
 * is known. monte_carlo serves Poisson sampling with one example a user only, so this job is drawn as b-min-sep. */
static struct eps_job poisson_like(size_t n, double p)
{
    struct eps_job job;
    eps_job_init(&job);
    job.mechanism.n = n;
    job.mechanism.sampling.scheme = EPS_SCHEME_B_MIN_SEP;
    job.mechanism.sampling.separation = 1;
    job.mechanism.sampling.p = p / 2;
    job.mechanism.sampling.examples_per_user = 2;
    job.mechanism.sampling.warm_start = false;
    job.query.accountant.method = EPS_ACCOUNTANT_MONTE_CARLO;
    return job;
}

/* By this accountant alone, starting from a bound that is passed as proven. */
static enum eps_status draw_alone(struct eps__answer *answer, const struct eps_context *context, struct eps_job job,
                                  enum eps_direction direction, double proven)
{
    struct eps__setting setting;
    struct eps_error error = {0};
    eps_job_defaults(&job);
    assert_int_equal(eps__setting_open(&setting, &error, context, &job), EPS_OK);
    enum eps_status status =
        eps__accountant_find(EPS_ACCOUNTANT_MONTE_CARLO)
            ->solve(answer, &error, &setting, direction, &(struct eps__proven){proven, -INFINITY, INFINITY});
    eps__setting_close(&setting);
    return status;
}

/* delta of the same steps under Poisson sampling, by the exact loss distribution. */
static void exact_deltas(double found[EPS_DIRECTIONS], struct eps_job job, double eps, double sigma)
{
    struct eps_result *result;
    job.mechanism.sampling.scheme = EPS_SCHEME_POISSON;
    job.mechanism.sampling.separation = 0;
    struct eps_job plain;
    eps_job_init(&plain);
    job.query = (struct eps_query){eps, NAN, sigma, false, plain.query.accountant};
    job.query.accountant.method = EPS_ACCOUNTANT_PLD;
    result = solved(NULL, job);
    for (enum eps_direction d = 0; d < EPS_DIRECTIONS; d++)
        found[d] = result->directions[d].value;
    eps_result_destroy(result);
}

/* ------------------------------------------------------------ beside exact answers */

TEST(answers_are_over_the_truth_and_near_it)
{
    double exact[EPS_DIRECTIONS];
    struct eps_job job = poisson_like(16, 0.2);
    job.query.noise_multiplier = 1.1;
    job.query.epsilon = 1;
    struct eps_result *result = solved(NULL, job);
    exact_deltas(exact, job, 1, 1.1);
    for (enum eps_direction d = 0; d < EPS_DIRECTIONS; d++) {
        const struct eps_draws *draws = &result->draws[d];
        assert_true(result->directions[d].accountant == EPS_ACCOUNTANT_MONTE_CARLO);
        assert_true(result->directions[d].value >= exact[d] && result->directions[d].value <= 2.5 * exact[d]);
        assert_true(fabs(draws->estimate - exact[d]) <= 4.5 * draws->standard_error);
        assert_true(draws->standard_error < 0.2 * exact[d] && draws->failure_probability < exact[d]);
        assert_true(draws->samples >= EPS__MC_CHUNK && draws->samples % EPS__MC_CHUNK == 0);
    }
    assert_int_equal(result->guarantee, EPS_GUARANTEE_HIGH_PROBABILITY);
    assert_true(isnan(result->bracket_lower) && isnan(result->bracket_upper));
    eps_result_destroy(result);

    job.query = (struct eps_query){NAN, 1e-2, 1.1, false, job.query.accountant};
    result = solved(NULL, job);
    exact_deltas(exact, job, result->epsilon, 1.1);
    assert_true(exact[EPS_REMOVE] <= 1e-2 && exact[EPS_ADD] <= 1e-2);
    assert_true(fmax(exact[EPS_REMOVE], exact[EPS_ADD]) >= 0.3e-2);
    assert_int_equal(result->guarantee, EPS_GUARANTEE_HIGH_PROBABILITY);
    eps_result_destroy(result);

    struct eps__answer alone;
    struct eps_job drawn = job;
    drawn.query.accountant.estimator = EPS_ESTIMATOR_PLAIN; /* whose grid begins far below */
    assert_int_equal(draw_alone(&alone, NULL, drawn, EPS_REMOVE, 4), EPS_OK);
    exact_deltas(exact, job, alone.value, 1.1);
    assert_true(exact[EPS_REMOVE] <= 1e-2 && exact[EPS_REMOVE] >= 0.3e-2);

    job.query = (struct eps_query){1, 1e-2, NAN, false, job.query.accountant};
    result = solved(NULL, job);
    exact_deltas(exact, job, 1, result->noise_multiplier);
    assert_true(exact[EPS_REMOVE] <= 1e-2 && exact[EPS_ADD] <= 1e-2);
    assert_true(fmax(exact[EPS_REMOVE], exact[EPS_ADD]) >= 0.3e-2);
    assert_int_equal(result->guarantee, EPS_GUARANTEE_ESTIMATE_VERIFY_RELEASE);
    eps_result_destroy(result);
}

/* Where draws are cheap, there are more than half of delta needs, and the grid of epsilons reaches what they verify. */
TEST(an_epsilon_uses_its_threshold)
{
    struct eps_job job = job_of("{'n': 24, 'sampling': {'scheme': 'balls_in_bins', 'bins': 24}, 'delta': 0.01,"
                                " 'noise_multiplier': 1}");
    struct answer exact = answered(job);
    struct eps__answer drawn;
    job.query.accountant.method = EPS_ACCOUNTANT_MONTE_CARLO;
    assert_int_equal(draw_alone(&drawn, NULL, job, EPS_REMOVE, 1.5 * exact.value), EPS_OK);
    assert_true(drawn.value >= exact.lower && drawn.value <= 1.03 * exact.value);
    assert_true(drawn.draws.threshold > 0.9e-2 && drawn.draws.estimate > 0.97 * drawn.draws.threshold);
}

/* ------------------------------------------------------------ how often it fails */

/* 500 seeds, at a delta that the draws' mean is often below: no more answers are below the truth than permitted. */
TEST(it_fails_no_more_often_than_it_says)
{
    enum { SEEDS = 500 };
    double exact[EPS_DIRECTIONS];
    unsigned failures = 0, near = 0;
    double most = 0;
    struct eps_job job = poisson_like(16, 0.2);
    job.query.noise_multiplier = 1.1;
    job.query.epsilon = 1.2;
    job.query.accountant.samples = 1024;
    job.query.accountant.estimator = EPS_ESTIMATOR_PLAIN;
    exact_deltas(exact, job, 1.2, 1.1);
    for (int64_t seed = 0; seed < SEEDS; seed++) {
        struct eps__setting setting;
        struct eps_error error = {0};
        struct eps__answer answer;
        job.query.accountant.seed = seed;
        struct eps_job filled = job;
        eps_job_defaults(&filled);
        assert_int_equal(eps__setting_open(&setting, &error, NULL, &filled), EPS_OK);
        assert_int_equal(
            eps__accountant_find(EPS_ACCOUNTANT_MONTE_CARLO)
                ->solve(&answer, &error, &setting, EPS_REMOVE, &(struct eps__proven){0.99, -INFINITY, INFINITY}),
            EPS_OK);
        failures += answer.value < exact[EPS_REMOVE];
        near += answer.value < 2 * exact[EPS_REMOVE];
        most = fmax(most, answer.draws.failure_probability);
        eps__setting_close(&setting);
    }
    /* the smallest count that 99.9% of binomials do not exceed */
    unsigned limit = 0;
    while (gsl_cdf_binomial_Q(limit, most, SEEDS) > 1e-3)
        limit++;
    assert_true(failures <= limit);
    assert_true(near >= SEEDS / 2); /* and the bound is not so loose that nothing could fail */
}

/* The bound of A24: of 500 means, those at most t with a truth of d are no more than e^(-s KL) allows. */
TEST(low_means_are_as_rare_as_chernoff_says)
{
    enum { SEEDS = 500 };
    double exact[EPS_DIRECTIONS], thresholds[] = {0.7, 0.8, 0.9, 1};
    unsigned under[4] = {0};
    struct eps_job job = poisson_like(16, 0.2);
    struct eps__setting setting;
    struct eps_error error = {0};
    struct eps__mc_law *law;
    struct eps__mc_aim aim = {.sigma = 1.1, .direction = EPS_REMOVE};
    struct eps__mc_grid grid = {1.2, 0, 1};
    job.query.noise_multiplier = 1.1;
    job.query.epsilon = 1.2;
    eps_job_defaults(&job);
    exact_deltas(exact, job, 1.2, 1.1);
    assert_int_equal(eps__setting_open(&setting, &error, NULL, &job), EPS_OK);
    assert_int_equal(eps__mc_b_min_sep.open(&law, &setting, &aim), EPS_OK);
    for (uint64_t seed = 0; seed < SEEDS; seed++) {
        struct eps__mc_estimator estimator;
        bool complete, over;
        struct eps__mc_run run = {.setting = &setting,
                                  .law = law,
                                  .sigma = 1.1,
                                  .seed = seed,
                                  .samples = 1024,
                                  .enough = INFINITY,
                                  .until = INFINITY};
        assert_int_equal(eps__mc_estimator_make(&estimator, &grid, EPS__UPPER), EPS_OK);
        assert_int_equal(eps__mc_draw(&estimator, &complete, &over, &run), EPS_OK);
        assert_true(complete && !over && estimator.count == 1024 && estimator.largest <= 1);
        for (size_t i = 0; i < 4; i++)
            under[i] += eps__mc_estimator_mean(&estimator, 0) <= thresholds[i] * exact[EPS_REMOVE];
        eps__mc_estimator_clear(&estimator);
    }
    for (size_t i = 0; i < 3; i++) {
        double allowed = exp(eps__mc_log_failure(1024, thresholds[i] * exact[EPS_REMOVE], exact[EPS_REMOVE], 1));
        unsigned limit = 0;
        while (gsl_cdf_binomial_Q(limit, allowed, SEEDS) > 1e-3)
            limit++;
        assert_true(under[i] <= limit);
    }
    assert_in_range(under[3], SEEDS / 3, SEEDS * 2 / 3); /* half of the means are below the truth */
    eps__mc_b_min_sep.destroy(law);
    eps__setting_close(&setting);
}

/* ------------------------------------------------------------ sums, and the means computed from them */

/* The mean over many draws at every point, by definition. */
TEST(sums_are_those_of_the_draws)
{
    enum { DRAWS = 64 * EPS__LANES, POINTS = 9 };
    struct eps__mc_law law = {.tilted = true, .loss_error = 0.03, .log_weight_error = 0.01};
    struct eps__mc_grid grid = {0.25, 0.37, POINTS};
    struct eps__mc_estimator estimator;
    long double sums[POINTS] = {0}, squares[POINTS] = {0}, largest = 0;
    uint64_t state = 5;
    assert_int_equal(eps__mc_estimator_make(&estimator, &grid, EPS__UPPER), EPS_OK);
    for (int i = 0; i < DRAWS; i += EPS__LANES) {
        double loss[EPS__LANES], log_weight[EPS__LANES];
        for (int lane = 0; lane < EPS__LANES; lane++) {
            loss[lane] = i == 0 && lane < POINTS ? eps__mc_grid_at(&grid, (size_t)lane) - law.loss_error
                                                 : draw_between(&state, -1, 5);
            log_weight[lane] = draw_between(&state, -9, 1);
            long double w = expl(log_weight[lane] + 0.01L);
            for (size_t k = 0; k < POINTS; k++) {
                long double value = w * fmaxl(-expm1l(eps__mc_grid_at(&grid, k) - loss[lane] - 0.03L), 0);
                sums[k] += value;
                squares[k] += value * value;
                largest = fmaxl(largest, value);
            }
        }
        eps__mc_estimator_add(&estimator, &law, loss, log_weight);
    }
    for (size_t k = 0; k < POINTS; k++) {
        long double mean = sums[k] / DRAWS, error = sqrtl((squares[k] / DRAWS - mean * mean) / DRAWS);
        double own = eps__mc_estimator_mean(&estimator, k);
        assert_true(own >= mean * (1 - 1e-15L) && own <= mean * (1 + 1e-11L));
        assert_true(fabsl(eps__mc_estimator_error(&estimator, k) - error) <= 1e-6L * error);
    }
    assert_true(fabsl(estimator.largest - largest) <= 1e-12L * largest && estimator.count == DRAWS);
    double bad[EPS__LANES] = {0}, weight[EPS__LANES] = {0};
    bad[3] = NAN;
    eps__mc_estimator_add(&estimator, &law, bad, weight);
    assert_true(isinf(estimator.largest));
    eps__mc_estimator_clear(&estimator);
}

/* A27: where a loss is at a cell's start, or just above it, a division may assign it to the cell before. */
TEST(losses_are_in_the_last_cell_that_they_reach)
{
    enum { POINTS = 500 };
    const struct eps__mc_law law = {.tilted = true};
    uint64_t state = 7;
    double log_weight[EPS__LANES] = {0}, loss[EPS__LANES];
    for (int c = 0; c < 40; c++) {
        enum eps__estimate estimate = c % 2 ? EPS__UPPER : EPS__LOWER;
        struct eps__mc_grid grid = {draw_between(&state, 0, 3), draw_log(&state, 1e-3, 1), POINTS};
        struct eps__mc_estimator estimator;
        assert_int_equal(eps__mc_estimator_make(&estimator, &grid, estimate), EPS_OK);
        for (size_t k = 1; k < POINTS; k++) {
            double at = eps__mc_grid_at(&grid, k), least = at * (1 - 1e-14);
            while (eps__shift(estimate, least, 0) < at) /* the smallest loss in the cell as the estimator rounds it */
                least = nextafter(least, INFINITY);
            for (size_t lane = 0; lane < EPS__LANES; lane++)
                loss[lane] = lane % 2 ? least : nextafter(least, 0);
            eps__mc_estimator_reset(&estimator);
            eps__mc_estimator_add(&estimator, &law, loss, log_weight);
            double own = estimator.sums[k * EPS__MC_SUMS + EPS__MC_REST],
                   before = estimator.sums[(k - 1) * EPS__MC_SUMS];
            assert_true(fabs(own - EPS__LANES / 2) < 1e-9 && before > 0); /* w e = 1 of half of them */
        }
        eps__mc_estimator_clear(&estimator);
    }
}

/* The returned noise multiplier is one whose own draws passed. */
TEST(the_ladder_ends_before_the_first_failure)
{
    struct eps_job job = poisson_like(16, 0.2);
    job.query.epsilon = 1;
    job.query.delta = 5e-2;
    for (int64_t seed = 0; seed < 6; seed++)
        for (enum eps_direction d = 0; d < EPS_DIRECTIONS; d++) {
            struct eps__answer answer;
            job.query.accountant.seed = seed;
            assert_int_equal(draw_alone(&answer, NULL, job, d, 2), EPS_OK);
            assert_true(answer.value < 1.6 && answer.guarantee == EPS_GUARANTEE_ESTIMATE_VERIFY_RELEASE);
            assert_true(answer.draws.samples > 0 && answer.draws.estimate <= answer.draws.threshold);
            assert_true(answer.draws.threshold > 0.9 * 5e-2 && answer.draws.threshold < 5e-2);
            assert_true(answer.draws.seed == (uint64_t)seed);
        }
}

/* If no draws verified a candidate, the answer is proven for the delta that remains beside candidates that might have
 * passed wrongly. */
TEST(a_ladder_without_a_candidate_is_proven_for_what_is_left)
{
    struct eps_job job = poisson_like(16, 0.2);
    job.query.epsilon = 1;
    job.query.delta = 5e-2;
    job.query.accountant.max_seconds = 1e-3;
    job.query.accountant.samples = 1 << 30; /* the time is over before they are drawn */
    struct eps_result *result = solved(NULL, job);
    for (enum eps_direction d = 0; d < EPS_DIRECTIONS; d++) {
        if (result->directions[d].value < result->noise_multiplier)
            continue;
        struct eps_job proving = job;
        double found[2];
        const double deltas[] = {eps__mc_left(5e-2, 0.5), 5e-2};
        for (int i = 0; i < 2; i++) {
            struct eps_job plain;
            eps_job_init(&plain);
            proving.query.accountant = plain.query.accountant;
            proving.query.accountant.method = result->directions[d].accountant;
            proving.query.delta = deltas[i];
            struct eps_result *proven = solved(NULL, proving);
            found[i] = proven->directions[d].value;
            eps_result_destroy(proven);
        }
        assert_true(result->directions[d].value == found[0] && found[0] > found[1]);
    }
    assert_int_equal(result->guarantee, EPS_GUARANTEE_DETERMINISTIC);
    eps_result_destroy(result);
}

TEST(an_audit_is_under_the_truth)
{
    double exact[EPS_DIRECTIONS];
    struct eps_job job = poisson_like(16, 0.2);
    struct eps_job plain;
    eps_job_init(&plain);
    job.query.accountant = plain.query.accountant;
    job.query.accountant.audit = 300000;
    job.query.noise_multiplier = 1.1;
    job.query.epsilon = 1;
    exact_deltas(exact, job, 1, 1.1);
    struct eps_result *result = solved(NULL, job);
    for (enum eps_direction d = 0; d < EPS_DIRECTIONS; d++) {
        const struct eps_audit *audit = &result->audit[d];
        assert_true(audit->lower <= exact[d] && audit->lower >= 0.9 * exact[d] && audit->samples >= 300000);
        assert_true(audit->ratio == result->delta / audit->lower);
    }
    assert_int_equal(result->guarantee, EPS_GUARANTEE_DETERMINISTIC);
    eps_result_destroy(result);

    job.query.epsilon = NAN;
    job.query.delta = exact[EPS_REMOVE];
    result = solved(NULL, job);
    const struct eps_audit *audit = &result->audit[EPS_REMOVE];
    assert_true(audit->lower <= 1.001 && audit->lower >= 0.97 && audit->ratio == result->epsilon / audit->lower);
    assert_true(result->audit[EPS_ADD].lower < 1);
    eps_result_destroy(result);

    job.mechanism.sampling.scheme = EPS_SCHEME_NONE; /* where nothing is drawn */
    job.mechanism.sampling.separation = 0;
    job.mechanism.sampling.p = NAN;
    job.mechanism.sampling.examples_per_user = 1;
    assert_refused(job, EPS_UNSUPPORTED, "/accountant/audit");
}

/* ------------------------------------------------------------ the same bits */

enum { KEPT_MAX = 4096 };

/* A caller that keeps what it is given, returns it later, runs loops backwards, and stops after it has kept so much. */
struct caller {
    struct {
        uint8_t key[32];
        void *blob;
        size_t len;
    } kept[KEPT_MAX];
    size_t kept_len, hits, patience;
    bool backwards;
};

static bool give_back(void *user, enum eps_cache_kind kind, const uint8_t key[32], void **blob, size_t *len)
{
    struct caller *caller = user;
    for (size_t i = 0; kind == EPS_CACHE_CHUNK && i < caller->kept_len; i++)
        if (memcmp(caller->kept[i].key, key, 32) == 0) {
            *blob = malloc(caller->kept[i].len);
            assert_non_null(*blob);
            memcpy(*blob, caller->kept[i].blob, caller->kept[i].len);
            *len = caller->kept[i].len;
            caller->hits++;
            return true;
        }
    return false;
}

static void keep(void *user, enum eps_cache_kind kind, const uint8_t key[32], const void *blob, size_t len)
{
    struct caller *caller = user;
    if (kind != EPS_CACHE_CHUNK)
        return;
    assert_true(caller->kept_len < KEPT_MAX);
    memcpy(caller->kept[caller->kept_len].key, key, 32);
    caller->kept[caller->kept_len].blob = malloc(len);
    assert_non_null(caller->kept[caller->kept_len].blob);
    memcpy(caller->kept[caller->kept_len].blob, blob, len);
    caller->kept[caller->kept_len++].len = len;
}

static void in_order(void *user, size_t count, void (*body)(void *arg, size_t index), void *arg)
{
    const struct caller *caller = user;
    for (size_t i = 0; i < count; i++)
        body(arg, caller->backwards ? count - 1 - i : i);
}

static bool gives_up(void *user)
{
    const struct caller *caller = user;
    return caller->kept_len >= caller->patience;
}

static struct eps_context context_of(struct caller *caller)
{
    return (struct eps_context){
        .user = caller, .canceled = gives_up, .parallel_for = in_order, .cache_get = give_back, .cache_put = keep};
}

static void forget(struct caller *caller)
{
    for (size_t i = 0; i < caller->kept_len; i++)
        free(caller->kept[i].blob);
    free(caller);
}

static void assert_same(const struct eps__answer *a, const struct eps__answer *b)
{
    assert_memory_equal(&a->value, &b->value, sizeof(double));
    assert_memory_equal(&a->draws.estimate, &b->draws.estimate, sizeof(double));
    assert_memory_equal(&a->draws.standard_error, &b->draws.standard_error, sizeof(double));
    assert_true(a->draws.samples == b->draws.samples && a->draws.seed == b->draws.seed && a->draws.samples > 0);
}

static struct eps_job square_root_like(void)
{
    struct eps_job job = poisson_like(48, 0.1);
    job.mechanism.matrix.family = EPS_FAMILY_SQUARE_ROOT;
    job.mechanism.matrix.bands = 4;
    job.mechanism.sampling.separation = 4;
    job.mechanism.sampling.p = 0.1;
    job.mechanism.sampling.examples_per_user = 1;
    job.mechanism.sampling.warm_start = true;
    return job;
}

TEST(bits_do_not_depend_on_who_draws)
{
    struct eps_job job = square_root_like();
    double proven[] = {3, 1, 4};
    for (int unknown = 0; unknown < 3; unknown++) {
        struct eps__answer plain, other;
        job.query.epsilon = unknown == 0 ? NAN : 1;
        job.query.delta = unknown == 1 ? NAN : 4e-2;
        job.query.noise_multiplier = unknown == 2 ? NAN : 2;
        assert_int_equal(draw_alone(&plain, NULL, job, EPS_REMOVE, proven[unknown]), EPS_OK);
        struct caller *caller = calloc(1, sizeof *caller);
        assert_non_null(caller);
        caller->backwards = true;
        caller->patience = SIZE_MAX;
        struct eps_context context = context_of(caller);
        assert_int_equal(draw_alone(&other, &context, job, EPS_REMOVE, proven[unknown]), EPS_OK);
        assert_same(&plain, &other);
        assert_true(caller->kept_len > 2 && caller->hits == 0);
        size_t all = caller->kept_len;
        forget(caller);

        /* stopped in the middle, and continued by another caller with what the first one kept */
        caller = calloc(1, sizeof *caller);
        assert_non_null(caller);
        caller->patience = all / 2;
        context = context_of(caller);
        assert_int_equal(draw_alone(&other, &context, job, EPS_REMOVE, proven[unknown]), EPS_CANCELED);
        assert_true(caller->kept_len >= all / 2 && caller->kept_len < all);
        caller->patience = SIZE_MAX;
        assert_int_equal(draw_alone(&other, &context, job, EPS_REMOVE, proven[unknown]), EPS_OK);
        assert_true(caller->hits >= all / 2);
        assert_same(&plain, &other);
        forget(caller);
    }
}

TEST(a_block_that_is_none_is_drawn_again)
{
    struct eps_job job = square_root_like();
    struct eps__answer plain, other;
    struct caller *caller = calloc(1, sizeof *caller);
    assert_non_null(caller);
    caller->patience = SIZE_MAX;
    struct eps_context context = context_of(caller);
    job.query.epsilon = NAN;
    job.query.delta = 4e-2;
    job.query.noise_multiplier = 2;
    assert_int_equal(draw_alone(&plain, &context, job, EPS_REMOVE, 3), EPS_OK);
    size_t all = caller->kept_len;
    for (size_t i = 0; i < all; i++) {
        double *numbers = caller->kept[i].blob;
        size_t last = caller->kept[i].len / sizeof *numbers - 1;
        if (i % 4 == 0)
            numbers[0] += 16; /* draws */
        else
            numbers[i % 4 == 1 ? 1 : i % 4 == 2 ? last / 2 : last] = i % 2 ? NAN : -1;
    }
    assert_int_equal(draw_alone(&other, &context, job, EPS_REMOVE, 3), EPS_OK);
    assert_same(&plain, &other);
    assert_true(all > 2 && caller->kept_len == 2 * all && caller->hits == all);
    forget(caller);
}

/* ------------------------------------------------------------ draws made elsewhere */

enum { PORTIONS_MAX = 256 };

/* What a computation announced. Half of it is drawn at once, into the cache, as by another process. */
struct elsewhere {
    struct caller *caller;
    const struct eps_job *job;
    struct eps_portion portions[PORTIONS_MAX];
    size_t len, ended;
};

static bool elsewhere_get(void *user, enum eps_cache_kind kind, const uint8_t key[32], void **blob, size_t *len)
{
    return give_back(((struct elsewhere *)user)->caller, kind, key, blob, len);
}

static void elsewhere_put(void *user, enum eps_cache_kind kind, const uint8_t key[32], const void *blob, size_t len)
{
    keep(((struct elsewhere *)user)->caller, kind, key, blob, len);
}

static void elsewhere_ahead(void *user, const struct eps_portion *portion)
{
    struct elsewhere *elsewhere = user;
    struct eps_error error = {0};
    if (!portion->chunks) {
        elsewhere->ended++;
        return;
    }
    assert_true(elsewhere->len < PORTIONS_MAX && portion->chunks <= EPS_PORTION_CHUNKS);
    elsewhere->portions[elsewhere->len++] = *portion;
    size_t before = elsewhere->caller->kept_len;
    struct eps_context context = context_of(elsewhere->caller);
    if (elsewhere->len % 2 == 0)
        return;
    assert_int_equal(eps_draw(&context, &error, elsewhere->job, portion->bytes), EPS_OK);
    assert_int_equal(elsewhere->caller->kept_len - before, portion->chunks);
    for (size_t i = 0; i < portion->chunks; i++)
        assert_memory_equal(elsewhere->caller->kept[before + i].key, portion->keys[i], 32);
}

TEST(draws_made_elsewhere_are_the_same)
{
    struct eps_job job = job_of("{'n': 2048, 'matrix': {'family': 'banded', 'bands': 4, 'toeplitz': true},"
                                " 'sampling': {'scheme': 'b_min_sep', 'p': 0.05}, 'delta': 1e-3, 'noise_multiplier': 1,"
                                " 'accountant': {'method': 'monte_carlo', 'seed': 5}}");
    struct eps_result *alone = solved(NULL, job);
    struct elsewhere *elsewhere = calloc(1, sizeof *elsewhere);
    assert_non_null(elsewhere);
    elsewhere->caller = calloc(1, sizeof *elsewhere->caller);
    assert_non_null(elsewhere->caller);
    elsewhere->caller->patience = SIZE_MAX;
    elsewhere->job = &job;
    const struct eps_context context = {
        .user = elsewhere, .cache_get = elsewhere_get, .cache_put = elsewhere_put, .ahead = elsewhere_ahead};
    struct eps_result *shared = solved(&context, job);
    assert_true(eps_job_draws(&job) && elsewhere->len > 2 && elsewhere->ended > 0);
    assert_memory_equal(&shared->epsilon, &alone->epsilon, sizeof(double));
    for (enum eps_direction d = 0; d < EPS_DIRECTIONS; d++)
        assert_memory_equal(&shared->draws[d].estimate, &alone->draws[d].estimate, sizeof(double));
    size_t fetched = 0;
    for (size_t i = 0; i < elsewhere->len; i += 2)
        fetched += elsewhere->portions[i].chunks;
    assert_int_equal(elsewhere->caller->hits, fetched); /* each of those that were there, once */

    /* what is no portion of this job is refused, and not drawn */
    struct eps_error error = {0};
    static const size_t places[] = {0, 4, 6, 7, 10, 11, 12, 15, 16, 17, 18, 19}; /* numbers on which draws depend */
    for (size_t i = 0; i < sizeof places / sizeof *places; i++) {
        struct eps_portion changed = elsewhere->portions[0];
        changed.bytes[8 * places[i]] ^= 0x40;
        assert_int_equal(eps_draw(NULL, &error, &job, changed.bytes), EPS_INVALID);
    }
    job.mechanism.n /= 2;
    assert_int_equal(eps_draw(NULL, &error, &job, elsewhere->portions[0].bytes), EPS_INVALID);
    assert_non_null(strstr(error.message, "no draws of this job"));
    job.query.accountant.method = EPS_ACCOUNTANT_AUTO;
    assert_false(eps_job_draws(&job));
    assert_int_equal(eps_draw(NULL, &error, &job, elsewhere->portions[0].bytes), EPS_INVALID);
    eps_result_destroy(alone);
    eps_result_destroy(shared);
    forget(elsewhere->caller);
    free(elsewhere);
}

/* ------------------------------------------------------------ what is refused */

TEST(what_was_not_derived_is_refused)
{
    struct eps_job job = poisson_like(16, 0.2);
    struct eps_result *result = NULL;
    struct eps_error error = {0};
    job.query.noise_multiplier = 1;
    job.query.epsilon = 1;
    job.mechanism.adjacency = EPS_ADJACENCY_REPLACE_ONE;
    eps_job_defaults(&job);
    assert_int_equal(eps_solve(NULL, &result, &error, &job), EPS_UNSUPPORTED);
    job.mechanism.adjacency = EPS_ADJACENCY_ZERO_OUT;
    job.query.accountant.samples = 4096;
    job.query.accountant.threshold_share = 0.7; /* and both */
    assert_refused(job, EPS_INVALID, "/accountant/threshold_share");
    job.query.accountant.threshold_share = 0.5;
    job.query.delta = 1e-9; /* 4096 draws show nothing there */
    job.query.epsilon = NAN;
    job.query.accountant.estimator = EPS_ESTIMATOR_PLAIN;
    assert_int_equal(eps_solve(NULL, &result, &error, &job), EPS_OK);
    for (enum eps_direction d = 0; d < EPS_DIRECTIONS; d++)
        assert_true(result->draws[d].samples == 0 && result->directions[d].accountant != EPS_ACCOUNTANT_MONTE_CARLO);
    assert_int_equal(result->guarantee, EPS_GUARANTEE_DETERMINISTIC);
    assert_true(result->hints_len > 0);
    eps_result_destroy(result);
}

/* The choice of the run to keep must not depend on its result. */
TEST(a_time_limit_is_for_one_run)
{
    for (int limited = 0; limited < 2; limited++) {
        bool told = false;
        struct eps_job job = poisson_like(16, 0.2);
        job.query.noise_multiplier = 1.1;
        job.query.epsilon = 1;
        job.query.accountant.samples = 4096;
        job.query.accountant.max_seconds = limited ? 1000 : NAN;
        struct eps_result *result = solved(NULL, job);
        for (size_t i = 0; i < result->assumptions_len; i++)
            told |= strstr(result->assumptions[i], "the job was run once") != NULL;
        assert_int_equal(told, limited);
        eps_result_destroy(result);
    }
}

/* What cannot be verified in time ends early, and then the other direction is not drawn if it cannot matter. */
TEST(hopeless_draws_end_early)
{
    struct eps_job job = poisson_like(24, 0.02);
    struct eps_error error = {0};
    struct eps_result *result;
    bool left_out = false, late = false; /* the whole of max_seconds is longer than the test may take */
    job.mechanism.matrix.family = EPS_FAMILY_SQUARE_ROOT;
    job.mechanism.matrix.bands = 5;
    job.mechanism.sampling.scheme = EPS_SCHEME_B_MIN_SEP;
    job.mechanism.sampling.examples_per_user = 1;
    job.mechanism.sampling.separation = 4; /* no tilt is known for remove, and plain draws would take hours */
    job.query.noise_multiplier = NAN;
    job.query.epsilon = 4;
    job.query.delta = 1e-9;
    job.query.accountant.method = EPS_ACCOUNTANT_MONTE_CARLO;
    job.query.accountant.max_seconds = 1000;
    eps_job_defaults(&job);
    assert_int_equal(eps_solve(NULL, &result, &error, &job), EPS_OK);
    for (size_t i = 0; i < result->hints_len; i++) {
        left_out |= strstr(result->hints[i], "drew no samples for add") != NULL;
        late |= strstr(result->hints[i], "was verified in time") != NULL;
    }
    if (!left_out || !late)
        fail_msg("%zu hints, the first: %s", result->hints_len, result->hints_len ? result->hints[0] : "");
    assert_true(result->guarantee == EPS_GUARANTEE_DETERMINISTIC);
    eps_result_destroy(result);
}

/* Also where the answer was proven without draws, so that nothing in it shows that it has no curve. */
TEST(who_draws_has_no_curve)
{
    struct eps_job job;
    struct eps_curve_point *points = NULL;
    size_t len = 0;
    eps_job_init(&job);
    job.mechanism.n = 4;
    job.mechanism.matrix.family = EPS_FAMILY_SQUARE_ROOT;
    job.mechanism.matrix.bands = 2;
    job.mechanism.sampling.scheme = EPS_SCHEME_CYCLIC_POISSON;
    job.mechanism.sampling.p = 0.1;
    job.mechanism.sampling.groups = 2;
    job.query.noise_multiplier = 1;
    job.query.delta = 1e-3;
    job.query.accountant.method = EPS_ACCOUNTANT_MONTE_CARLO;
    job.query.accountant.samples = 1024;
    eps_job_defaults(&job);
    for (int phases = 0; phases < 2; phases++) {
        struct eps_phase phase = {.mechanism = job.mechanism, .noise_scale = 1, .count = 1};
        struct eps_job asked = job;
        struct eps_error error = {0};
        if (phases) {
            eps_job_init(&asked);
            asked.query = job.query;
            asked.phases = &phase;
            asked.phases_len = 1;
        }
        assert_int_equal(eps_privacy_curve(NULL, &points, &len, &error, &asked, 1), EPS_UNSUPPORTED);
        assert_string_equal(error.pointer, phases ? "/phases/0/accountant/method" : "/accountant/method");
        assert_non_null(strstr(error.message, phases ? "privacy loss distribution" : "no privacy curve"));
        assert_null(points);
    }
}
