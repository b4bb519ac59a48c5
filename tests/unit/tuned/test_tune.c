/*
 * Strategies optimised for a whole job: their error at the noise that is proven for them is less than that of the
 * columns that the search starts from; what is proven is what is proven of the same C given; and a column that was kept
 * for one job never serves another.
 *
 * The moments are few (max_order), which makes jobs quick and changes nothing of this.
 *
 * SPDX-License-Identifier: GPL-3.0-or-later
 */
#include <math.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "lib/base/members.h"
#include "lib/base/progress.h"
#include "lib/strategy/families/family.h"
#include "lib/strategy/strategy.h"
#include "lib/tuned/price.h"
#include "lib/tuned/tuned.h"
#include "tests/unit/cache.h"
#include "tests/unit/solved.h"
#include "tests/unit/test.h"

#define FEW "'epsilon': 2, 'delta': 1e-3, 'accountant': {'method': 'renyi', 'max_order': 4}"
#define DRAWN "'n': 24, 'sampling': {'scheme': 'b_min_sep', 'p': 0.1, 'separation': 4}, " FEW
#define BINNED "'n': 32, 'sampling': {'scheme': 'balls_in_bins', 'bins': 8}, " FEW
#define ROUNDS "'n': 24, 'sampling': {'scheme': 'cyclic_poisson', 'p': 0.1}, 'epsilon': 2, 'delta': 1e-3"

/* ------------------------------------------------------------ the error */

static double error_of(struct eps_job job, bool largest)
{
    struct eps_result *result = solved(NULL, job);
    double error = largest ? result->error_max_squared : result->error_mean_squared;
    eps_result_destroy(result);
    return error;
}

/* At most `most` times the errors of the square root and of the best matrix for error alone, with as many bands. */
static void assert_better(double most, const char *rest, const char *objective)
{
    bool largest = strcmp(objective, "max_squared") == 0;
    double tuned = error_of(job_of("{'matrix': {'family': 'banded', 'bands': 4, 'optimize_for': 'job', 'objective': "
                                   "'%s'}, %s}",
                                   objective, rest),
                            largest);
    double best = error_of(
        job_of("{'matrix': {'family': 'banded', 'bands': 4, 'objective': '%s'}, %s}", objective, rest), largest);
    double root = error_of(job_of("{'matrix': {'family': 'square_root', 'bands': 4}, %s}", rest), largest);
    if (!(tuned <= most * best && tuned <= most * root))
        fail_msg("%s, %s: error %.6g, but %.6g and %.6g at the start", objective, rest, tuned, best, root);
}

TEST(the_error_is_less_than_that_of_what_the_search_starts_from)
{
    assert_better(0.97, DRAWN, "mean_squared");
    assert_better(0.99, DRAWN, "max_squared");
    assert_better(0.995, BINNED, "mean_squared");
    assert_better(0.995, BINNED ", 'workload': {'type': 'momentum', 'momentum': 0.9}", "mean_squared");
}

/* With two bands there is one number to choose, and all of its values can be tried. */
TEST(no_other_column_is_much_better)
{
    static const char *const jobs[] = {DRAWN, BINNED};
    for (size_t j = 0; j < 2; j++) {
        double least = INFINITY, at = 0,
               tuned = error_of(
                   job_of("{'matrix': {'family': 'banded', 'bands': 2, 'optimize_for': 'job'}, %s}", jobs[j]), false);
        for (int i = 0; i <= 30; i++) {
            double own = error_of(
                job_of("{'matrix': {'family': 'toeplitz', 'coefficients': [1, %.17g]}, %s}", 0.05 + i * 0.025, jobs[j]),
                false);
            if (own < least)
                at = 0.05 + i * 0.025;
            least = fmin(least, own);
        }
        if (!(tuned <= 1.002 * least && tuned >= 0.99 * least && at > 0.1 && at < 0.75))
            fail_msg("%s: error %.6g, but %.6g with the coefficient %g", jobs[j], tuned, least, at);
    }
}

