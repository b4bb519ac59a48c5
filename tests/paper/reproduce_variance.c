/*
 * MEMF (Choquette-Choo et al. 2023), figures 4 and 5: the variance of each step's noise, by mechanism, all with the
 * same privacy. Figure 4: prefix sums, 20 epochs of 100 steps, (4.38, 1e-5). Figure 5: momentum 0.95 with a cooldown to
 * 0.05 over the last quarter, 6 epochs of 342 steps, at the same (epsilon, delta). Both as CSV and SVG, with the total,
 * the largest and the last value of each curve; the order of the totals is the paper's and is checked.
 *
 * SPDX-License-Identifier: GPL-3.0-or-later
 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "lib/strategy/strategy.h"
#include "tests/paper/plot.h"

static const double epsilon = 4.38, delta = 1e-5;

struct mechanism {
    const char *name;
    struct eps_matrix matrix; /* what differs from the default */
};

/* The factor of the square of the sensitivity, instead of 1: sigma^2 of one Gaussian. */
static double noise_square(void)
{
    struct eps_job job;
    struct eps_result *result = NULL;
    eps_job_init(&job);
    job.mechanism.n = 1;
    job.mechanism.sampling.scheme = EPS_SCHEME_NONE;
    job.query.epsilon = epsilon;
    job.query.delta = delta;
    job.query.accountant.tolerance = 1e-9;
    eps_job_defaults(&job);
    if (eps_solve(NULL, &result, NULL, &job) != EPS_OK)
        return NAN;
    double sigma = result->noise_multiplier;
    eps_result_destroy(result);
    return sigma * sigma;
}

/* The curve of one mechanism; its total, NAN with a message if it could not be computed. */
static double variances(double *out, const struct mechanism *m, const struct eps_mechanism *base, double square)
{
    struct eps_mechanism mechanism = *base;
    struct eps_strategy *strategy = NULL;
    struct eps_sensitivity sensitivity;
    struct eps_error error = {0};
    double total = NAN, largest = 0;
    mechanism.matrix = m->matrix;
    mechanism.matrix.normalization = EPS_NORMALIZATION_NONE;
    if (eps_strategy_create(NULL, &strategy, &error, &mechanism) == EPS_OK &&
        eps__strategy_sensitivity(NULL, &sensitivity, &error, strategy, &mechanism) == EPS_OK &&
        eps_strategy_variance(NULL, strategy, out, &error) == EPS_OK) {
        total = 0;
        for (size_t t = 0; t < mechanism.n; t++) {
            out[t] *= square * sensitivity.value * sensitivity.value;
            total += out[t];
            largest = fmax(largest, out[t]);
        }
        printf("#   %-36s total %.4g, largest %.4g, last %.4g; gap %.2g, %zu iterations, sensitivity by %s\n", m->name,
               total, largest, out[mechanism.n - 1], eps_strategy_optimality_gap(strategy),
               eps_strategy_iterations(strategy), sensitivity.rule);
    } else {
        printf("#   %s: %s: %s\n", m->name, error.pointer, error.message);
    }
    fflush(stdout);
    eps_strategy_destroy(strategy);
    return total;
}

/* The mechanisms in the paper's order, best first: totals must rise. */
static bool figure(struct plot *plot, const struct mechanism *mechanisms, size_t len, const struct eps_mechanism *base,
                   double square)
{
    size_t n = base->n;
    double *steps = malloc(n * sizeof *steps), *y = malloc(len * n * sizeof *y), before = 0;
    struct plot_curve *curves = calloc(len, sizeof *curves);
    bool ok = steps && y && curves;
    for (size_t t = 0; ok && t < n; t++)
        steps[t] = (double)t;
    printf("# %s\n", plot->title);
    for (size_t i = 0; ok && i < len; i++) {
        double total = variances(y + i * n, &mechanisms[i], base, square);
        if (!(total >= before)) {
            printf("not ok - %s: %s is out of order\n", plot->file, mechanisms[i].name);
            ok = false;
        }
        before = total;
        curves[i] = (struct plot_curve){mechanisms[i].name, steps, y + i * n, n};
    }
    plot->curves = curves;
    plot->curves_len = len;
    ok = ok && plot_write(plot);
    free(steps);
    free(y);
    free(curves);
    return ok;
}

int main(void)
{
    static const struct mechanism prefix_sums[] = {
        {"MF(k=20, n=2000)",
         {.family = EPS_FAMILY_OPTIMAL,
          .stamps = 1,
          .nonnegative = true,
          .epochs = 20,
          .separation = 100,
          .gap = 2e-3}},
        {"FFT optimal decoder(n=400)x5", {.family = EPS_FAMILY_FOURIER, .decoder = EPS_DECODER_OPTIMAL, .stamps = 5}},
        {"optimal decoder Honaker(n=400)x5", {.family = EPS_FAMILY_TREE, .decoder = EPS_DECODER_FULL, .stamps = 5}},
        {"MF(k=1, n=1000)x2",
         {.family = EPS_FAMILY_OPTIMAL,
          .stamps = 2,
          .nonnegative = true,
          .epochs = 1,
          .separation = 1000,
          .gap = 2e-3}},
        {"FFT(n=400)x5", {.family = EPS_FAMILY_FOURIER, .decoder = EPS_DECODER_STANDARD, .stamps = 5}},
        {"online Honaker(n=200)x10", {.family = EPS_FAMILY_TREE, .decoder = EPS_DECODER_ONLINE, .stamps = 10}},
        {"independent noise", {.family = EPS_FAMILY_IDENTITY, .stamps = 1}},
    };
    static const struct mechanism cooldowns[] = {
        {"MF(k=6, n=2052)",
         {.family = EPS_FAMILY_OPTIMAL, .stamps = 1, .nonnegative = true, .epochs = 6, .separation = 342, .gap = 3e-3}},
        {"MF(k=1, n=2052)",
         {.family = EPS_FAMILY_OPTIMAL,
          .stamps = 1,
          .nonnegative = true,
          .epochs = 1,
          .separation = 2052,
          .gap = 3e-3}},
        {"independent noise", {.family = EPS_FAMILY_IDENTITY, .stamps = 1}},
    };
    struct eps_mechanism base = {
        .n = 2000,
        .workload = {.type = EPS_WORKLOAD_PREFIX_SUM, .decay = 1},
        .sampling = {.scheme = EPS_SCHEME_NONE, .epochs = 20, .separation = 100, .examples_per_user = 1}};
    struct plot plot = {.file = "memf_figure_4",
                        .title = "MEMF figure 4: prefix sums, (k,b) = (20,100), epsilon 4.38, delta 1e-5",
                        .x_label = "step",
                        .y_label = "variance",
                        .log_y = true};
    double square = noise_square();
    bool ok = isfinite(square) && figure(&plot, prefix_sums, sizeof prefix_sums / sizeof *prefix_sums, &base, square);
    base.n = 2052;
    base.workload = (struct eps_workload){.type = EPS_WORKLOAD_MOMENTUM,
                                          .momentum = 0.95,
                                          .decay = 1,
                                          .cooldown = true,
                                          .cooldown_from = 0.75,
                                          .cooldown_to = 0.05};
    base.sampling.epochs = 6;
    base.sampling.separation = 342;
    plot.file = "memf_figure_5";
    plot.title = "MEMF figure 5: momentum 0.95 with cooldown, (k,b) = (6,342), epsilon 4.38, delta 1e-5";
    ok = figure(&plot, cooldowns, sizeof cooldowns / sizeof *cooldowns, &base, square) && ok;
    return ok ? 0 : 1;
}
