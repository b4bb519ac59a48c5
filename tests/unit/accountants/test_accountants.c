/*
 * The accountants through eps_solve(), compared with closed forms, with each other, and with properties of every
 * answer: brackets are ordered and narrow, answers are monotone and consistent, and the bits do not depend on how they
 * were computed.
 *
 * SPDX-License-Identifier: GPL-3.0-or-later
 */
#include <math.h>
#include <pthread.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "lib/job/setting.h"
#include "tests/unit/draw.h"
#include "tests/unit/exact.h"
#include "tests/unit/patience.h"
#include "tests/unit/solved.h"
#include "tests/unit/test.h"
#include "tests/unit/threads.h"

static const uint64_t seed = 161803;

/* ------------------------------------------------------------ jobs and answers */

static struct eps_job new_job(enum eps_scheme scheme, size_t n, double p)
{
    struct eps_job job;
    eps_job_init(&job);
    job.mechanism.n = n;
    job.mechanism.sampling.scheme = scheme;
    job.mechanism.sampling.p = scheme == EPS_SCHEME_NONE ? NAN : p;
    job.query.accountant.method = EPS_ACCOUNTANT_PLD;
    return job;
}

static void tell(const struct eps_job *job)
{
    const struct eps_mechanism *m = &job->mechanism;
    print_error(
        "  %s n %zu p %.17g, %s, user %zu, last iterate %d; eps %.17g delta %.17g sigma %.17g, %s, tolerance %g\n",
        eps_scheme_name(m->sampling.scheme), m->n, m->sampling.p, eps_adjacency_name(m->adjacency),
        m->sampling.examples_per_user, m->sampling.last_iterate, job->query.epsilon, job->query.delta,
        job->query.noise_multiplier, eps_accountant_name(job->query.accountant.method),
        job->query.accountant.tolerance);
}

/* The parts of an answer that a test examines. */
struct look {
    double value, lower, remove, add;
    bool wide; /* it claims that the bracket is */
};

static double seconds(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}

static double processor_seconds(void)
{
    struct timespec now;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now);
    return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}

/* The processor seconds that a job of these tests may take. */
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define PATIENCE 120.0
#elif defined(EPS_VERIFY)
#define PATIENCE 600.0
#else
#define PATIENCE 40.0
#endif

static bool too_late(void *user)
{
    return processor_seconds() > *(double *)user;
}

static bool hinted(const struct eps_result *result, const char *text)
{
    for (size_t i = 0; i < result->hints_len; i++)
        if (strstr(result->hints[i], text))
            return true;
    return false;
}

static struct look solve_in(const struct eps_context *context, struct eps_job job)
{
    struct eps_result *result = NULL;
    struct eps_error error = {0};
    eps_job_defaults(&job);
    if (eps_solve(context, &result, &error, &job) != EPS_OK) {
        tell(&job);
        if (error.status == EPS_CANCELED)
            fail_msg("no answer within %g s", PATIENCE);
        fail_msg("%d: %s: %s", (int)error.status, error.pointer, error.message);
    }
    struct look answer = {result->bracket_upper, result->bracket_lower, result->directions[EPS_REMOVE].value,
                          result->directions[EPS_ADD].value, hinted(result, "more than the tolerance")};
    if (!(answer.lower <= answer.value) || answer.value != fmax(answer.remove, answer.add)) {
        tell(&job);
        fail_msg("[%.17g, %.17g], remove %.17g, add %.17g", answer.lower, answer.value, answer.remove, answer.add);
    }
    eps_result_destroy(result);
    return answer;
}

static struct look solve(struct eps_job job)
{
    double deadline = processor_seconds() + PATIENCE;
    const struct eps_context context = {.user = &deadline, .canceled = too_late};
    return solve_in(&context, job);
}

static void assert_inside(const struct eps_job *job, const struct look *answer, double exact, double slack)
{
    if (!(answer->lower <= exact + slack && answer->value >= exact - slack)) {
        tell(job);
        fail_msg("%.17g is outside [%.17g, %.17g]: by %.3g above, %.3g below", exact, answer->lower, answer->value,
                 exact - answer->value, answer->lower - exact);
    }
}

/* Whether the bracket is as narrow as requested, or the result says that it is not. */
static bool narrow(const struct eps_job *job, const struct look *answer)
{
    double scale = isnan(job->query.epsilon) ? fmax(answer->value, 1e-6) : answer->value;
    bool said = answer->wide || (isnan(job->query.delta) && answer->value <= 1e-300);
    return answer->value - answer->lower <= job->query.accountant.tolerance * scale || said;
}