/* Where each round costs what the norms of columns say, the best C for error alone is the best. */
TEST(nothing_is_lost_where_nothing_can_be_gained)
{
    double tuned = error_of(job_of("{'matrix': {'family': 'banded', 'bands': 3, 'optimize_for': 'job'}, %s}", ROUNDS),
                            false),
           best = error_of(job_of("{'matrix': {'family': 'banded', 'bands': 3}, %s}", ROUNDS), false);
    assert_true(tuned <= (1 + 1e-3) * best && tuned >= (1 - 2e-3) * best);
    /* One band leaves no choice. */
    struct answer one = answered(
                      job_of("{'matrix': {'family': 'banded', 'bands': 1, 'optimize_for': 'job'}, %s}", DRAWN)),
                  identity = answered(job_of("{'matrix': {'family': 'identity'}, %s}", DRAWN));
    assert_true(fabs(one.value - identity.value) <= 1e-9 * identity.value);
}

/* ------------------------------------------------------------ the family */

#define TURNS                                                                                                 \
    "'n': 16, 'sampling': {'scheme': 'cyclic_poisson', 'p': 0.1, 'groups': 4}, 'epsilon': 2, 'delta': 1e-3, " \
    "'accountant': {'method': 'mmcc', 'bad_event_share': 0.3, 'tolerance': 0.01}"
#define APART                                                                                                \
    "'n': 24, 'sampling': {'scheme': 'b_min_sep', 'p': 0.1, 'separation': 4}, 'epsilon': 2, 'delta': 1e-3, " \
    "'accountant': 'gaussian'"

/* Families whose C is full, and the error for the job as a share of the error of the best C for error alone: what it is
 * at least and at most. The b_min_sep job has no amplification, but its worst pattern is not that of a fixed order. */
static const struct {
    const char *matrix, *rest;
    double least, most;
} full[] = {
    {"'family': 'banded_inverse', 'bands': 4", BINNED, 0.88, 0.92},
    {"'family': 'banded_inverse', 'bands': 4", TURNS, 0.55, 0.65},
    {"'family': 'banded_inverse', 'bands': 4", APART, 0.6, 0.8},
    {"'family': 'blt', 'buffers': 2", BINNED, 0.88, 0.92},
    {"'family': 'blt', 'buffers': 2", TURNS, 0.55, 0.65},
    {"'family': 'blt', 'buffers': 2", APART, 0.6, 0.8},
    {"'family': 'blt', 'buffers': 2, 'stamps': 2", APART, 0.4, 1},
};

enum { FULL = sizeof full / sizeof *full };

static struct eps_job full_job(size_t i, const char *aim)
{
    return job_of("{'matrix': {%s, 'optimize_for': '%s'}, %s}", full[i].matrix, aim, full[i].rest);
}

/* The numbers of the recurrence give the first column of C from its family's definition. */
static void assert_column(const struct eps_strategy *strategy, const struct eps_recurrence *r, double *expected)
{
    double sum, row[32];
    struct eps_error error = {0};
    assert_true(r->block <= eps_strategy_columns(strategy) && eps_strategy_columns(strategy) <= 32);
    if (r->kind == EPS_RECURRENCE_INVERSE) {
        for (size_t t = 0; t < r->block; t++) {
            sum = t == 0;
            for (size_t d = 1; d < r->len && d <= t; d++)
                sum -= r->numbers[d] * expected[t - d];
            expected[t] = sum / r->numbers[0];
        }
    } else {
        for (size_t t = 0; t < r->block; t++) {
            sum = t == 0;
            for (size_t i = 0; i < r->buffers && t > 0; i++)
                sum += r->scale[i] * pow(r->decay[i], (double)(t - 1));
            expected[t] = sum * r->divisor;
        }
    }
    assert_int_equal(eps_strategy_row(strategy, row, &error, EPS_PART_ENCODER, r->block - 1), EPS_OK);
    for (size_t t = 0; t < r->block; t++)
        assert_true(fabs(row[r->block - 1 - t] - expected[t]) <= 1e-12 && expected[t] >= 0);
}

