/*
 * Tilted draws of b-min-sep sampling: their means beside those of plain draws and beside exact answers, their values under what
 * they are said to be at most, and how many fewer of them are needed.
 *
 * SPDX-License-Identifier: GPL-3.0-or-later
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include <math.h>

#include "lib/accountants/mc_guarantee.h"
#include "lib/accountants/mc_law.h"
#include "lib/setting.h"
#include "tests/truth/mechanism.h"
#include "tests/unit/draw.h"
#include "tests/unit/solved.h"

enum { CHUNK = 1024 };

static const uint64_t seed = 20261122;

/* Scheme b_min_sep, a cold start. */
static struct eps_job spaced_job(size_t n, double p, size_t separation, const double *column, size_t len)
{
    struct eps_job job;
    eps_job_init(&job);
    job.mechanism.n = n;
    job.mechanism.matrix.family = EPS_FAMILY_TOEPLITZ;
    job.mechanism.matrix.normalization = EPS_NORMALIZATION_NONE;
    job.mechanism.matrix.coefficients = column;
    job.mechanism.matrix.coefficients_len = len;
    job.mechanism.sampling.scheme = EPS_SCHEME_B_MIN_SEP;
    job.mechanism.sampling.p = p;
    job.mechanism.sampling.separation = separation;
    job.query.accountant.method = EPS_ACCOUNTANT_RENYI;
    job.query.noise_multiplier = job.query.epsilon = 1;
    eps_job_defaults(&job);
    job.mechanism.sampling.warm_start = false;
    return job;
}

/* What draws say of delta(eps). */
struct found {
    double mean, error, variance; /* its standard error; of one value */
    double most;                  /* what one is at most */
    double largest;               /* and was */
    unsigned order;
};

static struct found draw_some(const struct eps_job *job, const struct eps__mc_aim *aim, size_t chunks)
{
    struct eps__setting setting;
    struct eps_error error;
    struct eps__mc_law *law = NULL;
    struct found found = {0};
    if (eps__setting_open(&setting, &error, NULL, job) != EPS_OK)
        fail_msg("%s: %s", error.pointer, error.message);
    const struct eps__mc_kind *kind = eps__mc_kind_of(&job->mechanism);
    assert_true(kind && kind->serves(&setting, &error));
    assert_int_equal(kind->open(&law, &setting, aim), EPS_OK);
    double *scratch = aligned_alloc(64, (law->scratch * sizeof(double) + 63) / 64 * 64);
    double loss[EPS__LANES], log_weight[EPS__LANES], sum = 0, squares = 0, draws = (double)(chunks * CHUNK);
    assert_non_null(scratch);
    found.most = kind->log_most ? exp(kind->log_most(law, aim->eps)) : 1;
    found.order = law->order;
    assert_true(law->tilted == aim->tilted && law->loss_error < 1e-7 && law->log_weight_error < 1e-6);
    for (size_t chunk = 0; chunk < chunks; chunk++) {
        struct eps__stream stream = {{7, (uint32_t)seed}, chunk};
        for (uint32_t first = 0; first < CHUNK; first += EPS__LANES) {
            kind->draw(law, &stream, first, scratch, loss, log_weight);
            for (size_t lane = 0; lane < EPS__LANES; lane++) {
                double value = exp(log_weight[lane] + law->log_weight_error) *
                               fmax(-expm1(aim->eps - loss[lane] - law->loss_error), 0);
                if (!(value >= 0 && value <= found.most * (1 + 1e-12)))
                    fail_msg("%g over %g", value, found.most);
                found.largest = fmax(found.largest, value);
                sum += value;
                squares += value * value;
            }
        }
    }
    free(scratch);
    kind->destroy(law);
    eps__setting_close(&setting);
    found.mean = sum / draws;
    found.variance = squares / draws - found.mean * found.mean;
    found.error = sqrt(found.variance / draws);
    return found;
}

/* Both means, each within four of their standard errors of the other. */
static void assert_agree(const struct found *a, const struct found *b, const char *what, int trial)
{
    double apart = fabs(a->mean - b->mean), allowed = 4 * hypot(a->error, b->error) + 1e-10 * a->mean;
    if (!(apart <= allowed))
        fail_msg("%s, %d: %g (%g), but %g (%g)", what, trial, a->mean, a->error, b->mean, b->error);
}

/* Random mechanisms, cold, warm, or with several examples of one user. */
static void tilted_means_are_plain_means(enum eps_direction direction)
{
    static const double column[] = {1, 0.5, 0.375, 0.3, 0.27};
    uint64_t state = seed;
    for (int trial = 0; trial < 12; trial++) {
        size_t n = 1 + draw_below(&state, 80), bands = 1 + draw_below(&state, n < 5 ? n : 5);
        struct eps_job job =
            spaced_job(n, draw_between(&state, 0.05, 0.4), bands + draw_below(&state, 4), column, bands);
        job.mechanism.sampling.warm_start = trial % 3 == 1;
        if (trial % 3 == 2 && direction == EPS_ADD)
            job.mechanism.sampling.examples_per_user = 1 + draw_below(&state, 4);
        struct eps__mc_aim aim = {.sigma = draw_between(&state, 0.8, 2), .direction = direction, .eps = 0.3};
        struct found plain = draw_some(&job, &aim, 24);
        aim.tilted = true;
        struct found tilted = draw_some(&job, &aim, 12);
        assert_agree(&plain, &tilted, "plain and tilted", trial);
        assert_true(tilted.most < 1);
    }
}