/* ------------------------------------------------------------ closed forms */

static double gaussian_epsilon(double mu, double delta)
{
    double low = 0, high = mu * mu + 60 * mu;
    for (int i = 0; i < 60; i++)
        *(exact_gaussian_delta(mu, 0.5 * (low + high)) > delta ? &low : &high) = 0.5 * (low + high);
    return high;
}

/* delta = p times the Gaussian profile at ln((e^eps - 1 + p)/p): inverted. */
static double one_step_epsilon(double p, double mu, double delta)
{
    double v = gaussian_epsilon(mu, delta / p);
    return log1p(p * expm1(v));
}

TEST(one_gaussian_by_either_accountant)
{
    static const double sigmas[] = {0.35, 1, 7, 300}, deltas[] = {1e-3, 1e-6, 1e-20, 1e-30};
    for (size_t i = 0; i < 4; i++) {
        for (size_t j = 0; j < 4; j++) {
            double exact = gaussian_epsilon(1 / sigmas[i], deltas[j]);
            struct eps_job job = new_job(EPS_SCHEME_NONE, 100, NAN);
            job.query.noise_multiplier = sigmas[i];
            job.query.delta = deltas[j];
            struct look pld = solve(job);
            assert_inside(&job, &pld, exact, 1e-13 * exact);
            assert_true(narrow(&job, &pld) && !pld.wide);
            job.query.accountant.method = EPS_ACCOUNTANT_GAUSSIAN;
            struct look closed = solve(job);
            assert_inside(&job, &closed, exact, 1e-13 * exact);
            /* Backwards: delta from the epsilon that was found, and the noise. */
            job.query.epsilon = exact;
            job.query.delta = NAN;
            struct look delta = solve(job);
            assert_inside(&job, &delta, deltas[j], 1e-9 * deltas[j]);
            job.query.accountant.method = EPS_ACCOUNTANT_PLD;
            delta = solve(job);
            assert_inside(&job, &delta, deltas[j], 1e-9 * deltas[j]);
            job.query.delta = deltas[j];
            job.query.noise_multiplier = NAN;
            struct look noise = solve(job);
            assert_inside(&job, &noise, sigmas[i], 1e-9 * sigmas[i]);
        }
    }
}

TEST(full_batches_are_one_gaussian)
{
    static const double sigmas[] = {15.518, 27.493, 106.023}, deltas[] = {1e-6, 1e-14, 1e-20, 1e-30};
    for (size_t i = 0; i < 3; i++) {
        for (size_t j = 0; j < 4; j++) {
            struct eps_job job = new_job(EPS_SCHEME_POISSON, 2052, 1);
            job.query.noise_multiplier = sigmas[i];
            job.query.delta = deltas[j];
            struct look answer = solve(job);
            double exact = gaussian_epsilon(sqrt(2052) / sigmas[i], deltas[j]);
            assert_inside(&job, &answer, exact, 1e-13 * exact);
            assert_true(narrow(&job, &answer) && !answer.wide);
        }
    }
}

static size_t check_one_step(double p, double sigma, double delta, double tolerance)
{
    struct eps_job job = new_job(EPS_SCHEME_POISSON, 1, p);
    job.query.noise_multiplier = sigma;
    job.query.delta = delta;
    job.query.accountant.tolerance = tolerance;
    struct look answer = solve(job);
    double exact = one_step_epsilon(p, 1 / sigma, delta);
    assert_inside(&job, &answer, exact, 1e-13 * (1 + exact));
    size_t wide = answer.value - answer.lower > tolerance * answer.value;
    if (wide) {
        tell(&job);
        print_error("  [%.17g, %.17g] is wide: %.3g, relative\n", answer.lower, answer.value,
                    1 - answer.lower / answer.value);
    }
    job.query.delta = NAN;
    job.query.epsilon = exact;
    answer = solve(job);
    assert_inside(&job, &answer, delta, 1e-8 * delta);
    return wide;
}

TEST(one_sampled_step_has_a_closed_form)
{
    static const double ps[] = {0.9, 0.1, 1e-2, 1e-4}, sigmas[] = {0.4, 1, 5}, deltas[] = {1e-6, 1e-20, 1e-30};
    size_t wide = 0;
    for (size_t i = 0; i < 4 * 3 * 3; i++)
        wide += check_one_step(ps[i % 4], sigmas[i / 4 % 3], deltas[i / 12], 1e-3);
    for (size_t i = 0; i < 4; i++)
        wide += check_one_step(ps[i], 1, 1e-6, 1e-6);
    assert_int_equal(wide, 0);
}