/* What is found is a member of its family, also by its id, so that a trainer keeps as few rows of noise. */
TEST(full_strategies_gain_more_and_stay_in_the_family)
{
    static struct cache cache;
    const struct eps_context context = cache_context(&cache);
    for (size_t i = 0; i < FULL; i++) {
        struct eps_job job = full_job(i, "job");
        bool inverse = job.mechanism.matrix.family == EPS_FAMILY_BANDED_INVERSE;
        struct eps_result *result = solved(&context, job);
        struct eps_mechanism stored = job.mechanism;
        struct eps_strategy *strategy = NULL;
        struct eps_error error = {0};
        struct eps_recurrence r;
        double column[32], share = result->error_mean_squared / error_of(full_job(i, "error"), false);
        if (!(share >= full[i].least && share <= full[i].most && result->iterations > 0))
            fail_msg("%s, %s: %.4g of the error", full[i].matrix, full[i].rest, share);
        assert_int_equal(result->blt_len, inverse ? 0 : job.mechanism.matrix.buffers);
        eps_matrix_stored(&stored.matrix, result->factorization_id);
        assert_int_equal(eps_strategy_create(&context, &strategy, &error, &stored), EPS_OK);
        assert_int_equal(eps_strategy_recurrence(strategy, &r, &error), EPS_OK);
        assert_int_equal(r.kind, inverse ? EPS_RECURRENCE_INVERSE : EPS_RECURRENCE_BLT);
        assert_int_equal(inverse ? r.len : r.buffers, inverse ? job.mechanism.matrix.bands : result->blt_len);
        assert_column(strategy, &r, column);
        for (size_t b = 0; b < result->blt_len; b++)
            assert_true(r.decay[b] == result->blt_decay[b] && r.scale[b] == result->blt_scale[b] && r.decay[b] > 0 &&
                        r.decay[b] < 1 && r.scale[b] >= 0);
        eps_strategy_destroy(strategy);
        eps_result_destroy(result);
    }
}

/* One row of noise kept, and one number to choose: all of its values can be tried. */
TEST(no_other_member_is_much_better)
{
    double found = error_of(
               job_of("{'matrix': {'family': 'banded_inverse', 'bands': 2, 'optimize_for': 'job'}, %s}", TURNS), false),
           least = INFINITY;
    for (int i = 0; i <= 30; i++) {
        struct eps_job job = job_of("{'matrix': {'family': 'banded_inverse', 'bands': 2}, %s}", TURNS);
        const double inverse[] = {1, -0.03 * i};
        job.mechanism.matrix.coefficients = inverse;
        job.mechanism.matrix.coefficients_len = 2;
        least = fmin(least, error_of(job, false));
    }
    if (!(found <= 1.002 * least && found >= 0.99 * least))
        fail_msg("error %.6g, but %.6g", found, least);
}

/* Amplification needs entries >= 0: a C that has others has no price, wherever a search goes. Nor has one whose entries
 * overflow. */
TEST(what_cannot_be_amplified_has_no_price)
{
    static const double inverses[][2] = {{1, -0.5}, {1, 0.5}, {1, -1e90}};
    struct eps_job job = full_job(0, "error");
    struct eps_context context = {0};
    struct eps__meter meter = {.expected = 1};
    struct eps__meters meters = {.context = &context, .items = &meter, .len = 1, .stride = sizeof meter};
    meter.all = &meters;
    for (int i = 0; i < 3; i++) {
        struct eps__pricing pricing = {
            .context = &context, .job = job, .slopes = {-20, -20}, .expected = 1, .meter = &meter};
        struct eps__price price, near;
        struct eps_matrix matrix = job.mechanism.matrix;
        matrix.bands = matrix.coefficients_len = 2;
        matrix.coefficients = inverses[i];
        assert_true(eps__price_first(&pricing, &price, &matrix));
        assert_int_equal(isfinite(price.log_error), i == 0);
        assert_true(eps__price_like(&pricing, &near, &price, &matrix));
        assert_int_equal(isfinite(near.log_error), i == 0);
    }
}

