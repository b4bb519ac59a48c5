/*
 * What must hold of answers among themselves, at sizes where nothing can be enumerated: less noise, a larger p, more
 * steps, a smaller delta never make epsilon smaller, and what was solved for one unknown is found again when another
 * one is asked. Brackets are compared, so that each inequality is strict logic and needs no tolerance.
 *
 * SPDX-License-Identifier: GPL-3.0-or-later
 */
#include <math.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "lib/epsilon.h"
#include "tests/generate/request.h"
#include "tests/unit/draw.h"
#include "tests/unit/patience.h"
#include "tests/unit/test.h"

enum { MECHANISMS = 8, HANG_SECONDS = 900 };

struct bracket {
    bool answered;
    double lower, upper;
};

/* Of an accountant whose bracket holds the truth. */
static struct bracket solve(struct eps_job job, double epsilon, double delta, double sigma)
{
    struct eps_result *result = NULL;
    struct bracket bracket = {0};
    job.query.epsilon = epsilon;
    job.query.delta = delta;
    job.query.noise_multiplier = sigma;
    if (eps_solve(NULL, &result, NULL, &job) == EPS_OK)
        bracket = (struct bracket){true, result->bracket_lower, result->bracket_upper};
    eps_result_destroy(result);
    return bracket;
}

static void draw_job(struct eps_job *job, uint64_t seed)
{
    uint64_t state = seed * 77777 + 5;
    eps_job_init(job);
    bool cyclic = seed % 3 == 2;
    job->mechanism.n = (size_t)draw_log(&state, 2, 400);
    job->mechanism.sampling.scheme = cyclic ? EPS_SCHEME_CYCLIC_POISSON : EPS_SCHEME_POISSON;
    job->mechanism.sampling.p = draw_log(&state, 1e-4, 0.5);
    job->mechanism.adjacency = (enum eps_adjacency)draw_below(&state, EPS_ADJACENCY_COUNT);
    if (cyclic) {
        job->mechanism.matrix.family = EPS_FAMILY_SQUARE_ROOT;
        job->mechanism.matrix.bands = 1 + draw_below(&state, job->mechanism.n < 8 ? job->mechanism.n : 8);
        job->mechanism.sampling.groups = job->mechanism.matrix.bands + draw_below(&state, 4);
        job->mechanism.sampling.dataset_size = job->mechanism.sampling.groups * (20 + draw_below(&state, 1000));
    } else if (seed % 3 == 1) {
        job->mechanism.sampling.examples_per_user = 1 + draw_below(&state, 5);
        job->mechanism.sampling.last_iterate = draw_below(&state, 2);
    }
    job->query.accountant.method = draw_below(&state, 2) ? EPS_ACCOUNTANT_PLD : EPS_ACCOUNTANT_AUTO;
    job->query.accountant.tolerance = draw_log(&state, 1e-4, 1e-2);
    eps_job_defaults(job);
}

static void expect(bool holds, uint64_t seed, const char *what, const struct eps_job *job)
{
    char *text = holds ? NULL : generated_text(job);
    if (!holds)
        print_error("# seed %llu: %s\n", (unsigned long long)seed, text);
    free(text);
    if (!holds)
        fail_msg("%s", what);
}

/* `harder` has an epsilon no smaller than `easier`. */
static void expect_order(struct bracket easier, struct bracket harder, uint64_t seed, const char *what,
                         const struct eps_job *job)
{
    expect(!easier.answered || !harder.answered || easier.lower <= harder.upper, seed, what, job);
}

TEST(answers_agree_among_themselves)
{
    size_t answered = 0, count = getenv("REPRODUCE") ? 20 * MECHANISMS : MECHANISMS;
    for (uint64_t seed = 0; seed < count; seed++) {
        uint64_t state = seed + 31;
        struct eps_job job, other;
        patience_begin("seed", seed, HANG_SECONDS);
        draw_job(&job, seed);
        double delta = draw_log(&state, 1e-12, 0.3), sigma = draw_log(&state, 0.4, 8);
        struct bracket epsilon = solve(job, NAN, delta, sigma);
        if (!epsilon.answered || epsilon.upper > 1e4)
            continue;
        answered++;
        expect_order(solve(job, NAN, delta, 1.2 * sigma), epsilon, seed, "more noise, larger epsilon", &job);
        expect_order(solve(job, NAN, fmin(2 * delta, 0.9), sigma), epsilon, seed, "larger delta, larger epsilon", &job);
        other = job;
        other.mechanism.sampling.p *= 1.3;
        expect_order(epsilon, solve(other, NAN, delta, sigma), seed, "larger p, smaller epsilon", &other);
        other = job;
        other.mechanism.n += 1 + other.mechanism.n / 5;
        /* the last iterate of more steps has more noise, and a matrix of more rows is another one */
        if (!job.mechanism.sampling.last_iterate && job.mechanism.matrix.family == EPS_FAMILY_IDENTITY)
            expect_order(epsilon, solve(other, NAN, delta, sigma), seed, "more steps, smaller epsilon", &other);
        struct bracket found = solve(job, epsilon.upper, NAN, sigma);
        expect(!found.answered || found.lower <= delta, seed, "delta at the epsilon found is larger", &job);
        found = solve(job, epsilon.upper, delta, NAN);
        expect(!found.answered || found.lower <= sigma, seed, "the noise for the epsilon found is more", &job);
        if (!(epsilon.lower > 0))
            continue;
        found = solve(job, epsilon.lower, NAN, sigma);
        expect(!found.answered || found.upper >= delta, seed, "delta at the lower end is smaller", &job);
        found = solve(job, epsilon.lower, delta, NAN);
        expect(!found.answered || found.upper >= sigma, seed, "the noise for the lower end is less", &job);
    }
    patience_end();
    assert_true(answered > count / 2);
}

/* Whoever asks for more digits gets no fewer: where a fine grid loses by its rounding, a coarser one answers. The
 * first job was cut short at 5.9e-9 when it was asked for 1e-9; the others were wider at 1e-9 than at 1e-8. */
TEST(finer_tolerances_are_no_wider)
{
    const struct {
        size_t n;
        double p, sigma, delta, finest;
    } cases[] = {{50, 0.1, 2, 1e-6, 1e-9},
                 {10, 0.022284559164429868, 1.1884202188402677, 1.5788664619974072e-6, 4e-9},
                 {1000, 0.01, 1, 1e-6, 7e-9}};
    size_t count = getenv("REPRODUCE") ? sizeof cases / sizeof *cases : 1;
    for (size_t c = 0; c < count; c++) {
        struct eps_job job;
        double last = INFINITY;
        eps_job_init(&job);
        job.mechanism.n = cases[c].n;
        job.mechanism.sampling.scheme = EPS_SCHEME_POISSON;
        job.mechanism.sampling.p = cases[c].p;
        job.query.accountant.method = EPS_ACCOUNTANT_PLD;
        eps_job_defaults(&job);
        patience_begin("case", c, HANG_SECONDS);
        for (double tolerance = 1e-7; tolerance > 0.9e-9; tolerance /= 10) {
            job.query.accountant.tolerance = tolerance;
            struct bracket found = solve(job, NAN, cases[c].delta, cases[c].sigma);
            double width = 1 - found.lower / found.upper;
            expect(found.answered && width <= last, c, "a finer tolerance is wider", &job);
            last = width;
        }
        expect(last <= cases[c].finest, c, "the finest is too wide", &job);
    }
    patience_end();
}
