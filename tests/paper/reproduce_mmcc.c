/*
 * MMCC (Choquette-Choo et al. 2023), figures 3, 4 and 6, with the accountant mmcc.
 *
 * Figures 3 and 4: sigma is c times the column norm, so that epsilon without amplification is the same for every n; the
 * curves say how many times smaller it is under Poisson sampling with p = 1/n. The paper's claim is that this ratio
 * grows like sqrt(log2(n) + 1), the better the larger c is: each curve is drawn against log2(n) + 1 and against its
 * square root, with its least squares line, whose slope, intercept and R^2 are printed. c = 10, 20, 40 are figure 4's;
 * at 5 bad events cost more than sampling gains. The paper's dense matrix stops at n = 128, ours at 1024.
 *
 * Figure 6: a tree that is restarted every 8 steps under Poisson sampling with p = 1/16, beside the same matrix and
 * expected batch under cyclic Poisson sampling (8 groups, half of a group at a time).
 *
 * SPDX-License-Identifier: GPL-3.0-or-later
 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <gsl/gsl_fit.h>
#include <gsl/gsl_statistics_double.h>

#include "lib/epsilon.h"
#include "tests/paper/plot.h"

enum { SIZES = 10, MULTIPLIERS = 4, SIGMAS = 17, PAPER_DENSE = 7 };

static const double delta = 1e-6, multipliers[MULTIPLIERS] = {5, 10, 20, 40};

/* Epsilon of the mechanism under this accountant; NAN with a message where there is none. */
static double epsilon_of(const struct eps_mechanism *mechanism, double noise_multiplier, enum eps_accountant accountant)
{
    struct eps_job job;
    struct eps_result *result = NULL;
    struct eps_error error = {0};
    eps_job_init(&job);
    job.mechanism = *mechanism;
    job.query.noise_multiplier = noise_multiplier;
    job.query.delta = delta;
    job.query.accountant.method = accountant;
    eps_job_defaults(&job);
    if (eps_solve(NULL, &result, &error, &job) != EPS_OK) {
        printf("not ok - n = %zu, noise multiplier %g: %s %s\n", mechanism->n, noise_multiplier, error.pointer,
               error.message);
        return NAN;
    }
    double epsilon = result->epsilon;
    eps_result_destroy(result);
    return epsilon;
}

static struct eps_mechanism mechanism_of(enum eps_family family, size_t n, enum eps_normalization normalization)
{
    struct eps_job job;
    eps_job_init(&job);
    job.mechanism.n = n;
    job.mechanism.matrix.family = family;
    job.mechanism.matrix.normalization = normalization;
    return job.mechanism;
}

/* How many times smaller epsilon is under Poisson sampling with p = 1/n than with one participation. */
static double improvement(enum eps_family family, size_t n, double multiplier)
{
    struct eps_mechanism mechanism = mechanism_of(family, n, EPS_NORMALIZATION_MAX_COLUMN);
    mechanism.sampling.scheme = EPS_SCHEME_NONE;
    mechanism.sampling.epochs = 1;
    double alone = epsilon_of(&mechanism, multiplier, EPS_ACCOUNTANT_GAUSSIAN);
    mechanism = mechanism_of(family, n, EPS_NORMALIZATION_MAX_COLUMN);
    mechanism.sampling.scheme = EPS_SCHEME_POISSON;
    mechanism.sampling.p = 1 / (double)n;
    return alone / epsilon_of(&mechanism, multiplier, EPS_ACCOUNTANT_MMCC);
}

struct line {
    double intercept, slope, r_square;
};

static struct line fit(const double *x, const double *y, size_t len)
{
    struct line line = {0};
    double c00, c01, c11, residue;
    gsl_fit_linear(x, 1, y, 1, len, &line.intercept, &line.slope, &c00, &c01, &c11, &residue);
    line.r_square = 1 - residue / gsl_stats_tss(y, 1, len);
    return line;
}

/* One figure's curves: ratios[k] for multipliers[k]. */
struct improvements {
    const char *file, *title;
    double ratios[MULTIPLIERS][SIZES];
};

static double abscissa(size_t i, bool root)
{
    double levels = (double)i + 2; /* n = 2^(i + 1) */
    return root ? sqrt(levels) : levels;
}

static bool draw(const struct improvements *figure, bool root)
{
    struct plot_curve curves[2 * MULTIPLIERS];
    char names[2 * MULTIPLIERS][48], file[64];
    double x[SIZES], lines[MULTIPLIERS][SIZES];
    for (size_t i = 0; i < SIZES; i++)
        x[i] = abscissa(i, root);
    for (size_t k = 0; k < MULTIPLIERS; k++) {
        struct line paper = fit(x, figure->ratios[k], PAPER_DENSE), line = fit(x, figure->ratios[k], SIZES);
        printf("#   c = %-2g against %s: slope %.4f, intercept %.4f, R^2 %.4f (n <= 128: %.4f, %.4f, %.4f)\n",
               multipliers[k], root ? "sqrt(log2(n)+1)" : "log2(n)+1", line.slope, line.intercept, line.r_square,
               paper.slope, paper.intercept, paper.r_square);
        for (size_t i = 0; i < SIZES; i++)
            lines[k][i] = line.intercept + line.slope * x[i];
        snprintf(names[2 * k], sizeof names[0], "c = %g", multipliers[k]);
        snprintf(names[2 * k + 1], sizeof names[0], "c = %g, least squares line", multipliers[k]);
        curves[2 * k] = (struct plot_curve){names[2 * k], x, figure->ratios[k], SIZES};
        curves[2 * k + 1] = (struct plot_curve){names[2 * k + 1], x, lines[k], SIZES};
    }
    snprintf(file, sizeof file, "%s%s", figure->file, root ? "_root" : "");
    return plot_write(&(struct plot){.file = file,
                                     .title = figure->title,
                                     .x_label = root ? "sqrt(log2(n) + 1)" : "log2(n) + 1",
                                     .y_label = "epsilon without sampling / with p = 1/n",
                                     .curves = curves,
                                     .curves_len = 2 * MULTIPLIERS});
}

