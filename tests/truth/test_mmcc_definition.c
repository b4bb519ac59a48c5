/*
 * The accountant mmcc beside its definition: in the add direction nothing is left to choose, so the answer is the
 * definition's; in the other the accountant may choose its tail bounds, but not below the quantile they bound, and it
 * never is looser than the paper's own.
 *
 * SPDX-License-Identifier: GPL-3.0-or-later
 */
#include <math.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "tests/generate/request.h"
#include "tests/truth/mmcc_definition.h"
#include "tests/unit/draw.h"
#include "tests/unit/test.h"

enum { MECHANISMS = 16, STEPS_MOST = 5 };

#define TOLERANCE 3e-3

/* A job and its arrays, which point into the struct: do not copy. */
struct drawn {
    struct eps_job job;
    double coefficients[STEPS_MOST], rows[STEPS_MOST * STEPS_MOST];
};

/* A strategy with something above its entries, entries of different sizes, and groups that divide nothing. */
static void draw_mechanism(struct drawn *drawn, uint64_t seed)
{
    uint64_t state = seed * 1000003 + 17;
    struct eps_mechanism *mechanism = &drawn->job.mechanism;
    *drawn = (struct drawn){0};
    eps_job_init(&drawn->job);
    bool cyclic = seed % 2;
    size_t n = (cyclic ? 3 : 2) + draw_below(&state, STEPS_MOST - (cyclic ? 2 : 1));
    mechanism->n = n;
    mechanism->matrix.normalization = EPS_NORMALIZATION_NONE;
    if (seed % 10 == 4) {
        mechanism->n = (size_t[]){2, 4}[seed / 10 % 2]; /* whole trees: nodes that the end cuts are only bounded */
        mechanism->matrix.family = EPS_FAMILY_TREE;
        mechanism->matrix.decoder = EPS_DECODER_ONLINE;
    } else if (seed % 4 < 2) {
        mechanism->matrix.family = EPS_FAMILY_TOEPLITZ;
        mechanism->matrix.coefficients = drawn->coefficients;
        mechanism->matrix.coefficients_len = 2 + draw_below(&state, n - 1);
        for (size_t i = 0; i < mechanism->matrix.coefficients_len; i++)
            drawn->coefficients[i] = draw_below(&state, 5) ? draw_between(&state, 0.05, 1) : i == 0;
    } else {
        mechanism->matrix.family = EPS_FAMILY_DENSE;
        mechanism->matrix.rows = drawn->rows;
        mechanism->matrix.rows_n = n;
        for (size_t i = 0; i < n; i++)
            for (size_t j = 0; j <= i; j++)
                drawn->rows[i * n + j] = i == j || draw_below(&state, 4) ? draw_between(&state, 0.05, 1) : 0;
    }
    mechanism->sampling.scheme = cyclic ? EPS_SCHEME_CYCLIC_POISSON : EPS_SCHEME_POISSON;
    mechanism->sampling.groups = cyclic ? 2 + draw_below(&state, n - 1) : 0;
    mechanism->sampling.p = draw_log(&state, 0.03, 0.95);
    drawn->job.query.noise_multiplier = draw_log(&state, 0.5, 5);
    drawn->job.query.delta = draw_log(&state, 1e-8, 1e-2);
    drawn->job.query.accountant.method = EPS_ACCOUNTANT_MMCC;
    drawn->job.query.accountant.tolerance = TOLERANCE;
    drawn->job.query.accountant.bad_event_share = draw_between(&state, 0.05, 0.95);
    eps_job_defaults(&drawn->job);
}

static void fail_at(uint64_t seed, const struct eps_job *job, const char *what, enum eps_direction direction,
                    double eps, long double delta)
{
    char *text = generated_text(job);
    print_error("# seed %llu: %s\n", (unsigned long long)seed, text);
    free(text);
    fail_msg("%s, direction %s: at epsilon %.12g the definition's delta is %.9Lg, asked was %.9g", what,
             eps_direction_name(direction), eps, delta, job->query.delta);
}

/* A delta at which the definition's own is close to its chosen share, from both sides. */
TEST(mmcc_finds_what_is_defined)
{
    size_t count = getenv("REPRODUCE") ? 10 * MECHANISMS : MECHANISMS, bounded = 0;
    for (uint64_t seed = 0; seed < count; seed++) {
        struct drawn drawn;
        struct eps_result *result = NULL;
        struct eps_error error = {0};
        draw_mechanism(&drawn, seed);
        const struct eps_job *job = &drawn.job;
        struct truth truth = truth_open(&job->mechanism);
        double delta = job->query.delta, sigma = job->query.noise_multiplier;
        size_t pairs = mmcc_pairs(&truth);
        long double delta1 = (long double)(delta * job->query.accountant.bad_event_share);
        const struct effort effort = {.floor = 1e-3L * (long double)delta, .width = 1e-3L};
        enum eps_status status = eps_solve(NULL, &result, &error, job);
        if (status != EPS_OK && status != EPS_TOO_COSTLY)
            fail_msg("seed %llu: %s %s", (unsigned long long)seed, error.pointer, error.message);
        for (enum eps_direction direction = 0; direction < EPS_DIRECTIONS && result; direction++) {
            double eps = result->directions[direction].value, less = fmax(eps * (1 - 2 * TOLERANCE) - 1e-6, 0);
            struct enclosure least = mmcc_delta(&truth, direction, MMCC_EXACT, delta1, eps, sigma, &effort);
            /* every accountant also knows the probability of taking part */
            least.lower = fminl(least.lower, truth_presence(&truth, direction, eps));
            if (least.lower > (long double)delta * (1 + 1e-6L))
                fail_at(seed, job, "too low", direction, eps, least.lower);
            if (!(eps > 0))
                continue;
            enum mmcc_tail tail = direction == EPS_ADD ? MMCC_EXACT : MMCC_SPLIT;
            struct enclosure most = mmcc_delta(&truth, direction, tail, delta1, less, sigma, &effort);
            if (most.upper < (long double)delta * (1 - 1e-6L))
                fail_at(seed, job, "too loose", direction, less, most.upper);
            bounded += pairs > 0;
        }
        eps_result_destroy(result);
        truth_close(&truth);
    }
    assert_true(bounded > count); /* most of them spend something on bad events, in both directions */
}