/* The table of members says which families have the member, the rows of families which of them are searched. */
TEST(members_and_families_agree)
{
    for (int f = 0; f < EPS_FAMILY_COUNT; f++) {
        const struct eps_matrix matrix = {.family = (enum eps_family)f};
        assert_int_equal(eps__family_of(&matrix)->search != NULL,
                         eps__members_has(&eps__matrix_object, offsetof(struct eps_matrix, optimize_for), (unsigned)f));
    }
}

/* ------------------------------------------------------------ the guarantee */

/* The answer is that of the same C given by its id or by its numbers, from both sides. */
TEST(what_is_proven_is_proven_of_c_as_given)
{
    static struct cache cache;
    const struct eps_context context = cache_context(&cache);
    struct eps_job job = job_of("{'matrix': {'family': 'banded', 'bands': 4, 'optimize_for': 'job'}, %s}", DRAWN);
    struct eps_result *tuned = solved(&context, job);
    struct eps_job stored = job;
    eps_matrix_stored(&stored.mechanism.matrix, tuned->factorization_id);
    struct eps_result *given = solved(&context, stored);
    assert_string_equal(given->factorization_id, tuned->factorization_id);
    assert_true(given->noise_multiplier == tuned->noise_multiplier && given->bracket_lower == tuned->bracket_lower);
    assert_true(given->error_mean_squared == tuned->error_mean_squared);
    assert_true(tuned->iterations > 0 && tuned->guarantee == EPS_GUARANTEE_DETERMINISTIC);
    eps_result_destroy(given);
    /* And with epsilon as the unknown, the bound at this noise is epsilon. */
    stored.query.epsilon = NAN;
    stored.query.noise_multiplier = tuned->noise_multiplier;
    given = solved(&context, stored);
    assert_true(fabs(given->epsilon - 2) < 5e-3);
    eps_result_destroy(given);
    eps_result_destroy(tuned);
}

TEST(a_curve_is_that_of_the_optimised_strategy)
{
    static struct cache cache;
    const struct eps_context context = cache_context(&cache);
    struct eps_job job = job_of("{'matrix': {'family': 'banded', 'bands': 3, 'optimize_for': 'job'}, %s}", ROUNDS);
    struct eps_result *tuned = solved(&context, job);
    struct eps_job stored = job;
    struct eps_curve_point *points = NULL, *others = NULL;
    size_t len = 0, others_len = 0;
    struct eps_error error = {0};
    double sigma = tuned->noise_multiplier;
    eps_matrix_stored(&stored.mechanism.matrix, tuned->factorization_id);
    eps_result_destroy(tuned);
    assert_int_equal(eps_privacy_curve(NULL, &points, &len, &error, &job, sigma), EPS_OK);
    assert_int_equal(eps_privacy_curve(&context, &others, &others_len, &error, &stored, sigma), EPS_OK);
    assert_true(len > 0 && len == others_len);
    for (size_t i = 0; i < len; i++)
        assert_true(points[i].epsilon == others[i].epsilon && points[i].delta == others[i].delta);
    free(points);
    free(others);
}

TEST(what_is_spent_is_spent_with_the_optimised_strategy)
{
    struct eps_job job = job_of("{'matrix': {'family': 'banded', 'bands': 2, 'optimize_for': 'job'}, %s}", DRAWN);
    struct eps_spend_point *points = NULL;
    struct eps_error error = {0};
    size_t len = 0;
    struct eps_result *result = solved(NULL, job);
    assert_int_equal(eps_spend(NULL, &points, &len, &error, &job, result->noise_multiplier, 1e-3), EPS_OK);
    assert_int_equal(len, 1); /* a run cannot be divided */
    assert_int_equal(points[0].step, 24);
    assert_true(points[0].epsilon > 1.98 && points[0].epsilon < 2.02);
    free(points);
    eps_result_destroy(result);

    job.query.delta = 2;
    assert_int_equal(eps_spend(NULL, &points, &len, &error, &job, 1, 1e-3), EPS_INVALID);
    assert_string_equal(error.pointer, "/delta");
}