/* Few steps compared with Laplace inversion, both directions. */
TEST(sampled_steps_agree_with_brute_force)
{
    uint64_t state = seed;
    int checked = 0;
    for (int c = 0; c < 14; c++) {
        double p = draw_log(&state, 3e-3, 0.9), sigma = draw_log(&state, 0.5, 4), exact[2] = {0, 0};
        uint64_t n = (uint64_t)draw_log(&state, 2, 5000);
        struct draw_pair pair[2];
        struct exact_power powers[2];
        for (int add = 0; add < 2; add++) {
            subsampled_pair(&pair[add], p, 1 / sigma, add);
            powers[add] = (struct exact_power){&pair[add].pair, n};
        }
        struct exact_saddle plain = exact_moments(&powers[0], 1, 0);
        struct eps_job job = new_job(EPS_SCHEME_POISSON, n, p);
        job.query.noise_multiplier = sigma;
        job.query.epsilon = fmax(plain.mean, 0) + draw_between(&state, 0.5, 8) * plain.deviation;
        job.query.accountant.tolerance = c % 2 ? 1e-3 : 1e-6;
        struct look answer = solve(job);
        bool known = true;
        for (int add = 0; add < 2; add++) {
            struct exact_answer one = exact_composition(&powers[add], 1, job.query.epsilon);
            exact[add] = exp(one.log_delta);
            known &= one.error < 1e-7 || (add == 1 && !(one.log_delta > -600));
        }
        if (!known)
            continue;
        double worse = fmax(exact[0], isnan(exact[1]) ? 0 : exact[1]);
        assert_inside(&job, &answer, worse, 2e-7 * worse);
        checked++;
    }
    print_message("# %d mechanisms checked by inversion, seed %llu\n", checked, (unsigned long long)seed);
    assert_true(checked >= 8);
}

/* ------------------------------------------------------------ properties of every answer */

static struct eps_job draw_job(uint64_t *state)
{
    static const enum eps_adjacency adjacencies[] = {EPS_ADJACENCY_ZERO_OUT, EPS_ADJACENCY_ADD_REMOVE,
                                                     EPS_ADJACENCY_REPLACE_ONE};
    struct eps_job job = new_job(EPS_SCHEME_POISSON, (size_t)draw_log(state, 1, 3000), draw_log(state, 1e-4, 1));
    job.mechanism.adjacency = adjacencies[draw_below(state, 3)];
    job.mechanism.sampling.examples_per_user = draw_below(state, 3) ? 1 : 1 + draw_below(state, 5);
    if (draw_below(state, 8) == 0) {
        job.mechanism.sampling.last_iterate = true;
        job.mechanism.sampling.examples_per_user = 1;
        job.mechanism.n = job.mechanism.n % 300 + 1;
    }
    job.query.noise_multiplier = draw_log(state, 0.4, 20) * (double)job.mechanism.sampling.examples_per_user;
    job.query.delta = draw_log(state, 1e-20, 1e-2);
    return job;
}

/* One job with each of the three unknowns. */
TEST(random_jobs_are_consistent)
{
    uint64_t state = seed;
    size_t wide = 0, asked_again = 0;
    for (int c = 0; c < 30; c++) {
        struct eps_job job = draw_job(&state), delta_job = job, noise_job = job;
        struct look epsilon = solve(job);
        wide += !narrow(&job, &epsilon);
        if (epsilon.value <= 0)
            continue;
        asked_again++;
        delta_job.query.epsilon = epsilon.value;
        delta_job.query.delta = NAN;
        struct look delta = solve(delta_job);
        wide += !narrow(&delta_job, &delta);
        /* The truth at epsilon.value is at most the requested delta, so the lower bound is, too. */
        if (!(delta.lower <= job.query.delta)) {
            tell(&job);
            fail_msg("epsilon is at most %.17g, and there delta is at least %.17g", epsilon.value, delta.lower);
        }
        if (epsilon.lower > 0) {
            delta_job.query.epsilon = epsilon.lower;
            if (!(solve(delta_job).value >= job.query.delta))
                fail_msg("epsilon is at least %.17g, and there delta is smaller", epsilon.lower);
        }
        if (c % 3)
            continue;
        noise_job.query.epsilon = epsilon.value;
        noise_job.query.noise_multiplier = NAN;
        struct look noise = solve(noise_job);
        wide += !narrow(&noise_job, &noise);
        if (!(noise.lower <= job.query.noise_multiplier)) {
            tell(&job);
            fail_msg("sigma %.17g gives epsilon %.17g, which needs at least %.17g", job.query.noise_multiplier,
                     epsilon.value, noise.lower);
        }
    }
    print_message("# %zu brackets wider than the tolerance without a hint, seed %llu\n", wide,
                  (unsigned long long)seed);
    assert_int_equal(wide, 0);
    assert_true(asked_again > 15);
}

