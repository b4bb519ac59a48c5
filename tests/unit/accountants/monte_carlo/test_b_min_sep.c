/*
 * Draws under b-min-sep sampling. Each loss is compared with the sum over all patterns at the same y, for random banded
 * strategies, cold and warm, with several examples of one user, and where numbers need separate exponents.
 * Participations are compared with the probabilities of all patterns.
 *
 * SPDX-License-Identifier: GPL-3.0-or-later
 */
#include <math.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "lib/accountants/monte_carlo/law.h"
#include "lib/sampling/participations.h"
#include "lib/job/setting.h"
#include "tests/unit/draw.h"
#include "tests/unit/test.h"

enum { STEPS_MAX = 14 };

static uint64_t state = 20261123;

struct example {
    struct eps_job job;
    double rows[STEPS_MAX * STEPS_MAX];
    size_t n;
};

static void random_example(struct example *example, size_t n, size_t bands)
{
    size_t separation = bands + draw_below(&state, 3);
    eps_job_init(&example->job);
    memset(example->rows, 0, sizeof example->rows);
    for (size_t i = 0; i < n; i++)
        for (size_t d = 0; d < bands && d <= i; d++)
            example->rows[i * n + i - d] = d == 0 || draw_below(&state, 4) ? 0.1 + draw_unit(&state) : 0;
    example->n = n;
    example->job.mechanism.n = n;
    example->job.mechanism.matrix = (struct eps_matrix){.family = EPS_FAMILY_DENSE,
                                                        .normalization = EPS_NORMALIZATION_NONE,
                                                        .stamps = 1,
                                                        .rows = example->rows,
                                                        .rows_n = n};
    example->job.mechanism.sampling.scheme = EPS_SCHEME_B_MIN_SEP;
    example->job.mechanism.sampling.separation = separation;
    example->job.mechanism.sampling.p = draw_below(&state, 5) ? 0.02 + 0.98 * draw_unit(&state) : 1;
    example->job.mechanism.sampling.warm_start = draw_below(&state, 2) == 0;
    if (!example->job.mechanism.sampling.warm_start)
        example->job.mechanism.sampling.examples_per_user = 1 + draw_below(&state, 3);
    example->job.query.accountant.method = EPS_ACCOUNTANT_MONTE_CARLO;
    example->job.query.epsilon = 1;
    example->job.query.noise_multiplier = 1;
    eps_job_defaults(&example->job);
}

/* The sum over all patterns that continue from this step, of weight times N(C x)/N(0) at y: a sum of exponentials of
 * `shift`. */
static long double sum_from(const struct example *example, const double *y, double sigma, double *cx, size_t step,
                            size_t barred, long double weight)
{
    const struct eps_sampling *sampling = &example->job.mechanism.sampling;
    size_t n = example->n;
    if (weight == 0)
        return 0;
    if (step == n) {
        long double exponent = 0;
        for (size_t i = 0; i < n; i++)
            exponent += (long double)cx[i] / sigma * (y[i] - 0.5L * cx[i] / sigma);
        return weight * expl(exponent);
    }
    if (barred > 0)
        return sum_from(example, y, sigma, cx, step + 1, barred - 1, weight);
    long double total = 0;
    for (size_t j = 0; j <= sampling->examples_per_user; j++) {
        long double chance = 1;
        for (size_t i = 0; i < sampling->examples_per_user; i++)
            chance *= i < j ? sampling->p * (long double)(sampling->examples_per_user - i) / (i + 1) : 1 - sampling->p;
        for (size_t r = step; r < n; r++)
            cx[r] += (double)j * example->rows[r * n + step];
        total += sum_from(example, y, sigma, cx, step + 1, j > 0 ? sampling->separation - 1 : 0, weight * chance);
        for (size_t r = step; r < n; r++)
            cx[r] -= (double)j * example->rows[r * n + step];
    }
    return total;
}

static long double log_ratio(const struct example *example, const double *y, double sigma)
{
    const struct eps_sampling *sampling = &example->job.mechanism.sampling;
    double cx[STEPS_MAX] = {0}, barred = (double)(sampling->separation - 1);
    if (!sampling->warm_start)
        return logl(sum_from(example, y, sigma, cx, 0, 0, 1));
    long double waits = 1 / (1 + barred * sampling->p), total = sum_from(example, y, sigma, cx, 0, 0, waits);
    for (size_t r = 1; r < sampling->separation; r++)
        total += sum_from(example, y, sigma, cx, 0, r, waits * sampling->p);
    return logl(total);
}