/* ------------------------------------------------------------ keys */

static enum eps_cache_state state_of(const struct eps_context *context, const struct eps_job *job, char id[65])
{
    struct eps_result *result = solved(context, *job);
    enum eps_cache_state state = result->cache_factorization;
    memcpy(id, result->factorization_id, 65);
    eps_result_destroy(result);
    return state;
}

TEST(a_column_serves_only_an_equal_job)
{
    static struct cache cache;
    static const char *const others[] = {
        "{'matrix': {'family': 'banded', 'bands': 3, 'optimize_for': 'job'}, 'n': 24, 'sampling': {'scheme': "
        "'cyclic_poisson', 'p': 0.1}, 'epsilon': 2.5, 'delta': 1e-3}",
        "{'matrix': {'family': 'banded', 'bands': 3, 'optimize_for': 'job'}, 'n': 24, 'sampling': {'scheme': "
        "'cyclic_poisson', 'p': 0.1}, 'epsilon': 2, 'delta': 1e-4}",
        "{'matrix': {'family': 'banded', 'bands': 3, 'optimize_for': 'job'}, 'n': 27, 'sampling': {'scheme': "
        "'cyclic_poisson', 'p': 0.1}, 'epsilon': 2, 'delta': 1e-3}",
        "{'matrix': {'family': 'banded', 'bands': 3, 'optimize_for': 'job'}, 'n': 24, 'sampling': {'scheme': "
        "'cyclic_poisson', 'p': 0.2}, 'epsilon': 2, 'delta': 1e-3}",
        "{'matrix': {'family': 'banded', 'bands': 3, 'optimize_for': 'job'}, 'n': 24, 'sampling': {'scheme': "
        "'poisson', 'p': 0.1}, 'epsilon': 2, 'delta': 1e-3, 'accountant': {'method': 'renyi', 'max_order': 3}}",
        "{'matrix': {'family': 'banded', 'bands': 2, 'optimize_for': 'job'}, 'n': 24, 'sampling': {'scheme': "
        "'cyclic_poisson', 'p': 0.1}, 'epsilon': 2, 'delta': 1e-3}",
        "{'matrix': {'family': 'banded', 'bands': 3, 'optimize_for': 'job', 'objective': 'max_squared'}, 'n': 24, "
        "'sampling': {'scheme': 'cyclic_poisson', 'p': 0.1}, 'epsilon': 2, 'delta': 1e-3}",
        "{'matrix': {'family': 'banded', 'bands': 3, 'optimize_for': 'job'}, 'n': 24, 'sampling': {'scheme': "
        "'cyclic_poisson', 'p': 0.1}, 'epsilon': 2, 'delta': 1e-3, 'adjacency': 'replace_one'}",
        "{'matrix': {'family': 'banded', 'bands': 3, 'optimize_for': 'job'}, 'n': 24, 'sampling': {'scheme': "
        "'cyclic_poisson', 'p': 0.1}, 'epsilon': 2, 'delta': 1e-3, 'workload': {'type': 'momentum', 'momentum': "
        "0.5}}",
    };
    const struct eps_context context = cache_context(&cache);
    char id[65], again[65], alone[65];
    struct eps_job job = job_of("{'matrix': {'family': 'banded', 'bands': 3, 'optimize_for': 'job'}, %s}", ROUNDS);
    for (size_t i = 0; i < FULL; i++) { /* the same with and without a cache */
        struct eps_job own = full_job(i, "job");
        if (own.mechanism.sampling.scheme != EPS_SCHEME_B_MIN_SEP) /* the others take longer */
            continue;
        assert_int_equal(state_of(&context, &own, id), EPS_CACHE_MISS);
        assert_int_equal(state_of(&context, &own, again), EPS_CACHE_HIT);
        assert_int_equal(state_of(NULL, &own, alone), EPS_CACHE_UNUSED);
        assert_string_equal(id, again);
        assert_string_equal(id, alone);
    }
    assert_int_equal(state_of(&context, &job, id), EPS_CACHE_MISS);
    assert_int_equal(state_of(&context, &job, again), EPS_CACHE_HIT);
    assert_int_equal(state_of(NULL, &job, alone), EPS_CACHE_UNUSED);
    assert_string_equal(id, again);
    assert_string_equal(id, alone);
    for (size_t i = 0; i < sizeof others / sizeof *others; i++) {
        struct eps_job other = job_of("%s", others[i]);
        if (state_of(&context, &other, again) != EPS_CACHE_MISS)
            fail_msg("the column of another job served %s", others[i]);
    }
    /* What is damaged is computed again, to the same bits. */
    for (size_t i = 0; i < cache.len; i++)
        cache.blobs[i].bytes[cache.blobs[i].len - 1] ^= 0x80; /* a sign */
    assert_int_equal(state_of(&context, &job, again), EPS_CACHE_MISS);
    assert_string_equal(id, again);
}