/* Where the losses of one direction are bounded and epsilon lies just below the bound, its delta is nearly 0 and the
 * other direction decides. And a heavy tail whose composition is wide because of the rounding bound alone. */
TEST(jobs_that_were_too_costly)
{
    static const struct {
        size_t n;
        double p, sigma, eps, delta, tolerance;
    } jobs[] = {
        {1, 0.01, 0.4, NAN, 1e-20, 1e-5},
        {2, 0.11947419235235378, 6.6293091121897207, 0.24784989929697274, NAN, 1e-3},
        {349, 0.00019752903270331217, 1.3808864163092258, 0.037120844121862839, NAN, 1e-3},
        {349, 0.00019752903270331217, 1.3808864163092258, NAN, 2.6259368067905207e-14, 1e-3},
    };
    int wrong = 0;
    for (size_t i = 0; i < sizeof jobs / sizeof *jobs; i++) {
        struct eps_job job = new_job(EPS_SCHEME_POISSON, jobs[i].n, jobs[i].p);
        struct eps_result *result = NULL;
        double begin = processor_seconds(), deadline = begin + PATIENCE;
        const struct eps_context context = {.user = &deadline, .canceled = too_late};
        job.query.noise_multiplier = jobs[i].sigma;
        job.query.epsilon = jobs[i].eps;
        job.query.delta = jobs[i].delta;
        job.query.accountant.tolerance = jobs[i].tolerance;
        eps_job_defaults(&job);
        enum eps_status status = eps_solve(&context, &result, NULL, &job);
        eps_result_destroy(result);
        if (status == EPS_OK)
            continue;
        tell(&job);
        print_error("  status %d after %.1f s\n", (int)status, processor_seconds() - begin);
        wrong++;
    }
    assert_int_equal(wrong, 0);
}

/* More steps, more sampling, less noise, smaller delta, more examples: epsilon does not fall. */
TEST(epsilon_is_monotone)
{
    uint64_t state = seed + 1;
    for (int c = 0; c < 16; c++) {
        struct eps_job job = draw_job(&state);
        job.mechanism.sampling.last_iterate = false;
        struct look base = solve(job);
        struct eps_job worse[6] = {job, job, job, job, job, job};
        worse[0].mechanism.n += 1 + job.mechanism.n / 100;
        worse[1].mechanism.sampling.p = fmin(1, job.mechanism.sampling.p * 1.01);
        worse[2].query.noise_multiplier *= 0.99;
        worse[3].query.delta *= 0.9;
        worse[4].mechanism.sampling.examples_per_user++;
        worse[5].mechanism.adjacency = EPS_ADJACENCY_REPLACE_ONE;
        for (int i = c % 2; i < 6; i += 2) {
            struct look answer = solve(worse[i]);
            if (!(answer.value >= base.lower)) {
                tell(&worse[i]);
                fail_msg("a worse mechanism (%d) has epsilon %.17g, under %.17g", i, answer.value, base.lower);
            }
        }
    }
}

TEST(finer_brackets_overlap_and_are_narrower)
{
    static const double tolerances[] = {1e-2, 1e-3, 1e-6, 1e-8};
    uint64_t state = seed + 2;
    size_t wide = 0;
    for (int c = 0; c < (getenv("REPRODUCE") ? 30 : 3); c++) {
        struct eps_job job = draw_job(&state);
        if (c % 3 == 1) {
            job.query.epsilon = fmax(solve(job).value, 1e-3) * draw_between(&state, 0.5, 1.1);
            job.query.delta = NAN;
        }
        double lower = 0, upper = INFINITY, width = INFINITY;
        for (size_t i = 0; i < 4; i++) {
            job.query.accountant.tolerance = tolerances[i];
            struct look answer = solve(job);
            if (!(answer.lower <= upper && answer.value >= lower)) {
                tell(&job);
                fail_msg("[%.17g, %.17g] is outside [%.17g, %.17g]", answer.lower, answer.value, lower, upper);
            }
            if (!narrow(&job, &answer)) {
                tell(&job);
                print_error("  [%.17g, %.17g] is wide: %.3g, relative\n", answer.lower, answer.value,
                            1 - answer.lower / answer.value);
                wide++;
            }
            lower = fmax(lower, answer.lower);
            upper = fmin(upper, answer.value);
            assert_true(i == 0 || answer.value - answer.lower <= width || width <= tolerances[i] * answer.value);
            width = answer.value - answer.lower;
        }
    }
    assert_int_equal(wide, 0);
}