/* The paper's claims, for its c: with larger c the ratios are larger (also from 5 on) and their line is straighter; and
 * from some c on (20) the ratio rises with n and is always above 1. */
static bool as_claimed(const struct improvements *figure)
{
    double x[SIZES], before = 0;
    bool ok = true;
    for (size_t i = 0; i < SIZES; i++)
        x[i] = abscissa(i, true);
    for (size_t k = 0; k < MULTIPLIERS; k++) {
        const double *ratios = figure->ratios[k];
        bool large = multipliers[k] >= 20;
        double straight = fit(x, ratios, SIZES).r_square;
        for (size_t i = 0; i < SIZES; i++) {
            ok = ok && (!large || ratios[i] > (i > 0 ? ratios[i - 1] : 1));
            ok = ok && (k == 0 || ratios[i] > figure->ratios[k - 1][i]);
        }
        ok = ok && straight > (large ? fmax(before, 0.98) : before);
        before = multipliers[k] >= 10 ? straight : 0;
    }
    if (!ok)
        printf("not ok - %s: the ratios do not rise as the paper says\n", figure->file);
    return ok;
}

static bool improvements(struct improvements *figure, enum eps_family family)
{
    bool ok = true;
    printf("# %s\n", figure->title);
    for (size_t k = 0; k < MULTIPLIERS; k++) {
        printf("#   c = %-2g, n = 2 to 1024:", multipliers[k]);
        for (size_t i = 0; i < SIZES; i++) {
            figure->ratios[k][i] = improvement(family, (size_t)2 << i, multipliers[k]);
            printf(" %.4f", figure->ratios[k][i]);
            fflush(stdout);
            ok = ok && isfinite(figure->ratios[k][i]);
        }
        printf("\n");
    }
    return ok && draw(figure, false) && draw(figure, true) && as_claimed(figure);
}

/* The two samplings over sigma. MMCC pays for its bad events: it wins where epsilon is moderate (1.5 and below). */
static bool restarts(void)
{
    double sigmas[SIGMAS], poisson[SIGMAS], cyclic[SIGMAS];
    struct eps_mechanism mechanism = mechanism_of(EPS_FAMILY_TREE, 512, EPS_NORMALIZATION_NONE), turns;
    struct plot_curve curves[] = {{"MMCC, Poisson p = 1/16", sigmas, poisson, SIGMAS},
                                  {"8 groups, Poisson p = 1/2", sigmas, cyclic, SIGMAS}};
    struct plot plot = {.file = "mmcc_figure_6",
                        .title = "MMCC figure 6: tree restarts of height 4, n = 512, p = 1/16, delta 1e-6",
                        .x_label = "sigma (column norm 2)",
                        .y_label = "epsilon",
                        .log_x = true,
                        .log_y = true,
                        .curves = curves,
                        .curves_len = 2};
    bool ok = true;
    mechanism.matrix.stamps = 64;
    turns = mechanism;
    mechanism.sampling.p = 1. / 16;
    turns.sampling.scheme = EPS_SCHEME_CYCLIC_POISSON;
    turns.sampling.groups = 8;
    turns.sampling.p = 1. / 2;
    printf("# %s\n#   sigma: MMCC, cyclic Poisson\n", plot.title);
    for (size_t i = 0; i < SIGMAS; i++) {
        sigmas[i] = 8 * exp2((double)i / 4);
        poisson[i] = epsilon_of(&mechanism, sigmas[i], EPS_ACCOUNTANT_MMCC);
        cyclic[i] = epsilon_of(&turns, sigmas[i], EPS_ACCOUNTANT_PLD);
        printf("#   %6.2f: %.4f, %.4f\n", sigmas[i], poisson[i], cyclic[i]);
        if (!(poisson[i] < cyclic[i] || cyclic[i] > 1.5)) {
            printf("not ok - %s: MMCC gains nothing at sigma %g\n", plot.file, sigmas[i]);
            ok = false;
        }
    }
    return plot_write(&plot) && ok;
}

int main(void)
{
    struct improvements tree = {.file = "mmcc_figure_3",
                                .title = "MMCC figure 3: binary tree, sigma = c times the column norm, delta 1e-6"},
                        dense = {.file = "mmcc_figure_4",
                                 .title = "MMCC figure 4: optimal continual counting, sigma = c times the column norm"};
    bool ok = improvements(&tree, EPS_FAMILY_TREE);
    ok = improvements(&dense, EPS_FAMILY_SQUARE_ROOT) && ok;
    ok = restarts() && ok;
    return ok ? 0 : 1;
}