/* Sixteen draws of the law, compared with the sum over all patterns. */
static void hold_losses(const struct example *example, double sigma, enum eps_direction direction)
{
    struct eps__setting setting;
    struct eps_error error = {0};
    struct eps__mc_law *law;
    struct eps__mc_aim aim = {.sigma = sigma, .direction = direction};
    struct eps__stream stream = {.key = {7, (uint32_t)draw_below(&state, 1000)}, .chunk = 3};
    const struct eps_sampling *sampling = &example->job.mechanism.sampling;
    struct eps__b_min_sep_steps steps = {.n = example->n,
                                         .separation = sampling->separation,
                                         .p = sampling->p,
                                         .examples = (unsigned)sampling->examples_per_user,
                                         .warm = sampling->warm_start};
    double loss[EPS__LANES], weight[EPS__LANES], z[(STEPS_MAX + 2) * EPS__LANES];
    if (eps__setting_open(&setting, &error, NULL, &example->job) != EPS_OK)
        fail_msg("%s: %s", error.pointer, error.message);
    eps__setting_as_asked(&setting);
    const struct eps__mc_law_class *class = eps__mc_law_class_of(&example->job.mechanism);
    assert_true(class->serves(&setting, &error));
    assert_int_equal(class->open(&law, &setting, &aim), EPS_OK);
    double *scratch = malloc(law->scratch * sizeof *scratch);
    law->class->draw(law, &stream, 32, scratch, loss, weight);
    eps__b_min_sep_steps_fill(&steps);
    eps__normals(z, &stream, 32, 0, example->n + example->n % 2);
    for (uint32_t lane = 0; lane < EPS__LANES; lane++) {
        struct eps__participated taken[STEPS_MAX];
        double y[STEPS_MAX];
        size_t len = direction == EPS_REMOVE ? eps__b_min_sep_draw(taken, &steps, &stream, 32 + lane) : 0;
        for (size_t i = 0; i < example->n; i++) {
            y[i] = z[i * EPS__LANES + lane];
            for (size_t t = 0; t < len; t++)
                if (taken[t].step <= i)
                    y[i] += taken[t].examples * example->rows[i * example->n + taken[t].step] / sigma;
        }
        long double truth = log_ratio(example, y, sigma) * (direction == EPS_REMOVE ? 1 : -1);
        if (!(fabsl(loss[lane] - truth) <= law->loss_error))
            fail_msg("n %zu sigma %g p %g: %.17g, not %.17Lg, off by %Lg, not %g", example->n, sigma, sampling->p,
                     loss[lane], truth, loss[lane] - truth, law->loss_error);
        assert_true(weight[lane] == 0);
    }
    assert_true(law->loss_error < 1e-11 * (1 + 4 / (sigma * sigma)) * (double)example->n);
    free(scratch);
    class->destroy(law);
    eps__setting_close(&setting);
}

TEST(losses_are_those_of_all_patterns)
{
    struct example example;
    for (int i = 0; i < 90; i++) {
        size_t n = 2 + draw_below(&state, 9);
        random_example(&example, n, 1 + draw_below(&state, n < 5 ? n : 5));
        double sigma = draw_log(&state, 0.2, 5);
        hold_losses(&example, sigma, EPS_REMOVE);
        hold_losses(&example, sigma, EPS_ADD);
    }
    random_example(&example, STEPS_MAX, 3);
    example.job.mechanism.sampling.examples_per_user = 1;
    hold_losses(&example, 1, EPS_REMOVE);
}

/* e to the thousands, which exceeds doubles: numbers with separate exponents. */
TEST(little_noise_is_followed_too)
{
    struct example example;
    for (int i = 0; i < 40; i++) {
        random_example(&example, 8, 1 + draw_below(&state, 4));
        hold_losses(&example, draw_log(&state, 0.045, 0.09), EPS_REMOVE);
        hold_losses(&example, draw_log(&state, 0.045, 0.09), EPS_ADD);
    }
}

/* Over many draws, how many take part at each step, and at each pair of steps. */
TEST(participations_have_their_probabilities)
{
    enum { DRAWS = 100000 };
    for (int i = 0; i < 6; i++) {
        struct eps__b_min_sep_steps steps = {.n = 7,
                                             .separation = 1 + draw_below(&state, 4),
                                             .p = 0.1 + 0.8 * draw_unit(&state),
                                             .examples = i < 3 ? 1 : 2,
                                             .warm = i < 2};
        double waits[7 + 8] = {0}, seen[7] = {0}, both = 0;
        struct eps__stream stream = {.key = {(uint32_t)i, 5}, .chunk = 0};
        eps__b_min_sep_steps_fill(&steps);
        double any = -expm1(steps.log_keep);
        double start = steps.warm ? 1 / (1 + (double)(steps.separation - 1) * steps.p) : 1;
        /* the probability of waiting at each step, forward */
        waits[0] = start;
        for (size_t r = 1; steps.warm && r < steps.separation && r < 7; r++)
            waits[r] += start * steps.p;
        for (size_t s = 0; s < 7; s++) {
            waits[s + 1] += waits[s] * (1 - any);
            if (s + steps.separation < 7 + 1)
                waits[s + steps.separation] += waits[s] * any;
        }
        for (uint32_t draw = 0; draw < DRAWS; draw++) {
            struct eps__participated taken[7];
            size_t len = eps__b_min_sep_draw(taken, &steps, &stream, draw);
            for (size_t t = 0; t < len; t++) {
                assert_true(taken[t].step < 7 && (t == 0 || taken[t].step >= taken[t - 1].step + steps.separation));
                seen[taken[t].step]++;
                both += taken[t].examples == 2;
            }
        }
        double all = 0;
        for (size_t s = 0; s < 7; s++) {
            double chance = waits[s] * any;
            all += seen[s];
            assert_true(fabs(seen[s] - DRAWS * chance) <= 4.5 * sqrt(DRAWS * chance * (1 - chance)) + 1e-9);
        }
        double pair = steps.examples == 2 ? steps.p * steps.p / any : 0;
        assert_true(fabs(both - all * pair) <= 4.5 * sqrt(all * pair * (1 - pair)) + 1e-9);
    }
}