/* ------------------------------------------------------------ threads, cache, cancellation */

enum { BLOBS_MAX = 4096 };

struct store {
    pthread_mutex_t lock;
    struct {
        uint8_t key[32];
        void *blob;
        size_t len;
    } items[BLOBS_MAX];
    size_t len, hits;
};

static bool store_get(void *user, enum eps_cache_kind kind, const uint8_t key[32], void **blob, size_t *blob_len)
{
    struct store *store = user;
    bool found = false;
    (void)kind;
    pthread_mutex_lock(&store->lock);
    for (size_t i = 0; i < store->len && !found; i++) {
        if (memcmp(store->items[i].key, key, 32) != 0)
            continue;
        *blob = malloc(store->items[i].len);
        if (*blob)
            memcpy(*blob, store->items[i].blob, store->items[i].len);
        *blob_len = store->items[i].len;
        found = *blob != NULL;
        store->hits++;
    }
    pthread_mutex_unlock(&store->lock);
    return found;
}

static void store_put(void *user, enum eps_cache_kind kind, const uint8_t key[32], const void *blob, size_t blob_len)
{
    struct store *store = user;
    (void)kind;
    pthread_mutex_lock(&store->lock);
    if (store->len < BLOBS_MAX) {
        void *copy = malloc(blob_len);
        if (copy) {
            memcpy(copy, blob, blob_len);
            memcpy(store->items[store->len].key, key, 32);
            store->items[store->len].blob = copy;
            store->items[store->len++].len = blob_len;
        }
    }
    pthread_mutex_unlock(&store->lock);
}

static bool same(const struct look *a, const struct look *b)
{
    return a->value == b->value && a->lower == b->lower && a->remove == b->remove && a->add == b->add;
}

TEST(the_bits_do_not_depend_on_threads_or_cache)
{
    static struct store store = {.lock = PTHREAD_MUTEX_INITIALIZER};
    const struct eps_context threads = {.parallel_for = two_threads};
    const struct eps_context cached = {.user = &store, .cache_get = store_get, .cache_put = store_put};
    const struct eps_context both = {
        .user = &store, .cache_get = store_get, .cache_put = store_put, .parallel_for = two_threads};
    const struct eps_context *const contexts[] = {&threads, &cached, &cached, &both};
    uint64_t state = seed + 3;
    for (int c = 0; c < 9; c++) {
        struct eps_job job = draw_job(&state);
        struct eps_sampling *sampling = &job.mechanism.sampling;
        if (c % 2 && !sampling->last_iterate) { /* its distributions are cached */
            job.query.noise_multiplier *= 12 / (double)sampling->examples_per_user;
            sampling->examples_per_user = 12;
        }
        if (c % 3) {
            job.query.epsilon = fmax(solve(job).value, 1e-3);
            *(c % 3 == 1 ? &job.query.delta : &job.query.noise_multiplier) = NAN;
        }
        struct look plain = solve(job);
        for (size_t i = 0; i < 4; i++) {
            struct look other = solve_in(contexts[i], job);
            if (!same(&plain, &other)) {
                tell(&job);
                fail_msg("context %zu: [%.17g, %.17g], plain [%.17g, %.17g]", i, other.lower, other.value, plain.lower,
                         plain.value);
            }
        }
    }
    assert_true(store.hits > 0);
    for (size_t i = 0; i < store.len; i++)
        free(store.items[i].blob);
}

/* Says yes from a moment on, and records when it was first polled after that. */
struct stopper {
    double at, longest, last;
};

static bool stop(void *user)
{
    struct stopper *stopper = user;
    double now = seconds();
    if (stopper->last > 0)
        stopper->longest = fmax(stopper->longest, now - stopper->last);
    stopper->last = now;
    return now >= stopper->at;
}