/* ------------------------------------------------------------ costs and refusals */

TEST(the_search_is_part_of_the_estimate)
{
    struct eps_job job = job_of("{'matrix': {'family': 'banded', 'bands': 4, 'optimize_for': 'job'}, %s}", BINNED),
                   plain = job_of("{'matrix': {'family': 'banded', 'bands': 4}, %s}", BINNED);
    double operations, without, bytes;
    struct eps_error error = {0};
    assert_int_equal(eps_job_serves(NULL, &error, &job, &operations, &bytes), EPS_OK);
    assert_int_equal(eps_job_serves(NULL, &error, &plain, &without, &bytes), EPS_OK);
    assert_true(operations > 1.5 * without);
    const struct eps_context limited = {.max_operations = 1.4 * without};
    assert_int_equal(eps_job_serves(&limited, &error, &job, NULL, NULL), EPS_TOO_COSTLY);
    struct eps_result *result = NULL;
    assert_int_equal(eps_solve(&limited, &result, &error, &job), EPS_TOO_COSTLY);
    assert_int_equal(eps_job_serves(&limited, &error, &plain, NULL, NULL), EPS_OK);
}

/* A mechanism without epsilon and delta does not determine the strategy. */
TEST(a_mechanism_alone_has_no_such_strategy)
{
    struct eps_job job = job_of("{'matrix': {'family': 'banded', 'bands': 4, 'optimize_for': 'job'}, %s}", DRAWN);
    struct eps_strategy *strategy = NULL;
    struct eps_error error = {0};
    assert_int_equal(eps_strategy_create(NULL, &strategy, &error, &job.mechanism), EPS_UNSUPPORTED);
    assert_string_equal(error.pointer, "/matrix/optimize_for");
}

static bool yes(void *user)
{
    (void)user;
    return true;
}

TEST(a_search_can_be_canceled)
{
    struct eps_job job = job_of("{'matrix': {'family': 'banded', 'bands': 4, 'optimize_for': 'job'}, %s}", DRAWN);
    const struct eps_context canceled = {.canceled = yes}, expired = {.expired = yes};
    struct eps_result *result = NULL;
    struct eps_error error = {0};
    assert_int_equal(eps_solve(&canceled, &result, &error, &job), EPS_CANCELED);
    assert_int_equal(eps_solve(&expired, &result, &error, &job), EPS_TIMEOUT);
    struct eps__tuned tuned;
    assert_int_equal(eps__tune(&canceled, &tuned, &error, &job), EPS_CANCELED);
}