static void added_means_are_plain_means(void **unused)
{
    (void)unused;
    tilted_means_are_plain_means(EPS_ADD);
}

/* Few steps, by quadrature over all patterns. */
static void tilted_means_are_the_truth(enum eps_direction direction)
{
    static const double column[] = {1, 0.5, 0.375};
    const struct effort effort = {.samples = 2000, .quadrature_most = 3, .seed = seed, .floor = 1e-12L, .width = 1e-4L};
    uint64_t state = seed + 1;
    for (int trial = 0; trial < 9; trial++) {
        size_t n = 1 + (size_t)trial % 3, bands = 1 + draw_below(&state, n);
        struct eps_job job =
            spaced_job(n, draw_between(&state, 0.05, 0.6), bands + draw_below(&state, 3), column, bands);
        job.mechanism.sampling.warm_start = trial / 3 == 1;
        if (trial / 3 == 2 && direction == EPS_ADD)
            job.mechanism.sampling.examples_per_user = 2;
        struct eps__mc_aim aim = {
            .sigma = draw_between(&state, 0.5, 1.5), .direction = direction, .tilted = true, .eps = 0.4};
        struct found tilted = draw_some(&job, &aim, 16);
        struct truth truth = truth_open(&job.mechanism);
        struct enclosure delta = truth_delta(&truth, direction, aim.eps, aim.sigma, &effort);
        truth_close(&truth);
        struct found exact = {.mean = (double)delta.lower, .error = (double)(delta.upper - delta.lower)};
        assert_agree(&tilted, &exact, "the truth", trial);
    }
}

static void added_means_are_the_truth(void **unused)
{
    (void)unused;
    tilted_means_are_the_truth(EPS_ADD);
}

/* delta by pld, of Poisson sampling, or of balls in bins for certain draws of a process that has run for long. */
static double exact_delta_of(struct eps_job job, enum eps_direction direction, double sigma, double eps)
{
    double exact[EPS_DIRECTIONS];
    job.query.accountant.method = EPS_ACCOUNTANT_PLD;
    size_t separation = job.mechanism.sampling.separation;
    if (separation == 1)
        job.mechanism.sampling =
            (struct eps_sampling){.scheme = EPS_SCHEME_POISSON, .p = job.mechanism.sampling.p, .examples_per_user = 1};
    else
        job.mechanism.sampling = (struct eps_sampling){
            .scheme = EPS_SCHEME_BALLS_IN_BINS, .p = NAN, .bins = separation, .examples_per_user = 1};
    solved_deltas(exact, &job, sigma, eps);
    return exact[direction];
}

/* Where delta is small fewer draws are needed than plain ones, this share of them or less, and their mean is the truth. */
static void fewer_are_needed(enum eps_direction direction, const double sigmas[2], const double epsilons[2],
                             double share)
{
    static const double one = 1;
    for (int trial = 0; trial < 4; trial++) {
        bool bins = trial / 2;
        struct eps_job job = bins ? spaced_job(40, 1, 10, &one, 1) : spaced_job(200, 0.1, 1, &one, 1);
        job.mechanism.sampling.warm_start = bins;
        struct eps__mc_aim aim = {
            .sigma = sigmas[bins], .direction = direction, .tilted = true, .eps = epsilons[bins] * (1 + trial % 2)};
        struct found tilted = draw_some(&job, &aim, bins ? 40 : 24);
        struct found exact = {.mean = exact_delta_of(job, direction, aim.sigma, aim.eps)};
        assert_agree(&tilted, &exact, "pld", trial);
        double plain = (double)eps__mc_samples(0.5 * exact.mean, exact.mean, 1);
        double needed = (double)eps__mc_samples(0.5 * exact.mean, exact.mean, tilted.most);
        if (!(tilted.error < 0.1 * tilted.mean && needed < (trial % 2 ? share : 1) * plain))
            fail_msg("%d, eps %g: %g +- %g, %g draws of %g", trial, aim.eps, tilted.mean, tilted.error, needed, plain);
    }
}

/* What a value is at most is nearly reached: by certain draws, whose ln P/Q is linear, and by those of one step. */
static void added_values_reach_their_most(void **unused)
{
    (void)unused;
    static const double column[] = {1, 0.5};
    for (int trial = 0; trial < 6; trial++) {
        bool certain = trial < 3;
        struct eps_job job = certain ? spaced_job(4, 1, 1, column, 1) : spaced_job(1, 0.5, 1, column, 1);
        if (trial == 2)
            job = spaced_job(5, 1, 2, column, 2);
        job.mechanism.sampling.examples_per_user = trial == 1 ? 2 : 1;
        struct eps__mc_aim aim = {
            .sigma = certain ? 2 : 0.3 + 0.1 * trial, .direction = EPS_ADD, .tilted = true, .eps = certain ? 1.5 : 0.5};
        struct found tilted = draw_some(&job, &aim, 16);
        if (!(tilted.largest >= (certain ? 0.999 : 0.9) * tilted.most))
            fail_msg("%d: %g under %g", trial, tilted.largest, tilted.most);
    }
}

static void fewer_added_are_needed(void **unused)
{
    (void)unused;
    fewer_are_needed(EPS_ADD, (const double[]){2, 1}, (const double[]){1.2, 1.2}, 0.3);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(added_means_are_plain_means),
        cmocka_unit_test(added_means_are_the_truth),
        cmocka_unit_test(added_values_reach_their_most),
        cmocka_unit_test(fewer_added_are_needed),
    };
    return cmocka_run_group_tests_name("mc_tilted", tests, NULL, NULL);
}