TEST(a_long_solve_stops_when_told)
{
    for (int c = 0; c < 4; c++) {
        struct eps_job job = new_job(EPS_SCHEME_POISSON, 100000, 0.01);
        struct eps_result *result = NULL;
        struct eps_error error = {0};
        double begin = seconds();
        struct stopper stopper = {.at = begin + 0.05 * c * c};
        const struct eps_context canceled = {.user = &stopper, .canceled = stop};
        const struct eps_context expired = {.user = &stopper, .expired = stop};
        job.query.epsilon = 2;
        job.query.delta = 1e-12;
        job.query.accountant.tolerance = 1e-9;
        eps_job_defaults(&job);
        enum eps_status status = eps_solve(c % 2 ? &expired : &canceled, &result, &error, &job);
        double late = seconds() - stopper.at;
        print_message("# told at %.3f s: stopped %.3f s later, polled at least every %.3f s\n", stopper.at - begin,
                      late, stopper.longest);
        eps_result_destroy(result);
        assert_int_equal(status, c % 2 ? EPS_TIMEOUT : EPS_CANCELED);
        assert_int_equal(error.status, status);
        assert_true(late < 4); /* half a second alone; the machine may be busy with other tests */
    }
}

/* ------------------------------------------------------------ unknown values */

static double reported(const struct eps_result *result)
{
    return result->solved_for == EPS_SOLVE_EPSILON ? result->epsilon
           : result->solved_for == EPS_SOLVE_DELTA ? result->delta
                                                   : result->noise_multiplier;
}

/* Bounds on the two directions differ, if only because their searches stop at different points, and either may be the
 * larger one. */
TEST(the_worse_direction_is_reported)
{
    uint64_t state = seed + 4;
    size_t worse[EPS_DIRECTIONS] = {0, 0};
    for (int c = 0; c < 60; c++) {
        double sigma = draw_log(&state, 0.3, 30), delta = draw_log(&state, 1e-20, 1e-2);
        double epsilon = gaussian_epsilon(1 / sigma, delta);
        struct eps_job job = new_job(EPS_SCHEME_NONE, 1, NAN);
        job.query.accountant.tolerance = 1e-2;
        job.query.noise_multiplier = c % 3 == 0 ? NAN : sigma;
        job.query.delta = c % 3 == 1 ? NAN : delta;
        job.query.epsilon = c % 3 == 2 ? NAN : epsilon;
        struct eps_result *result = solved(NULL, job);
        double remove = result->directions[EPS_REMOVE].value, add = result->directions[EPS_ADD].value;
        double exact = c % 3 == 0 ? sigma : c % 3 == 1 ? delta : epsilon;
        assert_true(fmin(remove, add) >= exact * (1 - 1e-9));
        assert_true(reported(result) == fmax(remove, add) && result->bracket_upper == fmax(remove, add));
        worse[EPS_REMOVE] += remove > add;
        worse[EPS_ADD] += add > remove;
        eps_result_destroy(result);
    }
    print_message("# remove was the worse one %zu times, add %zu times, seed %llu\n", worse[EPS_REMOVE], worse[EPS_ADD],
                  (unsigned long long)seed + 4);
    assert_true(worse[EPS_REMOVE] > 0 && worse[EPS_ADD] > 0);
}

/* A5: the lower end of the unamplified Gaussian would exclude the truth. Once for an accountant that has no answer at
 * this sigma, once for one that the limits leave out. */
TEST(a_bracket_without_all_accountants_begins_at_0)
{
    struct eps_job job = new_job(EPS_SCHEME_POISSON, 4, 0.3);
    job.query.accountant.method = EPS_ACCOUNTANT_AUTO;
    job.query.noise_multiplier = 1e-3;
    job.query.delta = 0.3;
    struct eps_result *result = solved(NULL, job);
    assert_true(result->bracket_lower == 0 && result->bracket_upper > 0);
    assert_true(hinted(result, "pld gave no answer"));
    eps_result_destroy(result);
    job.query.noise_multiplier = 2;
    job.query.delta = 1e-6;
    struct eps_result *all = solved(NULL, job);
    const struct eps_context context = {.max_operations = 5e6};
    result = solved(&context, job);
    assert_true(result->bracket_lower == 0 && result->bracket_upper > all->bracket_upper);
    assert_true(hinted(result, "pld was not tried") && !hinted(result, "no accountant of this version"));
    assert_int_equal(result->accountant, EPS_ACCOUNTANT_GAUSSIAN);
    eps_result_destroy(result);
    /* If it is named, its bound is the requested one, and its bracket bounds its rounding. */
    job.query.accountant.method = EPS_ACCOUNTANT_GAUSSIAN;
    result = solved(&context, job);
    assert_true(result->bracket_lower > 0.999 * result->bracket_upper);
    eps_result_destroy(result);
    eps_result_destroy(all);
}

/* A4: a part whose transform would be too long does not make a direction fail that another part decides; if all parts
 * are too long, the direction fails. */
TEST(a_part_that_is_too_costly_is_bounded)
{
    enum { STEPS = 401 };
    double *rows = calloc(STEPS * STEPS, sizeof *rows), bounds[2][EPS_DIRECTIONS][2];
    for (size_t i = 0; i < STEPS; i++) /* the first part has one round more, and smaller norms */
        rows[i * STEPS + i] = i % 2 ? 1 : i % 4 ? 0.3 : 0.999;
    struct eps_job job = new_job(EPS_SCHEME_CYCLIC_POISSON, STEPS, 0.1);
    job.mechanism.matrix.family = EPS_FAMILY_DENSE;
    job.mechanism.matrix.normalization = EPS_NORMALIZATION_NONE;
    job.mechanism.matrix.rows = rows;
    job.mechanism.matrix.rows_n = STEPS;
    job.mechanism.sampling.groups = 2;
    job.query.noise_multiplier = 0.5;
    job.query.epsilon = 20;
    eps_job_defaults(&job);
    struct eps_context context = {0};
    struct eps__setting setting;
    const struct eps__accuracy accuracy = {EPS_SOLVE_DELTA, 1e-3, NAN};
    assert_int_equal(eps__setting_open(&setting, NULL, &context, &job), EPS_OK);
    enum eps_status status[2][EPS_DIRECTIONS];
    for (int limited = 0; limited < 2; limited++) {
        struct eps__profile *profile;
        context.max_bytes = limited ? 2e5 : 0; /* a transform of some thousand points */
        assert_int_equal(eps__accountant_find(EPS_ACCOUNTANT_PLD)->open(&setting, 0.5, &accuracy, &profile, NULL),
                         EPS_OK);
        for (enum eps_direction direction = 0; direction < EPS_DIRECTIONS; direction++)
            for (int estimate = 0; estimate < 2; estimate++)
                status[limited][direction] = profile->class->log_delta(profile, direction, (enum eps__estimate)estimate,
                                                                       20, &bounds[limited][direction][estimate], NULL);
        profile->class->destroy(profile);
    }
    eps__setting_close(&setting);
    free(rows);
    assert_int_equal(status[0][EPS_REMOVE], EPS_OK);
    assert_int_equal(status[1][EPS_REMOVE], EPS_TOO_COSTLY);
    assert_int_equal(status[1][EPS_ADD], EPS_OK);
    assert_true(bounds[1][EPS_ADD][EPS__UPPER] >= bounds[0][EPS_ADD][EPS__LOWER]);
    assert_true(bounds[1][EPS_ADD][EPS__UPPER] <= bounds[0][EPS_ADD][EPS__UPPER] + 12);
    assert_true(bounds[1][EPS_ADD][EPS__LOWER] <= bounds[0][EPS_ADD][EPS__UPPER]);
}

/* A group of millions has tens of thousands of atoms a step, and each point of a grid uses all of them. */
TEST(a_deadline_is_seen_with_large_groups)
{
    struct patience_polls polls = patience_polls(0.05);
    const struct eps_context context = {.user = &polls, .expired = patience_expired};
    struct eps_job job;
    struct eps_result *result;
    struct eps_error error;
    eps_job_init(&job);
    job.mechanism.n = 1;
    job.mechanism.sampling.p = 0.27;
    job.mechanism.sampling.examples_per_user = 33554432;
    job.mechanism.adjacency = EPS_ADJACENCY_REPLACE_ONE;
    job.query.accountant.method = EPS_ACCOUNTANT_PLD;
    job.query.epsilon = 2e-3;
    job.query.delta = 2.7e-204;
    eps_job_defaults(&job);
    assert_int_equal(eps_solve(&context, &result, &error, &job), EPS_TIMEOUT);
    assert_true(polls.gap < 2 && patience_clock() - polls.last < 2);
}

/* Phases keep such a profile where they need a smaller tolerance. */
TEST(fixed_profiles_do_not_depend_on_the_tolerance)
{
    static const enum eps_scheme schemes[] = {EPS_SCHEME_NONE, EPS_SCHEME_POISSON, EPS_SCHEME_BALLS_IN_BINS,
                                              EPS_SCHEME_B_MIN_SEP};
    size_t compared = 0;
    for (size_t s = 0; s < sizeof schemes / sizeof *schemes; s++) {
        struct eps_job job = new_job(schemes[s], 24, schemes[s] == EPS_SCHEME_BALLS_IN_BINS ? NAN : 0.2);
        job.mechanism.matrix.family = EPS_FAMILY_SQUARE_ROOT;
        job.mechanism.matrix.bands = 3;
        if (schemes[s] == EPS_SCHEME_BALLS_IN_BINS)
            job.mechanism.sampling.bins = 6;
        job.query.accountant.method = EPS_ACCOUNTANT_AUTO;
        job.query.noise_multiplier = 1.5;
        job.query.epsilon = 1;
        eps_job_defaults(&job);
        struct eps__setting setting;
        assert_int_equal(eps__setting_open(&setting, NULL, NULL, &job), EPS_OK);
        const struct eps__accountant *serving[EPS__ACCOUNTANTS_MAX];
        size_t len = eps__setting_accountants(&setting, serving, NULL);
        for (size_t i = 0; i < len; i++) {
            double bounds[2][EPS_DIRECTIONS][2];
            for (int fine = 0; fine < 2 && serving[i]->fixed; fine++) {
                const struct eps__accuracy accuracy = {EPS_SOLVE_DELTA, fine ? 1e-9 : 0.3, fine ? NAN : -10};
                struct eps__profile *profile;
                assert_int_equal(serving[i]->open(&setting, 1.5, &accuracy, &profile, NULL), EPS_OK);
                for (int k = 0; k < 4; k++)
                    assert_int_equal(profile->class->log_delta(profile, (enum eps_direction)(k / 2),
                                                               (enum eps__estimate)(k % 2), 1,
                                                               &bounds[fine][k / 2][k % 2], NULL),
                                     EPS_OK);
                profile->class->destroy(profile);
            }
            if (serving[i]->fixed) {
                assert_memory_equal(bounds[0], bounds[1], sizeof bounds[0]);
                compared++;
            }
        }
        eps__setting_close(&setting);
    }
    assert_true(compared >= 6);
}

/* Losses of 1e-13 have errors that are wider than the cells of a fine grid, and no mass may grow there. To first order
 * in p, delta(0) of two steps is p E |e^{mu x - mu^2/2} + e^{mu y - mu^2/2} - 2|/2. */
TEST(no_lower_end_is_above_tiny_deltas)
{
    const double sigma = 7.953138831398246, p = 1.18e-12, width = 0.05, mu = 1 / sigma;
    struct eps_job job = new_job(EPS_SCHEME_POISSON, 2, p);
    double truth = 0;
    for (double x = -9; x <= 9; x += width)
        for (double y = -9; y <= 9; y += width)
            truth += exp(-(x * x + y * y) / 2) * width * width / (2 * M_PI) *
                     fabs(exp(mu * x - mu * mu / 2) + exp(mu * y - mu * mu / 2) - 2) * p / 2;
    job.query.epsilon = 0;
    job.query.noise_multiplier = sigma;
    eps_job_defaults(&job);
    struct eps__setting setting;
    struct eps__profile *profile;
    const struct eps__accuracy accuracy = {EPS_SOLVE_DELTA, 1e-3, NAN};
    assert_int_equal(eps__setting_open(&setting, NULL, NULL, &job), EPS_OK);
    assert_int_equal(eps__accountant_find(EPS_ACCOUNTANT_PLD)->open(&setting, sigma, &accuracy, &profile, NULL),
                     EPS_OK);
    for (enum eps_direction direction = 0; direction < EPS_DIRECTIONS; direction++)
        for (int finer = 0; finer < 3; finer++) {
            double bounds[2];
            for (int estimate = 0; estimate < 2; estimate++)
                assert_int_equal(profile->class->log_delta(profile, direction, (enum eps__estimate)estimate, 0,
                                                           &bounds[estimate], NULL),
                                 EPS_OK);
            if (!(exp(bounds[EPS__LOWER]) <= truth * 1.001 && exp(bounds[EPS__UPPER]) >= truth * 0.999))
                fail_msg("direction %d, finer %d: [%g, %g], %g", (int)direction, finer, exp(bounds[EPS__LOWER]),
                         exp(bounds[EPS__UPPER]), truth);
            (void)profile->class->refine(profile, direction, 4);
        }
    profile->class->destroy(profile);
    eps__setting_close(&setting);
}
